//! Tables of stop words, which carry no topic, and of negations.
//!
//! The input is a lower-case word, the output its marks. ASCII words are found in a perfect hash
//! table with one probe, others by their text.

use std::sync::LazyLock;

use hashbrown::HashSet;

use spanscore_detect::bytes::first_eight;

/// Stop words of the most written languages.
const STOP: &str = "a about after all also am an and any are as at be been but by can could de del \
    der des did die do does el en es est et for from had has have he her him his how i if im in \
    into is it its itself je la las le les let los me my ne no nor not of on or our out please que \
    qu she should so some than that the their them then there these they this those to too un una \
    und une up us van was we were what when where which who whom whose why will with would you \
    your zu и в во не на что как это по из у за от до для же бы мы вы он она они какая какой какие \
    какое где когда есть wie was wer wo ist sind ein eine das den dem mit von im para por con como \
    qual quais uma um os dos das em quoi quel quelle comment pourquoi";

/// Negations.
const DENIAL: &str = "not no never cannot nicht kein keine pas nunca jamais não non не нет niet";

/// Perfect hash table of the ASCII words, each at its [`slot`](Self::slot), encoded by
/// [`first_eight`] with its marks in bits unused by ASCII; 0 marks a free slot.
pub(super) struct Common {
    slots: Box<[u64; COMMON_SLOTS]>,
    /// Odd factor without collisions of any two words.
    factor: u64,
}

const COMMON_SLOTS: usize = 1 << 12;
/// Mark of a stop word.
pub(super) const IS_STOP: u64 = 1 << 63;
/// Mark of a negation.
pub(super) const IS_DENIAL: u64 = 1 << 55;

pub(super) static COMMON: LazyLock<Common> = LazyLock::new(|| {
    let texts = STOP.split_ascii_whitespace().chain(DENIAL.split_ascii_whitespace());
    let words: HashSet<u64> = texts
        .filter(|text| text.is_ascii() && text.len() <= 8)
        .map(|text| first_eight(text.as_bytes(), &(0..text.len())))
        .collect();
    let mut common = Common { slots: Box::new([0; COMMON_SLOTS]), factor: 0x9e37_79b9_7f4a_7c15 };
    while !words.iter().all(|&word| common.insert(word)) {
        common.slots.fill(0);
        common.factor = common.factor.wrapping_mul(0xd134_2543_de82_ef95);
    }
    let mut mark = |list: &str, mark| {
        for text in list.split_ascii_whitespace().filter(|text| text.is_ascii()) {
            let word = first_eight(text.as_bytes(), &(0..text.len()));
            let slot = common.slot(word);
            common.slots[slot] |= mark;
        }
    };
    mark(STOP, IS_STOP);
    mark(DENIAL, IS_DENIAL);
    common
});

impl Common {
    #[inline(always)]
    fn slot(&self, word: u64) -> usize {
        (word.wrapping_mul(self.factor) >> 52) as usize % COMMON_SLOTS
    }

    /// Stores a word in its slot; returns false if the slot was taken.
    fn insert(&mut self, word: u64) -> bool {
        let slot = self.slot(word);
        let free = self.slots[slot] == 0;
        self.slots[slot] = word;
        free
    }

    /// Returns the marks [`IS_STOP`] and [`IS_DENIAL`] of a word of `length` bytes.
    #[inline(always)]
    pub(super) fn marks(&self, word: u64, length: usize) -> u64 {
        let found = self.slots[self.slot(word)];
        let marks = found & (IS_STOP | IS_DENIAL);
        if found ^ marks == word && length <= 8 { marks } else { 0 }
    }
}

/// Returns true for a stop word.
pub(super) fn is_stop(word: &str) -> bool {
    static STOPS: LazyLock<HashSet<&str>> =
        LazyLock::new(|| STOP.split_ascii_whitespace().collect());
    STOPS.contains(word)
}

/// Returns true for a negation.
pub(super) fn denies(word: &str) -> bool {
    DENIAL.split_ascii_whitespace().any(|denial| denial == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_knows_the_common_words_alone() {
        let marks =
            |text: &str| COMMON.marks(first_eight(text.as_bytes(), &(0..text.len())), text.len());
        for word in STOP.split_ascii_whitespace().chain(DENIAL.split_ascii_whitespace()) {
            if word.is_ascii() {
                let stop = marks(word) & IS_STOP != 0;
                let denial = marks(word) & IS_DENIAL != 0;
                assert_eq!((stop, denial), (is_stop(word), denies(word)), "{word}");
            }
        }
        for word in ["order", "x", "pourquoix", "nothing", "warehouse"] {
            assert_eq!(marks(word), 0, "{word}");
        }
    }
}
