//! Answer cache, so that an equal question to a model is paid once. First in, first out, within
//! [`ANSWERS_BYTES_MAX`].

use hashbrown::HashMap;
use sha2::{Digest, Sha256};
use std::collections::VecDeque;

use super::settings::JudgeSettings;
use super::wire::JudgeQuestion;
use spanscore_evaluate::inquiry::PROMPT_VERSION;
use spanscore_evaluate::shared::digest::first_half;

/// Limit of the cache, bytes of texts and entries.
pub const ANSWERS_BYTES_MAX: usize = 16 << 20;
/// Overhead of an entry, bytes.
const ENTRY_BYTES: usize = 96;

/// Digest of a question: model, parameters, prompt and sample number, and the address of a judge
/// that differs from another only by that.
pub(crate) type QuestionKey = [u8; 16];

/// Keys that the answer to a question may be kept under.
#[derive(Clone, Copy, Debug)]
pub(super) struct QuestionKeys {
    /// The one that it is kept under from now on.
    pub(super) own: QuestionKey,
    /// The one with the judge's address if `own` lacks it, else without.
    pub(super) other: QuestionKey,
    /// True if no judge elsewhere is alike: `other` has the address, so its answers are this one's.
    is_alone: bool,
}

impl QuestionKeys {
    /// Hashes a question to a judge, which may be alone of its model and parameters.
    pub(super) fn new(
        judge: &JudgeSettings,
        is_alone: bool,
        question: &JudgeQuestion,
        sample: u32,
    ) -> Self {
        let without = key_of(judge, None, question, sample);
        let within = key_of(judge, Some(&judge.place()), question, sample);
        let (own, other) = if is_alone { (without, within) } else { (within, without) };
        Self { own, other, is_alone }
    }
}

/// Hashes a question; `sample` tells votes apart, `place` judges alike that stand elsewhere.
fn key_of(
    judge: &JudgeSettings,
    place: Option<&str>,
    question: &JudgeQuestion,
    sample: u32,
) -> QuestionKey {
    let mut hash = Sha256::new();
    hash.update(judge.identity());
    hash.update(PROMPT_VERSION.to_be_bytes());
    hash.update(question.prompt.digest);
    hash.update(question.temperature.to_be_bytes());
    hash.update(question.max_tokens.to_be_bytes());
    hash.update(sample.to_be_bytes());
    hash.update(question.remark.as_deref().unwrap_or_default());
    // Nothing without a place, so that keys of earlier recordings stay valid.
    if let Some(place) = place {
        hash.update([0]);
        hash.update(place);
    }
    first_half(hash)
}

/// Answers by question, evicted oldest first.
#[derive(Debug, Default)]
pub(in crate::judge) struct AnswerCache {
    answers: HashMap<QuestionKey, String>,
    order: VecDeque<QuestionKey>,
    bytes: usize,
}

impl AnswerCache {
    /// Returns the cached answer to a question.
    pub(super) fn get(&self, keys: &QuestionKeys) -> Option<&str> {
        let other = || keys.is_alone.then(|| self.answers.get(&keys.other)).flatten();
        self.answers.get(&keys.own).or_else(other).map(String::as_str)
    }

    /// Adds an answer, unless it exceeds a sixteenth of the cache.
    pub(in crate::judge) fn keep(&mut self, key: QuestionKey, text: String) {
        let bytes = text.len() + ENTRY_BYTES;
        if bytes > ANSWERS_BYTES_MAX / 16 || self.answers.contains_key(&key) {
            return;
        }
        self.bytes += bytes;
        self.answers.insert(key, text);
        self.order.push_back(key);
        while self.bytes > ANSWERS_BYTES_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            let gone = self.answers.remove(&oldest).map_or(0, |text| text.len() + ENTRY_BYTES);
            self.bytes -= gone;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_told_from_the_end_of_a_remark() {
        let judge = serde_json::json!({"api": "openai", "model": "m"});
        let judge: JudgeSettings = serde_json::from_value(judge).expect("settings of a judge");
        let key = |remark: &str, place: Option<&str>| {
            let mut question = JudgeQuestion::about("u");
            question.remark = Some(remark.to_owned());
            key_of(&judge, place, &question, 0)
        };
        assert_ne!(key("a", Some("bc")), key("ab", Some("c")));
        assert_ne!(key("a", Some("b")), key("ab", None));
    }

    #[test]
    fn answers_are_kept_within_their_bytes() {
        let mut cache = AnswerCache::default();
        let key = |n: u32| {
            let mut key = [0; 16];
            key[..4].copy_from_slice(&n.to_be_bytes());
            key
        };
        let keys = |n: u32| QuestionKeys { own: key(n), other: key(5_000), is_alone: true };
        let text = "x".repeat(ANSWERS_BYTES_MAX / 32);
        (0..100).for_each(|n| cache.keep(key(n), text.clone()));
        assert!(cache.bytes <= ANSWERS_BYTES_MAX && cache.answers.len() == cache.order.len());
        assert_eq!((cache.get(&keys(0)), cache.get(&keys(99))), (None, Some(&*text)));
        cache.keep(key(1_000), "x".repeat(ANSWERS_BYTES_MAX));
        assert_eq!(cache.get(&keys(1_000)), None, "too large");
    }
}
