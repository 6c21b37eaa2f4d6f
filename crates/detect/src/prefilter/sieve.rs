//! Literal sieve: one pass over a text that finds which of thousands of short literals occur in it.
//!
//! In: a text. Out: the set of literals ("anchors") in it, in any case of their ASCII letters. A
//! detector's expression runs only if one of its anchors occurs. Three stages reduce the work. The
//! four bytes at every second offset (a gram) are folded, hashed by vector instructions and looked
//! up in a table. For a hit, the eight bytes around the offset are tested against the common mask
//! of the bucket's anchors. Only offsets that pass are compared with the anchors themselves. Unlike
//! an automaton's steps the lookups are independent, and few branches are hard to predict, so this
//! is faster on ordinary prose. An anchor is entered for even and odd offsets, by its four bytes
//! that are rarest in prose ([`grams`](super::grams)); many shorter anchors are found by [three
//! bytes](super::short). Linear: an offset has a bounded number of anchors.

use std::ops::Range;

use super::grams::{FOLD_ANY, FOLD_ASCII, Frequencies, folded, rarest, spellings};
use super::short::{SHORT_BYTES_MAX, ShortAnchors};
use crate::tree::places_of;
use memchr::memmem::Finder;

/// Set of anchors; bit `n` is anchor `n`.
pub(crate) type Anchors = [u64; WORDS];

/// Empty set of anchors.
pub(crate) const NONE: Anchors = [0; WORDS];

/// Anchors that occur in a text, with their offsets.
pub(crate) struct Hits {
    /// Anchors that occur.
    pub(crate) set: Anchors,
    /// Occurrences, unordered: the anchor and its first byte.
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
/// Limit on anchors of a sieve.
pub(crate) const ANCHORS_MAX: usize = WORDS * 64;
/// Entries of the first table, one per hash.
const SLOTS: usize = 1 << 16;
/// Buckets of the second table.
const BUCKETS: usize = 1 << 14;
/// Bytes whose grams are looked up before any comparison.
const BLOCK: usize = 128;
/// Grams of a block, one bit each.
const GRAMS: usize = BLOCK / 2;
/// Bytes of a window before its gram.
const BEFORE: usize = 2;
/// Bytes after a block that its last windows need.
const AFTER: usize = 4;
/// Block with the bytes before and after it that its windows need.
type Block = [u8; BEFORE + BLOCK + AFTER];
/// Padding byte around the text, absent from prose and anchors.
const PAD: u8 = 0x7f;
/// Initial capacity for the occurrences in an ordinary text, which avoids reallocation.
pub(super) const PLACES_USUAL: usize = 128;
/// Number of short anchors up to which they are entered like others for ASCII texts, where unknown
/// bytes have few values: looking up each offset in a table of their own takes a third of a search.
const SHORT_FEW: usize = 128;
/// Capacity for candidates of several blocks.
const CANDIDATES_MAX: usize = 128;

/// Compiled set of anchors.
pub(crate) struct Sieve {
    /// `None` if all anchors are pairs or short.
    tables: Option<Tables>,
    short: ShortAnchors,
    anchors: Vec<Anchor>,
    /// Anchors of two bytes without ASCII letters: of one character, or if short ones are few. They
    /// are searched one by one: as grams with two unknown bytes they would fill the table.
    pairs: Vec<(u16, Finder<'static>)>,
}

/// Anchors by their grams: 384 KiB and the entries.
struct Tables {
    /// 1 for each hash of an anchor's gram.
    slots: Box<[u8; SLOTS]>,
    /// Mask of each bucket, which the window of each of its anchors passes.
    checks: Box<[WindowMask; BUCKETS]>,
    /// Start of the entries of each bucket, and their end.
    starts: Box<[u32; BUCKETS + 1]>,
    entries: Vec<SieveEntry>,
    /// Folding mask of grams.
    fold: u16,
}

/// Bits common to the windows of all anchors of a bucket.
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

/// Candidate: an offset whose window passed the mask of a bucket.
#[derive(Clone, Copy, Default)]
struct SieveCandidate {
    at: u32,
    bucket: u32,
}

/// Fixed list of candidates, of which the first `count` are valid.
struct SieveCandidates {
    list: [SieveCandidate; CANDIDATES_MAX],
    count: usize,
}

struct SieveEntry {
    bucket: u16,
    anchor: u16,
    /// Offset of the gram in the anchor; negative if the gram starts before it.
    offset: i8,
    head: Head,
}

/// First eight bytes of an anchor in lower case, padded with zeros.
#[derive(Clone, Copy)]
pub(super) struct Head {
    value: u64,
    /// Bits of the anchor's bytes.
    mask: u64,
    /// Bits that lower-case its letters.
    lower: u64,
}

#[inline(always)]
fn hash(first: u16, second: u16) -> u16 {
    first.wrapping_mul(0x4f1b).wrapping_add(second)
}

/// Returns the hashes of the grams at every second offset.
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

/// Returns the gram at an offset of a block, with two bytes before and after it.
#[inline(always)]
fn window(block: &Block, at: usize) -> u64 {
    let bytes = block.get(at..).and_then(|rest| rest.first_chunk());
    u64::from_le_bytes(bytes.copied().unwrap_or_default())
}

/// Bits that lower-case the letters of a window; they merge some other characters.
const LOWER: u64 = 0x2020_2020_2020_2020;

impl WindowMask {
    /// Returns the mask of one anchor whose gram starts at this offset.
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

    /// Returns a mask that admits at least the windows of both.
    fn or(self, other: Self) -> Self {
        // [`NEVER`] requires a bit outside of its mask, which no window can have: only an empty
        // bucket has it. Any other change must widen the mask, or an anchor is missed.
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

/// Returns eight bytes from an offset on, padded with zeros.
#[cold]
fn padded(text: &[u8], at: usize) -> [u8; 8] {
    std::array::from_fn(|index| text.get(at + index).copied().unwrap_or_default())
}

impl Sieve {
    /// Compiles the anchors of two bytes or more that `take` accepts by index; a leading `^`
    /// requires a start of a word. With `ascii` only ASCII texts may be searched.
    pub(crate) fn new(anchors: &[String], ascii: bool, take: impl Fn(usize) -> bool) -> Self {
        let fold = if ascii { FOLD_ASCII } else { FOLD_ANY };
        let short = ShortAnchors::default();
        let mut sieve = Self { tables: None, short, anchors: Vec::new(), pairs: Vec::new() };
        let is_short = |bytes: &[u8]| bytes.is_ascii() && bytes.len() <= SHORT_BYTES_MAX;
        let own = anchors.iter().enumerate().filter(|(index, _)| take(*index));
        let are_few =
            ascii && own.filter(|(_, text)| is_short(text.as_bytes())).count() <= SHORT_FEW;
        for (index, text) in anchors.iter().enumerate() {
            let (word_start, text) = match text.strip_prefix('^') {
                Some(rest) => (true, rest),
                None => (false, text.as_str()),
            };
            let anchor = Anchor { bytes: text.to_lowercase().into_bytes(), word_start };
            let is_taken = take(index) && (anchor.bytes.is_ascii() || !ascii);
            match anchor.bytes[..] {
                _ if !is_taken => {}
                ref bytes if is_short(bytes) && !are_few => {
                    sieve.short.enter(bytes, index);
                }
                ref bytes @ [_, _] if !bytes.iter().any(u8::is_ascii_alphabetic) => {
                    sieve.pairs.push((index as u16, Finder::new(bytes).into_owned()));
                }
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

    /// Adds the anchors in a part of a text without bytes above `top`.
    pub(crate) fn find(&self, text: &[u8], part: Range<usize>, top: u8, hits: &mut Hits) {
        let text = &text[..part.end];
        let base = part.start;
        let part = &text[base..];
        let may_stand = |pair: &Finder<'_>| pair.needle().iter().all(|byte| *byte <= top);
        for (index, pair) in self.pairs.iter().filter(|(_, pair)| may_stand(pair)) {
            places_of(pair, part).for_each(|at| self.confirm(text, base + at, *index, hits));
        }
        self.short.find(text, base, |anchor, start| self.confirm(text, start, anchor, hits));
        let Some(tables) = &self.tables else { return };
        let mut candidates =
            SieveCandidates { list: [SieveCandidate::default(); CANDIDATES_MAX], count: 0 };
        let mut start = 0;
        while start < part.len() {
            let whole = part.get(start.wrapping_sub(BEFORE)..).and_then(|rest| rest.first_chunk());
            match whole {
                Some(block) => tables.list_candidates(block, start, GRAMS, &mut candidates),
                None => tables.list_edge_candidates(part, start, &mut candidates),
            }
            start += BLOCK;
            // Candidates are compared in bulk, so that tables and anchors do not evict each other
            // from the first-level cache in every block. A block adds at most `GRAMS` candidates,
            // which always fit.
            if candidates.count > CANDIDATES_MAX - GRAMS || start >= part.len() {
                for &candidate in candidates.list.get(..candidates.count).unwrap_or_default() {
                    self.compare(tables, (text, base), candidate, hits);
                }
                candidates.count = 0;
            }
        }
    }

    /// Compares a candidate with the first bytes of its bucket's anchors.
    #[inline(always)]
    fn compare(
        &self,
        tables: &Tables,
        (text, base): (&[u8], usize),
        candidate: SieveCandidate,
        hits: &mut Hits,
    ) {
        for entry in tables.bucket(candidate.bucket as usize) {
            let start = base + candidate.at as usize;
            let start = start.wrapping_sub_signed(isize::from(entry.offset));
            if start < text.len() && entry.head.is_at(text, start) {
                self.confirm(text, start, entry.anchor, hits);
            }
        }
    }

    /// Adds an anchor whose first bytes match if all of it does.
    fn confirm(&self, text: &[u8], start: usize, index: u16, hits: &mut Hits) {
        let anchor = &self.anchors[usize::from(index)];
        if anchor.word_start && start > 0 && text[start - 1].is_ascii_alphanumeric() {
            return;
        }
        let is_all = |rest: &[u8]| {
            let there = text.get(start + 8..).and_then(|there| there.get(..rest.len()));
            there.is_some_and(|there| there.eq_ignore_ascii_case(rest))
        };
        if anchor.bytes.len() <= 8 || is_all(&anchor.bytes[8..]) {
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
        // Testing every second offset halves the lookups; entering an anchor for both parities
        // makes up for it. The text costs more, since it is new each time.
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

    /// Sorts the entries by bucket, without duplicates.
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

    /// Works as [`list_candidates`](Self::list_candidates), for the first and the last block.
    fn list_edge_candidates(&self, text: &[u8], start: usize, candidates: &mut SieveCandidates) {
        let mut block = [PAD; size_of::<Block>()];
        let from = start.saturating_sub(BEFORE);
        let to = (start + BLOCK + AFTER).min(text.len());
        let shift = BEFORE + from - start;
        block[shift..shift + to - from].copy_from_slice(&text[from..to]);
        let grams = (text.len() - start).div_ceil(2).min(GRAMS);
        self.list_candidates(&block, start, grams, candidates);
    }

    /// Lists the first grams of a block that may belong to an anchor.
    #[inline(never)]
    fn list_candidates(
        &self,
        block: &Block,
        start: usize,
        grams: usize,
        candidates: &mut SieveCandidates,
    ) {
        // First all lookups of a block, then the hits. Branching on each would cause some fifty
        // mispredictions per kilobyte of prose; with the results in one word, the loop below runs
        // only for hits. The hashes are in a form that the compiler vectorises; a checked operation
        // in `hash` would prevent that.
        let mut seen = 0u64;
        let hashes = hashes(block, self.fold);
        let first = if grams > GRAMS / 2 { &hashes[..] } else { &hashes[..GRAMS / 2] };
        for &hash in first.iter().rev() {
            seen = seen << 1 | u64::from(self.slots[usize::from(hash)]);
        }
        seen &= u64::MAX >> ((GRAMS - grams) % GRAMS);
        let mut count = candidates.count;
        while seen != 0 {
            let at = seen.trailing_zeros() as usize * 2;
            seen &= seen - 1;
            let window = window(block, at);
            let bucket = bucket(self.gram(window));
            // Written unconditionally: a branch on its validity would be hard to predict.
            candidates.list[count % CANDIDATES_MAX] =
                SieveCandidate { at: (start + at) as u32, bucket: bucket as u32 };
            count += usize::from(self.checks[bucket].accepts(window));
        }
        candidates.count = count;
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
