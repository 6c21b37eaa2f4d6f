//! `tool_recovery`: the share of failed calls with a sensible reaction of the agent.
//!
//! Later calls, not parallel to the failed one, show the reaction; among parallel ones the most
//! sensible counts. An immediate repetition with the same arguments is a blind retry; thinking
//! tools are skipped. Sensible reactions are:
//! - other arguments, a configured fallback, or another lookup of the same thing;
//! - the success of another tool with the same values, if it is a lookup or its name has a word of
//!   the failed one's;
//! - a tool that creates the missing thing;
//! - an end: the last call, a hand-over, a question to the user.
//!
//! Other calls ignore the error, with three exceptions: the tool or a fallback succeeds later, the
//! tool is called again with other arguments or after a change, or a model's message names the
//! failure. A message at a hand-over counts. Without a recorded answer it is unknown if the answer
//! named the failure.

mod named;
mod substitutes;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::iter;
use std::ops::Range;

use hashbrown::HashMap;
use schemars::JsonSchema;
use serde::Deserialize;
use smart_default::SmartDefault;

use self::named::NamedFailures;
use self::substitutes::{has_same_target, is_substitute, reports_missing, shares_argument};
use crate::evaluator::{CodeEvaluator, Evaluator, Kind};
use crate::shared::arguments::ArgumentMatcher;
use crate::shared::failure::{FailureRules, FailureSettings};
use crate::shared::{report, roles, step_limit};
use spanscore_base::model::tool_call::groups;
use spanscore_base::model::{
    Explanation, Facts, Outcome, Reason, ToolCall, Trajectory, Want, WorkBudget,
};
use spanscore_base::settings::{Node, SettingsError};
use spanscore_base::value::{Map, Value};

/// Limit on followed failed calls of a trajectory; a larger one is not evaluable.
pub const FAILED_CALLS_MAX: usize = 1000;
/// Steps to check one call as a reaction.
const STEPS_PER_REACTION: usize = 8;
/// Steps per byte of two calls' names to split them into words for all roles.
const STEPS_PER_NAME_BYTE: usize = 4;

/// Number of calls after a failed one among which a substitute is searched.
const SUBSTITUTE_WITHIN: usize = 100;
/// Registry entry of `tool_recovery`.
pub static KIND: Kind = Kind {
    name: "tool_recovery",
    about: "Share of the failed tool calls to which the agent reacted sensibly: neither with an \
            unchanged retry nor by ignoring the failure.",
    schema: || schemars::schema_for!(Settings),
    build,
    example: "\
tool_recovery:
  max_blind_retries: 1
  fallbacks:
    search_web: [search_cache]
",
    ..Kind::PLAIN
};

/// Settings of `tool_recovery`.
#[derive(Clone, Debug, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    /// Number of unchanged retries in a row that are allowed, since an outage may pass. Default 0.
    max_blind_retries: usize,
    /// Counts a failed call as ignored if the run continues as if it had succeeded. A run in which
    /// a message or the answer names the failure has not ignored it; an apology alone does not name
    /// it. If no answer is recorded, the call is left out. Default `true`.
    #[default = true]
    detect_ignored_errors: bool,
    /// Substitutes of a tool, such as `{search_web: [search_cache]}`.
    fallbacks: BTreeMap<String, Vec<String>>,
    /// Comparison that finds a retry with the same arguments.
    argument_matcher: ArgumentMatcher,
    /// Rules that recognise failed calls, in addition to the built-in table.
    failures: FailureSettings,
}

struct Recovery {
    settings: Settings,
    failures: FailureRules,
}

fn build(node: &Node) -> Result<Evaluator, SettingsError> {
    let settings: Settings = node.read()?;
    settings.argument_matcher.without_rules()?;
    let failures = FailureRules::new(&settings.failures)?;
    Ok(Evaluator::code(Recovery { settings, failures }))
}

/// Reaction to a failed call, ordered from the most sensible; of parallel calls the minimum counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reaction {
    Sensible,
    NotRecorded,
    /// Other tools continue, and no answer is recorded that could name the failure.
    Unanswered,
    BlindRetry,
    /// Other tools continue: ignored, unless the rest of the run shows otherwise.
    Ignored,
    /// A lookup of something else: later calls show the reaction.
    Pending,
}

/// Calls of a run, with indexes for the reactions to failed ones.
struct Run<'c, 'a> {
    calls: &'c [ToolCall<'a>],
    failed: &'c [bool],
    /// Range of each call's group.
    groups: Vec<Range<usize>>,
    /// Index of the last successful call of each tool.
    last_success: HashMap<&'c str, usize>,
    /// Cache by failed call: true if it reports something missing.
    missing: RefCell<HashMap<usize, bool>>,
    /// Failures named in the answers.
    named: NamedFailures<'c>,
    /// True if an answer is recorded.
    has_answer: bool,
    effort: &'c WorkBudget,
}

impl<'c, 'a> Run<'c, 'a> {
    fn new(trajectory: &'c Trajectory<'a>, failed: &'c [bool]) -> Self {
        let calls = &trajectory.tool_calls[..];
        let mut ranges = Vec::with_capacity(calls.len());
        for group in groups(calls) {
            let range = ranges.len()..ranges.len() + group.len();
            ranges.extend(group.iter().map(|_| range.clone()));
        }
        let succeeded = calls.iter().enumerate().filter(|(at, _)| !failed[*at]);
        let last_success = succeeded.map(|(at, call)| (&*call.name, at)).collect();
        Self {
            calls,
            failed,
            groups: ranges,
            last_success,
            missing: RefCell::default(),
            named: NamedFailures::of(trajectory),
            has_answer: trajectory.final_output.is_recorded()
                || trajectory.exchanges.iter().any(|turn| turn.answer.is_recorded()),
            effort: &trajectory.effort,
        }
    }

    /// Returns the index after a call's group.
    fn group_end(&self, at: usize) -> usize {
        self.groups[at].end
    }

    /// Returns the index of the first call in a call's group.
    fn group_start(&self, at: usize) -> usize {
        self.groups[at].start
    }

    /// Returns true if a tool succeeds at that index or later.
    fn succeeds_from(&self, tool: &str, from: usize) -> bool {
        self.last_success.get(tool).is_some_and(|last| *last >= from)
    }

    /// Returns true if another tool succeeds with the failed call's values, or creates what was
    /// missing.
    fn is_substituted(&self, failed: usize, next: usize) -> bool {
        let call = &self.calls[failed];
        let other = &self.calls[next];
        !self.failed[next]
            && (is_substitute(call, other, self.effort)
                || self.effort.spend(STEPS_PER_REACTION + other.name.len())
                    && roles::is_creation(&other.name)
                    && self.reports_missing(failed)
                    && shares_argument(call, other, self.effort))
    }

    /// Returns true if a failed call reports something missing; cached.
    fn reports_missing(&self, failed: usize) -> bool {
        let look = || reports_missing(&self.calls[failed], self.effort);
        *self.missing.borrow_mut().entry(failed).or_insert_with(look)
    }

    /// Returns the groups of calls after a failed one, as indices, without thinking tools and calls
    /// that started before it ended.
    fn after(&self, failed: usize) -> impl Iterator<Item = Vec<usize>> {
        let end_ns = self.calls[failed].end_ns;
        let is_reaction = move |at: &usize| {
            let call = &self.calls[*at];
            call.start_ns >= end_ns && !roles::is_thinking(&call.name)
        };
        let mut from = self.group_end(failed);
        let groups = iter::from_fn(move || {
            let next = self.groups.get(from)?.clone();
            from = next.end;
            let has_steps = self.effort.spend(next.len() * STEPS_PER_REACTION);
            has_steps.then(|| next.filter(is_reaction).collect())
        });
        groups.filter(|group: &Vec<_>| !group.is_empty())
    }

    /// Returns the index of the first call in the group before a call, without thinking tools;
    /// `None` also if the budget is spent.
    fn group_before(&self, at: usize) -> Option<usize> {
        let mut first = self.group_start(at);
        loop {
            first = self.group_start(first.checked_sub(1)?);
            let is_thought = |call: &ToolCall<'_>| {
                self.effort.spend(STEPS_PER_REACTION) && roles::is_thinking(&call.name)
            };
            if !self.calls[self.groups[first].clone()].iter().all(is_thought) {
                return (!self.effort.is_spent()).then_some(first);
            }
        }
    }
}

impl Recovery {
    fn reaction(&self, run: &Run<'_, '_>, failed: usize, retries: usize) -> Reaction {
        let mut is_first = true;
        for group in run.after(failed) {
            let retries = is_first.then_some(retries);
            let reactions = group.iter().map(|next| self.reaction_of(run, failed, *next, retries));
            match reactions.min() {
                Some(Reaction::Pending) => is_first = false,
                Some(Reaction::Ignored) => return self.reaction_of_continuing(run, failed),
                Some(reaction) => return reaction,
                None => {}
            }
        }
        if is_first { Reaction::Sensible } else { self.reaction_of_continuing(run, failed) }
    }

    /// Classifies one call after a failed one; `retries` counts the preceding blind ones, if it is
    /// the next call.
    fn reaction_of(
        &self,
        run: &Run<'_, '_>,
        failed: usize,
        at: usize,
        retries: Option<usize>,
    ) -> Reaction {
        let call = &run.calls[failed];
        let next = &run.calls[at];
        if next.name == call.name {
            return match (retries, self.is_same(call, next)) {
                (Some(count), Some(true)) if count >= self.settings.max_blind_retries => {
                    Reaction::BlindRetry
                }
                (Some(_), None) => Reaction::NotRecorded,
                _ => Reaction::Sensible,
            };
        }
        if !run.effort.spend((call.name.len() + next.name.len()) * STEPS_PER_NAME_BYTE) {
            return Reaction::Ignored;
        }
        let looks = roles::is_lookup(&next.name);
        // A failed tool without a verb in its name, such as `stock_quote`, counts as a lookup too,
        // if the later one succeeds.
        let may_look =
            || roles::is_lookup(&call.name) || !run.failed[at] && !roles::is_action(&call.name);
        let is_other_way = || looks && may_look() && has_same_target(call, next, run.effort);
        if roles::is_end(&next.name)
            || self.stands_in(call, next)
            || is_other_way()
            || run.is_substituted(failed, at)
        {
            return Reaction::Sensible;
        }
        if looks { Reaction::Pending } else { Reaction::Ignored }
    }

    fn stands_in(&self, call: &ToolCall<'_>, next: &ToolCall<'_>) -> bool {
        let fallbacks = self.settings.fallbacks.get(&*call.name);
        fallbacks.is_some_and(|tools| tools.iter().any(|tool| *tool == *next.name))
    }

    /// Classifies an agent that continues with other tools.
    fn reaction_of_continuing(&self, run: &Run<'_, '_>, failed: usize) -> Reaction {
        let call = &run.calls[failed];
        let fallbacks = self.settings.fallbacks.get(&*call.name);
        let mut stand_ins =
            fallbacks.into_iter().flatten().map(String::as_str).chain([&*call.name]);
        let behind = run.group_end(failed);
        let mut later = (behind..run.calls.len()).take(SUBSTITUTE_WITHIN);
        let is_sensible = !self.settings.detect_ignored_errors
            || stand_ins.any(|tool| run.succeeds_from(tool, behind))
            || self.is_called_again(run, failed)
            || later.any(|next| run.is_substituted(failed, next))
            || run.named.name(call);
        if is_sensible {
            Reaction::Sensible
        } else if run.has_answer {
            Reaction::Ignored
        } else {
            Reaction::Unanswered
        }
    }

    /// Returns true if the agent calls the tool again, with other arguments or after a change.
    /// Calls that started before the failure was known do not count, nor do changes parallel to the
    /// call.
    fn is_called_again(&self, run: &Run<'_, '_>, failed: usize) -> bool {
        let call = &run.calls[failed];
        let mut first_change: Option<usize> = None;
        let later = (run.group_end(failed)..run.calls.len()).take(SUBSTITUTE_WITHIN);
        for at in later.filter(|at| run.calls[*at].start_ns >= call.end_ns) {
            let next = &run.calls[at];
            let is_other = next.name != call.name;
            let given = next.arguments.value().filter(|_| !is_other).map_or(0, Value::node_count);
            if !run.effort.spend(next.name.len() + given) {
                break;
            }
            let has_changed = first_change.is_some_and(|change| change < run.group_start(at));
            if !is_other && (has_changed || self.is_same(call, next) == Some(false)) {
                return true;
            }
            if is_other && self.changes(run, at) {
                first_change.get_or_insert(at);
            }
        }
        false
    }

    /// Returns true if a call is neither a lookup nor a thinking tool.
    fn changes(&self, run: &Run<'_, '_>, at: usize) -> bool {
        let name = &run.calls[at].name;
        !run.failed[at] && !roles::is_lookup(name) && !roles::is_thinking(name)
    }

    /// Returns true if the arguments are equal; `None` if they are not recorded.
    fn is_same(&self, a: &ToolCall<'_>, b: &ToolCall<'_>) -> Option<bool> {
        let matcher = &self.settings.argument_matcher;
        if !matcher.reads_arguments() {
            return Some(true);
        }
        Some(matcher.matches(a.arguments.value()?, b.arguments.value()?))
    }

    /// Classifies the reaction to each failed call, until the budget is spent.
    fn reactions<'c, 'a>(
        &self,
        run: &Run<'c, 'a>,
        failed: &[usize],
    ) -> Vec<(&'c ToolCall<'a>, Reaction)> {
        let mut retries: Vec<usize> = Vec::with_capacity(failed.len());
        for (at, index) in failed.iter().enumerate() {
            if run.effort.is_spent() {
                return Vec::new();
            }
            retries.push(self.retries(run, &failed[..at], &retries, *index));
        }
        let react = |(index, retries): (&usize, usize)| {
            (&run.calls[*index], self.reaction(run, *index, retries))
        };
        failed.iter().zip(retries).map(react).take_while(|_| !run.effort.is_spent()).collect()
    }
}

impl Recovery {
    /// Counts the consecutive retries that end in a failed call. `failed` are the failed calls
    /// before it, `retries` their counts.
    fn retries(
        &self,
        run: &Run<'_, '_>,
        failed: &[usize],
        retries: &[usize],
        index: usize,
    ) -> usize {
        let first = run.group_start(index);
        let Some(before) = run.group_before(index) else { return 0 };
        let from = failed.partition_point(|failed| *failed < before);
        let upto = failed.partition_point(|failed| *failed < first);
        if !run.effort.spend((upto - from) * STEPS_PER_REACTION) {
            return 0;
        }
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
            final_output: self.settings.detect_ignored_errors,
            ..Facts::default()
        }
    }

    fn evaluate(&self, trajectory: &Trajectory<'_>, want: Want) -> Outcome {
        let calls = &trajectory.tool_calls[..];
        if calls.is_empty() {
            return report::no_tool_calls(want);
        }
        let has_failed = |call| self.failures.failed(call, &trajectory.effort) == Some(true);
        let has_failed: Vec<bool> = calls.iter().map(has_failed).collect();
        let failed = (0..calls.len()).filter(|&index| has_failed[index]);
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
        let run = Run::new(trajectory, &has_failed);
        let mut reactions = self.reactions(&run, &failed);
        if trajectory.effort.is_spent() {
            return report::not_evaluable(Reason::TrajectoryTooLarge, want, step_limit::words);
        }
        let is_unanswered = reactions.iter().any(|(_, it)| *it == Reaction::Unanswered);
        reactions.retain(|(_, it)| ![Reaction::NotRecorded, Reaction::Unanswered].contains(it));
        if reactions.is_empty() {
            return not_recorded(is_unanswered, want);
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

/// Returns the outcome for a trace without the records that would show the reaction.
fn not_recorded(is_unanswered: bool, want: Want) -> Outcome {
    let (reason, words) = if is_unanswered {
        let words = "no answer is recorded that could say what failed";
        (Reason::FinalOutputNotRecorded, words)
    } else {
        let words = "the arguments of the failed tool calls are not recorded";
        (Reason::ArgumentsNotRecorded, words)
    };
    report::not_evaluable(reason, want, || words.to_owned())
}

#[cfg(test)]
mod tests;
