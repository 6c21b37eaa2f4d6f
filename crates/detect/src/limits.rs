//! Limits of detection, in one place.

/// Largest compiled form of one built-in pattern, bytes.
pub const REGEX_BYTES_MAX: usize = 8 << 20;
/// Largest compiled form of one pattern of a config, bytes; smaller under a fuzzer, which mostly
/// invents overlarge patterns.
pub const OWN_REGEX_BYTES_MAX: usize = if cfg!(fuzzing) { 1 << 20 } else { REGEX_BYTES_MAX };
/// Largest lazy-DFA cache of one pattern, bytes.
pub const DFA_BYTES_MAX: usize = 4 << 20;
/// Memory of compiled automata and their caches together, bytes: of a config's expressions, and of
/// built-in ones that exceeded their steps on a hostile text.
pub const RULES_BYTES_MAX: usize = 128 << 20;
/// Steps per byte of one cheap pass over a text: gates, or a number detector.
pub(crate) const STEPS_PER_BYTE: usize = 2;
/// Steps per byte of the pass of any other detector with an open gate.
pub(crate) const DETECTOR_STEPS_PER_BYTE: usize = 8;
/// Limit on detectors in the packs that a config adds to one evaluator.
pub(crate) const DETECTORS_MAX: usize = 512;
/// Longest match of a detector's pattern, bytes: this bound makes finding all matches linear.
pub(crate) const MATCH_BYTES_MAX: usize = 4096;
/// Base steps of a tree search in addition to those per byte; longer searches use an automaton.
pub(crate) const TREE_STEPS_MIN: usize = 1024;
/// Steps of testing one place of a literal.
pub(crate) const LOOK_STEPS: usize = 32;
/// Bytes of a text per test of a number or an `@`; if they are denser, their expressions run
/// untested.
pub(crate) const BYTES_A_LOOK: usize = 8;
/// Least number of tests of numbers or signs for a text of any length.
pub(crate) const LOOKS_MIN: usize = 64;
/// Limit on findings of one detector in one text; the search stops there.
pub const FINDINGS_MAX: usize = 256;
/// Limit on decoded bytes of encoded runs (base64, percent, tags) in one text.
pub(crate) const DECODED_BYTES_MAX: usize = 64 << 10;
/// Limit on the bytes of digit regions searched in one text; beyond it the rule reports a cut.
pub(crate) const NUMBER_BYTES_MAX: usize = 256 << 10;
/// Limit on matches of one detector in one text refused by check or context; beyond it the search
/// stops, and the rule reports that.
pub(crate) const REFUSED_MAX: u32 = 4096;
/// Steps of each refused match: the slowest check, that of an address, takes a microsecond.
pub(crate) const REFUSED_STEPS: usize = 600;
/// Bytes at the start of a result that failure detectors read, as messages of failures come first.
pub(crate) const HEAD_BYTES_MAX: usize = 4096;
/// Bytes at the end of a result that failure detectors read, as exit codes come last.
pub(crate) const TAIL_BYTES_MAX: usize = 2048;
/// Largest parsed field, list or Python literal of a result, bytes; a larger one only counts as
/// present.
pub(crate) const FIELD_BYTES_MAX: usize = 64 << 10;
/// Limit on opened envelopes around a tool's output: a message, its content, a block of it.
pub(crate) const ENVELOPE_DEPTH_MAX: usize = 4;
/// Limit on judged entries of a list, all of which must report a failure.
pub(crate) const ENTRIES_MAX: usize = 64;
/// Limit on fields of an object that detectors read: more than the built-in table names.
pub(crate) const FIELDS_MAX: usize = 512;
/// Longest result that may be a bare error message, bytes.
pub(crate) const MESSAGE_BYTES_MAX: usize = 400;
/// Last lines of a result that may report a program's fatal error.
pub(crate) const LAST_LINES: usize = 8;
