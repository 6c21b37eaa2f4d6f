//! The limits of this kind, in one place.

/// Largest compiled form of one pattern, bytes.
pub(super) const REGEX_BYTES_MAX: usize = 8 << 20;
/// Largest cache of one pattern's lazy automaton, bytes.
pub(super) const DFA_BYTES_MAX: usize = 4 << 20;
/// Most custom rules of one evaluator.
pub(super) const CUSTOM_RULES_MAX: usize = 256;
/// Most detectors in the packs that a config adds to one evaluator.
pub(super) const DETECTORS_MAX: usize = 512;
/// Longest text a detector's pattern may match, bytes: what keeps finding all matches linear.
pub(super) const MATCH_BYTES_MAX: usize = 4096;
/// Findings kept of one detector in one text; more are counted, not listed.
pub(super) const FINDINGS_MAX: usize = 16;
/// Longest text that is judged unless `text_bytes_max` says otherwise: 1 MiB.
pub(super) const TEXT_BYTES_MAX: usize = 1 << 20;
/// Highest `text_bytes_max`: places have 32 bits, also those in the forms of a text in which
/// look-alikes and ligatures are written out.
pub(super) const TEXT_BYTES_CEILING: usize = 128 << 20;
/// Texts of one trajectory that are judged; more make it not evaluable.
pub(super) const TEXTS_MAX: usize = 1024;
/// Most bytes of encoded runs (base64, percent, tags) that are decoded in one text.
pub(super) const DECODED_BYTES_MAX: usize = 64 << 10;
/// Most bytes of one text where digits stand together that detectors of numbers search; where there
/// are more, the rule says so.
pub(super) const NUMBER_BYTES_MAX: usize = 256 << 10;
/// Matches of one detector in one text that its check or context may refuse; what follows more of
/// them is not searched, and the rule says so.
pub(super) const REFUSED_MAX: u32 = 4096;
