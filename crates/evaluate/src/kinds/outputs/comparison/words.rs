//! Words common to two texts, as counted by the Agent Development Kit (ROUGE-1).
//!
//! Semantics are those of `google/adk-python`, `evaluation/final_response_match_v1.py` of version
//! 2.13. Texts are in NFKC and lower case. ASCII words are stemmed like `rouge_score`'s. Each
//! character of Chinese, Japanese or Korean is a word, as is each base character of Thai, Lao,
//! Khmer or Burmese with its marks.

use icu_normalizer::ComposingNormalizerBorrowed;
use icu_properties::CodePointMapData;
use icu_properties::props::{GeneralCategory, GeneralCategoryGroup};

use super::stem::stem;
use spanscore_base::model::WorkBudget;
use spanscore_base::tally::common;

/// Longest word that is not stemmed.
const UNSTEMMED_MAX: usize = 3;
/// Steps to normalize, stem and count a byte of text.
const STEPS_PER_BYTE: usize = 32;

/// Number of words in two texts, and in their multiset intersection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct SharedWords {
    pub(super) shared: usize,
    pub(super) expected: usize,
    pub(super) actual: usize,
}

impl SharedWords {
    /// Returns the common words as a share of `count` words; 0 without words.
    pub(super) fn of(&self, count: usize) -> f64 {
        self.shared as f64 / count.max(1) as f64
    }

    /// Returns the harmonic mean of both shares; 0 without common words.
    pub(super) fn f_measure(&self) -> f64 {
        let precision = self.of(self.actual);
        let recall = self.of(self.expected);
        if self.shared == 0 { 0.0 } else { 2.0 * precision * recall / (precision + recall) }
    }
}

/// Counts the words of two texts; `None` if the budget does not suffice.
pub(super) fn compare(expected: &str, actual: &str, effort: &WorkBudget) -> Option<SharedWords> {
    let bytes = expected.len().saturating_add(actual.len());
    if !effort.spend(bytes.saturating_mul(STEPS_PER_BYTE)) {
        return None;
    }
    let [expected, actual] = [expected, actual].map(words);
    let shared = common(&expected, &actual);
    Some(SharedWords { shared, expected: expected.len(), actual: actual.len() })
}

/// Role of a character in a word.
enum WordPart {
    /// Word of one character.
    Single,
    /// First character of a word.
    First,
    /// Continuation of a word, or its first character.
    Further,
    /// Separator.
    Between,
}

impl WordPart {
    fn of(char: char) -> Self {
        let is_mark = || {
            let category = CodePointMapData::<GeneralCategory>::new().get(char);
            GeneralCategoryGroup::Mark.contains(category)
        };
        match char {
            '\0'..='\u{7f}' if char.is_ascii_alphanumeric() => Self::Further,
            '\0'..='\u{7f}' => Self::Between,
            '\u{4e00}'..='\u{9fff}' | '\u{3040}'..='\u{30ff}' | '\u{ac00}'..='\u{d7af}' => {
                Self::Single
            }
            '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
                if !is_mark() =>
            {
                Self::First
            }
            _ if char.is_alphanumeric() || is_mark() => Self::Further,
            _ => Self::Between,
        }
    }
}

fn words(text: &str) -> Vec<String> {
    let text = ComposingNormalizerBorrowed::new_nfkc().normalize(text).to_lowercase();
    let mut spaced = String::with_capacity(text.len());
    for char in text.chars() {
        match WordPart::of(char) {
            WordPart::Single => spaced.extend([' ', char, ' ']),
            WordPart::First => spaced.extend([' ', char]),
            WordPart::Further => spaced.push(char),
            WordPart::Between => spaced.push(' '),
        }
    }
    spaced.split(' ').filter(|word| !word.is_empty()).map(stemmed).collect()
}

fn stemmed(word: &str) -> String {
    if word.is_ascii() && word.len() > UNSTEMMED_MAX { stem(word) } else { word.to_owned() }
}
