//! What the kinds that judge tool definitions share: rules that hold or not, and their mean; with
//! `judge`, rules and what a judge says to the checks that no rule can make.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::evaluate::inquiry::{Inquired, JudgeAnswer};
use crate::evaluate::judged::DokimosReply;
use crate::evaluate::judged::kind::{JudgedRun, inquire};
use crate::evaluate::judged::question::{Question, QuestionItem, ReplyForm, Scoring};
use crate::evaluate::judged::record::RunRecord;
use crate::evaluate::judged::settings::JudgedSettings;
use crate::evaluate::shared::definitions::{Definitions, InvalidDefinition, Tool};
use crate::evaluate::shared::report;
use crate::model::{Explanation, Facts, Outcome, Reason, Trajectory, Want};
use crate::value::{Map, Value};

/// Something that a good definition keeps.
pub(in crate::evaluate) struct DefinitionRule<S> {
    /// Its name in the details.
    pub name: &'static str,
    /// Whether a definition keeps it.
    pub holds: fn(&Tool<'_>, &S) -> Result<bool, InvalidDefinition>,
}

/// Something that only a judge can tell of a definition.
pub(in crate::evaluate) struct JudgedCheck {
    /// Its name in the details.
    pub name: &'static str,
    /// What holds of a good definition; `Of the tool at seq n: ` stands before it.
    pub holds: &'static str,
}

/// Whose way of asking and counting a judge's checks follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::evaluate) enum ReliabilityCompat {
    /// That of Dokimos: flags of 0 and 1; one that is missing is a 0.
    Dokimos,
}

/// How a judge is asked about definitions.
pub(in crate::evaluate) struct JudgedChecks<'k> {
    /// The settings that all judged kinds share.
    pub settings: &'k JudgedSettings,
    /// How to understand the statements.
    pub guidance: &'static str,
    /// What is asked of each definition.
    pub checks: &'static [JudgedCheck],
    /// Whose flags and counting.
    pub compat: Option<ReliabilityCompat>,
    /// Whether the rules count, beside what the judge says.
    pub counts_rules: bool,
}

/// Definitions that are asked about together; more are too many for one request.
const TOOLS_MAX: usize = 60;

/// Asks a judge about each definition, and joins what it says to the rules.
pub(in crate::evaluate) fn ask<S>(
    definitions: &Definitions,
    trajectory: &Trajectory<'_>,
    (rules, settings): (&[DefinitionRule<S>], &S),
    judged: &JudgedChecks<'_>,
    (threshold, want): (f64, Want),
) -> Inquired {
    let tools = definitions.of(trajectory);
    let run = JudgedRun { trajectory, settings: judged.settings };
    inquire(&run, &[], threshold, want, |_| {
        if tools.all.is_empty() || tools.all.len() > TOOLS_MAX {
            return Err(match tools.all.len() {
                0 => evaluate(definitions, trajectory, rules, settings, want),
                count => report::not_evaluable(Reason::TrajectoryTooLarge, want, || {
                    format!("{count} tools are declared, more than the {TOOLS_MAX} of one request")
                }),
            });
        }
        let parts = tools.all.iter().map(|tool| (tool.name, tool.description, tool.schema));
        let record = RunRecord::of_definitions(parts, &judged.settings.send);
        let mut items = Vec::new();
        for (number, tool) in (1..).zip(&tools.all) {
            items.extend(statements((rules, settings), judged, (number, tool))?);
        }
        let size = items.len() / tools.all.len();
        let form = match judged.compat {
            Some(ReliabilityCompat::Dokimos) => ReplyForm::Dokimos(DokimosReply::Flags),
            None => ReplyForm::Items,
        };
        let guidance = judged.guidance.to_owned();
        Ok(Question { record, guidance, items, form, scoring: Scoring::MeanOfGroups { size } })
    })
}

/// The rules of one definition, settled, and what is asked of it. A check of the same name as a
/// rule joins it: both must hold.
fn statements<S>(
    (rules, settings): (&[DefinitionRule<S>], &S),
    judged: &JudgedChecks<'_>,
    (number, tool): (usize, &Tool<'_>),
) -> Result<Vec<QuestionItem>, Outcome> {
    let mut kept = Vec::new();
    for rule in rules {
        let holds = (rule.holds)(tool, settings).map_err(|error| invalid(tool, error))?;
        kept.push((rule.name, holds));
    }
    let is_asked = |name: &str| judged.checks.iter().any(|check| check.name == name);
    let by_rules = kept.iter().filter(|(name, _)| judged.counts_rules && !is_asked(name));
    let mut items: Vec<QuestionItem> = by_rules
        .map(|(name, holds)| QuestionItem {
            settled: Some(if *holds { JudgeAnswer::Yes } else { JudgeAnswer::No }),
            ..QuestionItem::new(String::new()).named(format!("{}: {name}", tool.name))
        })
        .collect();
    items.extend(judged.checks.iter().map(|check| {
        // A number and no name: names are written by strangers.
        let words = match judged.compat {
            Some(_) => format!("Tool {number} [{}]: {}", check.name, check.holds),
            None => format!("Of the tool at seq {number}: {}", check.holds),
        };
        let is_broken = kept.iter().any(|(rule, holds)| *rule == check.name && !holds);
        QuestionItem {
            settled: is_broken.then_some(JudgeAnswer::No),
            flag: judged.compat.map(|_| (number, check.name)),
            ..QuestionItem::new(words).named(format!("{}: {}", tool.name, check.name))
        }
    }));
    Ok(items)
}

fn invalid(tool: &Tool<'_>, error: InvalidDefinition) -> Outcome {
    Outcome::Failed {
        error_type: "invalid_tool_definition",
        error: format!("the schema of `{}`: {error}", tool.name),
    }
}

/// The facts that definitions are judged by.
pub(in crate::evaluate) fn facts() -> Facts {
    Facts { tool_definitions: true, ..Facts::default() }
}

/// The share of rules that each tool keeps, and its mean over the tools.
pub(in crate::evaluate) fn evaluate<S>(
    definitions: &Definitions,
    trajectory: &Trajectory<'_>,
    rules: &[DefinitionRule<S>],
    settings: &S,
    want: Want,
) -> Outcome {
    let tools = definitions.of(trajectory);
    if tools.all.is_empty() {
        return if definitions.is_given() {
            report::scored(1.0, want, || "no tool is declared", Map::new)
        } else {
            report::not_evaluable(Reason::ToolDefinitionsNotRecorded, want, || {
                "no definition of the tools is known".to_owned()
            })
        };
    }
    let mut sum = 0.0;
    for tool in &tools.all {
        let mut kept = 0;
        for rule in rules {
            match (rule.holds)(tool, settings) {
                Ok(holds) => kept += usize::from(holds),
                Err(error) => return invalid(tool, error),
            }
        }
        sum += report::ratio(kept, rules.len());
    }
    let holds = |rule: &DefinitionRule<S>, tool: &Tool<'_>| {
        matches!((rule.holds)(tool, settings), Ok(true))
    };
    let explain = || {
        let broken = tools.all.iter().map(|tool| {
            let broken = rules.iter().filter(|rule| !holds(rule, tool)).map(|rule| rule.name);
            (tool.name, broken.collect::<Vec<_>>())
        });
        let broken: Vec<_> = broken.filter(|(_, broken)| !broken.is_empty()).collect();
        let all = tools.all.len();
        if broken.is_empty() {
            return Explanation::plain(format!("all {all} tools keep all rules"));
        }
        let mut words = Explanation::plain(format!("{} of {all} tools break rules", broken.len()));
        report::few(&mut words, broken, |words, (tool, broken)| {
            words.push(&format!("{tool}: {}", report::names(broken)));
        });
        words
    };
    let details = || {
        let results = tools.all.iter().map(|tool| {
            let checks: Map<'_> =
                rules.iter().map(|rule| (rule.name, Value::from(holds(rule, tool)))).collect();
            let entry: Map<'_> =
                [("name", Value::from(tool.name.to_owned())), ("rules", Value::Map(checks))]
                    .into_iter()
                    .collect();
            Value::Map(entry)
        });
        [("results", Value::List(results.collect()))].into_iter().collect()
    };
    report::scored(sum / tools.all.len() as f64, want, explain, details)
}
