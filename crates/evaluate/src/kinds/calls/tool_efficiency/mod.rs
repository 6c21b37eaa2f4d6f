//! `tool_efficiency`: the share of tool calls that do not repeat an earlier one.
//!
//! A call is redundant if an earlier one has the same name and matching arguments, unless it polls
//! a job. Parallel calls take the order with the fewest redundant calls. Arguments are decoded only
//! if two calls share a name. The cost is linear in the calls if the matcher allows hashing
//! (`exact`, `ignore`, `keys`). Otherwise each call is compared with the distinct ones of its name,
//! up to [`COMPARED_MAX`].

use hashbrown::hash_table::{Entry, HashTable};
use schemars::JsonSchema;
use serde::Deserialize;
use std::hash::BuildHasher;

use crate::compat::DokimosCompat;
use crate::evaluator::{CodeEvaluator, Evaluator, Kind};
use crate::shared::arguments::{ArgumentMatcher, ArgumentMode};
use crate::shared::failure::{FailureRules, FailureSettings};
use crate::shared::order;
use crate::shared::report;
use crate::shared::roles;
use spanscore_base::model::{
    Content, Explanation, Facts, Outcome, Reason, ToolCall, Trajectory, Want, WorkBudget,
};
use spanscore_base::settings::{Node, SettingsError};
use spanscore_base::tally::tally;
use spanscore_base::value::{Map, Value};

/// Limit on compared values, including nested ones; a trajectory beyond it is not evaluable.
pub const COMPARED_MAX: usize = 4_000_000;

/// Limit on calls compared one by one; longer trajectories are hashed.
const SCANNED_MAX: usize = 32;

/// Registry entry of `tool_efficiency`.
pub static KIND: Kind = Kind {
    name: "tool_efficiency",
    about: "Share of the tool calls that do not repeat an earlier call with the same arguments.",
    also_known_as: &[("ToolEfficiencyEvaluator", "Dokimos")],
    schema: || schemars::schema_for!(Settings),
    build,
    example: "\
tool_efficiency:
  threshold: 0.8
  allow_retries: true
  argument_matcher:
    trim_strings: true
",
    ..Kind::PLAIN
};

/// Progress between two equal calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum EfficiencyProgress {
    /// A watched job returns another result.
    #[default]
    Results,
    /// None: results make no difference.
    None,
}

/// Settings of `tool_efficiency`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    /// Comparison of the arguments of two calls. The earlier call is the expected side.
    argument_matcher: ArgumentMatcher,
    /// Allows a failed call to be repeated. Default `false`.
    allow_retries: bool,
    /// Sign of progress that allows an equal call. `results` (default) accepts a result that
    /// differs from the previous one, if the name of the tool says that it watches something
    /// (`check_status`, `get_job`) and does not change it (`update_status`). A failure is no
    /// progress. If results are not recorded, or with `none`, every equal call is a repetition.
    progress: EfficiencyProgress,
    /// Rules that recognise failed calls, in addition to the built-in table.
    failures: FailureSettings,
    /// `dokimos` reproduces the scores of Dokimos: arguments that are not recorded are empty, a
    /// trace without calls scores 1, and parallel calls have the listed order.
    compat: Option<DokimosCompat>,
}

struct ToolEfficiency {
    settings: Settings,
    /// Rules that identify failed calls, if these may be repeated.
    failures: Option<FailureRules>,
    /// Rules that identify failed calls, if other results are progress.
    progress: Option<FailureRules>,
}

fn build(node: &Node) -> Result<Evaluator, SettingsError> {
    Ok(Evaluator::code(ToolEfficiency::new(node.read()?)?))
}

/// Calls of a trajectory in the order of judgement.
struct OrderedCalls<'c, 'a> {
    calls: &'c [ToolCall<'a>],
    /// Index of each call in that order; empty for the original order.
    places: Vec<usize>,
    effort: &'c WorkBudget,
}

impl<'a> std::ops::Index<usize> for OrderedCalls<'_, 'a> {
    type Output = ToolCall<'a>;

    #[inline]
    fn index(&self, index: usize) -> &ToolCall<'a> {
        &self.calls[self.places.get(index).copied().unwrap_or(index)]
    }
}

impl OrderedCalls<'_, '_> {
    fn len(&self) -> usize {
        self.calls.len()
    }
}

/// Reason why redundancy is unknown.
enum Obstacle {
    NotRecorded(usize),
    TooLarge,
}

/// Counts the object entries within a value, at any depth.
fn nested_entries(value: &Value<'_>) -> usize {
    match value {
        Value::Map(map) => map.len() + map.iter().map(|(_, it)| nested_entries(it)).sum::<usize>(),
        Value::List(items) => items.iter().map(nested_entries).sum(),
        _ => 0,
    }
}

impl ToolEfficiency {
    fn new(settings: Settings) -> Result<Self, SettingsError> {
        settings.argument_matcher.without_rules()?;
        let is_compat = settings.compat.is_some();
        let failures =
            FailureRules::excluding(settings.allow_retries, &settings.failures, is_compat)?;
        let counts = settings.progress == EfficiencyProgress::Results && !is_compat;
        let progress = FailureRules::excluding(counts, &settings.failures, is_compat)?;
        Ok(Self { settings, failures, progress })
    }

    fn matcher(&self) -> &ArgumentMatcher {
        &self.settings.argument_matcher
    }

    /// Orders the calls of each group for the fewest redundant ones: general arguments before those
    /// that they cover, failed calls before their retries.
    fn listed<'c, 'a>(&self, trajectory: &'c Trajectory<'a>) -> OrderedCalls<'c, 'a> {
        let calls = &trajectory.tool_calls[..];
        let mut listed = OrderedCalls { calls, places: Vec::new(), effort: &trajectory.effort };
        if self.settings.compat.is_some() || !order::is_grouped(calls) {
            return listed;
        }
        let count = |call: &ToolCall<'_>| {
            call.arguments.value().and_then(Value::as_map).map_or(0, Map::len)
        };
        let entries = |call: &ToolCall<'_>| match self.matcher().mode {
            ArgumentMode::Subset => usize::MAX - count(call),
            ArgumentMode::NestedSubset => {
                usize::MAX - call.arguments.value().map_or(0, nested_entries)
            }
            ArgumentMode::Superset => count(call),
            ArgumentMode::Exact | ArgumentMode::Ignore => 0,
        };
        let failed = |call: &ToolCall<'_>| {
            let rules = self.failures.as_ref();
            rules.and_then(|rules| rules.failed(call, &trajectory.effort)) == Some(true)
        };
        listed.places = (0..calls.len()).collect();
        for group in listed.places.chunk_by_mut(|one, next| calls[*one].is_with(&calls[*next])) {
            if group.len() > 1 {
                group.sort_by_cached_key(|at| (entries(&calls[*at]), !failed(&calls[*at])));
            }
        }
        listed
    }

    fn arguments<'c, 'a>(
        &self,
        calls: &'c OrderedCalls<'_, 'a>,
        index: usize,
    ) -> Result<&'c Value<'a>, Obstacle> {
        match &calls[index].arguments {
            _ if !self.matcher().reads_arguments() => Ok(&Value::Null),
            Content::Recorded(value) => Ok(value.get()),
            _ if self.settings.compat.is_some() => Ok(&Value::Null),
            _ => Err(Obstacle::NotRecorded(index)),
        }
    }

    /// Returns true if the call at `later` repeats that at `earlier`.
    #[inline]
    fn repeats(
        &self,
        calls: &OrderedCalls<'_, '_>,
        earlier: usize,
        later: usize,
    ) -> Result<bool, Obstacle> {
        if calls[earlier].name != calls[later].name {
            return Ok(false);
        }
        self.has_same_arguments(calls, earlier, later)
    }

    /// Returns true if two calls of one tool have the same arguments.
    fn has_same_arguments(
        &self,
        calls: &OrderedCalls<'_, '_>,
        earlier: usize,
        later: usize,
    ) -> Result<bool, Obstacle> {
        let first = self.arguments(calls, earlier)?;
        let second = self.arguments(calls, later)?;
        Ok(self.matcher().matches(first, second))
    }

    /// Calls `redundant` for each call that repeats a distinct one, in order, with both indexes.
    fn walk(
        &self,
        calls: &OrderedCalls<'_, '_>,
        redundant: impl FnMut(usize, usize),
    ) -> Result<(), Obstacle> {
        if calls.len() <= SCANNED_MAX {
            self.scan(calls, redundant)
        } else if self.matcher().is_symmetric() {
            self.group(calls, redundant)
        } else {
            self.search(calls, redundant)
        }
    }

    fn scan(
        &self,
        calls: &OrderedCalls<'_, '_>,
        mut redundant: impl FnMut(usize, usize),
    ) -> Result<(), Obstacle> {
        let mut repeated = [false; SCANNED_MAX];
        'calls: for index in 0..calls.len() {
            for (earlier, _) in repeated[..index].iter().enumerate().filter(|(_, r)| !**r) {
                if self.repeats(calls, earlier, index)? {
                    repeated[index] = true;
                    redundant(index, earlier);
                    continue 'calls;
                }
            }
        }
        Ok(())
    }

    fn group(
        &self,
        calls: &OrderedCalls<'_, '_>,
        mut redundant: impl FnMut(usize, usize),
    ) -> Result<(), Obstacle> {
        let build = hashbrown::DefaultHashBuilder::default();
        let names = tally(calls.calls.iter().map(|call| &*call.name));
        let mut distinct: HashTable<(u64, usize)> = HashTable::with_capacity(calls.len());
        for index in 0..calls.len() {
            let call = &calls[index];
            if names.get(&*call.name) == Some(&1) {
                continue;
            }
            let arguments = self.arguments(calls, index)?;
            let name = build.hash_one(&*call.name);
            let hash = name ^ self.matcher().hash(arguments, &build).rotate_left(17);
            let same = |&(_, earlier): &(u64, usize)| {
                matches!(self.repeats(calls, earlier, index), Ok(true))
            };
            match distinct.entry(hash, same, |&(hash, _)| hash) {
                Entry::Occupied(place) => redundant(index, place.get().1),
                Entry::Vacant(place) => {
                    place.insert((hash, index));
                }
            }
        }
        Ok(())
    }

    fn search(
        &self,
        calls: &OrderedCalls<'_, '_>,
        mut redundant: impl FnMut(usize, usize),
    ) -> Result<(), Obstacle> {
        let mut distinct: hashbrown::HashMap<&str, Vec<usize>> = hashbrown::HashMap::new();
        let mut weights = Vec::with_capacity(calls.len());
        let mut compared = 0;
        'calls: for index in 0..calls.len() {
            let call = &calls[index];
            weights.push(call.arguments.value().map_or(1, Value::node_count));
            let kept = distinct.entry(&*call.name).or_default();
            for &earlier in &*kept {
                compared += weights[earlier].max(weights[index]);
                if compared > COMPARED_MAX {
                    return Err(Obstacle::TooLarge);
                }
                if self.repeats(calls, earlier, index)? {
                    redundant(index, earlier);
                    continue 'calls;
                }
            }
            kept.push(index);
        }
        Ok(())
    }

    /// Counts the redundant calls; lists them if reasons are wanted.
    fn count(
        &self,
        calls: &OrderedCalls<'_, '_>,
        want: Want,
    ) -> Result<(usize, Vec<usize>), Obstacle> {
        let mut count = 0;
        let mut found = Vec::new();
        // The last repetition of each distinct call: the one that another repetition retries.
        let mut last: hashbrown::HashMap<usize, usize> = hashbrown::HashMap::new();
        self.walk(calls, |index, earlier| {
            let before = last.insert(earlier, index).unwrap_or(earlier);
            let failed = |rules: &FailureRules, at: usize| {
                rules.failed(&calls[at], calls.effort) == Some(true)
            };
            let is_retry = self.failures.as_ref().is_some_and(|rules| failed(rules, before));
            let is_progress = self.progress.as_ref().is_some_and(|rules| {
                before + 1 == index
                    && roles::is_polling(&calls[index].name)
                    && has_another_result(calls, before, index)
                    && !failed(rules, before)
                    && !failed(rules, index)
            });
            if is_retry || is_progress {
                return;
            }
            count += 1;
            if want.reasons() {
                found.push(index);
            }
        })?;
        Ok((count, found))
    }

    fn details(&self, calls: &OrderedCalls<'_, '_>, redundant: &[usize]) -> Map<'static> {
        let consecutive = (1..calls.len())
            .filter(|&index| matches!(self.repeats(calls, index - 1, index), Ok(true)));
        let name = |index: usize| &*calls[index].name;
        Map::from([
            ("total_calls", Value::from(calls.len())),
            ("distinct_calls", Value::from(calls.len() - redundant.len())),
            ("redundant_calls", report::name_list(redundant.iter().map(|&index| name(index)))),
            ("consecutive_duplicates", report::name_list(consecutive.map(name))),
        ])
    }
}

/// Returns true if two calls have different recorded results.
fn has_another_result(calls: &OrderedCalls<'_, '_>, before: usize, index: usize) -> bool {
    let results = [before, index].map(|at| calls[at].result.value());
    let [Some(old), Some(new)] = results else { return false };
    let steps = |value: &Value<'_>| value.node_count() + value.as_str().map_or(0, str::len) / 8;
    calls.effort.spend(steps(old) + steps(new)) && old != new
}

impl CodeEvaluator for ToolEfficiency {
    fn facts(&self) -> Facts {
        Facts {
            arguments: self.matcher().reads_arguments(),
            results: self.failures.is_some() || self.progress.is_some(),
            ..Facts::default()
        }
    }

    fn evaluate(&self, trajectory: &Trajectory<'_>, want: Want) -> Outcome {
        let calls = self.listed(trajectory);
        if calls.calls.is_empty() && self.settings.compat.is_none() {
            return report::no_tool_calls(want);
        }
        let (count, redundant) = match self.count(&calls, want) {
            Ok(counted) => counted,
            Err(Obstacle::NotRecorded(index)) => {
                return report::not_evaluable(Reason::ArgumentsNotRecorded, want, || {
                    let name = &calls[index].name;
                    format!("`{name}` was called repeatedly, and its arguments are not recorded")
                });
            }
            Err(Obstacle::TooLarge) => {
                return report::not_evaluable(Reason::TrajectoryTooLarge, want, || {
                    format!("more than {COMPARED_MAX} values would have to be compared")
                });
            }
        };
        let distinct = calls.len() - count;
        let value = if calls.calls.is_empty() { 1.0 } else { report::ratio(distinct, calls.len()) };
        report::scored(
            value,
            want,
            || {
                Explanation::plain(match count {
                    0 => format!("none of {} tool calls repeats an earlier one", calls.len()),
                    _ => format!(
                        "{count} of {} tool calls repeat an earlier one: {}",
                        calls.len(),
                        report::names_with_counts(
                            redundant.iter().map(|&index| &*calls[index].name)
                        )
                    ),
                })
            },
            || self.details(&calls, &redundant),
        )
    }
}

#[cfg(test)]
mod tests;
