//! `tool_policy`: rules on the tools that may be called, must be called, and in which order.
//!
//! Scores 1 where every rule is kept and 0 where one is broken; needs no expected calls.

use std::collections::BTreeMap;

use hashbrown::{HashMap, HashSet};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::evaluator::{CallJudge, CodeEvaluator, Early, Evaluator, Kind};
use crate::shared::definitions::{Definitions, Tools};
use crate::shared::failure::{CallOutcome, FailureRules, FailureSettings};
use crate::shared::report;
use spanscore_base::model::tool_call::groups;
use spanscore_base::model::{
    Explanation, Facts, Outcome, Reason, ToolCall, Trajectory, Want, WorkBudget,
};
use spanscore_base::settings::{Node, SettingsError};
use spanscore_base::value::{Map, Value};

/// Broken rules listed in the details.
const VIOLATIONS_MAX: usize = 50;

/// Steps of a check that a tool has succeeded before.
const STEPS_PER_NEED: usize = 32;

/// Registry entry of `tool_policy`.
pub static KIND: Kind = Kind {
    name: "tool_policy",
    about: "Checks the tool calls against rules: forbidden and required tools, tools that must \
            come before others, and no tool that was never declared.",
    also_known_as: &[("trajectory_single_tool_use", "Vertex AI")],
    threshold: 1.0,
    needs_criteria: false,
    early: true,
    schema: || schemars::schema_for!(Settings),
    build,
    example: "\
tool_policy/refunds:
  forbidden: [delete_account]
  required_before:
    issue_refund: [check_policy]
  max_calls:
    issue_refund: 1
  declared_only: true
",
};

/// Settings of `tool_policy`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    /// Tools that must not be called.
    forbidden: Vec<String>,
    /// The only tools that may be called.
    allowed: Option<Vec<String>>,
    /// Tools that must be called, successfully or not.
    required: Vec<String>,
    /// For a tool, those that must have succeeded before it is called, none of them together with
    /// it.
    required_before: BTreeMap<String, Vec<String>>,
    /// For a tool, the most calls of it.
    max_calls: BTreeMap<String, usize>,
    /// True if only tools may be called that the agent was told of. Where no definitions are known,
    /// a call breaks it of whose tool the framework says that it does not exist. Default `false`.
    declared_only: bool,
    /// Definitions for `declared_only`, in addition to those that the trace carries.
    tools: Option<Value<'static>>,
    /// A JSON file of the same form, read once at the start.
    tools_file: Option<String>,
    /// Rules for reading results as failures, beside the built-in table.
    failures: FailureSettings,
}

struct Policy {
    settings: Settings,
    forbidden: HashSet<String>,
    allowed: Option<HashSet<String>>,
    /// Tools that must have succeeded before another is called.
    needed: HashSet<String>,
    definitions: Definitions,
    failures: FailureRules,
}

fn build(node: &Node) -> Result<Evaluator, SettingsError> {
    let mut settings: Settings = node.read()?;
    let has_rule = !settings.forbidden.is_empty()
        || settings.allowed.is_some()
        || !settings.required.is_empty()
        || !settings.required_before.is_empty()
        || !settings.max_calls.is_empty()
        || settings.declared_only;
    if !has_rule {
        return Err(SettingsError::new("the policy has no rule").with_help(
            "give forbidden, allowed, required, required_before, max_calls or declared_only",
        ));
    }
    let definitions = Definitions::new(settings.tools.take(), settings.tools_file.as_deref())?;
    let failures = FailureRules::new(&settings.failures)?;
    Ok(Evaluator::code(Policy {
        forbidden: settings.forbidden.iter().cloned().collect(),
        allowed: settings.allowed.as_ref().map(|names| names.iter().cloned().collect()),
        needed: settings.required_before.values().flatten().cloned().collect(),
        settings,
        definitions,
        failures,
    }))
}

/// Violation of one rule.
struct Violation<'v> {
    rule: &'static str,
    tool: &'v str,
    /// Tool that was missing before it.
    missing: Option<&'v str>,
    /// Number of calls of the tool, and the limit.
    calls: Option<(usize, usize)>,
}

impl<'v> Violation<'v> {
    fn new(rule: &'static str, tool: &'v str) -> Self {
        Self { rule, tool, missing: None, calls: None }
    }
}

impl Violation<'_> {
    fn sentence(&self) -> String {
        let tool = self.tool;
        match (self.rule, self.missing) {
            ("forbidden", _) => format!("{tool} is `forbidden`"),
            ("allowed", _) => format!("{tool} is not among the `allowed`"),
            ("required", _) => format!("{tool} is `required` and was not called"),
            ("max_calls", _) => {
                let (calls, most) = self.calls.unwrap_or_default();
                format!("{tool} was called {calls} times, `max_calls` allows {most}")
            }
            (_, Some(missing)) => {
                format!("{tool} was called without {missing} before it (`required_before`)")
            }
            _ => format!("{tool} is not declared (`declared_only`)"),
        }
    }
}

impl Policy {
    /// Returns the declared tools, where they matter.
    fn tools<'t>(&'t self, trajectory: &'t Trajectory<'_>) -> Option<Tools<'t>> {
        self.settings.declared_only.then(|| self.definitions.of(trajectory))
    }

    fn judge(
        &self,
        (calls, effort): (&[ToolCall<'_>], &WorkBudget),
        tools: Option<&Tools<'_>>,
        want: Want,
    ) -> Outcome {
        if calls.is_empty() && self.settings.required.is_empty() {
            return report::no_tool_calls(want);
        }
        let known = tools.filter(|t| !t.all.is_empty() || self.definitions.is_given());
        let mut violations = Violations::new(want);
        self.check((calls, effort), known, &mut |violation| violations.add(violation));
        if violations.count == 0 && tools.is_some() && known.is_none() {
            return report::not_evaluable(Reason::ToolDefinitionsNotRecorded, want, || {
                "no definition of the tools is known".to_owned()
            });
        }
        violations.answer(calls.len())
    }

    fn check<'v>(
        &'v self,
        (calls, effort): (&'v [ToolCall<'_>], &WorkBudget),
        tools: Option<&Tools<'_>>,
        broken: &mut dyn FnMut(Violation<'v>),
    ) {
        let rules = &self.settings;
        let mut done = Done { rules: &self.failures, ends: HashMap::new(), effort };
        for group in groups(calls) {
            for call in group {
                let tool = &*call.name;
                self.check_name(tool, broken);
                let is_declared = match tools {
                    Some(tools) => tools.get(tool).is_some(),
                    None => !rules.declared_only || !self.failures.tool_is_unknown(call, effort),
                };
                if !is_declared {
                    broken(Violation::new("declared_only", tool));
                }
                let needed = rules.required_before.get(tool).map_or(&[][..], Vec::as_slice);
                effort.spend(needed.len() * STEPS_PER_NEED);
                for needed in needed {
                    if !done.before(needed, call) {
                        let missing = Some(needed.as_str());
                        broken(Violation { missing, ..Violation::new("required_before", tool) });
                    }
                }
            }
            // Added after the whole group: parallel calls do not come before each other.
            let is_needed = |call: &&ToolCall<'_>| self.needed.contains(&*call.name);
            group.iter().filter(is_needed).for_each(|call| done.add(call));
        }
        let counts = counts(calls);
        for tool in rules.required.iter().filter(|tool| !counts.contains_key(tool.as_str())) {
            broken(Violation::new("required", tool));
        }
        self.check_counts(&counts, broken);
    }

    fn check_name<'v>(&self, tool: &'v str, broken: &mut dyn FnMut(Violation<'v>)) {
        if self.forbidden.contains(tool) {
            broken(Violation::new("forbidden", tool));
        }
        if self.allowed.as_ref().is_some_and(|allowed| !allowed.contains(tool)) {
            broken(Violation::new("allowed", tool));
        }
    }

    fn check_counts<'v>(
        &'v self,
        counts: &HashMap<&str, usize>,
        broken: &mut dyn FnMut(Violation<'v>),
    ) {
        for (tool, most) in &self.settings.max_calls {
            let count = counts.get(tool.as_str()).copied().unwrap_or(0);
            if count > *most {
                let calls = Some((count, *most));
                broken(Violation { calls, ..Violation::new("max_calls", tool) });
            }
        }
    }
}

/// Counts the calls of each tool.
fn counts<'c>(calls: &'c [ToolCall<'_>]) -> HashMap<&'c str, usize> {
    let mut counts = HashMap::new();
    for call in calls {
        *counts.entry(&*call.name).or_default() += 1;
    }
    counts
}

/// Violations: their number, and the first of them where reasons are wanted.
struct Violations<'v> {
    count: usize,
    shown: Vec<Violation<'v>>,
    want: Want,
}

impl<'v> Violations<'v> {
    fn new(want: Want) -> Self {
        Self { count: 0, shown: Vec::new(), want }
    }

    fn add(&mut self, violation: Violation<'v>) {
        self.count += 1;
        if self.want.reasons() && self.shown.len() < VIOLATIONS_MAX {
            self.shown.push(violation);
        }
    }

    fn answer(&self, call_count: usize) -> Outcome {
        let Self { count, shown, want } = self;
        let explain = || {
            if *count == 0 {
                return Explanation::plain(format!("{call_count} tool calls keep to the policy"));
            }
            // Repeated violations of one rule by one tool are merged, with a count.
            let mut sentences: Vec<(String, usize)> = Vec::new();
            for violation in shown {
                let sentence = violation.sentence();
                match sentences.iter_mut().find(|(known, _)| *known == sentence) {
                    Some((_, times)) => *times += 1,
                    None => sentences.push((sentence, 1)),
                }
            }
            if let (1, [(sentence, _)]) = (*count, &sentences[..]) {
                return Explanation::plain(sentence.as_str());
            }
            let mut words = Explanation::plain(format!("{count} violations"));
            report::few(&mut words, sentences, |words, (sentence, times)| {
                words.push(&sentence);
                if times > 1 {
                    words.push(&format!(" ({times} times)"));
                }
            });
            words
        };
        let details = || {
            let entry = |violation: &Violation<'_>| {
                let entry: Map<'_> = [
                    ("rule", Value::from(violation.rule)),
                    ("tool", Value::from(violation.tool.to_owned())),
                    ("missing", violation.missing.map(str::to_owned).into()),
                ]
                .into_iter()
                .collect();
                Value::Map(entry)
            };
            let list = Value::List(shown.iter().map(entry).collect());
            [("violation_count", Value::from(*count)), ("violations", list)].into_iter().collect()
        };
        report::scored(f64::from(u8::from(*count == 0)), *want, explain, details)
    }
}

/// End of the first success of each tool, Unix nanoseconds; 0 where no end is recorded.
struct Done<'c, 'e> {
    rules: &'c FailureRules,
    ends: HashMap<&'c str, u64>,
    effort: &'e WorkBudget,
}

impl<'c> Done<'c, '_> {
    fn add(&mut self, call: &'c ToolCall<'_>) {
        let outcome = self.rules.outcome(call, self.effort);
        if matches!(outcome, CallOutcome::Succeeded | CallOutcome::NotRecorded) {
            let first = self.ends.entry(&call.name).or_insert(call.end_ns);
            *first = call.end_ns.min(*first);
        }
    }

    /// Returns true if a tool had succeeded when `later` began.
    fn before(&self, tool: &str, later: &ToolCall<'_>) -> bool {
        self.ends.get(tool).is_some_and(|end_ns| *end_ns <= later.start_ns)
    }
}

impl CodeEvaluator for Policy {
    fn facts(&self) -> Facts {
        Facts {
            results: !self.settings.required_before.is_empty() || self.settings.declared_only,
            tool_definitions: self.settings.declared_only,
            ..Facts::default()
        }
    }

    fn evaluate(&self, trajectory: &Trajectory<'_>, want: Want) -> Outcome {
        let tools = self.tools(trajectory);
        self.judge((&trajectory.tool_calls, &trajectory.effort), tools.as_ref(), want)
    }

    fn call_judge<'t>(
        &'t self,
        trajectory: &'t Trajectory<'_>,
        want: Want,
    ) -> Option<CallJudge<'t>> {
        let tools = self.tools(trajectory);
        Some(Box::new(move |call| {
            let calls = std::slice::from_ref(call);
            self.judge((calls, &trajectory.effort), tools.as_ref(), want)
        }))
    }

    /// Judges by names and counts, which no later span can mend; a later span may yet declare a
    /// tool, or show that one came before.
    fn early(&self, trajectory: &Trajectory<'_>, want: Want) -> Option<Early> {
        let calls = &trajectory.tool_calls[..];
        let mut violations = Violations::new(want);
        calls.iter().for_each(|call| self.check_name(&call.name, &mut |v| violations.add(v)));
        self.check_counts(&counts(calls), &mut |violation| violations.add(violation));
        (violations.count > 0).then(|| Early { outcome: violations.answer(calls.len()), best: 0.0 })
    }
}
