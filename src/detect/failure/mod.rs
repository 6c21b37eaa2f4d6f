//! Whether a tool's result says that the call failed.
//!
//! In goes a result, out comes what it says and why ([`FailureFinding`]); nothing where it is an
//! ordinary
//! result. What decides is data (`packs/failures.yaml`, and packs of a config): conditions on the
//! fields of a JSON object, and expressions that are bound to a place of the text, its beginning or
//! its end, far more than to words. A text is looked at in what stands around it: JSON in a text,
//! the content of a message, a block of content, Python's form of any of these. Linear in the
//! result, of which expressions see the first [`HEAD_BYTES_MAX`] and the last [`TAIL_BYTES_MAX`]
//! bytes.

pub mod config;
mod fields;

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use super::limits::{
    ENTRIES_MAX, ENVELOPE_DEPTH_MAX, FIELD_BYTES_MAX, HEAD_BYTES_MAX, TAIL_BYTES_MAX,
};
use super::pack::config::{DetectorConfig, PackConfig, built_in, compile};
use super::pack::{Pack, Scan};
use crate::settings::{SettingsError, yaml};
use crate::value::json;
use crate::value::python;
use crate::value::{Map, Value};
use config::{FailurePackConfig, Says, TextDetectorConfig, TextPlace};
use fields::{FieldDetector, ResultFields, folded};

/// What a result says of its call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FailureFinding<'p> {
    /// Whether it failed.
    pub says: Says,
    /// Why, in words.
    pub kind: &'p str,
    /// The family of the reason.
    pub category: &'p str,
}

/// Compiled detectors of failures.
pub struct FailureDetectors {
    fields: Vec<FieldDetector>,
    /// Names of fields that detectors read, and those below.
    wanted: BTreeSet<String>,
    /// Names of fields in which a result stands.
    inside: Vec<String>,
    starts: TextDetectors,
    ends: TextDetectors,
}

/// Detectors of texts over one pack, with their families.
struct TextDetectors {
    pack: Arc<Pack>,
}

/// In which order what a text says counts.
const ORDER: [Says; 4] = [Says::Ordinary, Says::Refused, Says::Interrupted, Says::Failed];

/// The built-in detectors.
pub fn built_in_detectors() -> Result<Arc<FailureDetectors>, SettingsError> {
    static BUILT_IN: LazyLock<Result<Arc<FailureDetectors>, SettingsError>> = LazyLock::new(|| {
        let pack = built_in_pack()?;
        FailureDetectors::compile_with(&[pack], built_in).map(Arc::new)
    });
    LazyLock::force(&BUILT_IN).clone()
}

fn built_in_pack() -> Result<FailurePackConfig, SettingsError> {
    let read = yaml::read(include_str!("../packs/failures.yaml")).and_then(|node| node.read());
    read.map_err(|error| SettingsError::new(format!("built-in failures: {error}")))
}

impl FailureDetectors {
    /// Those of a config's packs, which come before the built-in ones where these are wanted too.
    pub fn new(own: &[FailurePackConfig], with_built_in: bool) -> Result<Arc<Self>, SettingsError> {
        if own.is_empty() && with_built_in {
            return built_in_detectors();
        }
        let mut packs = own.to_vec();
        if with_built_in {
            packs.push(built_in_pack()?);
        }
        Self::compile_with(&packs, compile).map(Arc::new)
    }

    fn compile_with(
        packs: &[FailurePackConfig],
        compile: fn(&[PackConfig]) -> Result<Arc<Pack>, SettingsError>,
    ) -> Result<Self, SettingsError> {
        let mut detectors = Vec::new();
        let mut inside: Vec<String> = Vec::new();
        for pack in packs {
            for (index, config) in pack.fields.iter().enumerate() {
                let detector = FieldDetector::new(config).map_err(|error| {
                    let (kind, at, name) = (&config.kind, index + 1, &pack.name);
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
            wanted: wanted.cloned().collect(),
            fields: detectors,
            inside,
            starts: TextDetectors::new(packs, compile, |at| at != TextPlace::End)?,
            ends: TextDetectors::new(packs, compile, |at| at == TextPlace::End)?,
        })
    }

    /// What a result says, nothing where it is an ordinary one.
    pub fn judge(&self, result: &Value<'_>) -> Option<FailureFinding<'_>> {
        self.value(result, 0).filter(|finding| finding.says != Says::Ordinary)
    }

    /// What a text says.
    pub fn judge_text(&self, text: &str) -> Option<FailureFinding<'_>> {
        self.text(text, 0).filter(|finding| finding.says != Says::Ordinary)
    }

    fn value(&self, value: &Value<'_>, depth: usize) -> Option<FailureFinding<'_>> {
        match value {
            Value::String(text) => self.text(text, depth),
            Value::Map(map) => self.object(&ResultFields::of_map(map, &self.wanted), depth),
            Value::List(list) => self.list(list, depth),
            Value::Null | Value::Bool(_) | Value::Number(_) => None,
        }
    }

    fn text(&self, text: &str, depth: usize) -> Option<FailureFinding<'_>> {
        let text = text.trim();
        if depth > ENVELOPE_DEPTH_MAX {
            return None;
        }
        let small = text.len() <= FIELD_BYTES_MAX;
        match text.as_bytes().first()? {
            b'{' if let Some(fields) = ResultFields::of_text(text, &self.wanted) => {
                let found = self.object(&fields, depth);
                // What a shell adds stands behind.
                return found.or_else(|| self.ends.judge(tail(text)));
            }
            b'[' | b'"' if small && let Ok(value) = json::parse(text) => {
                return self.value(&value, depth + 1);
            }
            b'{' | b'[' | b'\'' if small => {
                if let Some(value) = python::parse_literal(text) {
                    return self.value(&value, depth + 1);
                }
            }
            _ => {}
        }
        self.starts.judge(head(text)).or_else(|| self.ends.judge(tail(text)))
    }

    fn object(&self, fields: &ResultFields<'_>, depth: usize) -> Option<FailureFinding<'_>> {
        if let Some(hit) = self.fields.iter().find(|detector| detector.hits(fields)) {
            return Some(FailureFinding {
                says: hit.says,
                kind: &hit.kind,
                category: &hit.category,
            });
        }
        if depth >= ENVELOPE_DEPTH_MAX {
            return None;
        }
        let inner = self.inside.iter().filter_map(|name| fields.get(name));
        inner.filter_map(|value| self.value(value, depth + 1)).next()
    }

    /// A list says what its only entry says; of blocks of content the first that says something, of
    /// other entries what all say.
    fn list(&self, list: &[Value<'_>], depth: usize) -> Option<FailureFinding<'_>> {
        if depth > ENVELOPE_DEPTH_MAX {
            return None;
        }
        let is_block = |value: &Value<'_>| {
            value.as_map().is_some_and(|map: &Map<'_>| {
                map.get("type").is_some_and(|kind| kind.as_str().is_some())
                    && map.get("text").is_some()
            })
        };
        // A word in a list is a value, not what the tool says.
        let is_word = |value: &Value<'_>| {
            value.as_str().is_some_and(|text| !text.trim().contains(char::is_whitespace))
        };
        let mut said = list
            .iter()
            .take(ENTRIES_MAX)
            .map(|value| if is_word(value) { None } else { self.value(value, depth + 1) });
        if list.iter().all(is_block) {
            return said.flatten().next();
        }
        let first = said.next()??;
        (list.len() <= ENTRIES_MAX && said.all(|other| other.is_some())).then_some(first)
    }
}

impl TextDetectors {
    fn new(
        packs: &[FailurePackConfig],
        compile: fn(&[PackConfig]) -> Result<Arc<Pack>, SettingsError>,
        wanted: fn(TextPlace) -> bool,
    ) -> Result<Self, SettingsError> {
        let packs: Vec<PackConfig> = packs
            .iter()
            .map(|pack| PackConfig {
                name: pack.name.clone(),
                expressions: pack.expressions.clone(),
                detectors: pack.texts.iter().filter(|text| wanted(text.at)).map(plain).collect(),
                ..PackConfig::default()
            })
            .collect();
        Ok(Self { pack: compile(&packs)? })
    }

    fn judge(&self, text: &str) -> Option<FailureFinding<'_>> {
        // What is looked at of a result is cut to some kibibytes, so nothing is counted here.
        let scan: Scan = self.pack.scan(text, usize::MAX);
        if scan.is_empty() {
            return None;
        }
        ORDER.into_iter().find_map(|says| {
            let (kind, category) = self.pack.first(&scan, says.as_str())?;
            Some(FailureFinding { says, kind, category })
        })
    }
}

/// A text detector as one of a rule pack, its place put into its expression.
fn plain(config: &TextDetectorConfig) -> DetectorConfig {
    let pattern = &config.pattern;
    let pattern = match config.at {
        TextPlace::Start => format!("^(?:{pattern})"),
        TextPlace::Whole => format!("^(?:{pattern})[\\s.!)\\]}}>\"'`*]{{0,8}}$"),
        TextPlace::Line => format!("(?m:^)[ \\t>#*|]{{0,8}}(?:{pattern})"),
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
        ..DetectorConfig::default()
    }
}

/// Longest announcement of a result, bytes: `Tool result:`.
const LEAD_BYTES_MAX: usize = 32;

/// The beginning of a text, without the signs and the announcements that may stand before it.
fn head(text: &str) -> &str {
    let mut text = text;
    for _ in 0..3 {
        text = without_signs(text);
        let Some(rest) = without_lead(text) else { break };
        text = rest;
    }
    let end = text.floor_char_boundary(HEAD_BYTES_MAX);
    &text[..end]
}

/// A text without quotes, brackets, emoji and the like before its first letter or digit.
fn without_signs(text: &str) -> &str {
    let mut signs = text.char_indices().take(24);
    match signs.find(|(_, c)| c.is_alphanumeric()) {
        Some((at, _)) => &text[at..],
        None => text,
    }
}

/// What stands behind `Tool result:`, `Observation:`, `content=`.
fn without_lead(text: &str) -> Option<&str> {
    let start = &text.as_bytes()[..text.len().min(LEAD_BYTES_MAX)];
    let at = start.iter().position(|byte| matches!(byte, b':' | b'='))?;
    let lead = text.get(..at)?.trim_end().to_ascii_lowercase();
    let word = lead.rsplit(|c: char| !c.is_ascii_alphabetic()).next()?;
    matches!(
        word,
        "result" | "results" | "output" | "response" | "observation" | "content" | "text"
    )
    .then(|| &text[at + 1..])
}

/// The end of a text.
fn tail(text: &str) -> &str {
    let start = text.ceil_char_boundary(text.len().saturating_sub(TAIL_BYTES_MAX));
    &text[start..]
}

#[cfg(test)]
mod tests;
