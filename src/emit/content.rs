//! How much of what may be content an exporter shows: all, none, or without personal data and
//! credentials.
//!
//! Redacted, each thing that a detector finds has a name such as `[EMAIL_1]`, the same throughout a
//! trace and for every exporter, so that a reader can still see that two calls had the same
//! address. Of what was found only hashes are kept, of few traces.

use std::borrow::Cow;
use std::fmt;
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, PoisonError};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};

use crate::detect::redact::{Redaction, UNREAD};
use crate::model::{Evaluation, Explanation, Outcome, Recent, Score, TraceId};
use crate::settings::nearest;
use crate::value::{Map, Value};

/// Names that are remembered, over all traces.
const NAMES_MAX: usize = 65_536;
/// Names of one trace; more have no number.
const TRACE_NAMES_MAX: usize = 1_000;
/// Deepest details that are looked at; what lies deeper is not shown.
const DEPTH_MAX: usize = 64;

/// How much of what may be content is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShownContent {
    /// Nothing: tools, counts, rules and settings alone.
    None,
    /// All but personal data and credentials.
    Redacted,
    /// All.
    Full,
}

impl ShownContent {
    const WORDS: [(&str, Self); 3] =
        [("none", Self::None), ("redacted", Self::Redacted), ("full", Self::Full)];

    /// What a word stands for.
    ///
    /// # Errors
    /// What is wrong with the word, and which are known.
    pub(crate) fn from_word(word: &str) -> Result<Self, String> {
        let found = Self::WORDS.iter().find(|(known, _)| *known == word);
        found.map(|(_, content)| *content).ok_or_else(|| {
            let help = match nearest(word, Self::WORDS.iter().map(|(known, _)| *known)) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => "known are none, redacted, full".to_owned(),
            };
            format!("unknown value `{word}` ({help})")
        })
    }

    /// Whether anything that may be content is shown.
    pub(crate) fn is_shown(self) -> bool {
        self != Self::None
    }
}

/// Of a word, or of what `include_content` takes: `true` is `full`, `false` is `none`.
impl<'de> Deserialize<'de> for ShownContent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ContentWords;
        impl Visitor<'_> for ContentWords {
            type Value = ShownContent;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("none, redacted or full")
            }

            fn visit_bool<E: Error>(self, full: bool) -> Result<ShownContent, E> {
                Ok(if full { ShownContent::Full } else { ShownContent::None })
            }

            fn visit_str<E: Error>(self, word: &str) -> Result<ShownContent, E> {
                ShownContent::from_word(word).map_err(E::custom)
            }
        }
        deserializer.deserialize_any(ContentWords)
    }
}

impl JsonSchema for ShownContent {
    fn schema_name() -> Cow<'static, str> {
        "Content".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "How much of what may be content is shown; true is full, false is none.",
            "enum": ["none", "redacted", "full", true, false],
        })
    }
}

/// Makes evaluations fit to be shown by an exporter.
#[derive(Clone)]
pub(crate) struct ContentFilter {
    /// Not there where nothing is redacted.
    redactor: Option<Arc<ContentRedactor>>,
}

impl ContentFilter {
    /// Of an exporter that shows evaluations redacted.
    pub(super) fn redacting(redactor: &Arc<ContentRedactor>) -> Self {
        Self { redactor: Some(Arc::clone(redactor)) }
    }

    /// For readers that are shown so much; what is content as a whole they withhold themselves.
    pub(crate) fn of(shown: ShownContent) -> Self {
        match shown {
            ShownContent::Redacted => Self::redacting(&Arc::new(ContentRedactor::new())),
            ShownContent::None | ShownContent::Full => Self::nothing(),
        }
    }

    /// A value of a trace as it may be shown.
    pub(crate) fn value(&self, trace: TraceId, value: &Value<'_>) -> Value<'static> {
        match &self.redactor {
            None => value.clone().into_owned(),
            Some(redactor) => redactor.value(trace, value, DEPTH_MAX),
        }
    }

    /// Of an exporter that shows all content or none.
    pub(super) fn nothing() -> Self {
        Self { redactor: None }
    }

    /// An evaluation as it may be shown, apart from what is content as a whole.
    pub(crate) fn apply<'e>(&self, evaluation: &'e Evaluation) -> Cow<'e, Evaluation> {
        match &self.redactor {
            None => Cow::Borrowed(evaluation),
            Some(redactor) => Cow::Owned(redactor.redact(evaluation)),
        }
    }

    /// The same of several.
    pub(super) fn apply_all<'e>(&self, evaluations: &'e [Evaluation]) -> Cow<'e, [Evaluation]> {
        match &self.redactor {
            None => Cow::Borrowed(evaluations),
            Some(redactor) => evaluations.iter().map(|it| redactor.redact(it)).collect(),
        }
    }
}

/// Replaces personal data and credentials.
pub(crate) struct ContentRedactor {
    /// Without it nothing that may be content is shown.
    detectors: Option<Redaction>,
    names: Mutex<Recent<TraceId, TraceNames>>,
    hasher: hashbrown::DefaultHashBuilder,
}

/// The names of a trace: a hash of the data, its kind, its number.
#[derive(Default)]
struct TraceNames(Vec<(u64, u64, usize)>);

impl ContentRedactor {
    pub(super) fn new() -> Self {
        let detectors = Redaction::new();
        if let Err(error) = &detectors {
            tracing::error!(%error, "nothing can be redacted, so no content is shown");
        }
        Self {
            detectors: detectors.ok(),
            names: Mutex::new(Recent::new(NAMES_MAX)),
            hasher: hashbrown::DefaultHashBuilder::default(),
        }
    }

    fn redact(&self, evaluation: &Evaluation) -> Evaluation {
        let trace = evaluation.target.trace_id;
        let outcome = match &evaluation.outcome {
            Outcome::Scored(score) => Outcome::Scored(Score {
                explanation: self.explanation(trace, &score.explanation),
                details: self.value(trace, &score.details, DEPTH_MAX),
                ..score.clone()
            }),
            Outcome::NotEvaluable { reason, explanation } => {
                let explanation = self.text(trace, explanation);
                Outcome::NotEvaluable { reason: *reason, explanation }
            }
            Outcome::Failed { error_type, error } => {
                Outcome::Failed { error_type, error: self.text(trace, error) }
            }
        };
        Evaluation { outcome, ..evaluation.clone() }
    }

    /// Redacted, nothing of it is hidden: what is marked as content may be shown.
    fn explanation(&self, trace: TraceId, explanation: &Explanation) -> Explanation {
        Explanation::plain(self.text(trace, explanation.as_str()))
    }

    fn value(&self, trace: TraceId, value: &Value<'_>, depth: usize) -> Value<'static> {
        let Some(below) = depth.checked_sub(1) else { return Value::from(UNREAD) };
        match value {
            Value::String(text) => Value::from(self.text(trace, text)),
            Value::List(items) => {
                Value::List(items.iter().map(|item| self.value(trace, item, below)).collect())
            }
            Value::Map(map) => Value::Map(
                map.iter()
                    .map(|(key, value)| (self.text(trace, key), self.value(trace, value, below)))
                    .collect::<Map<'_>>(),
            ),
            // A card's number may come as a number.
            Value::Number(number) => {
                let text = number.to_string();
                let shown = self.text(trace, &text);
                if shown == text { value.clone().into_owned() } else { Value::from(shown) }
            }
            Value::Null | Value::Bool(_) => value.clone().into_owned(),
        }
    }

    fn text(&self, trace: TraceId, text: &str) -> String {
        let Some(detectors) = &self.detectors else { return UNREAD.to_owned() };
        detectors.apply(text, |kind, found| self.name(trace, kind, found)).into_owned()
    }

    /// The name of what was found: its kind, and its number among those of the kind in the trace.
    fn name(&self, trace: TraceId, kind: &str, found: &str) -> String {
        let word = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
        let word: String = kind.chars().map(word).collect();
        let (data, kind) = (self.hasher.hash_one(found.trim()), self.hasher.hash_one(kind));
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let mut known = names.get(&trace).map(std::mem::take).unwrap_or_default();
        let number = known.number(data, kind);
        let weight = known.0.len().max(1);
        names.keep(trace, known, weight);
        match number {
            Some(number) => format!("[{word}_{number}]"),
            None => format!("[{word}]"),
        }
    }
}

impl TraceNames {
    fn number(&mut self, data: u64, kind: u64) -> Option<usize> {
        let of_kind = || self.0.iter().filter(|(_, known, _)| *known == kind);
        if let Some((_, _, number)) = of_kind().find(|(known, ..)| *known == data) {
            return Some(*number);
        }
        if self.0.len() >= TRACE_NAMES_MAX {
            return None;
        }
        let number = of_kind().count() + 1;
        self.0.push((data, kind, number));
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emit::sample;
    use crate::value::json;

    fn scored(explanation: &str, details: &str) -> Evaluation {
        let mut evaluation = sample::scored(0.5);
        evaluation.outcome = Outcome::Scored(Score {
            value: 0.5,
            explanation: Explanation::content(explanation),
            details: json::parse(details).unwrap().into_owned(),
            label: None,
        });
        evaluation
    }

    #[test]
    fn one_thing_has_one_name_throughout_a_trace() {
        let redactor = ContentRedactor::new();
        let details = concat!(
            r#"{"to": ["joe@acme-post.net"], "card": 4539578763621486, "#,
            r#""jane@acme-post.net": true}"#,
        );
        let first = scored("mailed jane@acme-post.net, not joe@acme-post.net", details);
        let Outcome::Scored(score) = redactor.redact(&first).outcome else { panic!("a score") };
        assert_eq!(&*score.explanation, "mailed [EMAIL_1], not [EMAIL_2]");
        assert_eq!(score.explanation.without_content(), &*score.explanation);
        let details = score.details.to_string();
        assert!(details.contains(r#""to":["[EMAIL_2]"]"#), "{details}");
        assert!(details.contains(r#""[EMAIL_1]":true"#), "{details}");
        assert!(!details.contains("4539"), "{details}");
        let Outcome::Scored(again) = redactor.redact(&scored("joe@acme-post.net", "{}")).outcome
        else {
            panic!("a score")
        };
        assert_eq!(&*again.explanation, "[EMAIL_2]");
    }

    #[test]
    fn words_and_truth_values_say_how_much() {
        let read = |text: &str| {
            let node = crate::settings::Node::from_value(&json::parse(text).unwrap());
            node.read::<ShownContent>().map_err(|error| error.to_string())
        };
        assert_eq!(read(r#""redacted""#), Ok(ShownContent::Redacted));
        assert_eq!(read("true"), Ok(ShownContent::Full));
        assert_eq!(read("false"), Ok(ShownContent::None));
        let help = "unknown value `redact` (did you mean `redacted`?)";
        assert_eq!(read(r#""redact""#), Err(help.to_owned()));
    }
}
