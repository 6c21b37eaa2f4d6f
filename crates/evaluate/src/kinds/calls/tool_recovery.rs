//! `tool_recovery`: the share of failed calls to which the agent reacted sensibly.
//!
//! After a failed call the next one that began later, and was not made together with it, shows the
//! reaction; of several that were made together, the most sensible. The same call with the same
//! arguments is a blind retry. Going on with other tools, when neither the tool nor a fallback of
//! it succeeds later, ignores the error. Everything else is sensible: other arguments, a fallback,
//! or an end.

use std::collections::BTreeMap;
use std::ops::Range;

use hashbrown::HashMap;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::evaluator::{CodeEvaluator, Evaluator, Kind};
use crate::shared::arguments::ArgumentMatcher;
use crate::shared::failure::{FailureRules, FailureSettings};
use crate::shared::report;
use spanscore_base::model::tool_call::groups;
use spanscore_base::model::{
    Explanation, Facts, Outcome, Reason, ToolCall, Trajectory, Want, WorkBudget,
};
use spanscore_base::settings::{Node, SettingsError};
use spanscore_base::value::{Map, Value};

/// Failed calls of one trajectory that are followed up; a larger one is not evaluable.
pub const FAILED_CALLS_MAX: usize = 1000;
/// Steps to look at one call that may show the reaction to a failed one.
const STEPS_PER_REACTION: usize = 8;

/// Registry entry of `tool_recovery`.
pub static KIND: Kind = Kind {
    name: "tool_recovery",
    about: "The share of failed tool calls that were neither retried blindly nor ignored.",
    also_known_as: &[],
    threshold: 1.0,
    needs_criteria: false,
    early: false,
    schema: || schemars::schema_for!(Settings),
    build,
    example: "\
tool_recovery:
  max_blind_retries: 1
  fallbacks:
    search_web: [search_cache]
",
};

/// Settings of `tool_recovery`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    /// Blind retries in a row that are sensible (an outage may pass). Default 0.
    max_blind_retries: usize,
    /// True if going on as if nothing had happened counts against the agent. Default `true`.
    detect_ignored_errors: bool,
    /// For a tool, the tools that may stand in for it.
    fallbacks: BTreeMap<String, Vec<String>>,
    /// Condition under which a retry has the same arguments.
    argument_matcher: ArgumentMatcher,
    /// Rules for reading results as failures, beside the built-in table.
    failures: FailureSettings,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_blind_retries: 0,
            detect_ignored_errors: true,
            fallbacks: BTreeMap::new(),
            argument_matcher: ArgumentMatcher::default(),
            failures: FailureSettings::default(),
        }
    }
}

struct Recovery {
    settings: Settings,
    failures: FailureRules,
}

fn build(node: &Node) -> Result<Evaluator, SettingsError> {
    let settings: Settings = node.read()?;
    let failures = FailureRules::new(&settings.failures)?;
    Ok(Evaluator::code(Recovery { settings, failures }))
}

/// Reaction to a failed call. Ordered from the most sensible: of parallel calls the first counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reaction {
    Sensible,
    NotRecorded,
    BlindRetry,
    Ignored,
}

/// Calls of a run, with the failed ones marked.
struct Run<'c, 'a> {
    calls: &'c [ToolCall<'a>],
    failed: Vec<bool>,
    /// Range of the group that each call belongs to.
    groups: Vec<Range<usize>>,
    /// Index of the last successful call of each tool.
    last_success: HashMap<&'c str, usize>,
    effort: &'c WorkBudget,
}

impl<'c, 'a> Run<'c, 'a> {
    fn new(calls: &'c [ToolCall<'a>], failed: Vec<bool>, effort: &'c WorkBudget) -> Self {
        let mut ranges = Vec::with_capacity(calls.len());
        for group in groups(calls) {
            let range = ranges.len()..ranges.len() + group.len();
            ranges.extend(group.iter().map(|_| range.clone()));
        }
        let succeeded = calls.iter().enumerate().filter(|(at, _)| !failed[*at]);
        let last_success = succeeded.map(|(at, call)| (&*call.name, at)).collect();
        Self { calls, failed, groups: ranges, last_success, effort }
    }

    /// Returns the index after the group of a call.
    fn behind(&self, at: usize) -> usize {
        self.groups[at].end
    }

    /// Returns the index of the first call of a group.
    fn first(&self, at: usize) -> usize {
        self.groups[at].start
    }

    /// Returns true if a call of a tool succeeded at that index or later.
    fn succeeds_from(&self, tool: &str, from: usize) -> bool {
        self.last_success.get(tool).is_some_and(|last| *last >= from)
    }

    /// Returns the calls that show the reaction to a failed one.
    fn next(&self, failed: usize) -> impl Iterator<Item = &'c ToolCall<'a>> + use<'_, 'c, 'a> {
        let end_ns = self.calls[failed].end_ns;
        let is_later = move |call: &&ToolCall<'_>| call.start_ns >= end_ns;
        let from = self.behind(failed);
        let first = self.calls[from..].iter().position(|call| is_later(&call));
        let upto = first.map_or(self.calls.len(), |first| self.behind(from + first));
        let group = first.map(|first| &self.calls[from + first..upto]);
        self.effort.spend((upto - from) * STEPS_PER_REACTION);
        group.unwrap_or_default().iter().filter(is_later)
    }
}

impl Recovery {
    fn reaction(&self, run: &Run<'_, '_>, failed: usize, retries: usize) -> Reaction {
        let reactions = run.next(failed).map(|next| self.reaction_of(run, failed, next, retries));
        reactions.min().unwrap_or(Reaction::Sensible)
    }

    /// Classifies one call that follows a failed one.
    fn reaction_of(
        &self,
        run: &Run<'_, '_>,
        failed: usize,
        next: &ToolCall<'_>,
        retries: usize,
    ) -> Reaction {
        let call = &run.calls[failed];
        if next.name == call.name {
            return match self.is_same(call, next) {
                Some(true) if retries >= self.settings.max_blind_retries => Reaction::BlindRetry,
                Some(_) => Reaction::Sensible,
                None => Reaction::NotRecorded,
            };
        }
        let fallbacks = self.settings.fallbacks.get(&*call.name);
        let mut stand_ins =
            fallbacks.into_iter().flatten().map(String::as_str).chain([&*call.name]);
        let behind = run.behind(failed);
        let mut is_mended = || stand_ins.any(|tool| run.succeeds_from(tool, behind));
        if self.settings.detect_ignored_errors && !is_mended() {
            return Reaction::Ignored;
        }
        Reaction::Sensible
    }

    /// Returns true if the arguments are the same; `None` where they are not recorded.
    fn is_same(&self, a: &ToolCall<'_>, b: &ToolCall<'_>) -> Option<bool> {
        let matcher = &self.settings.argument_matcher;
        if !matcher.reads_arguments() {
            return Some(true);
        }
        Some(matcher.matches(a.arguments.value()?, b.arguments.value()?))
    }

    fn reactions<'c, 'a>(
        &self,
        run: &Run<'c, 'a>,
        failed: &[usize],
    ) -> Vec<(&'c ToolCall<'a>, Reaction)> {
        let mut retries: Vec<usize> = Vec::with_capacity(failed.len());
        for (at, index) in failed.iter().enumerate() {
            retries.push(self.retries(run, &failed[..at], &retries, *index));
        }
        let react = |(index, retries): (&usize, usize)| {
            (&run.calls[*index], self.reaction(run, *index, retries))
        };
        failed.iter().zip(retries).map(react).collect()
    }
}

impl Recovery {
    /// Counts the retries in a row that a failed call ends, as a retry that fails in turn is judged
    /// by their number. `failed` are the failed calls before it, `retries` their counts.
    fn retries(
        &self,
        run: &Run<'_, '_>,
        failed: &[usize],
        retries: &[usize],
        index: usize,
    ) -> usize {
        let first = run.first(index);
        let Some(before) = first.checked_sub(1).map(|last| run.first(last)) else { return 0 };
        let from = failed.partition_point(|failed| *failed < before);
        let upto = failed.partition_point(|failed| *failed < first);
        run.effort.spend((upto - from) * STEPS_PER_REACTION);
        let least = retries[from..upto].iter().min();
        let mut found: Option<usize> = None;
        for (earlier, count) in failed[from..upto].iter().zip(&retries[from..upto]) {
            let one = &run.calls[*earlier];
            let other = &run.calls[index];
            if found.is_none_or(|found| *count < found)
                && one.name == other.name
                && self.is_same(one, other) == Some(true)
            {
                found = Some(*count);
            }
            if found.as_ref() == least {
                break;
            }
        }
        found.map_or(0, |count| count + 1)
    }
}

impl CodeEvaluator for Recovery {
    fn facts(&self) -> Facts {
        Facts {
            arguments: self.settings.argument_matcher.reads_arguments(),
            results: true,
            ..Facts::default()
        }
    }

    fn evaluate(&self, trajectory: &Trajectory<'_>, want: Want) -> Outcome {
        let calls = &trajectory.tool_calls[..];
        if calls.is_empty() {
            return report::no_tool_calls(want);
        }
        let has_failed = |call| self.failures.failed(call, &trajectory.effort) == Some(true);
        let run = Run::new(calls, calls.iter().map(has_failed).collect(), &trajectory.effort);
        let failed = (0..calls.len()).filter(|&index| run.failed[index]);
        let failed: Vec<usize> = failed.take(FAILED_CALLS_MAX + 1).collect();
        if failed.is_empty() {
            return report::not_evaluable(Reason::InsufficientData, want, || {
                "no tool call failed, so there was nothing to recover from".to_owned()
            });
        }
        if failed.len() > FAILED_CALLS_MAX {
            return report::not_evaluable(Reason::TrajectoryTooLarge, want, || {
                format!("more than {FAILED_CALLS_MAX} tool calls failed")
            });
        }
        let mut reactions = self.reactions(&run, &failed);
        reactions.retain(|(_, reaction)| *reaction != Reaction::NotRecorded);
        if reactions.is_empty() {
            return report::not_evaluable(Reason::ArgumentsNotRecorded, want, || {
                "the arguments of the failed tool calls are not recorded".to_owned()
            });
        }
        let of = |wanted| {
            reactions.iter().filter(move |(_, r)| *r == wanted).map(|(call, _)| &*call.name)
        };
        let sensible = of(Reaction::Sensible).count();
        let explain = || {
            let mut text =
                format!("{sensible} of {} failed tool calls handled sensibly", reactions.len());
            for (what, reaction) in
                [("retried blindly", Reaction::BlindRetry), ("ignored", Reaction::Ignored)]
            {
                let names = report::names_with_counts(of(reaction));
                if !names.is_empty() {
                    text.push_str(&format!("; {what}: {names}"));
                }
            }
            Explanation::plain(text)
        };
        let details = || -> Map<'static> {
            [
                ("failed_calls", Value::from(reactions.len())),
                ("blind_retries", report::name_list(of(Reaction::BlindRetry))),
                ("ignored_errors", report::name_list(of(Reaction::Ignored))),
            ]
            .into_iter()
            .collect()
        };
        report::scored(report::ratio(sensible, reactions.len()), want, explain, details)
    }
}
