//! Settings common to all judged kinds.

use schemars::{JsonSchema, Schema};
use serde::Deserialize;
use smart_default::SmartDefault;

use crate::evaluator::CRITERIA_FROM_TRACE;
use crate::inquiry::JudgePlan;
use spanscore_base::settings::{Node, SettingsError, above_zero, joined, keys_of};
pub use spanscore_detect::redactor::Redact;

/// Default of `evidence_tokens`.
const EVIDENCE_TOKENS: u32 = 12_000;
/// Lowest `evidence_tokens`: fewer would hold no record.
const EVIDENCE_TOKENS_MIN: u32 = 500;
/// Limit on the samples of one request.
const SAMPLES_MAX: u32 = 15;

/// Limit on the judges of a jury besides the first.
const JURY_MAX: usize = 6;

/// Settings of every kind that uses a judge.
#[derive(Clone, Debug, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct JudgedSettings {
    /// Name of the judge, a key of `judges:`.
    pub judge: Option<String>,
    /// Names of up to 6 further judges with other models. Each judge has one vote and the majority
    /// decides. `agreement` shows the share of votes that agree with the majority. If two judges
    /// differ, the answer is unsure.
    pub jury: Vec<String>,
    /// Name of a second judge that decides if the first one is unsure.
    pub escalate_to: Option<String>,
    /// Number of times that the judge answers the same request: at least `min`, and up to `max`
    /// while the answer is unsure. The majority decides. Default 1.
    pub samples: Samples,
    /// Data that placeholders replace before a record is sent to the judge: `secrets` (default),
    /// `secrets_and_pii` or `none`.
    pub redact: Redact,
    /// Parts of the trace that are sent to the judge, each with its form.
    pub send: SendSettings,
    /// Handling of a record that tries to influence the judge: `flag` (default) marks the verdict,
    /// `recheck` repeats the request without the suspicious text, `not_evaluable` gives no verdict.
    pub on_injection: OnInjection,
    /// Limit on the tokens of a record, 500 or more. The record marks the places where text was
    /// cut. Default 12000.
    #[serde(deserialize_with = "above_zero")]
    #[default(EVIDENCE_TOKENS)]
    pub evidence_tokens: u32,
    /// True if the criteria come from the trace, so from its sender.
    #[serde(skip)]
    pub(crate) criteria_from_trace: bool,
}

/// Number of answers to the same request.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct Samples {
    /// Number of answers that are always requested. Default 1.
    #[default = 1]
    pub min: u32,
    /// Limit on the number of answers, 15 or less. Default: the value of `min`.
    pub max: Option<u32>,
}

/// Form in which a part of a trace is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Send {
    /// Unchanged, even if `redact` is set.
    Full,
    /// Redacted, as `redact` says.
    #[default]
    Redacted,
    /// Only its name, and that it exists.
    NamesOnly,
}

/// Parts of a trace that are sent.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SendSettings {
    /// Input of the user: `redacted` (default), `full` or `names_only`.
    pub user_input: Send,
    /// System instructions of the agent: `redacted` (default), `full` or `names_only`.
    pub system_instructions: Send,
    /// Descriptions and schemas of the tools: `redacted` (default), `full` or `names_only`.
    pub tool_definitions: Send,
    /// Arguments of the tool calls: `redacted` (default), `full` or `names_only`.
    pub arguments: Send,
    /// Results of the tool calls: `redacted` (default), `full` or `names_only`.
    pub results: Send,
    /// Final output of the agent: `redacted` (default), `full` or `names_only`.
    pub final_output: Send,
}

/// Handling of a record that tries to influence the judge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnInjection {
    /// The verdict stands and is marked.
    #[default]
    Flag,
    /// The request is repeated without the suspicious text. An answer that differs is unsure.
    Recheck,
    /// The trace is not evaluable.
    NotEvaluable,
}

/// Parses the settings of a kind that may ask a judge: the common ones, and the rest with `own`.
pub(crate) fn read<S>(
    node: &Node,
    own: impl FnOnce(&Node) -> Result<S, SettingsError>,
) -> Result<(JudgedSettings, S), SettingsError> {
    let keys = keys_of::<JudgedSettings>();
    let (shared, rest) = node.split(|key| keys.contains(&key));
    let (from_trace, rest) = rest.split(|key| key == CRITERIA_FROM_TRACE);
    let mut settings: JudgedSettings = shared.read()?;
    settings.criteria_from_trace = from_trace.get(CRITERIA_FROM_TRACE).is_some();
    let fault = |key: &str, message: String, help: &str| {
        let place = node.place_of(key);
        Err(SettingsError::new(message).with_help(help).at(place))
    };
    if settings.judge.is_none() {
        let unused = keys.iter().find(|key| node.get(key).is_some());
        if let Some(key) = unused.filter(|key| **key != "judge") {
            return fault(key, format!("`{key}` goes with `judge`"), "name a judge of `judges:`");
        }
    }
    let Samples { min, max } = settings.samples;
    if min == 0 || max.is_some_and(|max| max < min) || min.max(max.unwrap_or(0)) > SAMPLES_MAX {
        let message = format!("`samples` must be 1 to {SAMPLES_MAX}, and `max` not below `min`");
        return fault("samples", message, "write `samples: {min: 1, max: 3}`");
    }
    if let Some((message, help)) = jury_fault(&settings) {
        return fault("jury", message, help);
    }
    if settings.escalate_to.is_some() && settings.escalate_to == settings.judge {
        let message = "`escalate_to` names the judge that was unsure".to_owned();
        return fault("escalate_to", message, "name another judge, of another model");
    }
    if settings.evidence_tokens < EVIDENCE_TOKENS_MIN {
        let message = format!("`evidence_tokens` must be at least {EVIDENCE_TOKENS_MIN}");
        return fault("evidence_tokens", message, "the default is 12000");
    }
    Ok((settings, own(&rest)?))
}

/// Returns the mistake in a jury, with its remedy.
fn jury_fault(settings: &JudgedSettings) -> Option<(String, &'static str)> {
    let jury = &settings.jury;
    if jury.len() > JURY_MAX {
        let message = format!("`jury` names more than {JURY_MAX} judges beside `judge`");
        return Some((message, "more votes change little: name fewer"));
    }
    let seats = settings.judge.iter().chain(jury);
    let twice = jury.iter().find(|name| seats.clone().filter(|seat| seat == name).count() > 1);
    if let Some(name) = twice {
        let message = format!("`{name}` is twice among `judge` and `jury`");
        return Some((message, "name it once; `samples` has one model vote several times"));
    }
    let has_samples = settings.samples.min > 1 || settings.samples.max.is_some_and(|max| max > 1);
    let message = "`samples` does not go with `jury`: each judge has one vote".to_owned();
    (has_samples && !jury.is_empty()).then_some((message, "leave one of them out"))
}

/// Returns the error for a judged kind without a judge.
pub(crate) fn no_judge(node: &Node) -> SettingsError {
    SettingsError::new("`judge` is missing")
        .with_help("name a judge of `judges:`, such as `judge: small`")
        .at(node.place)
}

impl JudgedSettings {
    /// Returns the plan for the dispatcher; `None` without a judge.
    pub(crate) fn plan(&self) -> Option<JudgePlan> {
        let seats = u32::try_from(self.jury.len()).unwrap_or(u32::MAX).saturating_add(1);
        let samples_max = self.samples.max.unwrap_or(self.samples.min);
        Some(JudgePlan {
            judge: self.judge.clone()?,
            jury: self.jury.clone(),
            escalate_to: self.escalate_to.clone(),
            samples_min: self.samples.min.max(seats),
            samples_max: samples_max.max(seats),
            rechecks_injections: self.on_injection == OnInjection::Recheck,
            evidence_tokens: self.evidence_tokens,
        })
    }
}

/// Settings of a kind without settings of its own.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct NoSettings {}

/// Returns the JSON Schema of a judged kind: the shared settings, then its own.
pub(crate) fn schema<S: JsonSchema>() -> Schema {
    let mut schema = schema_with_judge(schemars::schema_for!(S));
    schema.insert("required".to_owned(), vec!["judge"].into());
    let judge = schema.pointer_mut("/properties/judge/type");
    if let Some(judge) = judge {
        *judge = "string".into();
    }
    schema
}

/// Returns the JSON Schema of a kind with an optional judge.
pub(crate) fn schema_with_judge(own: Schema) -> Schema {
    joined(schemars::schema_for!(JudgedSettings), own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanscore_base::value::json;

    fn check(settings: &str, expected: &str) {
        let value = json::parse(settings).unwrap();
        let found = match read(&Node::from_value(&value), |_| Ok(())) {
            Ok((settings, ())) => format!("{:?}", settings.plan().map(|plan| plan.samples_max)),
            Err(error) => error.to_string(),
        };
        assert_eq!(found, expected, "{settings}");
    }

    #[test]
    fn a_mistake_says_what_to_do() {
        check(r#"{"judge":"a","own":1}"#, "Some(1)");
        check(r#"{"judge":"a","samples":{"max":3}}"#, "Some(3)");
        check("{}", "None");
        let samples = "`samples` must be 1 to 15, and `max` not below `min` (write `samples: {min: \
                       1, max: 3}`)";
        check(r#"{"judge":"a","samples":{"min":0}}"#, samples);
        check(r#"{"judge":"a","samples":{"min":3,"max":2}}"#, samples);
        check(r#"{"judge":"a","jury":["b","c"]}"#, "Some(3)");
        let twice = "`a` is twice among `judge` and `jury` (name it once; `samples` has one model \
                     vote several times)";
        check(r#"{"judge":"a","jury":["b","a"]}"#, twice);
        let both = "`samples` does not go with `jury`: each judge has one vote (leave one of them \
                    out)";
        check(r#"{"judge":"a","jury":["b"],"samples":{"min":3}}"#, both);
        check(r#"{"redact":"none"}"#, "`redact` goes with `judge` (name a judge of `judges:`)");
    }
}
