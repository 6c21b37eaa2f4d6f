//! Plausible usage: token counts possible for a request.
//!
//! A larger count is a fault of the server or a gateway, and must not use up a budget. A missing
//! part may have cost its whole reservation.

use crate::judge::wire::{JudgeQuestion, TokenUsage};

/// Additional tokens of a request: a byte is at most one token, templates and tools add some.
const AROUND_TOKENS: u64 = 4_096;
/// Factor by which an answer may exceed its limit, since some servers count thoughts separately.
const OUTPUT_TIMES: u64 = 4;

/// Returns true if a request cannot have taken this many tokens.
pub(super) fn is_surplus(question: &JudgeQuestion, usage: TokenUsage) -> bool {
    let remark = question.remark.as_ref().map_or(0, String::len);
    let bytes = question.prompt.system.len() + question.prompt.user.len() + remark;
    usage.input > (bytes as u64).saturating_add(AROUND_TOKENS)
        || usage.output > u64::from(question.max_tokens).saturating_mul(OUTPUT_TIMES)
}

/// Returns the usage to pay: the reported one, with reservations for missing parts.
pub(super) fn paid(reported: TokenUsage, reserved: TokenUsage) -> TokenUsage {
    let or = |reported: u64, reserved: u64| if reported == 0 { reserved } else { reported };
    TokenUsage {
        input: or(reported.input, reserved.input),
        cached: reported.cached,
        output: or(reported.output, reserved.output),
    }
}
