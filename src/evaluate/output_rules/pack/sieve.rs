//! One pass over a text for many short literals.
//!
//! In goes a text, out comes the set of literals ("anchors") that occur in it, in any case of
//! their ASCII letters. A detector's expression runs only if one of its anchors is there. Two of
//! three bytes are never looked at twice: at every even place the three bytes there are folded and
//! looked up in a table of bits; only where the bit is set are the literals compared. The look-ups
//! do not wait for each other, unlike the steps of an automaton, which is why this is faster than
//! one on ordinary prose. Linear: a place has a bounded number of literals.

/// Which anchors occur; bit `n` stands for anchor `n`.
pub(super) type Anchors = [u64; WORDS];

const WORDS: usize = 12;
/// Most anchors of a sieve.
pub(super) const ANCHORS_MAX: usize = WORDS * 64;
const BITS: usize = 1 << 16;
const BUCKETS: usize = 1 << 12;

/// A compiled set of anchors.
pub(super) struct Sieve {
    bits: Box<[u64; BITS / 64]>,
    /// Where the entries of a bucket start; one more at the end.
    starts: Vec<u32>,
    entries: Vec<Entry>,
    anchors: Vec<Anchor>,
}

struct Anchor {
    bytes: Vec<u8>,
    word_start: bool,
}

#[derive(Clone, Copy)]
struct Entry {
    gram: u32,
    anchor: u16,
    /// Bytes from the start of the anchor to the gram; -1 for the byte before it.
    offset: i8,
}

fn fold(a: u8, b: u8, c: u8) -> u32 {
    u32::from_le_bytes([a, b, c, 0]) | 0x0020_2020
}

fn hash(gram: u32) -> usize {
    (gram.wrapping_mul(0x9e37_79b1) >> 16) as usize
}

/// Where the two neighbouring grams start that ordinary prose has least: one of them stands at an
/// even place wherever the anchor stands.
fn rarest(anchor: &[u8]) -> usize {
    // How often a byte stands in English prose, roughly, in thousandths.
    let often = |byte: u8| match byte {
        b' ' => 180,
        b'e' => 100,
        b't' | b'a' | b'o' | b'i' | b'n' | b's' => 60,
        b'r' | b'h' | b'l' | b'd' => 40,
        b'u' | b'c' | b'm' | b'f' | b'p' | b'g' | b'w' | b'y' => 20,
        b'b' | b'v' => 10,
        _ => 2_u64,
    };
    let gram = |bytes: &[u8]| bytes.iter().map(|&byte| often(byte)).product::<u64>();
    let last = (anchor.len() - 4).min(i8::MAX as usize - 2);
    (0..=last)
        .min_by_key(|&at| gram(&anchor[at..at + 3]) + gram(&anchor[at + 1..at + 4]))
        .unwrap_or(0)
}

impl Sieve {
    /// Compiles anchors of two bytes or more; a leading `^` asks for a start of a word.
    pub(super) fn new(anchors: &[String]) -> Self {
        let mut entries = Vec::new();
        let mut compiled = Vec::with_capacity(anchors.len());
        for (index, text) in anchors.iter().enumerate() {
            let (word_start, text) = match text.strip_prefix('^') {
                Some(rest) => (true, rest),
                None => (false, text.as_str()),
            };
            let bytes = text.to_lowercase().into_bytes();
            let mut add = |offset, gram| {
                let entry = Entry { gram, anchor: index as u16, offset };
                if !entries.iter().any(|e: &Entry| {
                    (e.gram, e.anchor) == (gram, entry.anchor) && e.offset == offset
                }) {
                    entries.push(entry);
                }
            };
            match bytes[..] {
                [a, b] => {
                    (0..=255).for_each(|any| add(0, fold(a, b, any)));
                    (0..=255).for_each(|any| add(-1, fold(any, a, b)));
                }
                [a, b, c] => {
                    add(0, fold(a, b, c));
                    (0..=255).for_each(|any| add(1, fold(b, c, any)));
                }
                _ => {
                    let first = rarest(&bytes);
                    for (offset, gram) in bytes.windows(3).enumerate().skip(first).take(2) {
                        add(offset as i8, fold(gram[0], gram[1], gram[2]));
                    }
                }
            }
            compiled.push(Anchor { bytes, word_start });
        }
        Self::build(compiled, entries)
    }

    fn build(anchors: Vec<Anchor>, mut entries: Vec<Entry>) -> Self {
        let mut bits = Box::new([0; BITS / 64]);
        let bucket = |entry: &Entry| hash(entry.gram) % BUCKETS;
        entries.sort_by_key(bucket);
        let mut starts = vec![0; BUCKETS + 1];
        for entry in &entries {
            let hash = hash(entry.gram);
            bits[hash / 64] |= 1 << (hash % 64);
            starts[bucket(entry) + 1] += 1;
        }
        for index in 0..BUCKETS {
            starts[index + 1] += starts[index];
        }
        Self { bits, starts, entries, anchors }
    }

    /// The anchors that occur in `text`.
    pub(super) fn find(&self, text: &[u8]) -> Anchors {
        let mut found = [0; WORDS];
        let mut at = 0;
        while let Some(bytes) = text[at..].first_chunk::<8>() {
            let word = u64::from_le_bytes(*bytes) | 0x2020_2020_2020_2020;
            let grams = [
                word as u32 & 0xff_ffff,
                (word >> 16) as u32 & 0xff_ffff,
                (word >> 32) as u32 & 0xff_ffff,
            ];
            let hits = grams.map(|gram| self.bit(gram));
            if hits[0] | hits[1] | hits[2] != 0 {
                for (index, gram) in grams.into_iter().enumerate() {
                    if hits[index] != 0 {
                        self.compare(text, at + index * 2, gram, &mut found);
                    }
                }
            }
            at += 6;
        }
        // The last bytes, with zeros behind them.
        while at < text.len() {
            let byte = |ahead: usize| text.get(at + ahead).copied().unwrap_or(0);
            let gram = fold(byte(0), byte(1), byte(2));
            if self.bit(gram) != 0 {
                self.compare(text, at, gram, &mut found);
            }
            at += 2;
        }
        found
    }

    #[inline]
    fn bit(&self, gram: u32) -> u64 {
        let hash = hash(gram) % BITS;
        self.bits[hash / 64] >> (hash % 64) & 1
    }

    #[cold]
    fn compare(&self, text: &[u8], at: usize, gram: u32, found: &mut Anchors) {
        let bucket = hash(gram) % BUCKETS;
        let range = self.starts[bucket] as usize..self.starts[bucket + 1] as usize;
        for entry in &self.entries[range] {
            let Some(start) = at.checked_add_signed(-isize::from(entry.offset)) else { continue };
            let anchor = &self.anchors[usize::from(entry.anchor)];
            if entry.gram != gram
                || (anchor.word_start && start > 0 && text[start - 1].is_ascii_alphanumeric())
            {
                continue;
            }
            let end = start + anchor.bytes.len();
            if text.get(start..end).is_some_and(|bytes| bytes.eq_ignore_ascii_case(&anchor.bytes)) {
                found[usize::from(entry.anchor) / 64] |= 1 << (entry.anchor % 64);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_anchors_at_every_place_and_in_any_case() {
        let anchors = ["{{", "sk-", "ignor", "^todo", "忽略", "forget"].map(str::to_owned);
        let sieve = Sieve::new(&anchors);
        for (index, anchor) in anchors.iter().enumerate() {
            let anchor = anchor.trim_start_matches('^');
            for before in 0..20 {
                for after in 0..20 {
                    let (a, z) = (" ".repeat(before), ".".repeat(after));
                    let text = format!("{a}{}{z}", anchor.to_uppercase());
                    assert_eq!(sieve.find(text.as_bytes())[0], 1 << index, "{text:?}");
                }
            }
        }
    }

    #[test]
    fn a_word_start_is_asked_for_where_written() {
        let sieve = Sieve::new(&["^todo".to_owned()]);
        assert_eq!(sieve.find(b"metodo")[0], 0);
        assert_eq!(sieve.find(b"me todo")[0], 1);
    }
}
