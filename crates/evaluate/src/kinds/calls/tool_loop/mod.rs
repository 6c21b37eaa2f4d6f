//! `tool_loop`: the share of tool calls that are not part of a loop.
//!
//! A loop is a pattern of one or more steps that repeats consecutively, with the same arguments,
//! more often than allowed: one call again and again, or two that alternate. A step is a call, or a
//! group of parallel calls in any order, so that equal parallel calls are no loop. Polling until a
//! result changes is no loop; consecutive failures are. [`tool_efficiency`](super::tool_efficiency)
//! finds repetitions anywhere.

mod steps;

use std::fmt::Write as _;
use std::iter::once;

use schemars::JsonSchema;
use serde::Deserialize;
use smart_default::SmartDefault;

use crate::evaluator::{CodeEvaluator, Early, Evaluator, Kind};
use crate::shared::arguments::ArgumentMatcher;
use crate::shared::expected_calls::arguments_of;
use crate::shared::failure::{FailureRules, FailureSettings};
use crate::shared::order::InOrder;
use crate::shared::report;
use crate::shared::step_limit;
use crate::shared::within_group::WithinGroup;
use spanscore_base::model::{Explanation, Facts, Outcome, Reason, ToolCall, Trajectory, Want};
use spanscore_base::settings::{Node, SettingsError};
use spanscore_base::value::{Map, Value};
use steps::Steps;

/// Limit on the length of the configured pattern, which bounds the cost of each call.
const PATTERN_CALLS_MAX: usize = 16;

/// Registry entry of `tool_loop`.
pub static KIND: Kind = Kind {
    name: "tool_loop",
    about: "Share of the tool calls outside of loops. A loop repeats a call, or a few calls in a \
            row, with the same arguments.",
    early: true,
    schema: || schemars::schema_for!(Settings),
    build,
    example: "\
tool_loop:
  max_repeats: 3
  max_pattern: 4
",
    ..Kind::PLAIN
};

/// Progress between two equal calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum LoopProgress {
    /// Another result.
    #[default]
    Results,
    /// None: results make no difference.
    None,
}

/// Settings of `tool_loop`.
#[derive(Clone, Debug, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    /// Number of times that a pattern of calls may occur in a row, 1 or more. Default 2: the third
    /// time is a loop.
    #[default = 2]
    max_repeats: usize,
    /// Longest pattern, in steps, 1 to 16. 1 finds a repeated call, 2 finds two calls that
    /// alternate. Parallel calls are one step. Default 3.
    #[default = 3]
    max_pattern: usize,
    /// Comparison of the arguments of two calls.
    argument_matcher: ArgumentMatcher,
    /// Sign of progress that ends a loop. `results` (default) accepts a result that differs from
    /// the previous one, or that changes in the end, as a watched job does. A failure is no
    /// progress. If results are not recorded, or with `none`, every repetition counts.
    progress: LoopProgress,
    /// Rules that recognise failed calls, in addition to the built-in table.
    failures: FailureSettings,
    /// Order of parallel calls: with `any_order` (default) they are one step, with `message_order`
    /// each is a step, in the order of the model's message.
    within_group: WithinGroup,
}

struct Loop {
    settings: Settings,
    failures: FailureRules,
}

fn build(node: &Node) -> Result<Evaluator, SettingsError> {
    let settings: Settings = node.read()?;
    if settings.max_repeats == 0 {
        return Err(SettingsError::new("`max_repeats` must be at least 1"));
    }
    if !(1..=PATTERN_CALLS_MAX).contains(&settings.max_pattern) {
        return Err(SettingsError::new(format!(
            "`max_pattern` must be between 1 and {PATTERN_CALLS_MAX}"
        )));
    }
    settings.argument_matcher.without_rules()?;
    let failures = FailureRules::new(&settings.failures)?;
    Ok(Evaluator::code(Loop { settings, failures }))
}

/// Loop: first step, length of the pattern, and repetitions.
struct FoundLoop {
    start: usize,
    pattern: usize,
    repeats: usize,
}

impl Loop {
    fn same(&self, a: &ToolCall<'_>, b: &ToolCall<'_>) -> bool {
        a.name == b.name && self.settings.argument_matcher.matches(arguments_of(a), arguments_of(b))
    }

    /// Returns true if two steps are equal, including their results if these count.
    fn repeats(&self, steps: &Steps<'_, '_>, one: usize, other: usize) -> bool {
        self.calls_again(steps, one, other) && steps.has_same_results(one, other)
    }

    /// Returns true if two steps make the same calls.
    fn calls_again(&self, steps: &Steps<'_, '_>, one: usize, other: usize) -> bool {
        if let (Some(one), Some(other)) = (steps.numbers.get(one), steps.numbers.get(other)) {
            return one == other;
        }
        let group = steps.range(other);
        match (steps.get(one), steps.get(other)) {
            ([one], [other]) => self.same(one, other),
            (calls, others) if calls.len() != others.len() => false,
            (calls, others) => {
                let questions = calls.len().saturating_mul(calls.len());
                let in_order = InOrder {
                    groups: once(0..group.len()).collect(),
                    expected: calls.len(),
                    questions_max: questions.saturating_mul(2),
                    effort: steps.effort,
                    fits: |call: usize, at: usize| self.same(&calls[at], &others[call]),
                };
                steps.effort.spend(questions) && in_order.exact() == Ok(true)
            }
        }
    }

    /// Finds non-overlapping loops, at each position the shortest pattern that repeats too often.
    /// In an open trajectory, the last one counts only if no later result could resolve it.
    fn find(&self, steps: &Steps<'_, '_>, is_open: bool) -> Vec<FoundLoop> {
        let mut found = Vec::new();
        // run[p]: number of consecutive steps, up to here, that equal the one p + 1 before them.
        let mut run = [0; PATTERN_CALLS_MAX];
        let mut open: Option<FoundLoop> = None;
        let mut from = 0;
        for index in 0..steps.len() {
            for pattern in 1..=self.settings.max_pattern {
                let again = index >= from + pattern && self.repeats(steps, index - pattern, index);
                run[pattern - 1] = if again { run[pattern - 1] + 1 } else { 0 };
            }
            if let Some(current) = &mut open {
                let length = run[current.pattern - 1];
                if length > 0 {
                    current.repeats = length / current.pattern + 1;
                    continue;
                }
                let before = index - current.pattern;
                let is_watched =
                    steps.may_progress(before) && self.calls_again(steps, before, index);
                found.extend(open.take().filter(|_| !is_watched));
                from = index;
                run = [0; PATTERN_CALLS_MAX];
                continue;
            }
            let most = self.settings.max_repeats;
            let looping = (1..=self.settings.max_pattern)
                .find(|&pattern| run[pattern - 1] >= most.saturating_mul(pattern));
            if let Some(pattern) = looping {
                let length = run[pattern - 1] + pattern;
                let start = index + 1 - length;
                open = Some(FoundLoop { start, pattern, repeats: length / pattern });
            }
        }
        let last = steps.len().saturating_sub(1);
        found.extend(open.filter(|_| !(is_open && steps.may_progress(last))));
        found
    }

    fn loops(&self, steps: &mut Steps<'_, '_>, is_open: bool) -> Vec<FoundLoop> {
        let found = self.find(steps, is_open);
        if found.is_empty() || self.settings.progress == LoopProgress::None {
            return found;
        }
        steps.read_results(&self.failures);
        self.find(steps, is_open)
    }

    /// Finds a call with unrecorded arguments that decide the verdict.
    fn obstacle<'c, 'a>(&self, steps: &Steps<'c, 'a>) -> Option<&'c ToolCall<'a>> {
        if !self.settings.argument_matcher.reads_arguments() {
            return None;
        }
        let is_near = |step: usize| {
            (1..=self.settings.max_pattern).any(|pattern| {
                let near = [step.checked_sub(pattern), Some(step + pattern)];
                let mut near = near.into_iter().flatten().filter(|near| *near < steps.len());
                near.any(|near| steps.is_alike(near, step))
            })
        };
        (0..steps.len()).find_map(|step| {
            let unknown = steps.get(step).iter().find(|call| !call.arguments.is_recorded());
            unknown.filter(|_| is_near(step))
        })
    }
}

impl CodeEvaluator for Loop {
    fn facts(&self) -> Facts {
        let arguments = self.settings.argument_matcher.reads_arguments();
        let results = self.settings.progress == LoopProgress::Results;
        Facts { arguments, results, ..Facts::default() }
    }

    fn asks_message_order(&self) -> bool {
        self.settings.within_group == WithinGroup::MessageOrder
    }

    fn evaluate(&self, trajectory: &Trajectory<'_>, want: Want) -> Outcome {
        self.judge(trajectory, false, want)
    }

    /// Judges by the loops so far: later calls may raise the score, but never to 1.
    fn early(&self, trajectory: &Trajectory<'_>, want: Want) -> Option<Early> {
        let outcome = self.judge(trajectory, true, want);
        let Outcome::Scored(score) = &outcome else { return None };
        (score.value < 1.0).then_some(Early { outcome, best: 1.0 - f64::EPSILON })
    }
}

impl Loop {
    /// Judges; `is_open` says that more calls may follow.
    fn judge(&self, trajectory: &Trajectory<'_>, is_open: bool, want: Want) -> Outcome {
        let calls = &trajectory.tool_calls[..];
        if calls.is_empty() {
            return report::no_tool_calls(want);
        }
        let mut steps = Steps::new(calls, &self.settings.argument_matcher, &trajectory.effort);
        if let Some(call) = self.obstacle(&steps) {
            return report::not_evaluable(Reason::ArgumentsNotRecorded, want, || {
                format!("`{}` was called repeatedly, and its arguments are not recorded", call.name)
            });
        }
        let loops = self.loops(&mut steps, is_open);
        let again = loops.iter().flat_map(|found| {
            found.start + found.pattern..found.start + found.pattern * found.repeats
        });
        let looping = again.map(|step| steps.get(step).len()).sum::<usize>();
        if steps.effort.is_spent() {
            return report::not_evaluable(Reason::TrajectoryTooLarge, want, step_limit::words);
        }
        let tools = |found: &FoundLoop| {
            let pattern = found.start..found.start + found.pattern;
            pattern.flat_map(|step| steps.get(step)).map(|call| call.name.to_string())
        };
        let explain = || match loops.first() {
            None => Explanation::plain(format!("no loop in {} tool calls", calls.len())),
            Some(_) => {
                let text = format!("{looping} of {} tool calls go round in circles", calls.len());
                let mut words = Explanation::plain(text);
                report::few(&mut words, &loops, |words, found| {
                    let pattern: Vec<_> = tools(found).take(PATTERN_CALLS_MAX).collect();
                    let pattern = pattern.join(", ");
                    let times = found.repeats;
                    let most = self.settings.max_repeats;
                    // Writing to a string cannot fail.
                    let _ = write!(
                        words,
                        "{pattern} was called {times} times in a row from call {} on \
                         (`max_repeats: {most}`)",
                        steps.range(found.start).start + 1
                    );
                });
                words
            }
        };
        let details = || {
            let entry = |found: &FoundLoop| {
                let entry: Map<'_> = [
                    ("start", Value::from(steps.range(found.start).start)),
                    ("tools", Value::List(tools(found).map(Value::from).collect())),
                    ("repeats", Value::from(found.repeats)),
                ]
                .into_iter()
                .collect();
                Value::Map(entry)
            };
            let list = Value::List(loops.iter().map(entry).collect());
            [("looping_calls", Value::from(looping)), ("loops", list)].into_iter().collect()
        };
        let value = report::ratio(calls.len() - looping, calls.len());
        report::scored(value, want, explain, details)
    }
}
