//! Words and lengths of texts in any script.
//!
//! The output is keys of a text's content words, and its length. Scripts without spaces give pairs
//! of characters as words, so that they are judged too. Linear: ASCII words are read eight bytes at
//! a time, others by characters. Most ASCII words take no unpredictable branch.

use std::hash::{BuildHasher, Hasher};
use std::ops::Range;
use std::sync::LazyLock;

use hashbrown::DefaultHashBuilder;

use super::common::{COMMON, Common, IS_DENIAL, IS_STOP, denies, is_stop};
use spanscore_detect::bytes::{
    Bytes, alphanumerics, any_of, between, digits, each_block, first_eight, first_of, mask, runs,
};
use spanscore_detect::letters::{is_lower, is_word_char};

/// Letters of a word that count: equal prefixes are equal words, whatever the ending.
const STEM: usize = 4;

/// Flag in the key of a word with a digit.
const NUMBER: u64 = 1 << 63;
/// Flag in the key of a word over eight bytes.
const HASHED: u64 = 1 << 62;

fn hash(bytes: &[u8]) -> u64 {
    hash_run(bytes, 0..bytes.len())
}

/// Hashes a run, ignoring the case of ASCII letters.
fn hash_run(text: &[u8], run: Range<usize>) -> u64 {
    static HASHER: LazyLock<DefaultHashBuilder> = LazyLock::new(DefaultHashBuilder::default);
    let mut hasher = HASHER.build_hasher();
    for start in run.clone().step_by(8) {
        hasher.write_u64(first_eight(text, &(start..run.end)));
    }
    hasher.finish() & !NUMBER | HASHED
}

/// Returns true for letters of scripts without spaces, and for Hangul, where endings obscure words.
fn is_unspaced(c: char) -> bool {
    matches!(
        c,
        '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
            | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}'
            | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}'
    )
}

/// Content words of a text, in order.
#[derive(Default)]
pub(super) struct Words {
    /// Key of each word: words with equal stems have equal keys.
    pub(super) keys: Vec<u64>,
    /// Start of each word, bytes, ascending.
    pub(super) places: Vec<u32>,
    /// True if the text has a negation.
    pub(super) denies: bool,
}

impl Words {
    /// Reads a text.
    pub(super) fn of(text: &str) -> Self {
        let bytes = text.as_bytes();
        let common = &*COMMON;
        let mut words = Self::default();
        words.keys.reserve(text.len() / 8);
        words.places.reserve(text.len() / 8);
        if text.is_ascii() {
            words.read_ascii(bytes, common);
            return words;
        }
        let mut lower = String::new();
        let members = |bytes: Bytes| alphanumerics(bytes) | between(bytes, 0x80, 0xff);
        runs(bytes, members, |run| {
            if bytes[run.clone()].is_ascii() {
                words.push_ascii(bytes, run, common);
            } else {
                words.push_run(text, run, &mut lower, common);
            }
        });
        words
    }

    #[inline(always)]
    fn push(&mut self, place: usize, key: u64) {
        self.keys.push(key);
        self.places.push(place as u32);
    }

    /// Reads an ASCII text.
    fn read_ascii(&mut self, text: &[u8], common: &Common) {
        let blocks = word_blocks(text);
        let mut batch = WordBatch { keys: [0; BATCH], places: [0; BATCH], count: 0 };
        let mut before = 0;
        let mut marks = 0;
        for (index, pair) in blocks.windows(2).enumerate() {
            let [now, next] = [&pair[0], &pair[1]];
            let mut starts = now.members & !(now.members << 1 | before);
            before = now.members >> 63;
            while starts != 0 {
                let bit = starts.trailing_zeros();
                starts &= starts - 1;
                // The sixty-four bits that start at `bit`, across both blocks.
                let from_here = |now: u64, next: u64| now >> bit | (next << 1) << (63 - bit);
                let length = (!from_here(now.members, next.members)).trailing_zeros() as usize;
                let start = index * 64 + bit as usize;
                let digits = now.digits | next.digits != 0
                    && from_here(now.digits, next.digits) << (64 - length.clamp(1, 64)) != 0;
                let eight = text[start..].first_chunk().filter(|_| !digits && length < 64);
                let Some(eight) = eight else {
                    batch.take(self);
                    let rest = text[start..].iter();
                    let length = rest.take_while(|byte| byte.is_ascii_alphanumeric()).count();
                    self.push_ascii(text, start..start + length, common);
                    continue;
                };
                let word = first_of(*eight, length);
                let mark = common.marks(word, length);
                marks |= mark;
                if word == u64::from(b't') {
                    self.denies |= text[..start].ends_with(b"n'");
                }
                batch.push(ascii_stem(word), start, mark & IS_STOP == 0 && length > 1);
            }
            batch.take(self);
        }
        self.denies |= marks & IS_DENIAL != 0;
    }

    /// Adds a run of ASCII letters and digits.
    fn push_ascii(&mut self, text: &[u8], run: Range<usize>, common: &Common) {
        let word = first_eight(text, &run);
        let marks = common.marks(word, run.len());
        self.denies |= marks & IS_DENIAL != 0;
        if marks & IS_STOP != 0 {
            return;
        }
        if run.len() == 1 {
            self.denies |= word == u64::from(b't') && text[..run.start].ends_with(b"n'");
        }
        // Letters have bit 6 (0x40) set and digits do not.
        let letters = word | u64::MAX.checked_shl(run.len().min(8) as u32 * 8).unwrap_or(0);
        let long = run.len() > 8 && text[run.start + 8..run.end].iter().any(u8::is_ascii_digit);
        if long || letters & 0x4040_4040_4040_4040 != 0x4040_4040_4040_4040 {
            let whole = if run.len() < 8 { word } else { hash_run(text, run.clone()) };
            return self.push(run.start, whole | NUMBER);
        }
        if run.len() > 1 {
            self.push(run.start, ascii_stem(word));
        }
    }

    /// Adds a run with non-ASCII characters, some of which may be punctuation.
    fn push_run(&mut self, text: &str, run: Range<usize>, lower: &mut String, common: &Common) {
        let mut place = run.start;
        for word in text[run].split(|c: char| !is_word_char(c)) {
            let start = place;
            place += word.len();
            place += text[place..].chars().next().map_or(0, char::len_utf8);
            if word.is_ascii() {
                if !word.is_empty() {
                    self.push_ascii(text.as_bytes(), start..start + word.len(), common);
                }
                self.denies |= word == "t" && text[..start].ends_with("n’");
                continue;
            }
            lower.clear();
            for c in word.chars() {
                if is_lower(c) { lower.push(c) } else { lower.extend(c.to_lowercase()) }
            }
            self.push_pairs(lower, start);
        }
    }

    /// Adds a lower-case non-ASCII word: pairs of unspaced characters, and the rest.
    fn push_pairs(&mut self, word: &str, place: usize) {
        let mut start = 0;
        let mut paired = false;
        for (at, c) in word.char_indices() {
            let was_paired = std::mem::take(&mut paired);
            if !is_unspaced(c) {
                continue;
            }
            self.denies |= matches!(c, '不' | '没')
                || (c == 'ま' && word[at..].starts_with("ません"))
                || (c == 'な' && word[at..].starts_with("ない"));
            self.push_word(&word[start..at], place);
            let end = at + c.len_utf8();
            match word[end..].chars().next().filter(|&next| is_unspaced(next)) {
                Some(next) => {
                    self.push(place, hash(&word.as_bytes()[at..end + next.len_utf8()]));
                    paired = true;
                }
                None if was_paired => {}
                None => self.push(place, hash(&word.as_bytes()[at..end])),
            }
            start = end;
        }
        self.push_word(&word[start..], place);
    }

    fn push_word(&mut self, word: &str, place: usize) {
        if word.is_empty() {
            return;
        }
        self.denies |= denies(word);
        if is_stop(word) {
            return;
        }
        if word.bytes().any(|b| b.is_ascii_digit()) {
            return self.push(place, hash(word.as_bytes()) | NUMBER);
        }
        let mut short = word;
        for ending in ["ing", "ed", "es", "s"] {
            if let Some(rest) = short.strip_suffix(ending)
                && rest.len() >= 3
            {
                short = rest;
                break;
            }
        }
        let end = short.char_indices().nth(STEM).map_or(short.len(), |(at, _)| at);
        if short.chars().nth(1).is_some() {
            let stem = &short.as_bytes()[..end];
            let key = if stem.is_ascii() { first_eight(stem, &(0..end)) } else { hash(stem) };
            self.push(place, key);
        }
    }
}

/// Bit masks of the letters and digits in sixty-four bytes of an ASCII text.
struct WordBlock {
    members: u64,
    digits: u64,
}

/// Returns the blocks of a text, followed by an empty one.
fn word_blocks(text: &[u8]) -> Vec<WordBlock> {
    let mut blocks = Vec::with_capacity(text.len() / 64 + 2);
    each_block(text, |block| {
        let members = mask(block, alphanumerics);
        let digits = mask(block, digits);
        blocks.push(WordBlock { members, digits });
    });
    blocks.push(WordBlock { members: 0, digits: 0 });
    blocks
}

/// Capacity of a batch: at least the words in sixty-four bytes.
const BATCH: usize = 64;

/// Batch of words not yet added to a list, so that adding one needs no branch.
struct WordBatch {
    keys: [u64; BATCH],
    places: [u32; BATCH],
    count: usize,
}

impl WordBatch {
    /// Writes a word, and keeps it if it `counts`; otherwise the next one overwrites it.
    #[inline(always)]
    fn push(&mut self, key: u64, place: usize, counts: bool) {
        self.keys[self.count % BATCH] = key;
        self.places[self.count % BATCH] = place as u32;
        self.count += usize::from(counts);
    }

    /// Moves the words to a list.
    fn take(&mut self, words: &mut Words) {
        let count = std::mem::take(&mut self.count).min(BATCH);
        words.keys.extend_from_slice(&self.keys[..count]);
        words.places.extend_from_slice(&self.places[..count]);
    }
}

/// Returns the first [`STEM`] letters of a word, or three before an ending.
fn ascii_stem(word: u64) -> u64 {
    // `ed`, `s`, `es` and `ing`, each at the index of the product below: a perfect hash.
    const ENDINGS: [u64; 4] = [0x6465, 0x73, 0x7365, 0x67_6e69];
    let rest = word >> 24;
    let ended = ENDINGS[(rest.wrapping_mul(0x629f_6fbe_d82c_07cd) >> 62) as usize] == rest;
    word & if ended { 0xff_ffff } else { 0xffff_ffff }
}

/// Returns true if the word of a key has a digit.
pub(super) fn is_number(key: u64) -> bool {
    key & NUMBER != 0
}

/// Returns the words of a text as defined by JavaScript's `\w`: keys of the runs of over two ASCII
/// letters, digits and `_`, in order. The text is in lower case, or ASCII.
pub(super) fn ascii_words(lower: &str) -> Vec<u64> {
    let bytes = lower.as_bytes();
    let mut keys = Vec::with_capacity(bytes.len() / 6);
    runs(
        bytes,
        |bytes| alphanumerics(bytes) | any_of(bytes, b"_"),
        |run| match run.len() {
            0..=2 => {}
            3..=7 => keys.push(first_eight(bytes, &run)),
            _ => keys.push(hash_run(bytes, run)),
        },
    );
    keys
}

/// Returns true if the word of an [`ascii_words`] key has over three characters.
pub(super) fn is_over_three(key: u64) -> bool {
    key >> 24 != 0
}

/// Hash set of distinct keys, in order of their first occurrence.
#[derive(Default)]
pub(super) struct Keys {
    /// Distinct keys, in order of their first occurrence.
    pub(super) distinct: Vec<u64>,
    /// Open-addressed table: index in `distinct` plus one, addressed by the top bits of the key's
    /// product with an odd number; 0 is free.
    slots: Vec<u32>,
    shift: u32,
}

impl Keys {
    /// Collects the distinct keys.
    pub(super) fn of(all: impl ExactSizeIterator<Item = u64>) -> Self {
        // Small tables are sparse: an absent key then usually finds a free slot at once.
        let room = if all.len() <= 64 { 32 } else { 4 };
        let slots = (all.len() * room).next_power_of_two().max(8);
        let mut keys = Self {
            distinct: Vec::new(),
            slots: vec![0; slots],
            shift: 64 - slots.trailing_zeros(),
        };
        for key in all {
            if let Err(free) = keys.search(key) {
                keys.distinct.push(key);
                keys.slots[free] = keys.distinct.len() as u32;
            }
        }
        keys
    }

    /// Returns the index of a key in [`distinct`](Self::distinct).
    #[inline]
    pub(super) fn find(&self, key: u64) -> Option<usize> {
        if self.slots.is_empty() { None } else { self.search(key).ok() }
    }

    /// Probes linearly from the top bits of a product. Keys of short words are their letters with
    /// similar low bits, which the factor (2^64 by the golden ratio) spreads. The table is never
    /// full, so the search ends. It lives for one text only, which rules out a costlier setup.
    /// `Err` has the free slot.
    #[inline]
    fn search(&self, key: u64) -> Result<usize, usize> {
        let mut at = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize;
        loop {
            match self.slots[at] {
                0 => return Err(at),
                place if self.distinct[place as usize - 1] == key => return Ok(place as usize - 1),
                _ => at = (at + 1) % self.slots.len(),
            }
        }
    }

    /// Returns for each distinct key true if it occurs among others.
    pub(super) fn among(&self, others: &[u64]) -> Vec<bool> {
        let mut seen = vec![false; self.distinct.len()];
        for &key in others {
            if let Some(place) = self.find(key) {
                seen[place] = true;
            }
        }
        seen
    }
}

/// Counts the visible characters: a run of punctuation counts once, a wide character twice.
/// Counting may stop after `enough`.
pub(super) fn length(text: &str, enough: usize) -> usize {
    let text = text.trim();
    if text.is_ascii() {
        return ascii_length(text.as_bytes(), enough);
    }
    let mut last_plain = true;
    let mut length = 0;
    for c in text.chars() {
        let plain = is_word_char(c);
        if plain || last_plain {
            length += if is_unspaced(c) { 2 } else { usize::from(!is_blank(c)) };
            length += usize::from(c == ' ');
        }
        last_plain = plain;
    }
    length
}

fn ascii_length(text: &[u8], enough: usize) -> usize {
    let plain = |byte: u8| u8::from(byte.is_ascii_alphanumeric());
    let shown = |byte: u8| u8::from(byte >= b' ' && byte != 0x7f);
    let Some(&first) = text.first() else { return 0 };
    let mut length = usize::from(shown(first));
    // Chunks of 64 bytes: their sum fits into one byte, and `enough` is checked often.
    for (before, now) in text.chunks(64).zip(text[1..].chunks(64)) {
        let pairs = before.iter().zip(now);
        // Checked additions would prevent vector instructions.
        let sum = pairs.map(|(&a, &b)| plain(b) | (plain(a) & shown(b)));
        let sum = sum.fold(0, u8::wrapping_add);
        length += usize::from(sum);
        if length > enough {
            break;
        }
    }
    length
}

fn is_blank(c: char) -> bool {
    let zero_width = matches!(
        c,
        '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
    );
    zero_width || c.is_whitespace() || c.is_control() || matches!(c, '\u{3164}' | '\u{2800}')
}

/// Returns true if the text is invisible to a reader.
pub(super) fn is_invisible(text: &str) -> bool {
    text.chars().all(is_blank)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(one: &str, other: &str, common: usize) {
        let keys = Keys::of(Words::of(one).keys.into_iter());
        let found = keys.among(&Words::of(other).keys).into_iter().filter(|&seen| seen).count();
        assert_eq!(found, common, "{one} / {other}");
    }

    #[test]
    fn words_are_equal_without_their_endings_in_any_script() {
        check("tests failing столица 5000", "The test fails, столицы, 5000.", 4);
        check("首都は", "日本の首都はどこ", 2);
        check("asked boxes runs adding", "ask box run add", 4);
        check("naïve Éclair it’s", "NAÏVE éclairs", 2);
        check("4711 v2 0123456789ab", "4711 V2 0123456789AB", 3);
        check("the of and what", "the of and what", 0);
        check("one two", "three", 0);
    }

    #[test]
    fn denials_are_seen() {
        for text in
            ["is not", "can't", "don’t", "nunca más", "не могу", "できません", "不是", "No."]
        {
            assert!(Words::of(text).denies, "{text}");
        }
        for text in ["knot", "it's", "noted", "да", "日本"] {
            assert!(!Words::of(text).denies, "{text}");
        }
    }

    #[test]
    fn ascii_words_are_those_of_javascript() {
        let count = |text: &str| ascii_words(text).len();
        assert_eq!(count("don't résumé a_b_c it 0123456789"), 4);
        assert_eq!(ascii_words("Word WORD word_")[..2], ascii_words("word word"));
        assert!(is_over_three(ascii_words("word")[0]) && !is_over_three(ascii_words("wor")[0]));
    }

    #[test]
    fn length_counts_what_says_something() {
        let check = |text: &str, count| {
            let length = |text: &str| length(text, usize::MAX);
            assert_eq!(length(text), count, "{text}");
            // The same by characters.
            assert_eq!(length(&format!("{text}é")), length(&format!("{text}e")), "{text}");
        };
        check(&".".repeat(60), 1);
        check("ab cd", 5);
        check("  a,, b\tc\u{7f}d!\n", 6);
        check(&"word ".repeat(300), 1499);
        assert_eq!(length("首都", 9), 4);
        assert!(length(&"word ".repeat(300), 50) > 50);
        assert!(is_invisible("\u{200b}\u{200b}"));
    }
}
