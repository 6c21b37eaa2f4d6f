//! Checks of tool definitions: the mean of rules in code; with `judge` also checks that need a
//! judge.

use schemars::{JsonSchema, Schema};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::evaluator::{CodeEvaluator, Evaluator, JudgedEvaluator};
use crate::inquiry::{Inquired, JudgeAnswer, JudgePlan};
use crate::judged::DokimosReply;
use crate::judged::kind::{JudgedRun, inquire};
use crate::judged::question::{Question, QuestionItem, ReplyForm, Scoring};
use crate::judged::record::RunRecord;
use crate::judged::settings::{self as judged, JudgedSettings};
use crate::shared::definitions::{Definitions, InvalidDefinition, Tool};
use crate::shared::report;
use spanscore_base::model::{Explanation, Facts, Outcome, Reason, Trajectory, Want};
use spanscore_base::settings::{Node, SettingsError, schema_of_both};
use spanscore_base::value::{Map, Value};

/// Rule for good definitions.
pub(crate) struct DefinitionRule<S> {
    /// Name in the details.
    pub name: &'static str,
    /// Returns true if a definition satisfies the rule.
    pub holds: fn(&Tool<'_>, &S) -> Result<bool, InvalidDefinition>,
}

/// Check of a definition by a judge.
pub(crate) struct JudgedCheck {
    /// Name in the details.
    pub name: &'static str,
    /// Statement true of a good definition; its prefix is `Of the tool at seq n: `.
    pub holds: &'static str,
}

/// System whose prompt and scores are reproduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ReliabilityCompat {
    /// Dokimos: each check is 0 or 1, and a missing one is 0.
    Dokimos,
}

/// Rules and checks of a kind; `S` holds the limits of its rules.
pub(crate) struct DefinitionChecks<S: 'static> {
    /// Rules checked by code.
    pub rules: &'static [DefinitionRule<S>],
    /// Checks made by a judge.
    pub checks: &'static [JudgedCheck],
    /// Instructions for judging the statements.
    pub guidance: &'static str,
}

/// Settings of the kinds that judge definitions of tools.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct DefinitionSettings {
    /// Definitions of tools, in addition to those in the trace: a list of `{name, inputSchema}`.
    #[schemars(with = "Option<Vec<serde_json::Map<String, serde_json::Value>>>")]
    tools: Option<Value<'static>>,
    /// JSON file with definitions in the form of `tools`, read at the start.
    tools_file: Option<String>,
    /// With `judge`: `dokimos` reproduces the prompt and the scores of Dokimos.
    compat: Option<ReliabilityCompat>,
    /// With `judge`: includes the rules that code checks in the score. Default `true`.
    rules: Option<bool>,
}

/// Evaluator of tool definitions by rules only.
struct Reliability<S: 'static> {
    wanted: &'static DefinitionChecks<S>,
    limits: S,
    definitions: Definitions,
}

/// Evaluator of tool definitions by rules and a judge.
struct JudgedReliability<S: 'static> {
    by_rules: Reliability<S>,
    plan: JudgePlan,
    /// Shared settings of judged kinds.
    judged: JudgedSettings,
    /// System whose counting and flags are reproduced.
    compat: Option<ReliabilityCompat>,
    /// True if the rules count besides the judge's answers.
    counts_rules: bool,
}

/// Builds the evaluator of a kind; `limits` converts its settings into the limits of its rules.
pub(crate) fn build<O: DeserializeOwned, S: Send + Sync>(
    node: &Node,
    wanted: &'static DefinitionChecks<S>,
    limits: impl FnOnce(O) -> S,
) -> Result<Evaluator, SettingsError> {
    let (judged, (own, settings)) =
        judged::read(node, |rest| rest.read_both::<O, DefinitionSettings>())?;
    let DefinitionSettings { tools, tools_file, compat, rules } = settings;
    let definitions = Definitions::new(tools, tools_file.as_deref())?;
    let by_rules = Reliability { wanted, limits: limits(own), definitions };
    let Some(plan) = judged.plan() else { return Ok(Evaluator::code(by_rules)) };
    let counts_rules = rules.unwrap_or(true);
    let asking = JudgedReliability { by_rules, plan, judged, compat, counts_rules };
    Ok(Evaluator::Judged(Box::new(asking)))
}

/// Returns the schema of a kind with its specific settings.
pub(crate) fn schema<O: JsonSchema>() -> Schema {
    judged::schema_with_judge(schema_of_both::<O, DefinitionSettings>())
}

/// Returns the facts needed by both evaluators.
fn facts() -> Facts {
    Facts { tool_definitions: true, ..Facts::default() }
}

impl<S: Send + Sync> CodeEvaluator for Reliability<S> {
    fn facts(&self) -> Facts {
        facts()
    }

    fn reads_calls(&self) -> bool {
        false
    }

    /// Returns the share of satisfied rules of each tool, averaged over the tools.
    fn evaluate(&self, trajectory: &Trajectory<'_>, want: Want) -> Outcome {
        let rules = self.wanted.rules;
        let limits = &self.limits;
        let tools = self.definitions.of(trajectory);
        if tools.all.is_empty() {
            return self.without_tools(want);
        }
        let mut sum = 0.0;
        for tool in &tools.all {
            let mut kept = 0;
            for rule in rules {
                match (rule.holds)(tool, limits) {
                    Ok(holds) => kept += usize::from(holds),
                    Err(error) => return invalid(tool, error),
                }
            }
            sum += report::ratio(kept, rules.len());
        }
        let explain = || explain(&tools.all, rules, limits);
        let details = || details(&tools.all, rules, limits);
        report::scored(sum / tools.all.len() as f64, want, explain, details)
    }
}

/// Limit on the definitions in one request.
const TOOLS_MAX: usize = 60;

impl<S: Send + Sync> JudgedEvaluator for JudgedReliability<S> {
    fn facts(&self) -> Facts {
        facts()
    }

    fn plan(&self) -> &JudgePlan {
        &self.plan
    }

    /// Asks about each definition, with the rules as settled statements.
    fn inquire(&self, trajectory: &Trajectory<'_>, threshold: f64, want: Want) -> Inquired {
        let tools = self.by_rules.definitions.of(trajectory);
        let run = JudgedRun { trajectory, settings: &self.judged };
        inquire(&run, &[], threshold, want, |_| {
            if tools.all.is_empty() || tools.all.len() > TOOLS_MAX {
                return Err(match tools.all.len() {
                    0 => self.by_rules.without_tools(want),
                    count => report::not_evaluable(Reason::TrajectoryTooLarge, want, || {
                        format!(
                            "{count} tools are declared, more than the {TOOLS_MAX} of one request"
                        )
                    }),
                });
            }
            let parts = tools.all.iter().map(|tool| (tool.name, tool.description, tool.schema));
            let record = RunRecord::of_definitions(parts, &self.judged.send);
            let mut items = Vec::new();
            for (number, tool) in (1..).zip(&tools.all) {
                items.extend(self.statements(number, tool)?);
            }
            let size = items.len() / tools.all.len();
            let form = match self.compat {
                Some(ReliabilityCompat::Dokimos) => ReplyForm::Dokimos(DokimosReply::Flags),
                None => ReplyForm::Items,
            };
            let guidance = self.by_rules.wanted.guidance.to_owned();
            Ok(Question { record, guidance, items, form, scoring: Scoring::MeanOfGroups { size } })
        })
    }
}

impl<S> JudgedReliability<S> {
    /// Builds the statements about one definition: settled rules, and checks. A check with a rule's
    /// name joins it: both must hold.
    fn statements(&self, number: usize, tool: &Tool<'_>) -> Result<Vec<QuestionItem>, Outcome> {
        let Reliability { wanted, limits, .. } = &self.by_rules;
        let mut kept = Vec::new();
        for rule in wanted.rules {
            let holds = (rule.holds)(tool, limits).map_err(|error| invalid(tool, error))?;
            kept.push((rule.name, holds));
        }
        let checks = wanted.checks;
        let is_asked = |name: &str| checks.iter().any(|check| check.name == name);
        let by_rules = kept.iter().filter(|(name, _)| self.counts_rules && !is_asked(name));
        let mut items: Vec<QuestionItem> = by_rules
            .map(|(name, holds)| QuestionItem {
                settled: Some(if *holds { JudgeAnswer::Yes } else { JudgeAnswer::No }),
                ..QuestionItem::new(String::new()).named(format!("{}: {name}", tool.name))
            })
            .collect();
        items.extend(checks.iter().map(|check| {
            // Identified by number, since names come from traces.
            let words = match self.compat {
                Some(_) => format!("Tool {number} [{}]: {}", check.name, check.holds),
                None => format!("Of the tool at seq {number}: {}", check.holds),
            };
            let is_broken = kept.iter().any(|(rule, holds)| *rule == check.name && !holds);
            QuestionItem {
                settled: is_broken.then_some(JudgeAnswer::No),
                flag: self.compat.map(|_| (number, check.name)),
                ..QuestionItem::new(words).named(format!("{}: {}", tool.name, check.name))
            }
        }));
        Ok(items)
    }
}

impl<S> Reliability<S> {
    fn without_tools(&self, want: Want) -> Outcome {
        if self.definitions.is_given() {
            return report::scored(1.0, want, || "no tool is declared", Map::new);
        }
        report::not_evaluable(Reason::ToolDefinitionsNotRecorded, want, || {
            "no definition of the tools is known".to_owned()
        })
    }
}

fn invalid(tool: &Tool<'_>, error: InvalidDefinition) -> Outcome {
    Outcome::Failed {
        error_type: "invalid_tool_definition",
        error: format!("the schema of `{}`: {error}", tool.name),
    }
}

fn holds<S>(rule: &DefinitionRule<S>, tool: &Tool<'_>, limits: &S) -> bool {
    matches!((rule.holds)(tool, limits), Ok(true))
}

fn explain<S>(tools: &[Tool<'_>], rules: &[DefinitionRule<S>], limits: &S) -> Explanation {
    let broken = tools.iter().map(|tool| {
        let broken = rules.iter().filter(|rule| !holds(rule, tool, limits)).map(|rule| rule.name);
        (tool.name, broken.collect::<Vec<_>>())
    });
    let broken: Vec<_> = broken.filter(|(_, broken)| !broken.is_empty()).collect();
    let all = tools.len();
    if broken.is_empty() {
        return Explanation::plain(format!("all {all} tools keep all rules"));
    }
    let mut words = Explanation::plain(format!("{} of {all} tools break rules", broken.len()));
    report::few(&mut words, broken, |words, (tool, broken)| {
        words.push(&format!("{tool}: {}", report::names(broken)));
    });
    words
}

fn details<S>(tools: &[Tool<'_>], rules: &[DefinitionRule<S>], limits: &S) -> Map<'static> {
    let results = tools.iter().map(|tool| {
        let kept = rules.iter().map(|rule| (rule.name, Value::from(holds(rule, tool, limits))));
        let name = ("name", Value::from(tool.name.to_owned()));
        Value::Map(Map::from([name, ("rules", Value::Map(kept.collect()))]))
    });
    Map::from([("results", Value::List(results.collect()))])
}
