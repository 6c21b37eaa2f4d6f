//! Pseudonymising redactor for values that are shown or sent out: placeholders such as `[SECRET_1]`
//! name the kind of a value and are the same for the same value throughout, so that a reader still
//! sees where a value came from. The one redactor of exporters, the MCP server, judges and external
//! evaluators.
//!
//! ```text
//! keys       classes of keys by their words (words): password yes, password_policy no
//! structure  classes of entries by what stands around them: headers as pairs, schemas
//! embedded   JSON within texts, which is read as a structure
//! assigned   names and values in flat texts: password=..., JSON that is cut off
//! bare_words ends of values without quotes
//! keyed      search for values of keys wherever else they stand
//! marked     a text with the places of its placeholders
//! looking    first walk: secrets by their keys, and the texts that have something to replace
//! replacing  second walk, for these texts
//! ```
//!
//! It first looks at all that is shown together: learns the values of keys, and scans each text for
//! what is to be replaced and for attempts to sway a judge. Most values need no second walk.
//!
//! All scans of a redactor have one budget of steps, and a text may not grow beyond [`GROWTH_MAX`]
//! times its size: one that would is withheld, and counted.

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

/// Steps of looking at all texts, and as many again of replacing in them; texts beyond it are
/// withheld.
const STEPS_MAX: usize = 1 << 30;
/// Steps of replacing in texts that are displayed together.
const DISPLAY_STEPS_MAX: usize = 1 << 27;
/// Factor by which placeholders may lengthen a text.
const GROWTH_MAX: usize = 2;
/// Bytes up to which any text may grow.
const GROWN_BYTES_MIN: usize = 1 << 10;
/// Bytes below which a string holds nothing that a detector looks for.
const BYTES_MIN: usize = 6;
/// Bytes that a text counts as at least.
const TEXT_BYTES_MIN: usize = 16;
/// Deepest level of values, and of JSON within their texts; deeper ones are withheld.
const DEPTH_MAX: usize = 128;
/// Replacement of a string that is withheld as a whole.
pub const WITHHELD: &str = "[WITHHELD]";
/// Word of placeholders for values under keys of secrets.
const SECRET: &str = "SECRET";
/// Family of the detectors of secrets.
const CREDENTIAL: &str = "credential";

/// Data that is replaced by placeholders before anything is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Redact {
    /// Keys, tokens and passwords.
    #[default]
    Secrets,
    /// Keys, tokens and passwords, and personal data.
    SecretsAndPii,
    /// Nothing.
    None,
}

/// Redactor of values: replaces findings, and values under keys of secrets, by placeholders that
/// are the same for the same value throughout. It replaces values of keys wherever they are
/// repeated only if it has been shown them before.
pub struct Redactor<N = PlaceholderNumbers> {
    pack: Arc<Pack>,
    redact: Redact,
    withholds: bool,
    injection: bool,
    /// True once something shown has to be replaced.
    dirty: bool,
    /// Values of keys that hold secrets, replaced wherever they stand.
    keyed: KeyedSecrets,
    gaps: RedactionGaps,
    /// Steps left for looking at texts.
    look_steps: usize,
    /// Steps left for replacing in them.
    replace_steps: usize,
    /// Bytes left of texts to look at.
    look_bytes: usize,
    /// Bytes left of texts to replace in, a text once more after each pass that found something.
    replace_bytes: usize,
    /// Texts of the value that is being replaced in, if it was looked at.
    marks: Option<TextMarks>,
    /// Scan of the text that is replaced in next, if it was looked at.
    scan: Option<pack::Scan>,
    names: N,
}

impl Redactor {
    /// Starts with nothing seen, for what a judge or an external evaluator is sent.
    ///
    /// # Errors
    /// The detectors cannot be built, which a test rules out.
    pub fn new(redact: Redact) -> Result<Self, SettingsError> {
        let steps = (STEPS_MAX, usize::MAX);
        Ok(Self::with(pack::evidence()?, redact, PlaceholderNumbers::default(), steps))
    }
}

impl<N: Placeholders> Redactor<N> {
    /// Starts with nothing seen, for texts of so many bytes that are displayed together: secrets
    /// and personal data get names.
    ///
    /// # Errors
    /// The detectors cannot be built, which a test rules out.
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

    /// Sets what is replaced from now on.
    pub fn set(&mut self, redact: Redact) {
        self.redact = redact;
    }

    /// Withholds texts that try to sway a judge from now on.
    pub fn withhold_injections(&mut self) {
        self.withholds = true;
    }

    /// Returns true if a text that was looked at tries to sway a judge.
    pub fn found_injection(&self) -> bool {
        self.injection
    }

    /// Returns the counts of what it could not replace or show.
    pub fn gaps(&self) -> RedactionGaps {
        self.gaps
    }

    /// Returns true if something that was looked at is to be replaced.
    pub fn is_needed(&self) -> bool {
        self.dirty
    }
}

#[cfg(test)]
mod tests;
