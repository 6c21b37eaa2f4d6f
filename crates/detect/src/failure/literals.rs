//! Literal set: the places of thousands of literals in a short text, in one pass.
//!
//! Each literal is entered by the three of its bytes that prose has least; one table of bits tells
//! of each three bytes of a text that no literal has them. It is made in a fraction of the time
//! that a sieve or an automaton takes, which pays for texts of a few hundred bytes.

use hashbrown::HashMap;

/// Bytes by which a literal is found.
const GRAM: usize = 3;
/// Bits of the hash of a gram.
const HASH_BITS: u32 = 16;
/// Bytes that prose has most, the most frequent first.
const FREQUENT: &[u8] = b" etaoinsrhldcumfpgwybvk";

/// Literals by a gram of each.
pub(super) struct LiteralSet {
    numbers: HashMap<String, u16>,
    /// A bit for the hash of each gram.
    bits: Vec<u64>,
    /// Last entry of each hash; 0 for none.
    last: Vec<u16>,
    entries: Vec<LiteralEntry>,
}

struct LiteralEntry {
    literal: Box<str>,
    gram: [u8; GRAM],
    /// Place of the gram in the literal.
    offset: u8,
    /// Entry before this one of the same hash.
    before: u16,
}

impl Default for LiteralSet {
    fn default() -> Self {
        let bits = vec![0; 1 << (HASH_BITS - u64::BITS.ilog2())];
        Self { numbers: HashMap::new(), bits, last: vec![0; 1 << HASH_BITS], entries: Vec::new() }
    }
}

fn hash([a, b, c]: [u8; GRAM]) -> usize {
    let gram = u32::from_le_bytes([a, b, c, 0]);
    (gram.wrapping_mul(0x9e37_79b1) >> (u32::BITS - HASH_BITS)) as usize
}

impl LiteralSet {
    /// Returns the number of a literal of [`GRAM`] bytes or more, which it enters if it is new.
    pub(super) fn number(&mut self, literal: &str) -> u16 {
        if let Some(number) = self.numbers.get(literal) {
            return *number;
        }
        let number = self.entries.len() as u16;
        let frequency = |byte: &u8| {
            let rank = FREQUENT.iter().position(|frequent| frequent == byte);
            rank.map_or(0, |rank| FREQUENT.len() - rank)
        };
        let cost = |gram: &[u8]| gram.iter().map(frequency).sum::<usize>();
        let grams = literal.as_bytes().array_windows().zip(0..=u8::MAX);
        let rarest = grams.min_by_key(|(gram, _)| cost(&gram[..]));
        let (gram, offset) = rarest.map_or_else(Default::default, |(gram, at)| (*gram, at));
        let hash = hash(gram);
        self.bits[hash / 64] |= 1 << (hash % 64);
        let before = std::mem::replace(&mut self.last[hash], number + 1);
        self.entries.push(LiteralEntry { literal: literal.into(), gram, offset, before });
        self.numbers.insert(literal.to_owned(), number);
        number
    }

    /// Returns the literals in a text, each with its place.
    pub(super) fn places(&self, text: &str) -> Vec<(u16, u32)> {
        let mut found = Vec::new();
        for (at, gram) in text.as_bytes().array_windows().enumerate() {
            let hash = hash(*gram);
            if self.bits[hash / 64] >> (hash % 64) & 1 == 0 {
                continue;
            }
            let mut next = self.last[hash];
            while let Some(number) = next.checked_sub(1) {
                let LiteralEntry { literal, gram: own, offset, before } =
                    &self.entries[usize::from(number)];
                next = *before;
                let start = at.wrapping_sub(usize::from(*offset));
                let there = text.as_bytes().get(start..).filter(|_| own == gram);
                if there.is_some_and(|there| there.starts_with(literal.as_bytes())) {
                    found.push((number, start as u32));
                }
            }
        }
        found
    }
}
#[cfg(test)]
mod debug {
    #[test]
    fn show() {
        let d = super::super::built_in_detectors().unwrap();
        let s = &d.literals;
        println!("literals {}", s.entries.len());
        let mut by: std::collections::BTreeMap<_, Vec<&str>> = Default::default();
        for e in &s.entries { by.entry(e.gram).or_default().push(&e.literal); }
        println!("grams {}", by.len());
        let mut all: Vec<_> = by.iter().collect();
        all.sort_by_key(|(_, v)| std::cmp::Reverse(v.len()));
        for (g, v) in all.iter().take(30) { println!("{:?} {} {:?}", String::from_utf8_lossy(&g[..]), v.len(), &v[..v.len().min(8)]); }
        let text = std::fs::read_to_string("/tmp/toolerr/words.jsonl").unwrap();
        let line = text.lines().nth(3).unwrap();
        let p = s.places(line);
        println!("{} bytes {} hits", line.len(), p.len());
        for (n, at) in p { println!("  {} {:?}", at, s.entries[n as usize].literal); }
    }
}
