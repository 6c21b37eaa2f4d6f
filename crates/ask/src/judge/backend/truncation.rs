//! Silent truncation: servers that cut a request to their context without a word, and answer.
//!
//! Ollama does, unless told otherwise. The count of tokens that such a server reports is its limit,
//! and far less than the text takes. Either sign alone misleads: some texts take eleven bytes a
//! token, a long run of spaces even more, and a count near a limit may be chance.

use crate::judge::wire::JudgeQuestion;
use spanscore_base::model::Outcome;

/// Smallest and largest context that servers cut to; those between are twice the one before.
const LIMITS: (u64, u64) = (2_048, 131_072);
/// Distance from a limit within which a count stands at it: one part of so many.
const NEAR_PARTS: u64 = 50;
/// Bytes a token that no text reaches once runs of a character are counted once.
const BYTES_PER_TOKEN_MAX: u64 = 16;

/// Returns true if a judge that reports so many tokens of a request cannot have read all of it.
pub(super) fn is_cut(question: &JudgeQuestion, reported: u64) -> bool {
    let limits = std::iter::successors(Some(LIMITS.0), |limit| Some(limit * 2));
    let is_near = limits
        .take_while(|limit| *limit <= LIMITS.1)
        .any(|limit| reported.abs_diff(limit) <= limit / NEAR_PARTS);
    is_near && {
        let remark = question.remark.as_deref().unwrap_or_default();
        let texts = [&question.prompt.system, &question.prompt.user, remark];
        let bytes: u64 = texts.into_iter().map(bytes_without_runs).sum();
        reported < bytes / BYTES_PER_TOKEN_MAX
    }
}

/// Builds the outcome of a request that was cut.
pub(super) fn outcome(estimate: u64, reported: u64) -> Outcome {
    let error = format!(
        "about {estimate} tokens were sent and {reported} were read: the judge cuts what does \
         not fit; raise its context (for Ollama `num_ctx`) or lower `evidence_tokens`"
    );
    Outcome::Failed { error_type: "judge_context_truncated", error }
}

/// Returns the bytes of a text with each run of one character counted once.
fn bytes_without_runs(text: &str) -> u64 {
    let mut last = None;
    let lengths = text.chars().map(|c| match last.replace(c) {
        Some(before) if before == c => 0,
        _ => c.len_utf8() as u64,
    });
    lengths.sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanscore_evaluate::inquiry::{JudgePrompt, RedactionGaps};

    fn check(user: &str, times: usize, reported: u64, expected: bool) {
        let prompt = JudgePrompt {
            windows: 1,
            system: "rules".into(),
            user: user.repeat(times),
            schema: None,
            answer_tokens: 0,
            statements: 1,
            digest: [0; 16],
            cut_bytes: 0,
            injection_found: false,
            gaps: RedactionGaps::default(),
        };
        let question = JudgeQuestion { prompt, remark: None, temperature: 0.0, max_tokens: 9 };
        assert_eq!(is_cut(&question, reported), expected, "{times} times {user:?}: {reported}");
    }

    #[test]
    fn only_a_count_at_a_limit_and_far_below_the_text_is_a_cut() {
        // 45 bytes each.
        let english = "The parcel of order 17 left the warehouse at ";
        for limit in [2_048, 2_008, 2_088, 4_096, 8_192] {
            check(english, 4_000, limit, true);
        }
        check(english, 4_000, 3_000, false);
        check(english, 4_000, 2_100, false);
        check(english, 200, 2_048, false);
        check(english, 4_000, 0, false);
        check(english, 40_000, 65_536, true);
    }

    #[test]
    fn dense_scripts_and_runs_are_complete() {
        // 7.6 and 11 bytes a token, as tokenizers count them.
        check("आपका ऑर्डर भेज दिया गया है। ", 140, 1_389, false);
        check("আপনার অর্ডার পাঠানো হয়েছে। ", 330, 2_048, false);
        check("ཁྱེད་ཀྱི་མངགས་ཉོ་བསྐུར་ཟིན། ", 280, 2_048, false);
        check("a                                                   ", 4_000, 2_048, false);
        check("----------", 40_000, 4_096, false);
    }
}
