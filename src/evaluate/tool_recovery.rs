//! `tool_recovery`: the share of failed calls after which the agent did something sensible.
//!
//! After a failed call the next one that began later shows the reaction. The same call with the
//! same arguments is a blind retry. Going on with other tools, when neither the tool nor a fallback
//! of it succeeds later, ignores the error. Everything else is sensible: other arguments, a
//! fallback, or an end.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use super::arguments::ArgumentMatcher;
use super::{Evaluator, Kind, report, tool_error};
use crate::model::{Facts, Outcome, Reason, ToolCall, Trajectory, Want};
use crate::value::{Map, Value};

/// Failed calls that are followed up in one trajectory; a larger one is not evaluable.
pub const FAILED_CALLS_MAX: usize = 1000;

/// `tool_recovery`.
pub static KIND: Kind = Kind {
    name: "tool_recovery",
    about: "The share of failed tool calls that were neither retried blindly nor ignored.",
    also_known_as: &[],
    threshold: 1.0,
    needs_criteria: false,
    schema: || schemars::schema_for!(Settings),
    build: |node| Ok(Box::new(Recovery { settings: node.read()? })),
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
    /// How many blind retries in a row are sensible (an outage may pass). Default 0.
    max_blind_retries: usize,
    /// Whether going on as if nothing had happened counts against the agent. Default `true`.
    detect_ignored_errors: bool,
    /// For a tool, the tools that may stand in for it.
    fallbacks: BTreeMap<String, Vec<String>>,
    /// When a retry has the same arguments.
    argument_matcher: ArgumentMatcher,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_blind_retries: 0,
            detect_ignored_errors: true,
            fallbacks: BTreeMap::new(),
            argument_matcher: ArgumentMatcher::default(),
        }
    }
}

struct Recovery {
    settings: Settings,
}

/// What the agent did after a failed call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reaction {
    Sensible,
    BlindRetry,
    Ignored,
    NotRecorded,
}

/// The calls, and which of them failed.
struct Run<'c, 'a> {
    calls: &'c [ToolCall<'a>],
    failed: Vec<bool>,
}

impl Recovery {
    fn reaction(&self, run: &Run<'_, '_>, failed: usize, retries: usize) -> Reaction {
        let call = &run.calls[failed];
        let is_later = |other: &&ToolCall<'_>| other.start_ns >= call.end_ns;
        let Some(next) = run.calls[failed + 1..].iter().find(is_later) else {
            return Reaction::Sensible;
        };
        if next.name == call.name {
            return match self.is_same(call, next) {
                Some(true) if retries >= self.settings.max_blind_retries => Reaction::BlindRetry,
                Some(_) => Reaction::Sensible,
                None => Reaction::NotRecorded,
            };
        }
        let fallbacks = self.settings.fallbacks.get(&*call.name);
        let stands_in = |other: &ToolCall<'_>| {
            other.name == call.name
                || fallbacks.is_some_and(|names| names.iter().any(|name| *name == other.name))
        };
        let recovers = |later: usize| !run.failed[later] && stands_in(&run.calls[later]);
        if self.settings.detect_ignored_errors && !(failed + 1..run.calls.len()).any(recovers) {
            return Reaction::Ignored;
        }
        Reaction::Sensible
    }

    /// Whether the arguments are the same; `None` where they are not recorded.
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
        let calls = run.calls;
        let mut retries = 0;
        let mut before: Option<usize> = None;
        let react = |&index: &usize| {
            // A retry that fails in turn is judged by how many there were in this row.
            let in_row = before.is_some_and(|before| {
                before + 1 == index
                    && calls[before].name == calls[index].name
                    && self.is_same(&calls[before], &calls[index]) == Some(true)
            });
            retries = if in_row { retries + 1 } else { 0 };
            before = Some(index);
            (&calls[index], self.reaction(run, index, retries))
        };
        failed.iter().map(react).collect()
    }
}

impl Evaluator for Recovery {
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
        let has_failed = |call| tool_error::failed(call) == Some(true);
        let run = Run { calls, failed: calls.iter().map(has_failed).collect() };
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
                let names = report::names(of(reaction));
                if !names.is_empty() {
                    text.push_str(&format!("; {what}: {names}"));
                }
            }
            text
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
