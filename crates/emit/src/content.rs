//! Content filter of an exporter: shows all content, none, or redacts personal data and secrets.
//!
//! A redacted value becomes a placeholder such as `[EMAIL_1]`, the same throughout a trace and for
//! all exporters: readers still see that two calls had the same address. Only hashes of findings
//! are stored, for few traces. Judges use the same redactor ([`spanscore_detect::redactor`]).

use std::borrow::Cow;
use std::hash::BuildHasher;
use std::sync::{Arc, Once};

use parking_lot::Mutex;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};

use super::queue::{EvaluationBatch, size_of_evaluations};
use spanscore_base::model::{Evaluation, Explanation, Outcome, Recent, Score, Target, TraceId};
use spanscore_base::panics::Panicked;
use spanscore_base::settings::meant_or_known;
use spanscore_base::value::{Value, read_scalar};
use spanscore_detect::redactor::{Placeholders, Redactor, UnderKey, WITHHELD, WithheldTexts};
use spanscore_net::blocking::BlockingPool;
use spanscore_net::metrics::CounterBy;

/// Limit on stored placeholders, over all traces.
const NAMES_MAX: usize = 65_536;
/// Limit on numbered placeholders of one trace; further ones have no number.
const TRACE_NAMES_MAX: usize = 1_000;
/// Largest batch rendered on a network thread, if nothing is redacted.
const INLINE_BYTES_MAX: usize = 64 << 10;
/// Limit on text bytes read from one evaluation, over all passes.
const EVALUATION_BYTES_MAX: usize = 256 << 10;
/// Limit on text bytes read from one trace that is shown on this machine.
const TRACE_BYTES_MAX: usize = 16 << 20;

/// Amount of content shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShownContent {
    /// Nothing but tools, counts, rules and settings.
    None,
    /// All but personal data and credentials.
    Redacted,
    /// All.
    Full,
}

impl ShownContent {
    const WORDS: [(&str, Self); 3] =
        [("none", Self::None), ("redacted", Self::Redacted), ("full", Self::Full)];

    /// Parses a word.
    ///
    /// # Errors
    /// An unknown word, with the known ones.
    pub fn from_word(word: &str) -> Result<Self, String> {
        let found = Self::WORDS.iter().find(|(known, _)| *known == word);
        found.map(|(_, content)| *content).ok_or_else(|| {
            let help = meant_or_known(word, &Self::WORDS.map(|(known, _)| known));
            format!("unknown value `{word}` ({help})")
        })
    }

    /// Returns true if any possible content is shown.
    pub fn is_shown(self) -> bool {
        self != Self::None
    }
}

/// Accepts a word, or a value of `include_content`: `true` is `full`, `false` is `none`.
impl<'de> Deserialize<'de> for ShownContent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read_scalar(deserializer, "none, redacted or full", |value| match value {
            Value::Bool(full) => Some(Ok(if *full { Self::Full } else { Self::None })),
            Value::String(word) => Some(Self::from_word(word)),
            _ => None,
        })
    }
}

impl JsonSchema for ShownContent {
    fn schema_name() -> Cow<'static, str> {
        "Content".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Shown part of the content. `true` is `full`, `false` is `none`.",
            "enum": ["none", "redacted", "full", true, false],
        })
    }
}

/// Content filter of one exporter.
#[derive(Clone)]
pub struct ContentFilter {
    /// Redactor shared by all exporters; `None` if nothing is redacted.
    redactor: Option<Arc<ContentRedactor>>,
    /// Counter of withheld texts, by reason.
    withheld: Option<CounterBy>,
    pool: BlockingPool,
}

impl ContentFilter {
    /// Returns the filter of an exporter that shows evaluations redacted.
    pub(super) fn redacting(redactor: &Arc<ContentRedactor>) -> Self {
        Self { redactor: Some(Arc::clone(redactor)), ..Self::nothing() }
    }

    /// Adds an exporter's counter of withheld texts and the shared pool of blocking threads.
    pub(super) fn of_exporter(self, withheld: CounterBy, pool: &BlockingPool) -> Self {
        Self { withheld: Some(withheld), pool: pool.clone(), ..self }
    }

    /// Renders a batch for an exporter, on a blocking thread if it may take long.
    ///
    /// # Errors
    /// A panic of the rendering there.
    pub(super) async fn make<T: Send + 'static>(
        &self,
        batch: &EvaluationBatch,
        make: impl FnOnce(&Self, &EvaluationBatch) -> T + Send + 'static,
    ) -> Result<T, Panicked> {
        let bytes: usize = batch.iter().map(|part| size_of_evaluations(part)).sum();
        if self.redactor.is_none() && bytes <= INLINE_BYTES_MAX {
            return Ok(make(self, batch));
        }
        let own = self.clone();
        let batch = batch.clone();
        self.pool.run(move || make(&own, &batch)).await
    }

    /// Returns a filter without a counter. If all content is hidden, the caller withholds it.
    pub fn of(shown: ShownContent) -> Self {
        match shown {
            ShownContent::Redacted => Self::redacting(&Arc::new(ContentRedactor::new())),
            ShownContent::None | ShownContent::Full => Self::nothing(),
        }
    }

    /// Returns a filter for values of one trace, which share their placeholders.
    pub fn trace(&self, trace: TraceId) -> TraceContent<'_> {
        let redactor = self.redactor.as_ref();
        TraceContent(redactor.map(|redactor| redactor.start(trace, TRACE_BYTES_MAX)))
    }

    /// Returns the filter of an exporter that shows all content or none.
    pub(super) fn nothing() -> Self {
        Self { redactor: None, withheld: None, pool: BlockingPool::default() }
    }

    /// Returns the filtered evaluation; if all content is hidden, the caller must still remove it.
    pub fn apply<'e>(&self, evaluation: &'e Evaluation) -> Cow<'e, Evaluation> {
        match &self.redactor {
            None => Cow::Borrowed(evaluation),
            Some(redactor) => Cow::Owned(self.redacted(redactor, evaluation)),
        }
    }

    /// Returns several filtered evaluations.
    pub(super) fn apply_all<'e>(&self, evaluations: &'e [Evaluation]) -> Cow<'e, [Evaluation]> {
        match &self.redactor {
            None => Cow::Borrowed(evaluations),
            Some(redactor) => evaluations.iter().map(|it| self.redacted(redactor, it)).collect(),
        }
    }

    fn redacted(&self, redactor: &ContentRedactor, evaluation: &Evaluation) -> Evaluation {
        let (shown, withheld) = redactor.redact(evaluation, EVALUATION_BYTES_MAX);
        if let Some(tally) = &self.withheld {
            let reasons = withheld.by_reason().into_iter();
            reasons.filter(|(_, texts)| *texts > 0).for_each(|(reason, texts)| {
                tally.add(reason, texts);
            });
        }
        shown
    }
}

/// Filter for the values of one trace: unchanged or redacted; without detectors no text at all.
pub struct TraceContent<'r>(Option<Option<Redactor<TraceNaming<'r>>>>);

impl TraceContent<'_> {
    /// Learns the secrets in a value, to hide them in all shown values.
    pub fn learn(&mut self, value: &Value<'_>) {
        if let Some(Some(redactor)) = &mut self.0 {
            redactor.learn(value, UnderKey::NONE);
        }
    }

    /// Returns the filtered value.
    pub fn show(&mut self, value: &Value<'_>) -> Value<'static> {
        let mut shown = value.clone().into_owned();
        match &mut self.0 {
            None => {}
            Some(None) => shown = Value::from(WITHHELD),
            Some(Some(redactor)) => redactor.replace(&mut shown, UnderKey::NONE),
        }
        shown
    }

    /// Returns filtered values that are shown together: a secret recognised by its key in one is
    /// hidden in all. `None` if all may be shown unchanged.
    pub fn shown(&mut self, values: &[&Value<'_>]) -> Option<Vec<Value<'static>>> {
        match &mut self.0 {
            None => None,
            Some(None) => Some(vec![Value::from(WITHHELD); values.len()]),
            Some(Some(redactor)) => redactor.redacted(values),
        }
    }

    /// Filters a text and details that are shown together.
    fn show_together(&mut self, text: &str, details: &Value<'_>) -> (String, Value<'static>) {
        let shown = self.shown(&[&Value::from(text), details]);
        let mut shown = shown.into_iter().flatten();
        let text = match shown.next() {
            None => text.to_owned(),
            Some(Value::String(shown)) => shown.into_owned(),
            Some(_) => WITHHELD.to_owned(),
        };
        (text, shown.next().unwrap_or_else(|| details.clone().into_owned()))
    }

    fn text(&mut self, text: &str) -> String {
        self.show_together(text, &Value::Null).0
    }

    fn withheld(&self) -> WithheldTexts {
        let redactor = self.0.as_ref().and_then(Option::as_ref);
        redactor.map(|redactor| redactor.gaps().withheld).unwrap_or_default()
    }
}

/// Redactor of personal data and secrets, with stable placeholders per trace.
pub(crate) struct ContentRedactor {
    /// Guards the single log line about missing detectors.
    has_logged: Once,
    names: Mutex<Recent<TraceId, TraceNames>>,
    hasher: hashbrown::DefaultHashBuilder,
}

/// Placeholders of a trace: hash of the finding, hash of its kind, its number.
#[derive(Default)]
struct TraceNames(Vec<(u64, u64, usize)>);

/// Source of the placeholders of one trace.
struct TraceNaming<'r> {
    redactor: &'r ContentRedactor,
    trace: TraceId,
}

impl Placeholders for TraceNaming<'_> {
    fn placeholder(&mut self, word: &str, value: &str) -> String {
        match self.redactor.number(self.trace, word, value) {
            Some(number) => format!("[{word}_{number}]"),
            None => format!("[{word}]"),
        }
    }
}

impl ContentRedactor {
    pub(super) fn new() -> Self {
        Self {
            has_logged: Once::new(),
            names: Mutex::new(Recent::new(NAMES_MAX)),
            hasher: hashbrown::DefaultHashBuilder::default(),
        }
    }

    /// Starts the redaction of values of a trace that are shown together.
    fn start(&self, trace: TraceId, bytes_max: usize) -> Option<Redactor<TraceNaming<'_>>> {
        let redactor = Redactor::for_display(TraceNaming { redactor: self, trace }, bytes_max);
        if let Err(error) = &redactor {
            self.has_logged.call_once(|| {
                tracing::error!(%error, "nothing can be redacted, so no content is shown");
            });
        }
        redactor.ok()
    }

    fn redact(&self, evaluation: &Evaluation, bytes_max: usize) -> (Evaluation, WithheldTexts) {
        let mut content = TraceContent(Some(self.start(evaluation.target.trace_id, bytes_max)));
        let outcome = match &evaluation.outcome {
            Outcome::Scored(score) => {
                // The explanation may quote a value whose key is only in the details.
                let (text, details) =
                    content.show_together(score.explanation.as_str(), &score.details);
                // All parts are marked as plain now, since the rest is redacted.
                let explanation = Explanation::plain(text);
                Outcome::Scored(Score {
                    explanation,
                    details,
                    value: score.value,
                    label: score.label,
                })
            }
            Outcome::NotEvaluable { reason, explanation } => {
                Outcome::NotEvaluable { reason: *reason, explanation: content.text(explanation) }
            }
            Outcome::Failed { error_type, error } => {
                Outcome::Failed { error_type, error: content.text(error) }
            }
        };
        let mut shown = Evaluation { outcome, ..evaluation.clone() };
        if let Some(name) = &evaluation.target.agent_name {
            let name_shown = content.text(name);
            if name_shown != **name {
                let agent_name = Some(name_shown.into());
                shown.target = Arc::new(Target { agent_name, ..(*evaluation.target).clone() });
            }
        }
        (shown, content.withheld())
    }

    /// Returns the number of a value among the trace's values of its kind.
    fn number(&self, trace: TraceId, word: &str, value: &str) -> Option<usize> {
        let data = self.hasher.hash_one(value.trim());
        let kind = self.hasher.hash_one(word);
        let mut names = self.names.lock();
        let mut known = names.get(&trace).map(std::mem::take).unwrap_or_default();
        let number = known.number(data, kind);
        let weight = known.0.len().max(1);
        names.keep(trace, known, weight);
        number
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
    use crate::sample;
    use spanscore_base::value::json;

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
        let filter = ContentFilter::redacting(&Arc::new(redactor));
        let Outcome::Scored(score) = filter.apply(&first).into_owned().outcome else {
            panic!("a score")
        };
        assert_eq!(&*score.explanation, "mailed [EMAIL_1], not [EMAIL_2]");
        assert_eq!(score.explanation.without_content(), &*score.explanation);
        let details = score.details.to_string();
        assert!(details.contains(r#""to":["[EMAIL_2]"]"#), "{details}");
        assert!(details.contains(r#""[EMAIL_1]":true"#), "{details}");
        assert!(!details.contains("4539"), "{details}");
        let again = scored("joe@acme-post.net", "{}");
        let Outcome::Scored(again) = filter.apply(&again).into_owned().outcome else {
            panic!("a score")
        };
        assert_eq!(&*again.explanation, "[EMAIL_2]");
    }

    #[test]
    fn values_of_keys_and_names_of_agents_are_hidden_in_all_parts() {
        let details = r#"{"password": "swordfish", "body": "{\"api_key\": \"Zx81\"}", "n": 3}"#;
        let mut evaluation = scored("got swordfish, wanted nothing", details);
        let target = (*evaluation.target).clone();
        let agent_name = Some("agent of jane@acme-post.net, password=swordfish".into());
        evaluation.target = Arc::new(Target { agent_name, ..target });
        let filter = ContentFilter::redacting(&Arc::new(ContentRedactor::new()));
        let shown = filter.apply(&evaluation).into_owned();
        let name = shown.target.agent_name.clone();
        assert_eq!(name.as_deref(), Some("agent of [EMAIL_1], password=[SECRET_1]"));
        let Outcome::Scored(score) = shown.outcome else { panic!("a score") };
        assert_eq!(&*score.explanation, "got [SECRET_1], wanted nothing");
        let hidden = r#"{"password":"[SECRET_1]","body":"{\"api_key\":\"[SECRET_2]\"}","n":3}"#;
        assert_eq!(score.details.to_string(), hidden);
        let error = "swordfish was refused, password=swordfish".into();
        evaluation.outcome = Outcome::Failed { error_type: "login", error };
        let Outcome::Failed { error, .. } = filter.apply(&evaluation).into_owned().outcome else {
            panic!("an error")
        };
        assert_eq!(&*error, "[SECRET_1] was refused, password=[SECRET_1]");
    }

    #[test]
    fn what_redaction_may_not_read_of_an_evaluation_is_withheld() {
        let text: String = (0..250).map(|n| format!("ab{n}cd@foobar.com ")).collect();
        let entry = format!(r#"{{"actual": "{text}", "name": "find"}}"#);
        let evaluation = scored("as expected", &format!("[{}]", vec![entry; 64].join(",")));
        let redactor = ContentRedactor::new();
        let (shown, withheld) = redactor.redact(&evaluation, EVALUATION_BYTES_MAX);
        let Outcome::Scored(score) = shown.outcome else { panic!("a score") };
        let actual = score.details.as_list().unwrap().iter();
        let actual: Vec<_> = actual.map(|it| it.get("actual").cloned()).collect();
        assert!(actual[0].as_ref().is_some_and(|it| it.to_string().contains("[EMAIL_250]")));
        assert!(actual[63].as_ref().is_none_or(|it| *it == Value::from(WITHHELD)));
        assert!(withheld.steps > 0 && !score.details.to_string().contains('@'));
    }

    #[tokio::test]
    async fn what_may_take_long_is_made_beside_the_threads_of_the_network() {
        let here = std::thread::current().id();
        let thread = |_: &ContentFilter, _: &EvaluationBatch| std::thread::current().id();
        let redacting = ContentFilter::redacting(&Arc::new(ContentRedactor::new()));
        let small = || vec![[scored("short", "{}")].into()];
        let large = vec![[scored(&"long".repeat(INLINE_BYTES_MAX), "{}")].into()];
        let nothing = ContentFilter::nothing();
        assert_eq!(nothing.make(&small(), thread).await.unwrap(), here);
        assert_ne!(nothing.make(&large, thread).await.unwrap(), here);
        assert_ne!(redacting.make(&small(), thread).await.unwrap(), here);
    }

    #[test]
    fn words_and_truth_values_say_how_much() {
        let read = |text: &str| {
            let node = spanscore_base::settings::Node::from_value(&json::parse(text).unwrap());
            node.read::<ShownContent>().map_err(|error| error.to_string())
        };
        assert_eq!(read(r#""redacted""#), Ok(ShownContent::Redacted));
        assert_eq!(read("true"), Ok(ShownContent::Full));
        assert_eq!(read("false"), Ok(ShownContent::None));
        let help = "unknown value `redact` (did you mean `redacted`?)";
        assert_eq!(read(r#""redact""#), Err(help.to_owned()));
    }
}
