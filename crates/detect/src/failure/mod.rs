//! Failure detection: classifies a tool's result as failed, refused, interrupted or ordinary.
//!
//! In: a result. Out: outcome and reason ([`FailureFinding`]), or nothing for an ordinary result.
//! The rules are data (`packs/failures.yaml`, and packs of a config): conditions on the fields of a
//! JSON object, and expressions anchored to the beginning or end of the text, which matters more
//! than words. The cost is linear in the result and charged in steps ([`WorkBudget`]); expressions
//! see only the beginning and the end of a long text.

pub mod config;
mod fields;
mod literals;
mod message;
mod opened;
mod openers;
mod record;
mod search;
mod texts;

use std::sync::{Arc, LazyLock};

use config::{FailurePackConfig, Says, TextPlace};
use fields::{FieldDetector, Wanted, folded};
use literals::LiteralSet;
use message::MessageSigns;
use search::FailureSearch;
use spanscore_base::model::WorkBudget;
use spanscore_base::settings::{SettingsError, yaml};
use spanscore_base::value::Value;
use texts::TextDetectors;

/// Outcome of a call according to its result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FailureFinding<'p> {
    /// Outcome.
    pub says: Says,
    /// Reason, in words.
    pub kind: &'p str,
    /// Category of the reason.
    pub category: &'p str,
}

impl FailureFinding<'_> {
    /// Returns true if it rests only on the form of a whole text.
    fn is_message(&self) -> bool {
        self.category == message::CATEGORY
    }
}

/// Compiled detectors of failures.
pub struct FailureDetectors {
    fields: Vec<FieldDetector>,
    /// Names of fields that detectors read, including those in `inside`.
    wanted: Wanted,
    /// Names of fields that wrap a result.
    inside: Vec<String>,
    starts: TextDetectors,
    ends: TextDetectors,
    lasts: TextDetectors,
    /// Signs of bare messages, if the built-in table is used.
    messages: Option<MessageSigns>,
    /// Literals of all expressions.
    literals: LiteralSet,
    /// [`Self::ends`] with their own literals, for the text after an object: a fiftieth of all.
    closing: (TextDetectors, LiteralSet),
}

/// Returns the built-in detectors.
pub fn built_in_detectors() -> Result<Arc<FailureDetectors>, SettingsError> {
    static BUILT_IN: LazyLock<Result<Arc<FailureDetectors>, SettingsError>> = LazyLock::new(|| {
        let pack = built_in_pack()?;
        FailureDetectors::compile(&[pack], true).map(Arc::new)
    });
    LazyLock::force(&BUILT_IN).clone()
}

fn built_in_pack() -> Result<FailurePackConfig, SettingsError> {
    let read = yaml::read(include_str!("../packs/failures.yaml")).and_then(|node| node.read());
    read.map_err(|error| SettingsError::new(format!("built-in failures: {error}")))
}

impl FailureDetectors {
    /// Compiles the packs of a config, followed by the built-in one if wanted.
    pub fn new(own: &[FailurePackConfig], with_built_in: bool) -> Result<Arc<Self>, SettingsError> {
        if own.is_empty() && with_built_in {
            return built_in_detectors();
        }
        let mut packs = own.to_vec();
        if with_built_in {
            packs.push(built_in_pack()?);
        }
        Self::compile(&packs, with_built_in).map(Arc::new)
    }

    fn compile(packs: &[FailurePackConfig], with_messages: bool) -> Result<Self, SettingsError> {
        let mut detectors = Vec::new();
        let mut inside: Vec<String> = Vec::new();
        for pack in packs {
            for (index, config) in pack.fields.iter().enumerate() {
                let detector = FieldDetector::new(config).map_err(|error| {
                    let kind = &config.kind;
                    let at = index + 1;
                    let name = &pack.name;
                    let message =
                        format!("field `{kind}` ({at}) of pack `{name}`: {}", error.message);
                    SettingsError { message, ..error }
                })?;
                detectors.push(detector);
            }
            inside.extend(pack.inside.iter().map(|name| folded(name)));
        }
        let mut literals = LiteralSet::default();
        let mut closing = LiteralSet::default();
        let is_end = |at| at == TextPlace::End;
        let wanted = detectors.iter().flat_map(FieldDetector::names).chain(&inside);
        Ok(Self {
            wanted: Wanted::new(wanted),
            fields: detectors,
            inside,
            starts: TextDetectors::new(packs, &mut literals, |at| {
                !matches!(at, TextPlace::End | TextPlace::Last)
            })?,
            ends: TextDetectors::new(packs, &mut literals, is_end)?,
            lasts: TextDetectors::new(packs, &mut literals, |at| at == TextPlace::Last)?,
            messages: with_messages.then(|| MessageSigns::built_in(&mut literals)).transpose()?,
            literals,
            closing: (TextDetectors::new(packs, &mut closing, is_end)?, closing),
        })
    }

    /// Judges a result; `None` if ordinary, or out of steps.
    pub fn judge(&self, result: &Value<'_>, effort: &WorkBudget) -> Option<FailureFinding<'_>> {
        let search = FailureSearch { detectors: self, effort };
        search.value(result, 0).filter(|finding| finding.says != Says::Ordinary)
    }

    /// Judges a text; `None` if ordinary, or out of steps.
    pub fn judge_text(&self, text: &str, effort: &WorkBudget) -> Option<FailureFinding<'_>> {
        let search = FailureSearch { detectors: self, effort };
        search.text(text, 0).filter(|finding| finding.says != Says::Ordinary)
    }
}

#[cfg(test)]
mod tests;
