//! `tool_policy`: rules on the tools that may be called, must be called, and in which order.
//!
//! Scores 1 where every rule is kept and 0 where one is broken; needs no expected calls. A name in
//! a rule may be a glob: `max_calls` and `max_failed_calls` sum the calls that it matches,
//! `required` wants one of them.

mod done;
mod violations;

use std::collections::BTreeMap;

use hashbrown::HashMap;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::evaluator::{CallJudge, CodeEvaluator, Early, Evaluator, Kind};
use crate::shared::definitions::{Definitions, Tools};
use crate::shared::failure::{CallOutcome, FailureRules, FailureSettings};
use crate::shared::glob::{NamePatterns, is_glob, matches_glob};
use crate::shared::report;
use spanscore_base::model::tool_call::groups;
use spanscore_base::model::{Facts, Outcome, Reason, ToolCall, Trajectory, Want, WorkBudget};
use spanscore_base::settings::{Node, SettingsError};
use spanscore_base::tally::tally;
use spanscore_base::value::Value;

use done::{Done, STEPS_PER_GLOB};
use violations::{UnmatchedRule, Violation, Violations};

/// Steps of a check that a tool has succeeded before.
const STEPS_PER_NEED: usize = 32;

/// Registry entry of `tool_policy`.
pub static KIND: Kind = Kind {
    name: "tool_policy",
    about: "Checks the tool calls against rules: forbidden, allowed and required tools, tools that \
            must come before others, limits on calls and failed calls, and declared tools.",
    also_known_as: &[
        ("trajectory:tool-used", "Promptfoo"),
        ("trajectory_single_tool_use", "Vertex AI"),
    ],
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
    ..Kind::PLAIN
};

/// Settings of `tool_policy`. At least one rule is required. Rules take tool names or globs such as
/// `mcp__shop__*`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    /// Tools that must not be called, by name or glob such as `mcp__shop__*`. All rules of
    /// `tool_policy` accept globs.
    forbidden: Vec<String>,
    /// Tools that may be called. All others are violations.
    allowed: Option<Vec<String>>,
    /// Tools that must be called, successfully or not. For a glob, one matching tool is enough.
    required: Vec<String>,
    /// Tools that must have succeeded before another one is called, such as `{refund:
    /// [find_order]}`. A parallel call comes too late.
    required_before: BTreeMap<String, Vec<String>>,
    /// Limit on the calls of a tool, such as `{search: 5}`. A glob limits the calls of all matching
    /// tools together.
    max_calls: BTreeMap<String, usize>,
    /// Limit on the failed calls of a tool. A glob limits all matching tools together: `{"*": 3}`
    /// allows three failures in all. A call that a person refused is no failure.
    max_failed_calls: BTreeMap<String, usize>,
    /// Requires that called tools are declared. If no definitions are known, a call violates the
    /// rule when the framework reports that the tool does not exist. Default `false`.
    declared_only: bool,
    /// Definitions of tools, in addition to those in the trace: a list of `{name, inputSchema}`.
    tools: Option<Value<'static>>,
    /// JSON file with definitions in the form of `tools`, read at the start.
    tools_file: Option<String>,
    /// Rules that recognise failed calls, in addition to the built-in table.
    failures: FailureSettings,
}

struct Policy {
    settings: Settings,
    forbidden: NamePatterns,
    allowed: Option<NamePatterns>,
    /// Tools that must have succeeded before another is called.
    needed: NamePatterns,
    /// Tools whose failures are limited.
    limited: NamePatterns,
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
        || !settings.max_failed_calls.is_empty()
        || settings.declared_only;
    if !has_rule {
        return Err(SettingsError::new("the policy has no rule").with_help(
            "give forbidden, allowed, required, required_before, max_calls, max_failed_calls or \
             declared_only",
        ));
    }
    let definitions = Definitions::new(settings.tools.take(), settings.tools_file.as_deref())?;
    let failures = FailureRules::new(&settings.failures)?;
    Ok(Evaluator::code(Policy {
        forbidden: settings.forbidden.iter().collect(),
        allowed: settings.allowed.as_ref().map(|names| names.iter().collect()),
        needed: settings.required_before.values().flatten().collect(),
        limited: settings.max_failed_calls.keys().collect(),
        settings,
        definitions,
        failures,
    }))
}

impl Policy {
    /// Returns the declared tools, where they matter.
    fn tools<'t>(&'t self, trajectory: &'t Trajectory<'_>) -> Option<Tools<'t>> {
        self.settings.declared_only.then(|| self.definitions.of(trajectory))
    }

    /// Returns the names and globs of the rules that stay silent where a tool never comes.
    fn silent_patterns(&self) -> impl Iterator<Item = UnmatchedRule<'_>> {
        let Settings { required, required_before, max_calls, max_failed_calls, .. } =
            &self.settings;
        let required = required.iter().map(|pattern| ("required", pattern));
        let before =
            required_before.iter().flat_map(|(tool, needed)| [tool].into_iter().chain(needed));
        let before = before.map(|pattern| ("required_before", pattern));
        let most = max_calls.keys().map(|pattern| ("max_calls", pattern));
        let most_failed = max_failed_calls.keys().map(|pattern| ("max_failed_calls", pattern));
        let all = required.chain(before).chain(most).chain(most_failed);
        all.map(|(rule, pattern)| UnmatchedRule { rule, pattern })
    }

    /// Returns those of them that no declared and no called tool matches; none where the trace
    /// declares no tools.
    fn unmatched(&self, trajectory: &Trajectory<'_>) -> Vec<UnmatchedRule<'_>> {
        let Trajectory { tool_definitions, tool_calls, effort, .. } = trajectory;
        if tool_definitions.is_empty() {
            return Vec::new();
        }
        let declared = tool_definitions.iter().map(|tool| &*tool.name);
        let names = || declared.clone().chain(tool_calls.iter().map(|call| &*call.name));
        let is_met = |rule: &UnmatchedRule<'_>| {
            effort.spend((tool_definitions.len() + tool_calls.len()) * STEPS_PER_GLOB);
            names().any(|name| matches_glob(rule.pattern, name))
        };
        self.silent_patterns().filter(|rule| !is_met(rule)).collect()
    }

    fn judge(
        &self,
        (calls, effort): (&[ToolCall<'_>], &WorkBudget),
        tools: Option<&Tools<'_>>,
        unmatched: &[UnmatchedRule<'_>],
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
        if violations.count == 0 && self.lacks_results(calls, effort) {
            return report::not_evaluable(Reason::ResultNotRecorded, want, || {
                "no limited call has a result or a status".to_owned()
            });
        }
        violations.answer(calls.len(), unmatched)
    }

    /// Returns true if failures of some calls are limited, and none of these has a result or a
    /// status.
    fn lacks_results(&self, calls: &[ToolCall<'_>], effort: &WorkBudget) -> bool {
        let mut limited = calls.iter().filter(|call| self.limited.include(&call.name)).peekable();
        limited.peek().is_some()
            && limited.all(|call| self.failures.outcome(call, effort) == CallOutcome::NotRecorded)
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
                for needed in self.needs(tool, effort) {
                    if !done.before(needed, call) {
                        let missing = Some(needed.as_str());
                        broken(Violation { missing, ..Violation::new("required_before", tool) });
                    }
                }
            }
            // Added after the whole group: parallel calls do not come before each other.
            let is_needed = |call: &&ToolCall<'_>| self.needed.include(&call.name);
            group.iter().filter(is_needed).for_each(|call| done.add(call));
        }
        let counts = tally(calls.iter().map(|call| &*call.name));
        let is_missing = |tool: &&String| calls_of(tool, &counts) == 0;
        for tool in rules.required.iter().filter(is_missing) {
            broken(Violation::new("required", tool));
        }
        check_most("max_calls", &rules.max_calls, &counts, broken);
        if !rules.max_failed_calls.is_empty() {
            let is_failed = |call: &&ToolCall<'_>| {
                self.limited.include(&call.name)
                    && matches!(self.failures.outcome(call, effort), CallOutcome::Failed(_))
            };
            let failed = tally(calls.iter().filter(is_failed).map(|call| &*call.name));
            check_most("max_failed_calls", &rules.max_failed_calls, &failed, broken);
        }
    }

    /// Returns the tools that must have succeeded before one is called.
    fn needs<'v>(
        &'v self,
        tool: &str,
        effort: &WorkBudget,
    ) -> impl Iterator<Item = &'v String> + use<'v> {
        let rules = &self.settings.required_before;
        let globs =
            rules.iter().filter(|(pattern, _)| is_glob(pattern) && matches_glob(pattern, tool));
        let own = rules.get(tool).into_iter();
        let all: Vec<&String> = own.chain(globs.map(|(_, needed)| needed)).flatten().collect();
        effort.spend(all.len() * STEPS_PER_NEED);
        all.into_iter()
    }

    fn check_name<'v>(&self, tool: &'v str, broken: &mut dyn FnMut(Violation<'v>)) {
        if self.forbidden.include(tool) {
            broken(Violation::new("forbidden", tool));
        }
        if self.allowed.as_ref().is_some_and(|allowed| !allowed.include(tool)) {
            broken(Violation::new("allowed", tool));
        }
    }
}

/// Reports the tools, or globs of them, with more calls than a rule allows.
fn check_most<'v>(
    rule: &'static str,
    limits: &'v BTreeMap<String, usize>,
    counts: &HashMap<&str, usize>,
    broken: &mut dyn FnMut(Violation<'v>),
) {
    for (tool, most) in limits {
        let count = calls_of(tool, counts);
        if count > *most {
            let calls = Some((count, *most));
            broken(Violation { calls, ..Violation::new(rule, tool) });
        }
    }
}

/// Returns the number of calls of a tool, or of all that a glob matches.
fn calls_of(pattern: &str, counts: &HashMap<&str, usize>) -> usize {
    if !is_glob(pattern) {
        return counts.get(pattern).copied().unwrap_or(0);
    }
    counts.iter().filter(|(tool, _)| matches_glob(pattern, tool)).map(|(_, count)| count).sum()
}

impl CodeEvaluator for Policy {
    fn facts(&self) -> Facts {
        Facts {
            results: !self.settings.required_before.is_empty()
                || !self.settings.max_failed_calls.is_empty()
                || self.settings.declared_only,
            tool_definitions: self.settings.declared_only
                || self.silent_patterns().next().is_some(),
            ..Facts::default()
        }
    }

    fn evaluate(&self, trajectory: &Trajectory<'_>, want: Want) -> Outcome {
        let tools = self.tools(trajectory);
        let unmatched = if want.reasons() { self.unmatched(trajectory) } else { Vec::new() };
        self.judge((&trajectory.tool_calls, &trajectory.effort), tools.as_ref(), &unmatched, want)
    }

    fn call_judge<'t>(
        &'t self,
        trajectory: &'t Trajectory<'_>,
        want: Want,
    ) -> Option<CallJudge<'t>> {
        let tools = self.tools(trajectory);
        Some(Box::new(move |call| {
            let calls = std::slice::from_ref(call);
            self.judge((calls, &trajectory.effort), tools.as_ref(), &[], want)
        }))
    }

    /// Judges by names and counts, which no later span can mend; a later span may yet declare a
    /// tool, or show that one came before.
    fn early(&self, trajectory: &Trajectory<'_>, want: Want) -> Option<Early> {
        let calls = &trajectory.tool_calls[..];
        let mut violations = Violations::new(want);
        calls.iter().for_each(|call| self.check_name(&call.name, &mut |v| violations.add(v)));
        let counts = tally(calls.iter().map(|call| &*call.name));
        check_most("max_calls", &self.settings.max_calls, &counts, &mut |v| violations.add(v));
        let outcome = || violations.answer(calls.len(), &[]);
        (violations.count > 0).then(|| Early { outcome: outcome(), best: 0.0 })
    }
}
