//! `tool_loop`: the share of tool calls that are not going round in circles.
//!
//! A loop is a pattern of one or more calls that comes again at once, with the same arguments, more
//! often than it may: the same call again and again, or two that alternate. Looks only at calls in
//! a row; [`tool_efficiency`](super::tool_efficiency) finds repetitions anywhere.

use schemars::JsonSchema;
use serde::Deserialize;

use super::arguments::ArgumentMatcher;
use super::calls::arguments_of;
use super::{Early, Evaluator, Kind, report};
use crate::model::{Facts, Outcome, Reason, ToolCall, Trajectory, Want};
use crate::settings::{Node, SettingsError};
use crate::value::{Map, Value};

/// Longest pattern that may be asked for, which bounds the cost for each call.
const PATTERN_CALLS_MAX: usize = 16;

/// `tool_loop`.
pub static KIND: Kind = Kind {
    name: "tool_loop",
    about: "The share of tool calls that do not go round in circles: the same call, or the same \
            few calls, over and over.",
    also_known_as: &[],
    threshold: 1.0,
    needs_criteria: false,
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
    /// How often a pattern of calls may come in a row. Default 2: a third time is a
    /// loop.
    max_repeats: usize,
    /// Longest pattern that is looked for: 1 is the same call again, 2 is two that alternate.
    /// Default 3, at most 16.
    max_pattern: usize,
    /// When the arguments of two calls are the same.
    argument_matcher: ArgumentMatcher,
}

impl Default for Settings {
    fn default() -> Self {
        Self { max_repeats: 2, max_pattern: 3, argument_matcher: ArgumentMatcher::default() }
    }
}

struct Loop {
    settings: Settings,
}

fn build(node: &Node) -> Result<Box<dyn Evaluator>, SettingsError> {
    let settings: Settings = node.read()?;
    if settings.max_repeats == 0 {
        return Err(SettingsError::new("`max_repeats` must be at least 1"));
    }
    if !(1..=PATTERN_CALLS_MAX).contains(&settings.max_pattern) {
        return Err(SettingsError::new(format!(
            "`max_pattern` must be between 1 and {PATTERN_CALLS_MAX}"
        )));
    }
    Ok(Box::new(Loop { settings }))
}

/// A loop that was found.
struct Found {
    start: usize,
    pattern: usize,
    repeats: usize,
}

impl Loop {
    fn same(&self, a: &ToolCall<'_>, b: &ToolCall<'_>) -> bool {
        a.name == b.name && self.settings.argument_matcher.matches(arguments_of(a), arguments_of(b))
    }

    /// The loops, without overlap: at each place the shortest pattern that repeats too often.
    fn find(&self, calls: &[ToolCall<'_>], mut found: impl FnMut(Found)) {
        // run[p]: for how many calls, up to here, each is the same as the one p + 1 before it.
        let mut run = [0; PATTERN_CALLS_MAX];
        let mut open: Option<Found> = None;
        let mut from = 0;
        for index in 0..calls.len() {
            for pattern in 1..=self.settings.max_pattern {
                let again =
                    index >= from + pattern && self.same(&calls[index - pattern], &calls[index]);
                run[pattern - 1] = if again { run[pattern - 1] + 1 } else { 0 };
            }
            if let Some(current) = &mut open {
                let length = run[current.pattern - 1];
                if length > 0 {
                    current.repeats = length / current.pattern + 1;
                    continue;
                }
                found(Found { ..*current });
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
                open = Some(Found { start, pattern, repeats: length / pattern });
            }
        }
        if let Some(last) = open {
            found(last);
        }
    }

    /// A call whose arguments are needed to tell and are not recorded.
    fn obstacle<'c, 'a>(&self, calls: &'c [ToolCall<'a>]) -> Option<&'c ToolCall<'a>> {
        if !self.settings.argument_matcher.reads_arguments() {
            return None;
        }
        let is_near = |index: usize| {
            (1..=self.settings.max_pattern).any(|pattern| {
                let near = [index.checked_sub(pattern), Some(index + pattern)];
                near.into_iter().flatten().any(|other| {
                    calls.get(other).is_some_and(|other| other.name == calls[index].name)
                })
            })
        };
        let found = calls
            .iter()
            .enumerate()
            .find(|(index, call)| !call.arguments.is_recorded() && is_near(*index));
        found.map(|(_, call)| call)
    }
}

impl Evaluator for Loop {
    fn facts(&self) -> Facts {
        let arguments = self.settings.argument_matcher.reads_arguments();
        Facts { arguments, ..Facts::default() }
    }

    fn evaluate(&self, trajectory: &Trajectory<'_>, want: Want) -> Outcome {
        let calls = &trajectory.tool_calls[..];
        if calls.is_empty() {
            return report::no_tool_calls(want);
        }
        if let Some(call) = self.obstacle(calls) {
            return report::not_evaluable(Reason::ArgumentsNotRecorded, want, || {
                format!("`{}` was called repeatedly, and its arguments are not recorded", call.name)
            });
        }
        let (mut looping, mut loops) = (0, Vec::new());
        self.find(calls, |found| {
            looping += found.pattern * (found.repeats - 1);
            if want.reasons() {
                loops.push(found);
            }
        });
        let tools = |found: &Found| {
            calls[found.start..found.start + found.pattern].iter().map(|call| call.name.to_string())
        };
        let explain = || match loops.first() {
            None => format!("no loop in {} tool calls", calls.len()),
            Some(first) => {
                let pattern: Vec<_> = tools(first).collect();
                format!("{} was called {} times in a row", pattern.join(", "), first.repeats)
            }
        };
        let details = || {
            let entry = |found: &Found| {
                let entry: Map<'_> = [
                    ("start", Value::from(found.start)),
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

    /// A loop stays one: the calls that follow may raise the share, never to all of them.
    fn early(&self, trajectory: &Trajectory<'_>, want: Want) -> Option<Early> {
        let outcome = self.evaluate(trajectory, want);
        let Outcome::Scored(score) = &outcome else { return None };
        (score.value < 1.0).then_some(Early { outcome, best: 1.0 - f64::EPSILON })
    }
}
