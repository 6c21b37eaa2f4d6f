//! `tool_loop`: the share of tool calls that are not part of a loop.
//!
//! A loop is a pattern of one or more steps that is repeated at once, with the same arguments, more
//! often than allowed: the same call again and again, or two that alternate. A step is a call, or
//! the calls that were made together, in any order: asking for the same thing twice at once is no
//! loop. Looks only at steps in a row; [`tool_efficiency`](super::tool_efficiency) finds
//! repetitions anywhere.

use std::fmt::Write as _;
use std::iter::once;
use std::ops::Range;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::evaluator::{CodeEvaluator, Early, Evaluator, Kind};
use crate::shared::arguments::ArgumentMatcher;
use crate::shared::expected_calls::{self, CallMatcher, arguments_of};
use crate::shared::order::{self, InOrder};
use crate::shared::report;
use crate::shared::step_limit::{self, WorkBudget};
use crate::shared::within_group::WithinGroup;
use spanscore_base::model::{Explanation, Facts, Outcome, Reason, ToolCall, Trajectory, Want};
use spanscore_base::settings::{Node, SettingsError};
use spanscore_base::value::{Map, Value};

/// Longest pattern that may be configured, which bounds the cost of each call.
const PATTERN_CALLS_MAX: usize = 16;

/// Registry entry of `tool_loop`.
pub static KIND: Kind = Kind {
    name: "tool_loop",
    about: "The share of tool calls that do not go round in circles: the same call, or the same \
            few calls, over and over.",
    also_known_as: &[],
    threshold: 1.0,
    needs_criteria: false,
    early: true,
    schema: || schemars::schema_for!(Settings),
    build,
    example: "\
tool_loop:
  max_repeats: 3
  max_pattern: 4
",
};

/// Settings of `tool_loop`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    /// Repetitions of a pattern of calls in a row that are allowed. Default 2: a third time is a
    /// loop.
    max_repeats: usize,
    /// Longest pattern that is looked for: 1 is the same call again, 2 is two that alternate; calls
    /// that were made together count as one. Default 3, at most 16.
    max_pattern: usize,
    /// Condition under which the arguments of two calls are the same.
    argument_matcher: ArgumentMatcher,
    /// The order of calls that were made together: with `any_order` (default) they are one step,
    /// with `message_order` each is a step, as the model's message lists them.
    within_group: WithinGroup,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_repeats: 2,
            max_pattern: 3,
            argument_matcher: ArgumentMatcher::default(),
            within_group: WithinGroup::default(),
        }
    }
}

struct Loop {
    settings: Settings,
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
    Ok(Evaluator::code(Loop { settings }))
}

/// Loop in steps: start, length of the pattern, and repetitions.
struct FoundLoop {
    start: usize,
    pattern: usize,
    repeats: usize,
}

/// Calls of a trajectory, divided into steps.
struct Steps<'c, 'a> {
    calls: &'c [ToolCall<'a>],
    /// Range of calls of each step; empty where each call is a step.
    ranges: Vec<Range<usize>>,
    /// Numbers of the calls of each step, ascending: equal numbers for equal calls. Empty where the
    /// matcher is not symmetric, so that numbers cannot tell.
    numbers: Vec<Vec<u32>>,
    effort: &'c WorkBudget,
}

impl<'c, 'a> Steps<'c, 'a> {
    fn new(calls: &'c [ToolCall<'a>], matcher: &ArgumentMatcher, effort: &'c WorkBudget) -> Self {
        let mut steps = Self { calls, ranges: Vec::new(), numbers: Vec::new(), effort };
        if !order::is_grouped(calls) {
            return steps;
        }
        steps.ranges = order::groups(&calls.iter().collect::<Vec<_>>());
        if matcher.is_symmetric() {
            let matcher = CallMatcher { default: matcher.clone(), ..CallMatcher::default() };
            let named = calls.iter().map(|call| (&*call.name, arguments_of(call)));
            let numbers = expected_calls::number(&matcher, named);
            let sorted = |range: &Range<usize>| {
                let mut numbers = numbers[range.clone()].to_vec();
                numbers.sort_unstable();
                numbers
            };
            steps.numbers = steps.ranges.iter().map(sorted).collect();
        }
        steps
    }

    fn len(&self) -> usize {
        if self.ranges.is_empty() { self.calls.len() } else { self.ranges.len() }
    }

    fn range(&self, step: usize) -> Range<usize> {
        self.ranges.get(step).cloned().unwrap_or(step..step + 1)
    }

    fn get(&self, step: usize) -> &'c [ToolCall<'a>] {
        &self.calls[self.range(step)]
    }

    /// Returns true if two steps call the same tools.
    fn is_alike(&self, one: usize, other: usize) -> bool {
        let names = |step: usize| {
            let mut names: Vec<&str> = self.get(step).iter().map(|call| &*call.name).collect();
            names.sort_unstable();
            names
        };
        match (self.get(one), self.get(other)) {
            ([one], [other]) => one.name == other.name,
            (group, others) => group.len() == others.len() && names(one) == names(other),
        }
    }
}

impl Loop {
    fn same(&self, a: &ToolCall<'_>, b: &ToolCall<'_>) -> bool {
        a.name == b.name && self.settings.argument_matcher.matches(arguments_of(a), arguments_of(b))
    }

    /// Returns true if two steps are the same.
    fn repeats(&self, steps: &Steps<'_, '_>, one: usize, other: usize) -> bool {
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

    /// Finds the loops, without overlap: at each place the shortest pattern that repeats too often.
    fn find(&self, steps: &Steps<'_, '_>, mut found: impl FnMut(FoundLoop)) {
        // run[p]: number of steps up to here, in a row, that equal the one p + 1 before them.
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
                found(FoundLoop { ..*current });
                open = None;
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
        if let Some(last) = open {
            found(last);
        }
    }

    /// Finds a call whose arguments are needed for the verdict and are not recorded.
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
        Facts { arguments, ..Facts::default() }
    }

    fn asks_message_order(&self) -> bool {
        self.settings.within_group == WithinGroup::MessageOrder
    }

    fn evaluate(&self, trajectory: &Trajectory<'_>, want: Want) -> Outcome {
        let calls = &trajectory.tool_calls[..];
        if calls.is_empty() {
            return report::no_tool_calls(want);
        }
        let steps = Steps::new(calls, &self.settings.argument_matcher, &trajectory.effort);
        if let Some(call) = self.obstacle(&steps) {
            return report::not_evaluable(Reason::ArgumentsNotRecorded, want, || {
                format!("`{}` was called repeatedly, and its arguments are not recorded", call.name)
            });
        }
        let mut looping = 0;
        let mut loops = Vec::new();
        self.find(&steps, |found| {
            let again = found.start + found.pattern..found.start + found.pattern * found.repeats;
            looping += again.map(|step| steps.get(step).len()).sum::<usize>();
            if want.reasons() {
                loops.push(found);
            }
        });
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
                    // Writing to words cannot fail.
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

    /// Judges by loops so far: later calls may raise the share of others, but never to 1.
    fn early(&self, trajectory: &Trajectory<'_>, want: Want) -> Option<Early> {
        let outcome = self.evaluate(trajectory, want);
        let Outcome::Scored(score) = &outcome else { return None };
        (score.value < 1.0).then_some(Early { outcome, best: 1.0 - f64::EPSILON })
    }
}
