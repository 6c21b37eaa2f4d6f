//! One pass over a text for many short literals.
//!
//! In goes a text, out comes the set of literals ("anchors") that occur in it, in any case of
//! their ASCII letters. A detector's expression runs only if one of its anchors is there. At every
//! second place the four bytes there are folded and looked up in a table; the places that it names
//! are noted without a branch, thinned out by a second table, and only then compared with the
//! literals. The look-ups do not wait for each other, unlike the steps of an automaton, and the
//! branches that a processor cannot foresee are few, which is why this is faster than one on
//! ordinary prose. An anchor is entered twice, for even and odd places, by those four of its bytes
//! that prose has least. Linear: a place has a bounded number of literals.

use memchr::memmem::Finder;

/// Which anchors occur; bit `n` stands for anchor `n`.
pub(super) type Anchors = [u64; WORDS];

const WORDS: usize = 16;
/// Most anchors of a sieve.
pub(super) const ANCHORS_MAX: usize = WORDS * 64;
/// Places of the first table, one byte each.
const SLOTS: usize = 1 << 15;
/// Places of the second table, one bit each.
const BITS: usize = 1 << 16;
const BUCKETS: usize = 1 << 13;
/// Bytes that are looked up at once.
const GRAM: usize = 4;
/// Bytes of text that are looked through before their notes are: their grams can be counted in one
/// byte.
const STRETCH: usize = 42 * STEP;
/// Bytes whose grams two words hold.
const STEP: usize = 12;
/// As many as a byte can count.
const NOTES: usize = 256;

/// A compiled set of anchors.
pub(super) struct Sieve {
    /// 1 where some anchor may have a gram of that hash.
    slots: Box<[u8; SLOTS]>,
    /// The same by another hash.
    bits: Box<[u32; BITS / 32]>,
    /// Where the entries of a bucket start; one more at the end.
    starts: Vec<u32>,
    entries: Vec<Entry>,
    anchors: Vec<Anchor>,
    /// Anchors of two bytes without letters, which are searched for one by one: as grams with two
    /// unknown bytes they would fill the table.
    pairs: Vec<(usize, Finder<'static>)>,
    /// The first bytes of the pairs, unless there are more than three.
    pair_starts: Option<[u8; 3]>,
}

struct Anchor {
    bytes: Vec<u8>,
    /// The first eight bytes, folded; zeros behind the anchor.
    head: u64,
    /// The bits of `head` that the anchor fills.
    mask: u64,
    word_start: bool,
}

#[derive(Clone, Copy)]
struct Entry {
    gram: u32,
    anchor: u16,
    /// Bytes from the start of the anchor to the gram; negative where the gram starts before it.
    offset: i8,
}

fn fold(bytes: [u8; GRAM]) -> u32 {
    u32::from_le_bytes(bytes) | 0x2020_2020
}

#[inline(always)]
fn hash(gram: u32) -> usize {
    (gram.wrapping_mul(0x9e37_79b1) >> 17) as usize
}

#[inline(always)]
fn other_hash(gram: u32) -> usize {
    (gram.wrapping_mul(0x85eb_ca6b) >> 16) as usize
}

/// The first eight bytes in lower case, with zeros behind the end.
fn head(text: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let length = text.len().min(8);
    bytes[..length].copy_from_slice(&text[..length]);
    u64::from_le_bytes(bytes) | FOLD
}

const FOLD: u64 = 0x2020_2020_2020_2020;

/// Ordinary prose, which tells how often bytes follow each other.
const PROSE: &str = "\
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
    method, but in most cases the standard one should be good enough for personal use. ";

/// How often byte pairs and bytes stand in [`PROSE`].
struct Frequencies {
    pairs: Vec<f64>,
    bytes: [f64; 256],
}

impl Frequencies {
    fn of_prose() -> Self {
        let mut found = Self { pairs: vec![0.05; 1 << 16], bytes: [0.5; 256] };
        for pair in PROSE.as_bytes().windows(2) {
            let (a, b) = (pair[0] | 0x20, pair[1] | 0x20);
            found.pairs[usize::from(a) << 8 | usize::from(b)] += 1.0;
            found.bytes[usize::from(a)] += 1.0;
        }
        found
    }

    /// How likely four bytes are in prose, of which some may be unknown.
    fn likelihood(&self, gram: &[Option<u8>; GRAM], word_start: bool) -> f64 {
        let mut likely = 1.0;
        let mut before: Option<u8> = None;
        for &byte in gram {
            likely *= match (before, byte.map(|byte| byte | 0x20)) {
                (_, None) if word_start => 0.2,
                (_, None) => 1.0,
                (None, Some(byte)) => self.bytes[usize::from(byte)] / PROSE.len() as f64,
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

impl Sieve {
    /// Compiles those of the anchors, of two bytes or more, that `take` accepts by their index; a
    /// leading `^` asks for a start of a word. With `ascii` only texts in ASCII may be searched.
    pub(super) fn new(anchors: &[String], ascii: bool, take: impl Fn(usize) -> bool) -> Self {
        let frequencies = Frequencies::of_prose();
        let (mut entries, mut pairs) = (Vec::new(), Vec::new());
        let mut compiled = Vec::with_capacity(anchors.len());
        for (index, text) in anchors.iter().enumerate() {
            let (word_start, text) = match text.strip_prefix('^') {
                Some(rest) => (true, rest),
                None => (false, text.as_str()),
            };
            let bytes = text.to_lowercase().into_bytes();
            let is_taken = take(index) && (bytes.is_ascii() || !ascii);
            if is_taken && bytes.len() == 2 && !bytes.iter().any(u8::is_ascii_alphabetic) {
                pairs.push((index, Finder::new(&bytes).into_owned()));
            } else if is_taken {
                for parity in 0..2 {
                    let (offset, gram) = rarest(&bytes, word_start, parity, &frequencies);
                    for bytes in spellings(&gram, word_start && offset < 0, ascii) {
                        let (gram, anchor) = (fold(bytes), index as u16);
                        entries.push(Entry { gram, anchor, offset });
                    }
                }
            }
            let mask = u64::MAX >> (64 - bytes.len().clamp(1, 8) * 8);
            compiled.push(Anchor { head: head(&bytes) & mask, mask, bytes, word_start });
        }
        entries.sort_by_key(|entry| (hash(entry.gram) % BUCKETS, entry.gram, entry.anchor));
        entries.dedup_by_key(|entry| (entry.gram, entry.anchor, entry.offset));
        Self::build(compiled, entries, pairs)
    }

    fn build(
        anchors: Vec<Anchor>,
        entries: Vec<Entry>,
        pairs: Vec<(usize, Finder<'static>)>,
    ) -> Self {
        let (mut slots, mut bits) = (Box::new([0; SLOTS]), Box::new([0; BITS / 32]));
        let mut starts = vec![0; BUCKETS + 1];
        for entry in &entries {
            let (hash, other) = (hash(entry.gram), other_hash(entry.gram));
            slots[hash] = 1;
            bits[other / 32] |= 1 << (other % 32);
            starts[hash % BUCKETS + 1] += 1;
        }
        for index in 0..BUCKETS {
            starts[index + 1] += starts[index];
        }
        let pair_starts = (pairs.len() <= 3).then(|| {
            std::array::from_fn(|index| {
                let pair = pairs.get(index).or(pairs.first());
                pair.map_or(0, |(_, finder)| finder.needle()[0])
            })
        });
        Self { slots, bits, starts, entries, anchors, pairs, pair_starts }
    }

    /// The anchors that occur in `text`.
    pub(super) fn find(&self, text: &[u8]) -> Anchors {
        let mut found = [0; WORDS];
        self.find_pairs(text, &mut found);
        let mut notes = [0; NOTES];
        let mut start = 0;
        while start < text.len() {
            let (end, count) = self.note(text, start, &mut notes);
            let count = self.thin_out(&text[start..], &mut notes, count);
            for &note in &notes[..count] {
                self.compare(text, start + usize::from(note) * 2, &mut found);
            }
            start = end;
        }
        found
    }

    fn find_pairs(&self, text: &[u8], found: &mut Anchors) {
        let absent = |[a, b, c]: [u8; 3]| memchr::memchr3(a, b, c, text).is_none();
        if self.pairs.is_empty() || self.pair_starts.is_some_and(absent) {
            return;
        }
        for (index, finder) in &self.pairs {
            found[index / 64] |= u64::from(finder.find(text).is_some()) << (index % 64);
        }
    }

    /// Notes the places from `start` on where an anchor's gram may stand, as half their distance
    /// from there, and gives the end of the stretch that was looked through with their number.
    fn note(&self, text: &[u8], start: usize, notes: &mut [u8; NOTES]) -> (usize, u8) {
        let stretch = &text[start..text.len().min(start + STRETCH + GRAM)];
        let (mut at, mut count) = (0, 0u8);
        while let Some(bytes) = stretch[at..].first_chunk::<16>() {
            let word = |from: usize| {
                bytes[from..].first_chunk::<8>().map_or(0, |b| u64::from_le_bytes(*b)) | FOLD
            };
            let words = [word(0), word(6)];
            for index in 0..6 {
                let gram = (words[index / 3] >> (index % 3 * 16)) as u32;
                notes[usize::from(count)] = (at / 2 + index) as u8;
                count = count.wrapping_add(self.slots[hash(gram) % SLOTS]);
            }
            at += STEP;
        }
        if at == STRETCH {
            return (start + at, count);
        }
        // The last bytes of the text.
        for at in (at..stretch.len()).step_by(2) {
            notes[usize::from(count)] = (at / 2) as u8;
            count = count.wrapping_add(self.slots[hash(gram(stretch, at)) % SLOTS]);
        }
        (text.len(), count)
    }

    /// Keeps of the first `count` notes those that the second table has too; gives their number.
    fn thin_out(&self, text: &[u8], notes: &mut [u8; NOTES], count: u8) -> usize {
        let mut kept = 0u8;
        for index in 0..count {
            let note = notes[usize::from(index)];
            let other = other_hash(gram(text, usize::from(note) * 2)) % BITS;
            notes[usize::from(kept)] = note;
            kept += (self.bits[other / 32] >> (other % 32) & 1) as u8;
        }
        usize::from(kept)
    }

    fn compare(&self, text: &[u8], at: usize, found: &mut Anchors) {
        let gram = gram(text, at);
        let bucket = hash(gram) % BUCKETS;
        let range = self.starts[bucket] as usize..self.starts[bucket + 1] as usize;
        for entry in &self.entries[range] {
            if entry.gram != gram {
                continue;
            }
            let Some(start) = at.checked_add_signed(-isize::from(entry.offset)) else { continue };
            let anchor = &self.anchors[usize::from(entry.anchor)];
            let head = match text.get(start..).and_then(|rest| rest.first_chunk::<8>()) {
                Some(eight) => u64::from_le_bytes(*eight) | FOLD,
                None => head(text.get(start..).unwrap_or_default()),
            };
            if head & anchor.mask != anchor.head {
                continue;
            }
            if anchor.word_start && start > 0 && text[start - 1].is_ascii_alphanumeric() {
                continue;
            }
            let end = start + anchor.bytes.len();
            if text.get(start..end).is_some_and(|bytes| bytes.eq_ignore_ascii_case(&anchor.bytes)) {
                found[usize::from(entry.anchor) / 64] |= 1 << (entry.anchor % 64);
            }
        }
    }
}

/// The folded bytes at a place, with zeros behind the end of the text.
#[inline(always)]
fn gram(text: &[u8], at: usize) -> u32 {
    let bytes = text[at..].first_chunk::<GRAM>();
    fold(bytes.copied().unwrap_or_else(|| {
        let byte = |ahead: usize| text.get(at + ahead).copied().unwrap_or(0);
        [byte(0), byte(1), byte(2), byte(3)]
    }))
}

/// The gram that ordinary prose has least of those that start at even (`parity` 0) or odd places
/// of the anchor, with its start; bytes beside the anchor are unknown.
fn rarest(
    anchor: &[u8],
    word_start: bool,
    parity: isize,
    frequencies: &Frequencies,
) -> (i8, [Option<u8>; GRAM]) {
    // Grams within the anchor; only one of up to four bytes needs some with unknown bytes.
    let length = anchor.len().min(i8::MAX as usize) as isize;
    let offsets = if length > GRAM as isize { 0..=length - 4 } else { -1..=(length - 3).max(0) };
    offsets
        .filter(|offset| offset.rem_euclid(2) == parity)
        .map(|offset| {
            let byte = |index: isize| {
                usize::try_from(offset + index).ok().and_then(|at| anchor.get(at).copied())
            };
            (offset as i8, [byte(0), byte(1), byte(2), byte(3)])
        })
        .min_by(|(a_offset, a), (b_offset, b)| {
            let likelihood =
                |offset: i8, gram| frequencies.likelihood(gram, word_start && offset < 0);
            likelihood(*a_offset, a).total_cmp(&likelihood(*b_offset, b))
        })
        .unwrap_or_default()
}

/// All spellings of a gram, in folded bytes; an unknown first byte stands for those that are no
/// part of a word where the anchor starts one.
fn spellings(gram: &[Option<u8>; GRAM], word_start: bool, ascii: bool) -> Vec<[u8; GRAM]> {
    let mut all = vec![[0; GRAM]];
    for (index, byte) in gram.iter().enumerate() {
        let candidates: Vec<u8> = match byte {
            Some(byte) => vec![*byte],
            None => (0..=255)
                .filter(|b: &u8| b & 0x20 != 0 && !(ascii && b & 0x80 != 0))
                .filter(|b| !(word_start && index == 0 && b.is_ascii_alphanumeric()))
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
    fn finds_anchors_at_every_place_and_in_any_case() {
        let anchors =
            ["{{", "sk-", "ignor", "^todo", "忽略", "forget", "^ai ", "from now on", "^dan"]
                .map(str::to_owned);
        let (sieve, plain) =
            (Sieve::new(&anchors, false, |_| true), Sieve::new(&anchors, true, |_| true));
        for (index, anchor) in anchors.iter().enumerate() {
            let anchor = anchor.trim_start_matches('^');
            for before in 0..20 {
                for after in 0..20 {
                    let (a, z) = ("(".repeat(before), ".".repeat(after));
                    let text = format!("{a}{}{z}", anchor.to_uppercase());
                    assert_eq!(sieve.find(text.as_bytes())[0], 1 << index, "{text:?}");
                    if text.is_ascii() {
                        assert_eq!(plain.find(text.as_bytes())[0], 1 << index, "{text:?}");
                    }
                }
            }
        }
        let other = Sieve::new(&anchors, true, |index| index == 1);
        assert_eq!(other.find(b"ignore sk-")[0], 2);
    }

    #[test]
    fn a_word_start_is_asked_for_where_written() {
        let sieve = Sieve::new(&["^todo".to_owned(), "^ai ".to_owned()], false, |_| true);
        assert_eq!(sieve.find(b"metodo aai ")[0], 0);
        assert_eq!(sieve.find(b"me todo")[0], 1);
        assert_eq!(sieve.find("é, ai ".as_bytes())[0], 2);
        assert_eq!(sieve.find("ai x".as_bytes())[0], 2);
    }
}
