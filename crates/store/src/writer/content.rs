//! Storable texts of a trace: withheld, redacted, truncated.

use std::borrow::Cow;
use std::sync::Arc;

use spanscore_base::model::{Evaluation, GivenVerdict, Outcome, TraceId};
use spanscore_base::value::{Value, json};

use super::replaced::with_facts;
use crate::counters::{StoreCount, StoreCounters};
use crate::record::RecordedContent;
use crate::rollup::EvaluationFigures;
use crate::settings::{StoreSettings, StoredContent, StoredDetails};
use crate::source::RunSource;

/// Longest explanation or error, bytes.
const TEXT_BYTES_MAX: usize = 8 << 10;
/// Longest details, bytes; longer ones are omitted.
const DETAILS_BYTES_MAX: usize = 64 << 10;
/// Longest title of a run, bytes.
const TITLE_BYTES_MAX: usize = 160;

/// Redacts values of a trace that are shown together; `None` if all may be stored unchanged.
pub type RedactValues =
    Arc<dyn Fn(TraceId, &[&Value<'_>]) -> Option<Vec<Value<'static>>> + Send + Sync>;

/// Storable texts of one evaluation.
#[derive(Debug, Default, PartialEq)]
pub(super) struct StoredTexts {
    pub(super) reason: Option<&'static str>,
    pub(super) explanation: Option<String>,
    pub(super) error: Option<String>,
    pub(super) details: Option<String>,
}

/// Content policy of the store.
pub(crate) struct ContentPolicy {
    pub(super) content: StoredContent,
    details: StoredDetails,
    redact: RedactValues,
    pub(super) counters: Arc<StoreCounters>,
}

impl ContentPolicy {
    pub(crate) fn new(
        settings: &StoreSettings,
        redact: RedactValues,
        counters: Arc<StoreCounters>,
    ) -> Self {
        Self { content: settings.content, details: settings.details, redact, counters }
    }

    /// Returns the texts of an evaluation.
    pub(super) fn texts(&self, it: &Evaluation, figures: &EvaluationFigures) -> StoredTexts {
        let trace = it.target.trace_id;
        match &it.outcome {
            Outcome::Scored(score) => {
                let words: Cow<'_, str> = if self.content == StoredContent::None {
                    score.explanation.without_content()
                } else {
                    Cow::Borrowed(score.explanation.as_str())
                };
                // Omitted details also reveal secrets by their keys.
                let (explanation, details) = self.shown(trace, &words, Some(&score.details));
                let details = details.filter(|_| self.is_kept(&score.details, figures));
                let details = details.map(|details| sized(&details));
                StoredTexts { explanation, details, ..StoredTexts::default() }
            }
            Outcome::NotEvaluable { reason, explanation } => {
                let (explanation, _) = self.shown(trace, self.unless_none(explanation), None);
                let reason = Some(reason.as_str());
                StoredTexts { reason, explanation, ..StoredTexts::default() }
            }
            Outcome::Failed { error_type, error } => {
                let (error, _) = self.shown(trace, self.unless_none(error), None);
                StoredTexts { reason: Some(error_type), error, ..StoredTexts::default() }
            }
        }
    }

    /// Returns the content of a run and its title, the beginning of the input.
    pub(super) fn content(
        &self,
        trace: TraceId,
        content: &RecordedContent,
    ) -> (String, Option<String>) {
        let Ok(read) = json::parse(&content.texts) else {
            self.counters.add(StoreCount::Withheld, 1);
            return ("{}".to_owned(), None);
        };
        let shown = self.redacted(trace, &[&read]).and_then(|mut shown| shown.pop());
        let input = shown.as_ref().unwrap_or(&read).get("input");
        let input = input.and_then(|input| input.get("value"));
        let title = input.map(|input| match input {
            Value::String(text) => title(text),
            other => title(&other.to_string()),
        });
        (with_facts(&read, shown.as_ref(), content), title)
    }

    /// Returns a storable source: an agent's name may hold a person's. All traces share the
    /// redaction names, since agents are compared across traces.
    pub(super) fn source<'s>(&self, source: &'s RunSource) -> Cow<'s, RunSource> {
        let shown = self.redacted(TraceId::default(), &[&Value::from(&*source.agent)]);
        let Some(shown) = shown else { return Cow::Borrowed(source) };
        let agent = shown.first().and_then(Value::as_str).unwrap_or_default();
        Cow::Owned(RunSource { agent: agent.into(), ..source.clone() })
    }

    pub(super) fn redacted(
        &self,
        trace: TraceId,
        values: &[&Value<'_>],
    ) -> Option<Vec<Value<'static>>> {
        let is_redacted = self.content == StoredContent::Redacted;
        if is_redacted { (self.redact)(trace, values) } else { None }
    }

    fn unless_none<'t>(&self, text: &'t str) -> &'t str {
        if self.content == StoredContent::None { "" } else { text }
    }

    fn is_kept(&self, details: &Value<'_>, figures: &EvaluationFigures) -> bool {
        let is_perfect = figures.verdict == GivenVerdict::Pass && figures.is_perfect();
        let is_wanted = self.details == StoredDetails::All || !is_perfect;
        is_wanted && !details.is_null() && self.content != StoredContent::None
    }

    /// Returns storable words and details. They are redacted together: a secret identified by its
    /// key in the details is hidden in the words, too.
    fn shown<'v>(
        &self,
        trace: TraceId,
        words: &str,
        details: Option<&'v Value<'v>>,
    ) -> (Option<String>, Option<Cow<'v, Value<'v>>>) {
        let text = Value::from(words);
        let both: Vec<&Value<'_>> = [Some(&text), details].into_iter().flatten().collect();
        let Some(shown) = self.redacted(trace, &both) else {
            return (cut(words), details.map(Cow::Borrowed));
        };
        let mut shown = shown.into_iter();
        let words = shown.next().as_ref().and_then(Value::as_str).and_then(cut);
        (words, shown.next().map(Cow::Owned))
    }
}

/// Truncates a text to its limit; `None` if it is empty.
fn cut(text: &str) -> Option<String> {
    let end = text.floor_char_boundary(TEXT_BYTES_MAX);
    Some(text[..end].to_owned()).filter(|text| !text.is_empty())
}

/// Returns details as JSON, or the size of those that are too long.
fn sized(details: &Value<'_>) -> String {
    let text = details.to_string();
    match text.len() {
        0..=DETAILS_BYTES_MAX => text,
        bytes => format!(r#"{{"left_out_bytes":{bytes}}}"#),
    }
}

fn title(text: &str) -> String {
    let line = text.trim_start().lines().next().unwrap_or_default();
    line[..line.floor_char_boundary(TITLE_BYTES_MAX)].to_owned()
}
