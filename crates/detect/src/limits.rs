//! Limits of detection, in one place.

/// Largest compiled form of one built-in pattern, bytes.
pub const REGEX_BYTES_MAX: usize = 8 << 20;
/// Largest compiled form of one pattern of a config, bytes. Smaller under a fuzzer, which makes up
/// little but patterns that are too large.
pub const OWN_REGEX_BYTES_MAX: usize = if cfg!(fuzzing) { 1 << 20 } else { REGEX_BYTES_MAX };
/// Largest lazy-DFA cache of one pattern, bytes.
pub const DFA_BYTES_MAX: usize = 4 << 20;
/// Memory of compiled automata and of their caches together, bytes, where texts are scanned: those
/// of the expressions of a config, and of built-in ones that a hostile text took too many steps.
pub const RULES_BYTES_MAX: usize = 128 << 20;
/// Steps per byte of one cheap pass over a text: that of the gates, or of a detector of numbers.
pub(crate) const STEPS_PER_BYTE: usize = 2;
/// Steps per byte of the pass of any other detector whose gate is open.
pub(crate) const DETECTOR_STEPS_PER_BYTE: usize = 8;
/// Most detectors in the packs that a config adds to one evaluator.
pub(crate) const DETECTORS_MAX: usize = 512;
/// Longest match of a detector's pattern, bytes: with this bound finding all matches is linear.
pub(crate) const MATCH_BYTES_MAX: usize = 4096;
/// Steps that a tree has for any search, beside those of its bytes; a search that takes more is an
/// automaton's.
pub(crate) const TREE_STEPS_MIN: usize = 1024;
/// Steps of testing one place of a literal.
pub(crate) const LOOK_STEPS: usize = 32;
/// Bytes of a text for each test of a number or an `@`; where they stand closer, their expressions
/// run untested.
pub(crate) const BYTES_A_LOOK: usize = 8;
/// Tests of numbers or signs that a text of any length has.
pub(crate) const LOOKS_MIN: usize = 64;
/// Findings listed of one detector in one text; the search stops there.
pub const FINDINGS_MAX: usize = 256;
/// Bytes of encoded runs (base64, percent, tags) that are decoded in one text.
pub(crate) const DECODED_BYTES_MAX: usize = 64 << 10;
/// Bytes of one text where digits stand together that detectors of numbers search; where there are
/// more, the rule reports that it was cut.
pub(crate) const NUMBER_BYTES_MAX: usize = 256 << 10;
/// Matches of one detector in one text that its check or context may refuse; the text behind more
/// of them is not searched, and the rule reports that.
pub(crate) const REFUSED_MAX: u32 = 4096;
/// Steps of each refused match: the dearest check, that of an address, takes a microsecond.
pub(crate) const REFUSED_STEPS: usize = 600;
/// Bytes at the beginning of a result that detectors of failures read: messages of failures stand
/// first.
pub(crate) const HEAD_BYTES_MAX: usize = 4096;
/// Bytes at the end of a result that detectors of failures read: exit codes stand last.
pub(crate) const TAIL_BYTES_MAX: usize = 2048;
/// Largest field of a result that is parsed, and largest list or Python literal, bytes; a larger
/// one counts as present, whatever it holds.
pub(crate) const FIELD_BYTES_MAX: usize = 64 << 10;
/// Envelopes that are opened around a tool's output: a message, its content, a block of it.
pub(crate) const ENVELOPE_DEPTH_MAX: usize = 4;
/// Entries of a list that are judged, all of which must report a failure.
pub(crate) const ENTRIES_MAX: usize = 64;
/// Fields of an object that detectors look at: more than those of the built-in table name.
pub(crate) const FIELDS_MAX: usize = 512;
/// Longest result that may be nothing but the message of an error, bytes.
pub(crate) const MESSAGE_BYTES_MAX: usize = 400;
/// Last lines of a result in which a program reports its fatal error.
pub(crate) const LAST_LINES: usize = 8;
