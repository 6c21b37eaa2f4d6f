//! Limits of `output_rules`, in one place.

/// Custom rules of one evaluator at most.
pub(super) const CUSTOM_RULES_MAX: usize = 256;
/// Longest text that is judged unless `text_bytes_max` says otherwise: 1 MiB.
pub(super) const TEXT_BYTES_MAX: usize = 1 << 20;
/// Highest `text_bytes_max`: offsets have 32 bits, also those in the forms of a text in which
/// look-alikes and ligatures are written out.
pub(super) const TEXT_BYTES_CEILING: usize = 128 << 20;
/// Judged texts of one trajectory at most; more make it not evaluable.
pub(super) const TEXTS_MAX: usize = 1024;
/// Bytes at the start of unreadable content in which a list of messages shows itself.
pub(super) const CONVERSATION_BYTES: usize = 256;
/// Findings of one kind listed of one text unless `findings_max` says otherwise.
pub(super) const FINDINGS_LISTED: usize = 16;
