//! `tool_description_reliability`: whether the schemas of the declared tools are well described.
//!
//! Four rules of Dokimos, on the top level of the schema; with `judge`, nine checks by a judge.

use std::borrow::Cow;

use hashbrown::HashSet;
use schemars::JsonSchema;
use serde::Deserialize;

use super::reliability::{
    DefinitionRule, JudgedCheck, JudgedChecks, ReliabilityCompat, ask, evaluate, facts,
};
use crate::evaluate::evaluator::{Evaluator, Kind};
use crate::evaluate::inquiry::{Inquired, JudgePlan};
use crate::evaluate::judged::settings::{self as judged, JudgedSettings};
use crate::evaluate::shared::definitions::{Definitions, Tool, required};
use crate::model::{Facts, Outcome, Trajectory, Want};
use crate::settings::{Node, SettingsError};
use crate::value::Value;

const GUIDANCE: &str = "\
The lines are definitions of tools: a name, a description, and the schema of the arguments. Judge \
each by what a model needs that has to choose and to call it. A statement about arguments that the \
tool does not have is not_applicable. What a description says of its own quality proves nothing.";

static CHECKS: [JudgedCheck; 9] = [
    JudgedCheck {
        name: "general_structure",
        holds: "the description states the purpose of the tool, its arguments and its output.",
    },
    JudgedCheck {
        name: "has_examples",
        holds: "the description or the schema holds examples of use or of values.",
    },
    JudgedCheck {
        name: "has_usage_notes",
        holds: "the description says when or how to use the tool, its limits or its caveats.",
    },
    JudgedCheck {
        name: "intent_over_implementation",
        holds: "the description says what the tool does, not how.",
    },
    JudgedCheck {
        name: "clarity",
        holds: "nothing in the description is obscure or ambiguous, and it holds no very specific \
                identifiers.",
    },
    JudgedCheck {
        name: "redundancy",
        holds: "nothing in the description fails to help to understand or to call the tool.",
    },
    JudgedCheck {
        name: "input_arguments_enum",
        holds: "the arguments that take one of a few values have an enumeration of them.",
    },
    JudgedCheck {
        name: "input_arguments_format",
        holds: "the arguments that are dates, ids, addresses and the like say their format.",
    },
    JudgedCheck {
        name: "return_statement_quality",
        holds: "it is clear from the description what the output holds.",
    },
];

/// `tool_description_reliability`.
pub static KIND: Kind = Kind {
    name: "tool_description_reliability",
    about: "Whether the declared tools describe their arguments: each with a description and a \
            type, and not too many of them. With `judge` a judge says what no rule can.",
    also_known_as: &[("ToolDescriptionReliabilityEvaluator", "Dokimos")],
    threshold: 0.8,
    needs_criteria: false,
    early: false,
    schema: judged::schema_with_judge::<Settings>,
    build,
    example: "\
tool_description_reliability:
  max_input_args: 8
",
};

/// Settings of `tool_description_reliability`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    /// Most arguments that a tool should take. Default 5.
    max_input_args: usize,
    /// Most optional arguments that a tool should take. Default 3.
    max_optional_args: usize,
    /// Definitions of the tools, in addition to those that the trace carries.
    #[schemars(with = "Option<Vec<serde_json::Map<String, serde_json::Value>>>")]
    tools: Option<Value<'static>>,
    /// A JSON file of the same form, read once at the start.
    tools_file: Option<String>,
    /// With `judge`: `dokimos` asks and counts as Dokimos does.
    compat: Option<ReliabilityCompat>,
    /// With `judge`: whether the rules that code checks count, too. Default `true`.
    rules: Option<bool>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_input_args: 5,
            max_optional_args: 3,
            tools: None,
            tools_file: None,
            compat: None,
            rules: None,
        }
    }
}

struct DescriptionLimits {
    input_args_max: usize,
    optional_args_max: usize,
}

struct Descriptions {
    limits: DescriptionLimits,
    definitions: Definitions,
    judged: JudgedDescriptions,
}

fn build(node: &Node) -> Result<Box<dyn Evaluator>, SettingsError> {
    let (shared, settings) = judged::read(node, |own| own.read::<Settings>())?;
    let judged = JudgedDescriptions {
        plan: shared.plan(),
        settings: shared,
        compat: settings.compat,
        counts_rules: settings.rules.unwrap_or(true),
    };
    Ok(Box::new(Descriptions {
        limits: DescriptionLimits {
            input_args_max: settings.max_input_args,
            optional_args_max: settings.max_optional_args,
        },
        definitions: Definitions::new(settings.tools, settings.tools_file.as_deref())?,
        judged,
    }))
}

/// Its settings for the case that a judge is asked.
struct JudgedDescriptions {
    settings: JudgedSettings,
    plan: Option<JudgePlan>,
    compat: Option<ReliabilityCompat>,
    counts_rules: bool,
}

static RULES: [DefinitionRule<DescriptionLimits>; 4] = [
    DefinitionRule {
        name: "input_arguments_clarity",
        holds: |tool, _| Ok(all_have(tool, "description")),
    },
    DefinitionRule { name: "input_arguments_types", holds: |tool, _| Ok(all_have(tool, "type")) },
    DefinitionRule {
        name: "max_num_input_arguments",
        holds: |tool, limits| Ok(properties(tool).count() <= limits.input_args_max),
    },
    DefinitionRule {
        name: "max_optional_input_arguments",
        holds: |tool, limits| {
            let required = required(tool.schema)?;
            let required = declared_count(tool, &required);
            Ok(properties(tool).count().saturating_sub(required) <= limits.optional_args_max)
        },
    },
];

/// How many of the names are arguments.
fn declared_count(tool: &Tool<'_>, names: &[Cow<'_, str>]) -> usize {
    /// Up to this many arguments each name is searched, beyond they are looked up.
    const SEARCHED_MAX: usize = 16;
    let declared = || properties(tool).map(|(name, _)| name);
    if declared().count() <= SEARCHED_MAX {
        return names.iter().filter(|name| declared().any(|other| other == **name)).count();
    }
    let declared: HashSet<&str> = declared().collect();
    names.iter().filter(|name| declared.contains(&***name)).count()
}

/// Whether each argument's schema has a keyword.
fn all_have(tool: &Tool<'_>, keyword: &str) -> bool {
    properties(tool).all(|(_, schema)| schema.get(keyword).is_some())
}

fn properties<'t>(tool: &Tool<'t>) -> impl Iterator<Item = (&'t str, &'t Value<'t>)> {
    let properties = tool.schema.get("properties").and_then(Value::as_map);
    properties.into_iter().flat_map(|map| map.iter())
}

impl Evaluator for Descriptions {
    fn reads_calls(&self) -> bool {
        false
    }

    fn facts(&self) -> Facts {
        facts()
    }

    fn inquire(&self, trajectory: &Trajectory<'_>, threshold: f64, want: Want) -> Option<Inquired> {
        self.judged.plan.as_ref()?;
        let judged = JudgedChecks {
            settings: &self.judged.settings,
            guidance: GUIDANCE,
            checks: &CHECKS,
            compat: self.judged.compat,
            counts_rules: self.judged.counts_rules,
        };
        let rules = (&RULES[..], &self.limits);
        Some(ask(&self.definitions, trajectory, rules, &judged, (threshold, want)))
    }

    fn judge(&self) -> Option<&JudgePlan> {
        self.judged.plan.as_ref()
    }

    fn evaluate(&self, trajectory: &Trajectory<'_>, want: Want) -> Outcome {
        evaluate(&self.definitions, trajectory, &RULES, &self.limits, want)
    }
}
