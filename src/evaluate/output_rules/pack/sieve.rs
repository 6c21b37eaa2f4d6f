//! One pass over a text for many short literals.
//!
//! In goes a text, out comes the set of literals ("anchors") that occur in it, in any case of
//! their ASCII letters. A detector's expression runs only if one of its anchors is there. The four
//! bytes at every second place are folded, hashed many at once by vector instructions and looked
//! up in a table; what that names is asked of a second table and only then compared with the
//! literals. The look-ups do not wait for each other, unlike the steps of an automaton, and the
//! branches that a processor cannot foresee are few, which is why this is faster than one on
//! ordinary prose. An anchor is entered twice, for even and odd places, by those four of its bytes
//! that prose has least. Linear: a place has a bounded number of literals.

use std::collections::BTreeSet;

use hashbrown::HashMap;
use memchr::memmem::Finder;

/// Which anchors occur; bit `n` stands for anchor `n`.
pub(super) type Anchors = [u64; WORDS];

const WORDS: usize = 28;
/// Most anchors of a sieve.
pub(super) const ANCHORS_MAX: usize = WORDS * 64;
/// Places of the first table, one byte each; hashes name the first half, and the second spares a
/// check of the index.
const SLOTS: usize = 1 << 16;
/// Places of the second table, one bit each.
const BITS: usize = 1 << 16;
const BUCKETS: usize = 1 << 13;
/// Bytes that are looked up at once.
const GRAM: usize = 4;
/// Bytes whose grams are looked up before their notes are taken.
const BLOCK: usize = 128;
/// A block's grams, a bit each.
const GRAMS: usize = BLOCK / 2;
/// A block and the bytes that its last gram needs of the next.
type Block = [u8; BLOCK + GRAM - 2];
/// Notes of several blocks.
const NOTES: usize = 128;

/// A compiled set of anchors.
pub(super) struct Sieve {
    /// 1 where some anchor may have a gram of that hash.
    slots: Box<[u8; SLOTS]>,
    /// The same by another hash.
    bits: Box<[u32; BITS / 32]>,
    /// Where the entries of a bucket start; one more at the end.
    starts: Box<[u32; BUCKETS + 1]>,
    entries: Vec<Entry>,
    anchors: Vec<Anchor>,
    /// Anchors of two bytes without letters, which are searched for one by one: as grams with two
    /// unknown bytes they would fill the table.
    pairs: Vec<(usize, Finder<'static>)>,
    /// A text whose greatest byte is less has none of the pairs.
    pairs_top: u8,
    /// The bits of bytes that grams keep.
    fold: u16,
}

struct Anchor {
    bytes: Vec<u8>,
    word_start: bool,
}

#[derive(Clone, Copy)]
struct Entry {
    gram: u32,
    anchor: u16,
    /// Bytes from the start of the anchor to the gram; negative where the gram starts before it.
    offset: i8,
    /// The first eight bytes of the anchor, folded; zeros behind it.
    head: u64,
    /// The bits of `head` that the anchor fills.
    mask: u64,
}

/// Case, and of ASCII what else prose can do without.
const FOLD_ASCII: u16 = 0x1f1f;
/// Case alone: other bits tell the bytes of other scripts apart.
const FOLD_ANY: u16 = 0xdfdf;

/// What a gram in the table stands for; the same for all grams that `fold` makes one.
fn folded(bytes: [u8; GRAM], fold: u16) -> u32 {
    u32::from_le_bytes(bytes) & (u32::from(fold) << 16 | u32::from(fold))
}

#[inline(always)]
fn hash(first: u16, second: u16) -> u16 {
    first.wrapping_mul(0x4f1b).wrapping_add(second) >> 1
}

/// The hashes of the grams at every second place.
#[inline(always)]
fn hashes(block: &Block, fold: u16) -> [u16; GRAMS] {
    let mut hashes = [0; GRAMS];
    for (index, slot) in hashes.iter_mut().enumerate() {
        let pair = |at: usize| u16::from_le_bytes([block[at], block[at + 1]]) & fold;
        *slot = hash(pair(index * 2), pair(index * 2 + 2));
    }
    hashes
}

#[inline(always)]
fn other_hash(gram: u32) -> usize {
    (gram.wrapping_mul(0x85eb_ca6b) >> 16) as usize
}

/// The bucket of the grams with that other hash.
#[inline(always)]
fn bucket(other: usize) -> usize {
    other / (BITS / BUCKETS) % BUCKETS
}

/// Some bytes from a place on, with zeros behind the end of the text.
#[cold]
fn padded<const N: usize>(text: &[u8], at: usize) -> [u8; N] {
    std::array::from_fn(|index| text.get(at + index).copied().unwrap_or_default())
}

/// The eight bytes at a place in lower case.
fn head(text: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(padded(text, at)) | FOLD
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

/// How often grams, byte pairs and bytes stand in [`PROSE`].
struct Frequencies {
    grams: HashMap<u32, f64>,
    pairs: Vec<f64>,
    bytes: [f64; 256],
}

impl Frequencies {
    fn of_prose() -> Self {
        let mut found =
            Self { grams: HashMap::new(), pairs: vec![0.05; 1 << 16], bytes: [0.5; 256] };
        for gram in PROSE.as_bytes().windows(GRAM) {
            let gram = [gram[0], gram[1], gram[2], gram[3]];
            *found.grams.entry(folded(gram, FOLD_ANY)).or_default() += 1.0;
        }
        for pair in PROSE.as_bytes().windows(2) {
            let (a, b) = (pair[0] | 0x20, pair[1] | 0x20);
            found.pairs[usize::from(a) << 8 | usize::from(b)] += 1.0;
            found.bytes[usize::from(a)] += 1.0;
        }
        found
    }

    /// How likely four bytes are in prose, of which some may be unknown.
    fn likelihood(&self, gram: &[Option<u8>; GRAM], word_start: bool) -> f64 {
        let known = u32::from_le_bytes(gram.map(|byte| if byte.is_some() { 0xff } else { 0 }));
        let wanted = folded(gram.map(Option::unwrap_or_default), FOLD_ANY);
        let seen: f64 = if known == u32::MAX {
            self.grams.get(&wanted).copied().unwrap_or_default()
        } else {
            let seen = self.grams.iter().filter(|(seen, _)| *seen & known == wanted);
            seen.map(|(_, count)| count).sum()
        };
        seen / PROSE.len() as f64 + self.by_pairs(gram, word_start)
    }

    /// The same from pairs alone, as most grams are not in [`PROSE`].
    fn by_pairs(&self, gram: &[Option<u8>; GRAM], word_start: bool) -> f64 {
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
        let fold = if ascii { FOLD_ASCII } else { FOLD_ANY };
        let (mut entries, mut pairs) = (Vec::new(), Vec::new());
        let mut compiled = Vec::with_capacity(anchors.len());
        for (index, text) in anchors.iter().enumerate() {
            let (word_start, text) = match text.strip_prefix('^') {
                Some(rest) => (true, rest),
                None => (false, text.as_str()),
            };
            let bytes = text.to_lowercase().into_bytes();
            let mask = u64::MAX >> (64 - bytes.len().clamp(1, 8) * 8);
            let head = head(&bytes, 0) & mask;
            let is_taken = take(index) && (bytes.is_ascii() || !ascii);
            if is_taken && bytes.len() == 2 && !bytes.iter().any(u8::is_ascii_alphabetic) {
                pairs.push((index, Finder::new(&bytes).into_owned()));
            } else if is_taken {
                for parity in 0..2 {
                    let (offset, gram) = rarest(&bytes, word_start, parity, &frequencies);
                    for bytes in spellings(&gram, word_start && offset < 0, fold) {
                        let (gram, anchor) = (folded(bytes, fold), index as u16);
                        entries.push(Entry { gram, anchor, offset, head, mask });
                    }
                }
            }
            compiled.push(Anchor { bytes, word_start });
        }
        entries.sort_by_key(|entry| (other_hash(entry.gram), entry.gram, entry.anchor));
        entries.dedup_by_key(|entry| (entry.gram, entry.anchor, entry.offset));
        Self::build(compiled, entries, pairs, fold)
    }

    fn build(
        anchors: Vec<Anchor>,
        entries: Vec<Entry>,
        pairs: Vec<(usize, Finder<'static>)>,
        fold: u16,
    ) -> Self {
        let (mut slots, mut bits) = (Box::new([0; SLOTS]), Box::new([0; BITS / 32]));
        let mut starts = Box::new([0; BUCKETS + 1]);
        for entry in &entries {
            slots[usize::from(hash(entry.gram as u16, (entry.gram >> 16) as u16))] = 1;
            let other = other_hash(entry.gram);
            bits[other / 32] |= 1 << (other % 32);
            starts[bucket(other) + 1] += 1;
        }
        for index in 0..BUCKETS {
            starts[index + 1] += starts[index];
        }
        let greatest = |pair: &[u8]| pair.iter().copied().max().unwrap_or_default();
        let tops = pairs.iter().map(|(_, finder)| greatest(finder.needle()));
        let pairs_top = tops.min().unwrap_or(u8::MAX);
        Self { slots, bits, starts, entries, anchors, pairs, pairs_top, fold }
    }

    /// The anchors that occur in `text`, which has no byte greater than `top`.
    pub(super) fn find(&self, text: &[u8], top: u8) -> Anchors {
        let mut found = [0; WORDS];
        if top >= self.pairs_top {
            for (index, finder) in &self.pairs {
                found[index / 64] |= u64::from(finder.find(text).is_some()) << (index % 64);
            }
        }
        let mut notes = [0; NOTES];
        let (mut start, mut count) = (0, 0);
        while let Some(rest) = text.get(start..).filter(|rest| !rest.is_empty()) {
            let mut last = [0; size_of::<Block>()];
            let block = rest.first_chunk().unwrap_or_else(|| {
                last[..rest.len()].copy_from_slice(rest);
                &last
            });
            count = self.note(block, start as u32, &mut notes, count);
            start += BLOCK;
            if count > NOTES - GRAMS || start >= text.len() {
                for &note in notes.get(..count).unwrap_or_default() {
                    self.compare(text, note as usize, &mut found);
                }
                count = 0;
            }
        }
        found
    }

    /// Notes the places of a block where an anchor's gram stands, behind the `count` notes that
    /// there are, and gives their number.
    #[inline(never)]
    fn note(&self, block: &Block, start: u32, notes: &mut [u32; NOTES], count: usize) -> usize {
        let mut seen = 0u64;
        for &hash in hashes(block, self.fold).iter().rev() {
            seen = seen * 2 + u64::from(self.slots[usize::from(hash)]);
        }
        let mut count = count;
        while seen != 0 {
            let at = seen.trailing_zeros() as usize * 2;
            seen &= seen - 1;
            let other = other_hash(self.gram(block, at));
            notes[count % NOTES] = start + at as u32;
            count += (self.bits[other / 32] >> (other % 32) & 1) as usize;
        }
        count
    }

    /// The folded bytes at a place, with zeros behind the end of the text.
    #[inline(always)]
    fn gram(&self, text: &[u8], at: usize) -> u32 {
        let bytes = text.get(at..).and_then(|rest| rest.first_chunk::<GRAM>());
        folded(bytes.copied().unwrap_or_else(|| padded(text, at)), self.fold)
    }

    #[inline(always)]
    fn compare(&self, text: &[u8], at: usize, found: &mut Anchors) {
        let gram = self.gram(text, at);
        let bucket = bucket(other_hash(gram));
        let range = self.starts[bucket] as usize..self.starts[bucket + 1] as usize;
        let entries = self.entries.get(range).unwrap_or_default();
        for entry in entries.iter().filter(|entry| entry.gram == gram) {
            let Some(start) = at.checked_add_signed(-isize::from(entry.offset)) else { continue };
            let head = match text.get(start..start + 8).and_then(|eight| eight.first_chunk()) {
                Some(eight) => u64::from_le_bytes(*eight) | FOLD,
                None => head(text, start),
            };
            if head & entry.mask == entry.head {
                self.confirm(text, start, entry.anchor, found);
            }
        }
    }

    /// Notes an anchor whose first bytes are there if all of it is.
    fn confirm(&self, text: &[u8], start: usize, index: u16, found: &mut Anchors) {
        let anchor = &self.anchors[usize::from(index)];
        if anchor.word_start && start > 0 && text[start - 1].is_ascii_alphanumeric() {
            return;
        }
        let end = start + anchor.bytes.len();
        if text.get(start..end).is_some_and(|bytes| bytes.eq_ignore_ascii_case(&anchor.bytes)) {
            found[usize::from(index) / 64] |= 1 << (index % 64);
        }
    }
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

/// All spellings of a gram; an unknown first byte stands for those that are no part of a word where
/// the anchor starts one.
fn spellings(gram: &[Option<u8>; GRAM], word_start: bool, fold: u16) -> Vec<[u8; GRAM]> {
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
                    assert_eq!(sieve.find(text.as_bytes(), u8::MAX)[0], 1 << index, "{text:?}");
                    if text.is_ascii() {
                        assert_eq!(plain.find(text.as_bytes(), u8::MAX)[0], 1 << index, "{text:?}");
                    }
                }
            }
        }
        let other = Sieve::new(&anchors, true, |index| index == 1);
        assert_eq!(other.find(b"ignore sk-", u8::MAX)[0], 2);
    }

    #[test]
    fn a_word_start_is_asked_for_where_written() {
        let sieve = Sieve::new(&["^todo".to_owned(), "^ai ".to_owned()], false, |_| true);
        assert_eq!(sieve.find(b"metodo aai ", u8::MAX)[0], 0);
        assert_eq!(sieve.find(b"me todo", u8::MAX)[0], 1);
        assert_eq!(sieve.find("é, ai ".as_bytes(), u8::MAX)[0], 2);
        assert_eq!(sieve.find("ai x".as_bytes(), u8::MAX)[0], 2);
    }
}
