//! Texts of a trace as they may be stored: withheld, redacted, cut.

use std::borrow::Cow;
use std::sync::Arc;

use spanscore_base::model::{Evaluation, GivenVerdict, Outcome, TraceId};
use spanscore_base::value::{Value, json};

use crate::counters::{StoreCount, StoreCounters};
use crate::rollup::EvaluationFigures;
use crate::settings::{StoreSettings, StoredContent, StoredDetails};

/// Longest explanation or error, bytes.
const TEXT_BYTES_MAX: usize = 8 << 10;
/// Longest details, bytes; longer ones are left out.
const DETAILS_BYTES_MAX: usize = 64 << 10;
/// Longest title of a run, bytes.
const TITLE_BYTES_MAX: usize = 160;

/// Replaces secrets and personal data in a value of a trace.
pub type RedactValue = Arc<dyn Fn(TraceId, &Value<'_>) -> Value<'static> + Send + Sync>;

/// Texts of one evaluation as they are stored.
#[derive(Debug, Default, PartialEq)]
pub(super) struct StoredTexts {
    pub(super) reason: Option<&'static str>,
    pub(super) explanation: Option<String>,
    pub(super) error: Option<String>,
    pub(super) details: Option<String>,
}

/// Content policy of the store.
pub(crate) struct ContentPolicy {
    content: StoredContent,
    details: StoredDetails,
    redact: RedactValue,
    counters: Arc<StoreCounters>,
}

impl ContentPolicy {
    pub(crate) fn new(
        settings: &StoreSettings,
        redact: RedactValue,
        counters: Arc<StoreCounters>,
    ) -> Self {
        Self { content: settings.content, details: settings.details, redact, counters }
    }

    /// Returns the texts of an evaluation.
    pub(super) fn texts(&self, it: &Evaluation, figures: &EvaluationFigures) -> StoredTexts {
        let trace = it.target.trace_id;
        let mut texts = StoredTexts::default();
        match &it.outcome {
            Outcome::Scored(score) => {
                let words: Cow<'_, str> = if self.content == StoredContent::None {
                    score.explanation.without_content()
                } else {
                    Cow::Borrowed(score.explanation.as_str())
                };
                texts.explanation = self.text(trace, &words);
                texts.details = self.details(trace, &score.details, figures);
            }
            Outcome::NotEvaluable { reason, explanation } => {
                texts.reason = Some(reason.as_str());
                texts.explanation = self.text(trace, self.shown(explanation));
            }
            Outcome::Failed { error_type, error } => {
                texts.reason = Some(error_type);
                texts.error = self.text(trace, self.shown(error));
            }
        }
        texts
    }

    /// Returns the content of a run, and its title: the beginning of the input.
    pub(super) fn content(&self, trace: TraceId, content: &str) -> (String, Option<String>) {
        let Ok(read) = json::parse(content) else {
            self.counters.add(StoreCount::Withheld, 1);
            return ("{}".to_owned(), None);
        };
        let shown = match self.content {
            StoredContent::Redacted => Cow::Owned((self.redact)(trace, &read)),
            _ => Cow::Borrowed(&read),
        };
        let input = shown.get("input").and_then(|input| input.get("value"));
        let title = input.map(|input| match input {
            Value::String(text) => title(text),
            other => title(&other.to_string()),
        });
        (shown.to_string(), title)
    }

    fn shown<'t>(&self, text: &'t str) -> &'t str {
        if self.content == StoredContent::None { "" } else { text }
    }

    fn text(&self, trace: TraceId, text: &str) -> Option<String> {
        if text.is_empty() {
            return None;
        }
        let mut text = match self.content {
            StoredContent::Redacted => match (self.redact)(trace, &Value::from(text)) {
                Value::String(text) => text.into_owned(),
                other => other.to_string(),
            },
            StoredContent::None | StoredContent::Full => text.to_owned(),
        };
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
        Some(text)
    }

    fn details(
        &self,
        trace: TraceId,
        details: &Value<'_>,
        figures: &EvaluationFigures,
    ) -> Option<String> {
        let is_left_out = self.details == StoredDetails::Imperfect
            && figures.verdict == GivenVerdict::Pass
            && figures.is_perfect();
        if is_left_out || details.is_null() || self.content == StoredContent::None {
            return None;
        }
        let text = match self.content {
            StoredContent::Redacted => (self.redact)(trace, details).to_string(),
            _ => details.to_string(),
        };
        let bytes = text.len();
        Some(if bytes > DETAILS_BYTES_MAX {
            format!(r#"{{"left_out_bytes":{bytes}}}"#)
        } else {
            text
        })
    }
}

fn title(text: &str) -> String {
    let line = text.trim_start().lines().next().unwrap_or_default();
    line[..line.floor_char_boundary(TITLE_BYTES_MAX)].to_owned()
}
