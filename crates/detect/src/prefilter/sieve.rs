//! Literal sieve: one pass over a text that finds which of thousands of short literals occur in it.
//!
//! In goes a text, out comes the set of literals ("anchors") that occur in it, in any case of their
//! ASCII letters. A detector's expression runs only if one of its anchors is there. Three stages,
//! each of which spares the next: the four bytes at every second place (a gram) are folded, hashed
//! many at once by vector instructions and looked up in a table; where that has one, the eight
//! bytes around the place are held against the mask of what the anchors of its bucket have in
//! common; and only places that pass are compared with the anchors themselves. The look-ups do not
//! wait for each other, unlike the steps of an automaton, and few branches are hard to predict: so
//! this is faster than an automaton on ordinary prose. An anchor is entered twice, for even and odd
//! places, by those four of its bytes that prose has least ([`grams`](super::grams)); shorter
//! anchors are found by [three bytes](super::short). Linear: a place has a bounded number of
//! anchors.

use std::ops::Range;

use super::grams::{FOLD_ANY, FOLD_ASCII, Frequencies, folded, rarest, spellings};
use super::short::{SHORT_BYTES_MAX, ShortAnchors};

/// Set of anchors; bit `n` stands for anchor `n`.
pub(crate) type Anchors = [u64; WORDS];

/// The empty set of anchors.
pub(crate) const NONE: Anchors = [0; WORDS];

/// Anchors that occur in a text, and their places.
pub(crate) struct Hits {
    /// The anchors that occur.
    pub(crate) set: Anchors,
    /// Each place, in no order: the anchor and its first byte.
    pub(crate) places: Vec<(u16, u32)>,
}

impl Default for Hits {
    fn default() -> Self {
        Self { set: NONE, places: Vec::new() }
    }
}

impl Hits {
    fn add(&mut self, index: usize, at: usize) {
        self.set[index / 64] |= 1 << (index % 64);
        if self.places.is_empty() {
            self.places.reserve(PLACES_USUAL);
        }
        self.places.push((index as u16, at as u32));
    }
}

const WORDS: usize = 128;
/// Most anchors of a sieve.
pub(crate) const ANCHORS_MAX: usize = WORDS * 64;
/// Places of the first table, one for each hash.
const SLOTS: usize = 1 << 16;
/// Places of the second table.
const BUCKETS: usize = 1 << 14;
/// Bytes whose grams are looked up before any place is compared.
const BLOCK: usize = 128;
/// Grams of a block, a bit each.
const GRAMS: usize = BLOCK / 2;
/// Bytes of a window before its gram.
const BEFORE: usize = 2;
/// Bytes behind a block that its last windows need.
const AFTER: usize = 4;
/// A block and the bytes beside it that its windows need.
type Block = [u8; BEFORE + BLOCK + AFTER];
/// Byte that stands beside the text: one that neither prose nor anchors have.
const PAD: u8 = 0x7f;
/// Room for the places of an ordinary text, so that the list is not grown bit by bit.
pub(super) const PLACES_USUAL: usize = 128;
/// Candidates of several blocks.
const NOTES: usize = 128;

/// A compiled set of anchors.
pub(crate) struct Sieve {
    /// `None` if there are no anchors but pairs and short ones.
    tables: Option<Tables>,
    short: ShortAnchors,
    anchors: Vec<Anchor>,
    /// Anchors of one character beyond ASCII in two bytes, which are searched for one by one: as
    /// grams with two unknown bytes they would fill the table.
    pairs: Vec<(usize, [u8; 2])>,
}

/// Anchors by their grams: 384 KiB and the entries.
struct Tables {
    /// 1 for each hash of a gram that some anchor has.
    slots: Box<[u8; SLOTS]>,
    /// Mask of each bucket, which a window must pass for one of the bucket's anchors to be there.
    checks: Box<[WindowMask; BUCKETS]>,
    /// Start of the entries of each bucket; one more at the end.
    starts: Box<[u32; BUCKETS + 1]>,
    entries: Vec<SieveEntry>,
    /// Bits of bytes that grams retain.
    fold: u16,
}

/// Bits that the windows of all anchors of a bucket have in common.
#[derive(Clone, Copy)]
struct WindowMask {
    value: u64,
    mask: u64,
}

/// Mask that no window passes.
const NEVER: WindowMask = WindowMask { value: 1, mask: 0 };

struct Anchor {
    bytes: Vec<u8>,
    word_start: bool,
}

/// Candidate: a place where a window passed the mask of a bucket.
#[derive(Clone, Copy, Default)]
struct Note {
    at: u32,
    bucket: u32,
}

/// Fixed list of candidates, of which the first `count` are valid.
struct SieveCache {
    list: [Note; NOTES],
    count: usize,
}

struct SieveEntry {
    bucket: u16,
    anchor: u16,
    /// Bytes from the start of the anchor to the gram; negative if the gram starts before it.
    offset: i8,
    head: Head,
}

/// First eight bytes of an anchor, in lower case; zeros behind it.
#[derive(Clone, Copy)]
pub(super) struct Head {
    value: u64,
    /// Bits that the anchor fills.
    mask: u64,
    /// Bits that make lower case of its letters.
    lower: u64,
}

#[inline(always)]
fn hash(first: u16, second: u16) -> u16 {
    first.wrapping_mul(0x4f1b).wrapping_add(second)
}

/// Returns the hashes of the grams at every second place.
#[inline(always)]
fn hashes(block: &Block, fold: u16) -> [u16; GRAMS] {
    let mut hashes = [0; GRAMS];
    for (index, slot) in hashes.iter_mut().enumerate() {
        let at = BEFORE + index * 2;
        let pair = |at: usize| u16::from_le_bytes([block[at], block[at + 1]]) & fold;
        *slot = hash(pair(at), pair(at + 2));
    }
    hashes
}

#[inline(always)]
fn bucket(gram: u32) -> usize {
    (gram.wrapping_mul(0x85eb_ca6b) >> 18) as usize % BUCKETS
}

/// Returns the gram at a place of a block, with the two bytes before and behind it.
#[inline(always)]
fn window(block: &Block, at: usize) -> u64 {
    let bytes = block.get(at..).and_then(|rest| rest.first_chunk());
    u64::from_le_bytes(bytes.copied().unwrap_or_default())
}

/// Bits that make lower case of the letters of a window; they make some other characters one.
const LOWER: u64 = 0x2020_2020_2020_2020;

impl WindowMask {
    /// Makes the mask of one anchor whose gram starts at this offset.
    fn of(anchor: &[u8], offset: i8) -> Self {
        let mut check = Self { value: 0, mask: 0 };
        for index in (0..8).rev() {
            let place = isize::from(offset) + index - BEFORE as isize;
            let byte = usize::try_from(place).ok().and_then(|place| anchor.get(place));
            check.value = check.value << 8 | byte.map_or(0, |byte| u64::from(byte | LOWER as u8));
            check.mask = check.mask << 8 | byte.map_or(0, |_| 0xff);
        }
        check
    }

    /// Widens the mask to all that this and another let pass, and maybe more.
    fn or(self, other: Self) -> Self {
        // [`NEVER`] asks for a bit outside of its mask, which no window can have: the one state in
        // which the bucket is empty. Anything else may only be widened, or an anchor is missed.
        if self.value & !self.mask != 0 {
            return other;
        }
        let mask = self.mask & other.mask & !(self.value ^ other.value);
        Self { value: self.value & mask, mask }
    }

    #[inline(always)]
    fn accepts(self, window: u64) -> bool {
        (window | LOWER) & self.mask == self.value
    }
}

impl Head {
    pub(super) fn of(anchor: &[u8]) -> Self {
        let word = |of: fn(u8) -> u8| {
            u64::from_le_bytes(std::array::from_fn(|at| anchor.get(at).copied().map_or(0, of)))
        };
        Self {
            value: word(|byte| byte),
            mask: word(|_| 0xff),
            lower: word(|byte| if byte.is_ascii_lowercase() { 0x20 } else { 0 }),
        }
    }

    #[inline(always)]
    pub(super) fn is_at(&self, text: &[u8], start: usize) -> bool {
        let bytes = text.get(start..start + 8).and_then(|bytes| bytes.first_chunk().copied());
        let word = u64::from_le_bytes(bytes.unwrap_or_else(|| padded(text, start)));
        (word | self.lower) & self.mask == self.value
    }
}

/// Returns eight bytes from a place on, with zeros behind the end of the text.
#[cold]
fn padded(text: &[u8], at: usize) -> [u8; 8] {
    std::array::from_fn(|index| text.get(at + index).copied().unwrap_or_default())
}

impl Sieve {
    /// Compiles those of the anchors, of two bytes or more, that `take` accepts by their index; a
    /// leading `^` asks for a start of a word. With `ascii` only texts in ASCII may be searched.
    pub(crate) fn new(anchors: &[String], ascii: bool, take: impl Fn(usize) -> bool) -> Self {
        let fold = if ascii { FOLD_ASCII } else { FOLD_ANY };
        let short = ShortAnchors::default();
        let mut sieve = Self { tables: None, short, anchors: Vec::new(), pairs: Vec::new() };
        for (index, text) in anchors.iter().enumerate() {
            let (word_start, text) = match text.strip_prefix('^') {
                Some(rest) => (true, rest),
                None => (false, text.as_str()),
            };
            let anchor = Anchor { bytes: text.to_lowercase().into_bytes(), word_start };
            let is_taken = take(index) && (anchor.bytes.is_ascii() || !ascii);
            match anchor.bytes[..] {
                _ if !is_taken => {}
                ref bytes if bytes.is_ascii() && bytes.len() <= SHORT_BYTES_MAX => {
                    sieve.short.enter(bytes, index);
                }
                [first, second] => sieve.pairs.push((index, [first, second])),
                _ => sieve.tables.get_or_insert_with(|| Tables::new(fold)).enter(&anchor, index),
            }
            sieve.anchors.push(anchor);
        }
        sieve.short.sort();
        if let Some(tables) = &mut sieve.tables {
            tables.sort();
        }
        sieve
    }

    /// Adds the anchors that occur in a part of a text that has no byte greater than `top`.
    pub(crate) fn find(&self, text: &[u8], part: Range<usize>, top: u8, hits: &mut Hits) {
        let text = &text[..part.end];
        let base = part.start;
        let part = &text[base..];
        for &(index, [first, second]) in self.pairs.iter().filter(|(_, [a, b])| *a.max(b) <= top) {
            for at in memchr::memchr_iter(second, part) {
                if at > 0 && part[at - 1] == first {
                    hits.add(index, base + at - 1);
                }
            }
        }
        self.short.find(text, base, |anchor, start| self.confirm(text, start, anchor, hits));
        let Some(tables) = &self.tables else { return };
        let mut notes = SieveCache { list: [Note::default(); NOTES], count: 0 };
        let mut start = 0;
        while start < part.len() {
            let whole = part.get(start.wrapping_sub(BEFORE)..).and_then(|rest| rest.first_chunk());
            match whole {
                Some(block) => tables.note(block, start, GRAMS, &mut notes),
                None => tables.note_edge(part, start, &mut notes),
            }
            start += BLOCK;
            // Candidates are compared in bulk, so that tables and anchors do not push each other
            // out of the nearest cache with every block. A block adds at most `GRAMS` candidates:
            // there is room.
            if notes.count > NOTES - GRAMS || start >= part.len() {
                for &note in notes.list.get(..notes.count).unwrap_or_default() {
                    self.compare(tables, (text, base), note, hits);
                }
                notes.count = 0;
            }
        }
    }

    /// Compares a candidate with the first bytes of its bucket's anchors.
    #[inline(always)]
    fn compare(&self, tables: &Tables, (text, base): (&[u8], usize), note: Note, hits: &mut Hits) {
        for entry in tables.bucket(note.bucket as usize) {
            let start = base + note.at as usize;
            let start = start.wrapping_sub_signed(isize::from(entry.offset));
            if start < text.len() && entry.head.is_at(text, start) {
                self.confirm(text, start, entry.anchor, hits);
            }
        }
    }

    /// Adds an anchor whose first bytes are there if all of it is.
    fn confirm(&self, text: &[u8], start: usize, index: u16, hits: &mut Hits) {
        let anchor = &self.anchors[usize::from(index)];
        if anchor.word_start && start > 0 && text[start - 1].is_ascii_alphanumeric() {
            return;
        }
        let rest = anchor.bytes.get(8..).unwrap_or_default();
        let there = text.get(start + 8..).and_then(|there| there.get(..rest.len()));
        if rest.is_empty() || there.is_some_and(|there| there.eq_ignore_ascii_case(rest)) {
            hits.add(usize::from(index), start);
        }
    }
}

impl Tables {
    fn new(fold: u16) -> Self {
        Self {
            slots: Box::new([0; SLOTS]),
            checks: Box::new([NEVER; BUCKETS]),
            starts: Box::new([0; BUCKETS + 1]),
            entries: Vec::new(),
            fold,
        }
    }

    fn enter(&mut self, anchor: &Anchor, index: usize) {
        let bytes = &anchor.bytes;
        let frequencies = Frequencies::of_prose();
        // Looking at every second place halves the look-ups; entering an anchor for both parities
        // makes up for it. The dearer side is the text, which comes again and again.
        for parity in 0..2 {
            let (offset, gram) = rarest(bytes, anchor.word_start, parity, frequencies);
            let check = WindowMask::of(bytes, offset);
            let head = Head::of(bytes);
            for bytes in spellings(&gram, anchor.word_start && offset < 0, self.fold) {
                let gram = folded(bytes, self.fold);
                self.slots[usize::from(hash(gram as u16, (gram >> 16) as u16))] = 1;
                let bucket = bucket(gram);
                self.checks[bucket] = self.checks[bucket].or(check);
                let bucket = bucket as u16;
                let anchor = index as u16;
                self.entries.push(SieveEntry { bucket, anchor, offset, head });
            }
        }
    }

    /// Sorts the entries by bucket, each once.
    fn sort(&mut self) {
        let key = |entry: &SieveEntry| (entry.bucket, entry.anchor, entry.offset);
        self.entries.sort_unstable_by_key(key);
        self.entries.dedup_by_key(|entry| key(entry));
        for entry in &self.entries {
            self.starts[usize::from(entry.bucket) + 1] += 1;
        }
        for index in 0..BUCKETS {
            self.starts[index + 1] += self.starts[index];
        }
    }

    /// Works as [`note`](Self::note) does, for the first block and the last.
    fn note_edge(&self, text: &[u8], start: usize, notes: &mut SieveCache) {
        let mut block = [PAD; size_of::<Block>()];
        let from = start.saturating_sub(BEFORE);
        let to = (start + BLOCK + AFTER).min(text.len());
        let shift = BEFORE + from - start;
        block[shift..shift + to - from].copy_from_slice(&text[from..to]);
        let grams = (text.len() - start).div_ceil(2).min(GRAMS);
        self.note(&block, start, grams, notes);
    }

    /// Lists the first grams of a block that may belong to an anchor.
    #[inline(never)]
    fn note(&self, block: &Block, start: usize, grams: usize, notes: &mut SieveCache) {
        // First all look-ups of a block, then the places found. Branching on each would be
        // mispredicted some fifty times in a kilobyte of prose; gathered into one word, the loop
        // below runs only for grams that are there. The hashes are written so that the compiler
        // makes vectors of them; a checked operation in `hash` would undo that.
        let mut seen = 0u64;
        let hashes = hashes(block, self.fold);
        let first = if grams > GRAMS / 2 { &hashes[..] } else { &hashes[..GRAMS / 2] };
        for &hash in first.iter().rev() {
            seen = seen << 1 | u64::from(self.slots[usize::from(hash)]);
        }
        seen &= u64::MAX >> ((GRAMS - grams) % GRAMS);
        let mut count = notes.count;
        while seen != 0 {
            let at = seen.trailing_zeros() as usize * 2;
            seen &= seen - 1;
            let window = window(block, at);
            let bucket = bucket(self.gram(window));
            // Written in any case: a branch on whether it counts would be hard to predict.
            notes.list[count % NOTES] = Note { at: (start + at) as u32, bucket: bucket as u32 };
            count += usize::from(self.checks[bucket].accepts(window));
        }
        notes.count = count;
    }

    /// Returns the folded gram of a window.
    #[inline(always)]
    fn gram(&self, window: u64) -> u32 {
        let fold = u32::from(self.fold);
        (window >> (BEFORE * 8)) as u32 & (fold << 16 | fold)
    }

    #[inline(always)]
    fn bucket(&self, bucket: usize) -> &[SieveEntry] {
        let bucket = bucket % BUCKETS;
        let range = self.starts[bucket] as usize..self.starts[bucket + 1] as usize;
        self.entries.get(range).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
