//! Pseudonymising redactor for displayed or transmitted values. Placeholders such as `[SECRET_1]`
//! name the kind of a value and are stable per value, so that readers can still trace it.
//! Exporters, the MCP server, judges and external evaluators all use it.
//!
//! ```text
//! keys       classes of keys by their words (words): password yes, password_policy no
//! structure  classes of entries by their context: headers as pairs, schemas
//! embedded   JSON within texts, which is read as a structure
//! assigned   names and values in flat texts: password=..., JSON that is cut off
//! bare_words ends of values without quotes
//! keyed      search for values of keys anywhere else
//! marked     a text with the ranges of its placeholders
//! looking    first walk: secrets by their keys, and the texts that need replacement
//! replacing  second walk, for these texts
//! ```
//!
//! The first walk covers all values shown together: it learns the values of keys, and scans each
//! text for findings and for attempts to sway a judge. Most values need no second walk.
//!
//! All scans of a redactor share one budget of steps, and a text may grow at most to
//! [`GROWTH_MAX`] times its size; beyond that it is withheld, and counted.

mod assigned;
mod bare_words;
mod embedded;
mod gaps;
mod keyed;
mod keys;
mod looking;
mod marked;
mod names;
mod replacing;
mod structure;
mod words;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use self::keyed::KeyedSecrets;
use self::looking::TextMarks;
use super::pack::{self, Pack};
use spanscore_base::settings::SettingsError;

pub use self::gaps::{RedactionGaps, WithheldTexts};
pub use self::keys::UnderKey;
pub use self::names::{PlaceholderNumbers, Placeholders};

/// Steps for scanning all texts, and again as many for replacing in them; texts beyond them are
/// withheld.
const STEPS_MAX: usize = 1 << 30;
/// Steps for replacing in texts that are displayed together.
const DISPLAY_STEPS_MAX: usize = 1 << 27;
/// Factor by which placeholders may lengthen a text.
const GROWTH_MAX: usize = 2;
/// Bytes to which any text may grow.
const GROWN_BYTES_MIN: usize = 1 << 10;
/// Length below which a string cannot contain a finding, bytes.
const BYTES_MIN: usize = 6;
/// Least charge of a text, bytes.
const TEXT_BYTES_MIN: usize = 16;
/// Limit on the nesting of values, and of JSON within their texts; deeper ones are withheld.
const DEPTH_MAX: usize = 128;
/// Replacement of a withheld string.
pub const WITHHELD: &str = "[WITHHELD]";
/// Placeholder word for values of secret keys.
const SECRET: &str = "SECRET";
/// Category of the secret detectors.
const CREDENTIAL: &str = "credential";

/// Data that placeholders replace before a record leaves the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Redact {
    /// Keys, tokens and passwords.
    #[default]
    Secrets,
    /// Keys, tokens, passwords and personal data.
    SecretsAndPii,
    /// No data.
    None,
}

/// Redactor of values: replaces findings, and values of secret keys, by placeholders that are
/// stable per value. Values of keys are replaced elsewhere only if they were shown to it before.
pub struct Redactor<N = PlaceholderNumbers> {
    pack: Arc<Pack>,
    redact: Redact,
    withholds: bool,
    injection: bool,
    /// True once a shown text needs replacement.
    dirty: bool,
    /// Values of secret keys, replaced everywhere.
    keyed: KeyedSecrets,
    gaps: RedactionGaps,
    /// Steps left for scanning texts.
    look_steps: usize,
    /// Steps left for replacing in them.
    replace_steps: usize,
    /// Bytes left of texts to scan.
    look_bytes: usize,
    /// Bytes left of texts to replace in, charged again after each pass with a finding.
    replace_bytes: usize,
    /// Marked texts of the current value, if it was scanned.
    marks: Option<TextMarks>,
    /// Scan of the next text, if it was scanned before.
    scan: Option<pack::Scan>,
    names: N,
}

impl Redactor {
    /// Returns a redactor without history, for data sent to a judge or an external evaluator.
    ///
    /// # Errors
    /// Detectors that cannot be built, which a test rules out.
    pub fn new(redact: Redact) -> Result<Self, SettingsError> {
        let steps = (STEPS_MAX, usize::MAX);
        Ok(Self::with(pack::evidence()?, redact, PlaceholderNumbers::default(), steps))
    }
}

impl<N: Placeholders> Redactor<N> {
    /// Returns a redactor without history, for texts of this size that are displayed together:
    /// secrets and personal data get placeholders.
    ///
    /// # Errors
    /// Detectors that cannot be built, which a test rules out.
    pub fn for_display(names: N, bytes_max: usize) -> Result<Self, SettingsError> {
        let limits = (DISPLAY_STEPS_MAX, bytes_max);
        Ok(Self::with(pack::personal()?, Redact::SecretsAndPii, names, limits))
    }

    fn with(pack: Arc<Pack>, redact: Redact, names: N, (steps, bytes): (usize, usize)) -> Self {
        Self {
            pack,
            redact,
            withholds: false,
            injection: false,
            dirty: false,
            keyed: KeyedSecrets::default(),
            gaps: RedactionGaps::default(),
            look_steps: steps,
            replace_steps: steps,
            look_bytes: bytes,
            replace_bytes: bytes,
            marks: None,
            scan: None,
            names,
        }
    }

    /// Sets the kinds of data that are replaced.
    pub fn set(&mut self, redact: Redact) {
        self.redact = redact;
    }

    /// Makes it withhold texts that try to sway a judge.
    pub fn withhold_injections(&mut self) {
        self.withholds = true;
    }

    /// Returns true if a scanned text tries to sway a judge.
    pub fn found_injection(&self) -> bool {
        self.injection
    }

    /// Returns the counts of failed replacements and withheld texts.
    pub fn gaps(&self) -> RedactionGaps {
        self.gaps
    }

    /// Returns true if a scanned text needs replacement.
    pub fn is_needed(&self) -> bool {
        self.dirty
    }
}

#[cfg(test)]
mod tests;
