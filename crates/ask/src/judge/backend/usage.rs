//! Plausible usage: token counts that a request can have taken.
//!
//! A count beyond that is a fault of the server or of a gateway, and a budget must not be spent by
//! it. A part that is missing may have cost all that was reserved for it.

use crate::judge::wire::{JudgeQuestion, TokenUsage};

/// Tokens of a request beside its text: a byte is a token at most, templates and tools add some.
const AROUND_TOKENS: u64 = 4_096;
/// Times that an answer may exceed its limit: some servers count thoughts beside it.
const OUTPUT_TIMES: u64 = 4;

/// Returns true if a request cannot have taken so many tokens.
pub(super) fn is_surplus(question: &JudgeQuestion, usage: TokenUsage) -> bool {
    let remark = question.remark.as_ref().map_or(0, String::len);
    let bytes = question.prompt.system.len() + question.prompt.user.len() + remark;
    usage.input > (bytes as u64).saturating_add(AROUND_TOKENS)
        || usage.output > u64::from(question.max_tokens).saturating_mul(OUTPUT_TIMES)
}

/// Returns the usage to be paid: the reported one, or what was reserved for parts that are missing.
pub(super) fn paid(reported: TokenUsage, reserved: TokenUsage) -> TokenUsage {
    let or = |reported: u64, reserved: u64| if reported == 0 { reserved } else { reported };
    TokenUsage {
        input: or(reported.input, reserved.input),
        cached: reported.cached,
        output: or(reported.output, reserved.output),
    }
}
