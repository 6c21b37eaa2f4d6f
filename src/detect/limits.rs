//! The limits of detection, in one place.

/// Largest compiled form of one pattern, bytes.
pub(crate) const REGEX_BYTES_MAX: usize = 8 << 20;
/// Largest compiled form of one pattern of a config. A fuzzer has a smaller one: it makes up little
/// but patterns that are too large.
pub(crate) const OWN_REGEX_BYTES_MAX: usize = if cfg!(fuzzing) { 1 << 20 } else { REGEX_BYTES_MAX };
/// Largest cache of one pattern's lazy automaton, bytes.
pub(crate) const DFA_BYTES_MAX: usize = 4 << 20;
/// Most bytes of compiled expressions and of what automata have noted of texts, together, where
/// texts are scanned. All built-in expressions take 35 MiB, and what they note of texts of all
/// kinds 75.
pub(crate) const RULES_BYTES_MAX: usize = 128 << 20;
/// Steps of one pass over a byte of a text: that of the gates, or of a detector of numbers.
pub(crate) const STEPS_PER_BYTE: usize = 2;
/// Steps of the pass of any other detector whose gate is open.
pub(crate) const DETECTOR_STEPS_PER_BYTE: usize = 8;
/// Most detectors in the packs that a config adds to one evaluator.
pub(crate) const DETECTORS_MAX: usize = 512;
/// Longest text a detector's pattern may match, bytes: what keeps finding all matches linear.
pub(crate) const MATCH_BYTES_MAX: usize = 4096;
/// Most bytes behind a literal that are looked at to tell whether its expression is worth a search.
pub(crate) const REST_BYTES_MAX: usize = 128;
/// Most bytes before a literal in which the beginnings of matches are looked for.
pub(crate) const BEGIN_BYTES_MAX: usize = 1024;
/// Steps of one such look at a literal.
pub(crate) const LOOK_STEPS: usize = 32;
/// Bytes of a text for each look at a number or an `@`; where they stand closer, their expressions
/// run.
pub(crate) const BYTES_A_LOOK: usize = 8;
/// Such looks that a text of any length has.
pub(crate) const LOOKS_MIN: usize = 64;
/// Findings kept of one detector in one text; the search stops there.
pub(crate) const FINDINGS_MAX: usize = 256;
/// Most bytes of encoded runs (base64, percent, tags) that are decoded in one text.
pub(crate) const DECODED_BYTES_MAX: usize = 64 << 10;
/// Most bytes of one text where digits stand together that detectors of numbers search; where there
/// are more, the rule says so.
pub(crate) const NUMBER_BYTES_MAX: usize = 256 << 10;
/// Matches of one detector in one text that its check or context may refuse; what follows more of
/// them is not searched, and the rule says so.
pub(crate) const REFUSED_MAX: u32 = 4096;
/// Steps of each of these: the dearest check, that of an address, takes a microsecond.
pub(crate) const REFUSED_STEPS: usize = 600;
/// Bytes at the beginning of a result that detectors of failures read; what a tool says of
/// a failure stands first.
pub(crate) const HEAD_BYTES_MAX: usize = 4096;
/// Bytes at the end of a result that detectors of failures read: exit codes stand last.
pub(crate) const TAIL_BYTES_MAX: usize = 2048;
/// Largest field of a result that is read, and largest list or Python literal, bytes; a larger one
/// counts as something that is there.
pub(crate) const FIELD_BYTES_MAX: usize = 64 << 10;
/// Deepest envelope around what a tool said: a message, its content, a block of it.
pub(crate) const ENVELOPE_DEPTH_MAX: usize = 4;
/// Most entries of a list, all of which must say that they failed.
pub(crate) const ENTRIES_MAX: usize = 64;
/// Most fields of an object that detectors look at: more than those of the built-in table name.
pub(crate) const FIELDS_MAX: usize = 512;
/// Longest result that may be nothing but the message of an error, bytes.
pub(crate) const MESSAGE_BYTES_MAX: usize = 400;
/// Last lines of a result in which a program says what stopped it.
pub(crate) const LAST_LINES: usize = 8;
