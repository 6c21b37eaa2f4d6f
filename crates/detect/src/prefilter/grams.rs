//! Gram statistics: the four bytes of an anchor that are rarest in prose, by which a
//! [`Sieve`](super::sieve::Sieve) finds it.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use hashbrown::HashMap;

/// Extra share of prose positions that pass for each gram in the table: one table entry's share.
const CROWD: f64 = 1.0 / 65_536.0;
/// Bytes looked up at once.
pub(crate) const GRAM: usize = 4;

/// Folding mask of ASCII grams: drops case, and other bits that prose does not need.
pub(crate) const FOLD_ASCII: u16 = 0x1f1f;
/// Folding mask of other grams: drops only case, since other scripts need the other bits.
pub(crate) const FOLD_ANY: u16 = 0xdfdf;

/// Returns the number of a gram, equal for all grams with the same folded form.
pub(crate) fn folded(bytes: [u8; GRAM], fold: u16) -> u32 {
    u32::from_le_bytes(bytes) & (u32::from(fold) << 16 | u32::from(fold))
}

/// Estimates the frequency of a literal in ordinary texts, at least 1. A literal absent from the
/// samples is rarer the longer it is.
pub(crate) fn commonness(literal: &str) -> u64 {
    const BY_LENGTH: [u64; 8] = [20_000, 20_000, 4_000, 600, 150, 60, 40, 30];
    let literal = literal.trim_start_matches('^');
    let times: usize = [PROSE_TEXT, TECHNICAL_TEXT]
        .iter()
        .zip(&*SAMPLES)
        .map(|(sample, places)| places.times(sample.as_bytes(), literal.as_bytes()))
        .sum();
    times as u64 * 1_000 + BY_LENGTH.get(literal.len()).copied().unwrap_or(30)
}

/// Index of the grams of a sample by offset: thousands of literals are looked up at compilation,
/// and most of them are absent.
struct GramPlaces(HashMap<[u8; GRAM], Vec<u16>>);

static SAMPLES: LazyLock<[GramPlaces; 2]> =
    LazyLock::new(|| [PROSE_TEXT, TECHNICAL_TEXT].map(|sample| GramPlaces::of(sample.as_bytes())));

impl GramPlaces {
    fn of(sample: &[u8]) -> Self {
        let mut places = HashMap::<_, Vec<u16>>::new();
        for (at, gram) in (0..).zip(sample.windows(GRAM)) {
            places.entry([gram[0], gram[1], gram[2], gram[3]]).or_default().push(at);
        }
        Self(places)
    }

    /// Counts a literal in the sample, without overlaps.
    fn times(&self, sample: &[u8], literal: &[u8]) -> usize {
        let Some(&gram) = literal.first_chunk() else {
            return memchr::memmem::find_iter(sample, literal).count();
        };
        let mut times = 0;
        let mut end = 0;
        for at in self.0.get(&gram).into_iter().flatten().map(|at| usize::from(*at)) {
            if at >= end && sample[at..].starts_with(literal) {
                (times, end) = (times + 1, at + literal.len());
            }
        }
        times
    }
}

/// Sample of manuals, code and logs: words of most paragraphs, in lower case.
const TECHNICAL_TEXT: &str = "\
    the name of the file and the path to the directory; if no option is given, the default is \
    used. function arguments are passed by reference: each parameter has a type, a name and a \
    description. see also the section on configuration files in /etc/ and the documentation of the \
    command line. to add a new user to the system, run the command as root and set a password, \
    then start the service. return true if the test passed, false or null otherwise; import the \
    module from the package and call the method on the object. error: invalid argument, no such \
    file or directory, permission denied. warning: this feature is deprecated and will be removed \
    in a future version, use the other one here instead. static int count, const char *text, void \
    *data, struct list *next, size_t length, unsigned long number; #include the header. class \
    public private string integer boolean array default format print read write open close. \
    copyright (c) license, permission is hereby granted, free of charge, to any person obtaining a \
    copy of this software. update the date and time of the last change, the state and the address \
    of the remote host; the connection is closed after the timeout. the key and the token are read \
    from the environment, the message is sent to the client, the session ends. install the \
    package, check the version, then open an issue with the output of the log on the project page. \
    pass the id of the item and its index, the start and end of the range, the size of the page. \
    the application uses the account and the access of the user; each action has an event, each \
    image a link and a title. information about the implementation, the operation and the \
    location is stored in the table; the order of columns is that of the original content. \
    le fichier et la liste des options qui sont dans le systeme; el nombre del archivo que se usa \
    para la cuenta; die datei wird hier mit dem text der anwendung und der nummer angezeigt; il \
    nome del file che viene usato; o nome do arquivo que sera usado pela conta. ";

/// Sample of ordinary prose, for the frequencies of adjacent bytes.
const PROSE_TEXT: &str = "\
    The report was sent to the team on Monday, and the changes that we made are now \
    available for all of the customers. There is a new option in the settings which shows \
    how many items are left before the order is complete. Please let me know if you have any \
    questions about this, or if something is not working as it should. It takes about two \
    hours to get from the station to the hotel, including a short stop for lunch. When the \
    file is read, the function returns a list of values and the number of lines; an error is \
    returned if the path does not exist. According to the data, the average temperature was \
    higher than before, with more rain during the winter months. You could try again later \
    or use another address. They have since grown into several other countries, and their \
    products are used by thousands of people. From your account you can look up what you \
    need from us or turn the service on. Your original message was sent from the same \
    place where the meeting takes place. The development of the department went on while the \
    government made a statement: equipment and management cost more than expected, and the \
    first payment is late. Before you continue, make sure that each user has read the words of \
    the document and knows what it means to open the content. Several clients wrote that they \
    cannot reach the final page, so we look into the cause and inform them of the result. I \
    would like to act on behalf of the patient reader who considers the general position, \
    writes clear sentences, pays attention to spelling, and does not hide behind long terms. \
    Avoid sudden changes; include enough detail in every section; keep one record of each \
    decision, its reasons, and the people behind it. During the second week the price fell by \
    three percent, mainly since demand was lower in the region. Some models need a different \
    method, but in most cases the standard one should be good enough for personal use. \
    Afterwards we had to wait without any news until the train finally arrived; it was written \
    on the board that the time had been changed because of repairs near the bridge. Her \
    brother works with a small business that handles orders for other shops and stores the \
    packages in a warehouse. Our tests cover the first three stages, the fourth was added in \
    spring, and every day a few of them fail on slow computers. Drivers should avoid the \
    western road, which is bound to be closed after heavy wind or snow. You may operate the \
    machine only after it has been checked by trained staff. Both parties agreed to extend the \
    contract by twelve months and to share the costs of shipping. Several of the guests asked \
    whether breakfast is served early enough, and the manager told them when the kitchen opens. \
    A healthy diet contains fruit, vegetables and grains; drink plenty of water and rest well. \
    Interest rates usually rise while the economy is strong, so banks lend money less often. \
    Once the battery is fully charged, the green light goes off and the phone can be used again. \
    The museum shows paintings from the nineteenth century, most of which were bought at \
    auctions. My neighbour wants to sell his house and move to the coast, where the weather is \
    mild. Students learn to write essays, to question sources and to present their own ideas. \
    Click on the button at the top of the page, choose the right size, and confirm the address \
    before you finish the purchase. Then heat the oven, mix butter with sugar, stir in the \
    eggs, and bake the cake for forty minutes. Doctors recommend walking at least half an hour \
    each day. Either side could win the game, yet nobody thought that it would be over so soon. \
    Software that is not maintained will sooner or later stop working on new systems. He said \
    that actually nothing special had happened, although everybody was talking about it. The \
    library stays open through the evening and lends books, films and music to its members. ";

/// Frequencies of grams, byte pairs and bytes in [`PROSE_TEXT`].
pub(crate) struct Frequencies {
    grams: HashMap<u32, f64>,
    /// Frequencies of grams with unknown bytes, by the mask of the known ones.
    partial: [(u32, HashMap<u32, f64>); 4],
    pairs: Vec<f64>,
    bytes: [f64; 256],
}

impl Frequencies {
    /// Returns those of [`PROSE_TEXT`], counted once.
    pub(crate) fn of_prose() -> &'static Self {
        static PROSE: LazyLock<Frequencies> = LazyLock::new(|| Frequencies::of(PROSE_TEXT));
        &PROSE
    }

    fn of(text: &str) -> Self {
        // Bytes before and after an anchor are unknown.
        let masks = [0xffff_ff00, 0x00ff_ffff, 0x00ff_ff00, 0x0000_ffff];
        let mut found = Self {
            grams: HashMap::new(),
            partial: masks.map(|mask| (mask, HashMap::new())),
            pairs: vec![0.05; 1 << 16],
            bytes: [0.5; 256],
        };
        for gram in text.as_bytes().windows(GRAM) {
            let gram = folded([gram[0], gram[1], gram[2], gram[3]], FOLD_ANY);
            *found.grams.entry(gram).or_default() += 1.0;
            for (mask, grams) in &mut found.partial {
                *grams.entry(gram & *mask).or_default() += 1.0;
            }
        }
        for pair in text.as_bytes().windows(2) {
            let a = pair[0] | 0x20;
            let b = pair[1] | 0x20;
            found.pairs[usize::from(a) << 8 | usize::from(b)] += 1.0;
            found.bytes[usize::from(a)] += 1.0;
        }
        found
    }

    /// Estimates the probability of four bytes in prose, some of which may be unknown.
    fn likelihood(&self, gram: &[Option<u8>; GRAM], word_start: bool) -> f64 {
        let known = u32::from_le_bytes(gram.map(|byte| if byte.is_some() { 0xff } else { 0 }));
        let wanted = folded(gram.map(Option::unwrap_or_default), FOLD_ANY);
        let partial = self.partial.iter().find(|(mask, _)| *mask == known);
        let seen: f64 = if known == u32::MAX {
            self.grams.get(&wanted).copied().unwrap_or_default()
        } else if let Some((_, grams)) = partial {
            grams.get(&wanted).copied().unwrap_or_default()
        } else {
            let seen = self.grams.iter().filter(|(seen, _)| *seen & known == wanted);
            seen.map(|(_, count)| count).sum()
        };
        seen / PROSE_TEXT.len() as f64 + self.by_pairs(gram, word_start)
    }

    /// Estimates it from pairs alone, as most grams are not in [`PROSE_TEXT`].
    fn by_pairs(&self, gram: &[Option<u8>; GRAM], word_start: bool) -> f64 {
        let mut likely = 1.0;
        let mut before: Option<u8> = None;
        for &byte in gram {
            likely *= match (before, byte.map(|byte| byte | 0x20)) {
                (_, None) if word_start => 0.2,
                (_, None) => 1.0,
                (None, Some(byte)) => self.bytes[usize::from(byte)] / PROSE_TEXT.len() as f64,
                (Some(before), Some(byte)) => {
                    let pair = usize::from(before) << 8 | usize::from(byte);
                    self.pairs[pair] / self.bytes[usize::from(before)]
                }
            };
            before = byte.map(|byte| byte | 0x20);
        }
        likely
    }
}

/// Returns the rarest gram in prose of those that start at even (`parity` 0) or odd offsets of the
/// anchor, with its start; bytes beside the anchor are unknown.
pub(crate) fn rarest(
    anchor: &[u8],
    word_start: bool,
    parity: isize,
    frequencies: &Frequencies,
) -> (i8, [Option<u8>; GRAM]) {
    let length = anchor.len().min(i8::MAX as usize) as isize;
    // The choice of four bytes determines the sieve's cost: the first four of ` the ` would match
    // in every line, its rarest ones hardly ever. One byte beside a short anchor may be part of the
    // gram; more would need too many spellings.
    (-1..=(length - 3).max(0))
        .filter(|offset| offset.rem_euclid(2) == parity)
        .map(|offset| {
            let byte = |index: isize| {
                usize::try_from(offset + index).ok().and_then(|at| anchor.get(at).copied())
            };
            (offset as i8, [byte(0), byte(1), byte(2), byte(3)])
        })
        .min_by(|(a_offset, a), (b_offset, b)| {
            let cost = |offset: i8, gram: &[Option<u8>; GRAM]| {
                let unknown = gram.iter().filter(|byte| byte.is_none()).count();
                // Each spelling admits other grams with its hash.
                let room = 32f64.powi(unknown as i32) * CROWD;
                room + frequencies.likelihood(gram, word_start && offset < 0)
            };
            cost(*a_offset, a).total_cmp(&cost(*b_offset, b))
        })
        .unwrap_or_default()
}

/// Returns the start of the rarest three bytes in prose of an anchor of two to four.
pub(crate) fn rarest_three(anchor: &[u8], frequencies: &Frequencies) -> usize {
    let likely = |start: usize| {
        let byte = |at: usize| anchor.get(start + at).copied();
        frequencies.likelihood(&[byte(0), byte(1), byte(2), None], false)
    };
    (0..=anchor.len().saturating_sub(3))
        .min_by(|&a, &b| likely(a).total_cmp(&likely(b)))
        .unwrap_or_default()
}

/// Returns all spellings of a gram; an unknown first byte means any non-word byte if the anchor
/// starts a word.
pub(crate) fn spellings(gram: &[Option<u8>; GRAM], word_start: bool, fold: u16) -> Vec<[u8; GRAM]> {
    let ascii = fold == FOLD_ASCII;
    let mut all = vec![[0; GRAM]];
    for (index, byte) in gram.iter().enumerate() {
        let candidates: Vec<u8> = match byte {
            Some(byte) => vec![*byte],
            None => (0..=255)
                .filter(|b: &u8| !(ascii && b & 0x80 != 0))
                .filter(|b| !(word_start && index == 0 && b.is_ascii_alphanumeric()))
                .map(|b| b & fold as u8)
                .collect::<BTreeSet<u8>>()
                .into_iter()
                .collect(),
        };
        all = candidates
            .into_iter()
            .flat_map(|byte| {
                all.iter().map(move |spelling| {
                    let mut spelling = *spelling;
                    spelling[index] = byte;
                    spelling
                })
            })
            .collect();
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_counted_as_a_search_counts_them() {
        let words = PROSE_TEXT.split([' ', '.']).chain(["", "xyzzy", "the ", "aaaa", "e", "he"]);
        let sample = format!("{PROSE_TEXT} aaaaaaaaa the the the");
        let places = GramPlaces::of(sample.as_bytes());
        for word in words {
            let found = memchr::memmem::find_iter(sample.as_bytes(), word).count();
            assert_eq!(places.times(sample.as_bytes(), word.as_bytes()), found, "{word}");
        }
    }

    #[test]
    fn grams_with_unknown_bytes_are_as_likely_as_all_that_they_may_be() {
        let prose = Frequencies::of_prose();
        let scanned = Frequencies { partial: Default::default(), ..Frequencies::of(PROSE_TEXT) };
        let byte = |at: usize, gram: &[u8]| (!at.is_multiple_of(3)).then(|| gram[at % GRAM]);
        for (at, gram) in PROSE_TEXT.as_bytes().windows(GRAM).enumerate() {
            let gram = [byte(at, gram), Some(gram[1]), byte(at / 3, gram), byte(at / 9, gram)];
            let likely = prose.likelihood(&gram, at % 2 == 0);
            assert_eq!(likely, scanned.likelihood(&gram, at % 2 == 0), "{gram:?}");
        }
    }
}
