//! What the kinds that judge tool definitions share: rules that hold or not, and their mean.

use crate::evaluate::shared::definitions::{Definitions, InvalidDefinition, Tool};
use crate::evaluate::shared::report;
use crate::model::{Explanation, Outcome, Reason, Trajectory, Want};
use crate::value::{Map, Value};

/// Something that a good definition keeps.
pub(in crate::evaluate) struct DefinitionRule<S> {
    /// Its name in the details.
    pub name: &'static str,
    /// Whether a definition keeps it.
    pub holds: fn(&Tool<'_>, &S) -> Result<bool, InvalidDefinition>,
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
                Err(error) => {
                    return Outcome::Failed {
                        error_type: "invalid_tool_definition",
                        error: format!("the schema of `{}`: {error}", tool.name),
                    };
                }
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
