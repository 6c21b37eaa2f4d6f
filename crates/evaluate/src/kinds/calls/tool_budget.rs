//! `tool_budget`: limits on the calls, time, tokens and money of a run.
//!
//! A model call is a span with token counts.
//!
//! Scores 1 within all limits and 0 otherwise. A limit on an unrecorded quantity makes the run not
//! evaluable, unless another limit is already exceeded.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::evaluator::{CodeEvaluator, Early, Evaluator, Kind};
use crate::shared::failure::{FailureRules, FailureSettings};
use crate::shared::{expected_calls, report};
use spanscore_base::model::{Explanation, Facts, Outcome, Reason, ToolCall, Trajectory, Want};
use spanscore_base::settings::{HumanDuration, Node, SettingsError};
use spanscore_base::tally::tally;
use spanscore_base::value::{Map, Value};

/// Registry entry of `tool_budget`.
pub static KIND: Kind = Kind {
    name: "tool_budget",
    about: "Checks the run against limits: number of tool calls, their latency, total time, model \
            calls, tokens and cost.",
    also_known_as: &[
        ("trajectory:step-count", "Promptfoo"),
        ("MaxToolCalls", "Pydantic Evals"),
        ("MaxModelRequests", "Pydantic Evals"),
        ("tool_call_count_v1", "Agent Development Kit"),
        ("inference_call_count_v1", "Agent Development Kit"),
        ("token_usage_v1", "Agent Development Kit"),
        ("latency", "Promptfoo"),
        ("cost", "Promptfoo"),
        ("MaxDuration", "Pydantic Evals"),
    ],
    early: true,
    schema: || schemars::schema_for!(Settings),
    build,
    example: "\
tool_budget:
  max_calls: 20
  max_latency: 5s
  latency_percentile: 95
  max_total_tokens: 50000
  max_cost_usd: 0.25
",
    ..Kind::PLAIN
};

/// Settings of `tool_budget`. At least one limit is required.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    /// Limit on the number of tool calls.
    max_calls: Option<usize>,
    /// Limit on the number of calls of single tools, such as `{search: 5}`.
    max_calls_per_tool: BTreeMap<String, usize>,
    /// Leaves failed calls out of the count. Default `false`.
    exclude_failed: bool,
    /// Rules that recognise failed calls, in addition to the built-in table.
    failures: FailureSettings,
    /// Limit on the duration of a tool call.
    max_latency: Option<HumanDuration>,
    /// Share of the tool calls, in percent, that must stay within `max_latency`: with 95, one call
    /// in twenty may be slower. Default 100.
    #[schemars(extend("exclusiveMinimum" = 0, "maximum" = 100))]
    latency_percentile: Option<f64>,
    /// Limit on the duration of the run, from its first to its last span.
    max_duration: Option<HumanDuration>,
    /// Limit on the number of model calls. A model call is a span that records tokens.
    max_model_calls: Option<u64>,
    /// Limit on the input tokens of all model calls.
    max_input_tokens: Option<u64>,
    /// Limit on the output tokens of all model calls.
    max_output_tokens: Option<u64>,
    /// Limit on the input and output tokens of all model calls.
    max_total_tokens: Option<u64>,
    /// Limit on the cost in US dollars, as recorded in the spans.
    max_cost_usd: Option<f64>,
}

struct Budget {
    settings: Settings,
    /// Rules that identify failed calls, if these do not count.
    exclude_failed: Option<FailureRules>,
}

fn build(node: &Node) -> Result<Evaluator, SettingsError> {
    let settings: Settings = node.read()?;
    let percentile = settings.latency_percentile;
    if percentile.is_some_and(|percent| !(percent > 0.0 && percent <= 100.0)) {
        return Err(SettingsError::new("`latency_percentile` must be above 0 and at most 100"));
    }
    if percentile.is_some() && settings.max_latency.is_none() {
        return Err(SettingsError::new("`latency_percentile` goes only with `max_latency`"));
    }
    let exclude_failed =
        FailureRules::excluding(settings.exclude_failed, &settings.failures, false)?;
    let budget = Budget { settings, exclude_failed };
    let nothing = Trajectory::default();
    if budget.limits(&nothing).is_empty() && budget.settings.max_calls_per_tool.is_empty() {
        return Err(SettingsError::new("the budget has no limit").with_help(
            "give max_calls, max_latency, max_duration, max_model_calls, max_total_tokens or \
             max_cost_usd",
        ));
    }
    Ok(Evaluator::code(budget))
}

/// Limit and the amount used.
struct Limit {
    name: &'static str,
    /// Tool that it applies to, if not all.
    tool: Option<String>,
    used: Option<f64>,
    most: f64,
}

impl Limit {
    fn new(name: &'static str, used: Option<f64>, most: f64) -> Self {
        Self { name, tool: None, used, most }
    }

    fn is_broken(&self) -> bool {
        self.used.is_some_and(|used| used > self.most)
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

impl Budget {
    /// Collects the configured limits, except per-tool ones.
    fn limits(&self, trajectory: &Trajectory<'_>) -> Vec<Limit> {
        let Settings { max_calls, max_latency, max_duration, .. } = self.settings;
        let usage = &trajectory.usage;
        let total = match (usage.input_tokens, usage.output_tokens) {
            (None, None) => None,
            (input, output) => Some(input.unwrap_or(0).saturating_add(output.unwrap_or(0))),
        };
        let count = |used: Option<u64>| used.map(|count| count as f64);
        let limit = |name, used, most: Option<f64>| most.map(|most| Limit::new(name, used, most));
        let most = |most: Option<u64>| most.map(|count| count as f64);
        let duration =
            trajectory.end_ns.checked_sub(trajectory.start_ns).filter(|_| trajectory.end_ns > 0);
        [
            max_calls.map(|most| {
                let used = self.counted(trajectory).len();
                Limit::new("calls", Some(used as f64), most as f64)
            }),
            max_latency.map(|most| {
                let used = self.latency(&trajectory.tool_calls);
                Limit::new("latency_s", used, seconds(most.as_ns()))
            }),
            max_duration
                .map(|most| Limit::new("duration_s", duration.map(seconds), seconds(most.as_ns()))),
            limit("model_calls", count(usage.model_calls), most(self.settings.max_model_calls)),
            limit("input_tokens", count(usage.input_tokens), most(self.settings.max_input_tokens)),
            limit(
                "output_tokens",
                count(usage.output_tokens),
                most(self.settings.max_output_tokens),
            ),
            limit("total_tokens", count(total), most(self.settings.max_total_tokens)),
            limit("cost_usd", trajectory.cost, self.settings.max_cost_usd),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// Returns the latency at the configured percentile (nearest rank), seconds; 0 without calls,
    /// `None` if a call has no end.
    fn latency(&self, calls: &[ToolCall<'_>]) -> Option<f64> {
        let took = |call: &ToolCall<'_>| call.end_ns.checked_sub(call.start_ns);
        let mut all: Vec<u64> = calls.iter().map(took).collect::<Option<_>>()?;
        all.sort_unstable();
        let percent = self.settings.latency_percentile.unwrap_or(100.0);
        let rank = (percent / 100.0 * all.len() as f64).ceil() as usize;
        Some(rank.checked_sub(1).and_then(|rank| all.get(rank)).map_or(0.0, |ns| seconds(*ns)))
    }

    /// Returns the calls that count.
    fn counted<'t, 'a>(&self, trajectory: &'t Trajectory<'a>) -> Vec<&'t ToolCall<'a>> {
        let Trajectory { tool_calls, effort, .. } = trajectory;
        expected_calls::counted(tool_calls, self.exclude_failed.as_ref(), effort)
    }

    fn limits_of_tools(&self, trajectory: &Trajectory<'_>) -> Vec<Limit> {
        let used = tally(self.counted(trajectory).into_iter().map(|call| &*call.name));
        let limit = |(tool, most): (&String, &usize)| {
            let used = used.get(tool.as_str()).copied().unwrap_or(0);
            let tool = Some(tool.clone());
            Limit { name: "calls", tool, used: Some(used as f64), most: *most as f64 }
        };
        self.settings.max_calls_per_tool.iter().map(limit).collect()
    }
}

impl CodeEvaluator for Budget {
    fn facts(&self) -> Facts {
        let Settings { max_model_calls, max_input_tokens, max_output_tokens, .. } = self.settings;
        let counts =
            [max_model_calls, max_input_tokens, max_output_tokens, self.settings.max_total_tokens];
        Facts {
            usage: counts.iter().any(Option::is_some) || self.settings.max_cost_usd.is_some(),
            results: self.settings.exclude_failed,
            ..Facts::default()
        }
    }

    fn evaluate(&self, trajectory: &Trajectory<'_>, want: Want) -> Outcome {
        let mut limits = self.limits(trajectory);
        if !self.settings.max_calls_per_tool.is_empty() {
            limits.extend(self.limits_of_tools(trajectory));
        }
        let broken = limits.iter().find(|limit| limit.is_broken());
        let unknown = limits.iter().find(|limit| limit.used.is_none());
        if let (None, Some(unknown)) = (broken, unknown) {
            let reason = match unknown.name {
                "latency_s" | "duration_s" => Reason::InsufficientData,
                _ => Reason::UsageNotRecorded,
            };
            return report::not_evaluable(reason, want, || {
                format!("{} is not recorded", unknown.name)
            });
        }
        answer(&limits, want)
    }

    /// Judges by irreversibly exceeded limits. Calls that may still turn out to have failed do not
    /// count, nor does a latency that some calls may exceed.
    fn early(&self, trajectory: &Trajectory<'_>, want: Want) -> Option<Early> {
        let settings = &self.settings;
        let calls = &trajectory.tool_calls[..];
        let took = |call: &ToolCall<'_>| call.end_ns.checked_sub(call.start_ns);
        let slowest = calls.iter().filter_map(took).max().map(seconds);
        let mut limits = self.limits(trajectory);
        limits.extend(self.limits_of_tools(trajectory));
        limits.retain_mut(|limit| match limit.name {
            "calls" => !settings.exclude_failed,
            "latency_s" => {
                limit.used = slowest;
                settings.latency_percentile.is_none_or(|percent| percent >= 100.0)
            }
            _ => true,
        });
        limits.retain(Limit::is_broken);
        (!limits.is_empty()).then(|| Early { outcome: answer(&limits, want), best: 0.0 })
    }
}

/// Returns the outcome if all quantities that decide it are known.
fn answer(limits: &[Limit], want: Want) -> Outcome {
    let broken = || limits.iter().filter(|limit| limit.is_broken());
    let explain = || {
        let count = broken().count();
        let plural = if limits.len() == 1 { "limit" } else { "limits" };
        let of = limits.len();
        if count == 0 {
            return Explanation::plain(format!("within {of} {plural}"));
        }
        let sentence = |Limit { name, tool, used, most }: &Limit| {
            let tool = tool.as_ref().map(|tool| format!(" of {tool}")).unwrap_or_default();
            format!("{name}{tool}: {} of at most {most}", used.unwrap_or_default())
        };
        if let (1, Some(limit)) = (count, broken().next()) {
            return Explanation::plain(sentence(limit));
        }
        let mut words = Explanation::plain(format!("{count} of {of} {plural} exceeded"));
        report::few(&mut words, broken(), |words, limit| words.push(&sentence(limit)));
        words
    };
    let details = || {
        let entry = |limit: &Limit| {
            Value::Map(Map::from([
                ("name", Value::from(limit.name)),
                ("tool", limit.tool.clone().into()),
                ("used", limit.used.into()),
                ("most", Value::from(limit.most)),
            ]))
        };
        let list = Value::List(limits.iter().map(entry).collect());
        Map::from([("limits", list)])
    };
    report::scored(f64::from(u8::from(broken().next().is_none())), want, explain, details)
}
