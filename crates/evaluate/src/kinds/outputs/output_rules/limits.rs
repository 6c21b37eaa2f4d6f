//! Limits of `output_rules`.

/// Limit on the custom rules of one evaluator.
pub(super) const CUSTOM_RULES_MAX: usize = 256;
/// Default `text_bytes_max`, the longest judged text: 1 MiB.
pub(super) const TEXT_BYTES_MAX: usize = 1 << 20;
/// Highest `text_bytes_max`: offsets have 32 bits, also in normalized forms, where look-alikes and
/// ligatures are expanded.
pub(super) const TEXT_BYTES_CEILING: usize = 128 << 20;
/// Limit on the judged texts of a trajectory; with more it is not evaluable.
pub(super) const TEXTS_MAX: usize = 1024;
/// Bytes at the start of unreadable content in which a list of messages is detected.
pub(super) const CONVERSATION_BYTES: usize = 256;
/// Default `findings_max`, the limit on listed findings of one kind in one text.
pub(super) const FINDINGS_LISTED: usize = 16;
