//! Failure detection: classifies a tool's result as failed, refused, interrupted or ordinary.
//!
//! In goes a result, out come outcome and reason ([`FailureFinding`]); nothing for an ordinary
//! result. The rules are data (`packs/failures.yaml`, and packs of a config): conditions on the
//! fields of a JSON object, and expressions that are bound to a place of the text, its beginning or
//! its end, far more than to words. The work is linear in the result and is paid for in steps
//! ([`WorkBudget`]); of a long text expressions see the beginning and the end.

pub mod config;
mod fields;
mod message;
mod search;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use super::pack::config::{DetectorConfig, PackConfig, built_in, compile};
use super::pack::{Pack, Scan};
use config::{FailurePackConfig, Says, TextDetectorConfig, TextPlace};
use fields::{FieldDetector, Wanted, folded};
use message::MessageSigns;
use search::FailureSearch;
use spanscore_base::model::WorkBudget;
use spanscore_base::settings::{SettingsError, yaml};
use spanscore_base::value::Value;

/// Outcome of a call as its result shows it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FailureFinding<'p> {
    /// Outcome.
    pub says: Says,
    /// Reason, in words.
    pub kind: &'p str,
    /// Family of the reason.
    pub category: &'p str,
}

impl FailureFinding<'_> {
    /// Returns true if it rests on nothing but the form of a whole text.
    fn is_message(&self) -> bool {
        self.category == message::CATEGORY
    }
}

/// Compiled detectors of failures.
pub struct FailureDetectors {
    fields: Vec<FieldDetector>,
    /// Names of fields that detectors read, and those in `inside`.
    wanted: Wanted,
    /// Names of fields that wrap a result.
    inside: Vec<String>,
    starts: TextDetectors,
    ends: TextDetectors,
    lasts: TextDetectors,
    /// Signs of bare messages, where the built-in table is used.
    messages: Option<MessageSigns>,
}

/// Detectors of texts.
struct TextDetectors {
    /// Detectors that report a failure, a refusal or an interruption.
    telling: Arc<Pack>,
    /// Detectors of ordinary results, which overrule all others: run only where one of those hits.
    ordinary: Arc<Pack>,
}

/// Precedence of outcomes of a text that is not ordinary.
const ORDER: [Says; 3] = [Says::Refused, Says::Interrupted, Says::Failed];

/// Returns the built-in detectors.
pub fn built_in_detectors() -> Result<Arc<FailureDetectors>, SettingsError> {
    static BUILT_IN: LazyLock<Result<Arc<FailureDetectors>, SettingsError>> = LazyLock::new(|| {
        let pack = built_in_pack()?;
        FailureDetectors::compile_with(&[pack], true, built_in).map(Arc::new)
    });
    LazyLock::force(&BUILT_IN).clone()
}

fn built_in_pack() -> Result<FailurePackConfig, SettingsError> {
    let read = yaml::read(include_str!("../packs/failures.yaml")).and_then(|node| node.read());
    read.map_err(|error| SettingsError::new(format!("built-in failures: {error}")))
}

impl FailureDetectors {
    /// Compiles the packs of a config, before the built-in one where that is wanted too.
    pub fn new(own: &[FailurePackConfig], with_built_in: bool) -> Result<Arc<Self>, SettingsError> {
        if own.is_empty() && with_built_in {
            return built_in_detectors();
        }
        let mut packs = own.to_vec();
        if with_built_in {
            packs.push(built_in_pack()?);
        }
        Self::compile_with(&packs, with_built_in, compile).map(Arc::new)
    }

    fn compile_with(
        packs: &[FailurePackConfig],
        with_messages: bool,
        compile: fn(&[PackConfig]) -> Result<Arc<Pack>, SettingsError>,
    ) -> Result<Self, SettingsError> {
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
        let wanted = detectors.iter().flat_map(FieldDetector::names).chain(&inside);
        Ok(Self {
            wanted: Wanted::new(wanted),
            fields: detectors,
            inside,
            starts: TextDetectors::new(packs, compile, |at| {
                !matches!(at, TextPlace::End | TextPlace::Last)
            })?,
            ends: TextDetectors::new(packs, compile, |at| at == TextPlace::End)?,
            lasts: TextDetectors::new(packs, compile, |at| at == TextPlace::Last)?,
            messages: with_messages.then(MessageSigns::built_in).transpose()?,
        })
    }

    /// Judges a result; nothing where it is an ordinary one, or the steps ran out.
    pub fn judge(&self, result: &Value<'_>, effort: &WorkBudget) -> Option<FailureFinding<'_>> {
        let search = FailureSearch { detectors: self, effort };
        search.value(result, 0).filter(|finding| finding.says != Says::Ordinary)
    }

    /// Judges a text; nothing where it is an ordinary one, or the steps ran out.
    pub fn judge_text(&self, text: &str, effort: &WorkBudget) -> Option<FailureFinding<'_>> {
        let search = FailureSearch { detectors: self, effort };
        search.text(text, 0).filter(|finding| finding.says != Says::Ordinary)
    }
}

impl TextDetectors {
    fn new(
        packs: &[FailurePackConfig],
        compile: fn(&[PackConfig]) -> Result<Arc<Pack>, SettingsError>,
        wanted: fn(TextPlace) -> bool,
    ) -> Result<Self, SettingsError> {
        let those = |is_told: fn(Says) -> bool| {
            let pack = |pack: &FailurePackConfig| {
                let texts = pack.texts.iter().filter(|text| wanted(text.at) && is_told(text.says));
                PackConfig {
                    name: pack.name.clone(),
                    expressions: by_bytes_all(&pack.expressions),
                    detectors: texts.map(plain).collect(),
                    ..PackConfig::default()
                }
            };
            compile(&packs.iter().map(pack).collect::<Vec<_>>())
        };
        Ok(Self {
            telling: those(|says| says != Says::Ordinary)?,
            ordinary: those(|says| says == Says::Ordinary)?,
        })
    }

    fn judge(&self, text: &str, effort: &WorkBudget) -> Option<FailureFinding<'_>> {
        let scan = scanned(&self.telling, text, effort)?;
        if let Some(ordinary) = self.ordinary(text, effort) {
            return Some(ordinary);
        }
        ORDER.into_iter().find_map(|says| {
            let (kind, category) = self.telling.first(&scan, says.as_str())?;
            Some(FailureFinding { says, kind, category })
        })
    }
}

impl TextDetectors {
    /// Returns true if a text is an ordinary one.
    fn is_ordinary(&self, text: &str, effort: &WorkBudget) -> bool {
        self.ordinary(text, effort).is_some()
    }

    fn ordinary(&self, text: &str, effort: &WorkBudget) -> Option<FailureFinding<'_>> {
        let scan = scanned(&self.ordinary, text, effort)?;
        let (kind, category) = self.ordinary.first(&scan, Says::Ordinary.as_str())?;
        Some(FailureFinding { says: Says::Ordinary, kind, category })
    }
}

/// Scans a text with a pack; `None` where that finds nothing, or the steps ran out.
fn scanned(pack: &Pack, text: &str, effort: &WorkBudget) -> Option<Scan> {
    let scan = pack.scan(text, effort.left());
    (effort.spend(scan.steps()) && !scan.is_empty()).then_some(scan)
}

/// Rewrites "anything on this line" in a pattern to count bytes, not characters: an automaton of a
/// tenth of the size.
fn by_bytes(pattern: &str) -> String {
    pattern.replace(r"[^\n]", r"(?-u:[^\n])")
}

fn by_bytes_all(named: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    named.iter().map(|(name, pattern)| (name.clone(), by_bytes(pattern))).collect()
}

/// Turns a text detector into one of a rule pack, its place put into its expression.
fn plain(config: &TextDetectorConfig) -> DetectorConfig {
    let pattern = by_bytes(&config.pattern);
    let pattern = match config.at {
        TextPlace::Start => format!("^(?:{pattern})"),
        TextPlace::Whole => format!("^(?:{pattern})[\\s.!)\\]}}>\"'`*]{{0,8}}$"),
        TextPlace::Line | TextPlace::Last => format!("(?m:^)[ \\t>#*|]{{0,8}}(?:{pattern})"),
        TextPlace::End => format!("(?:{pattern})[\\s.!)\\]}}>\"'`*]{{0,8}}$"),
    };
    DetectorConfig {
        rule: config.says.as_str().to_owned(),
        kind: config.kind.clone(),
        category: config.category.clone(),
        pattern: Some(pattern),
        case_sensitive: config.case_sensitive,
        needs: config.needs.clone(),
        not_near: config.not_near.clone(),
        count_min: config.count_min,
        ends_text: config.at == TextPlace::End,
        ..DetectorConfig::default()
    }
}

#[cfg(test)]
mod tests;
