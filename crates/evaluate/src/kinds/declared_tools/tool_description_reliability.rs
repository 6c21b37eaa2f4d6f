//! `tool_description_reliability`: rules for well described schemas of the declared tools.
//!
//! Has Dokimos' four rules on the top level of the schema; with `judge`, nine checks by a judge.

use std::borrow::Cow;

use hashbrown::HashSet;
use schemars::JsonSchema;
use serde::Deserialize;
use smart_default::SmartDefault;

use super::reliability::{DefinitionChecks, DefinitionRule, JudgedCheck, build, schema};
use crate::evaluator::Kind;
use crate::shared::definitions::{Tool, required};
use spanscore_base::value::Value;

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

/// Registry entry of `tool_description_reliability`.
pub static KIND: Kind = Kind {
    name: "tool_description_reliability",
    about: "Quality of the definitions of declared tools: each argument has a description and a \
            type, and there are not too many arguments. With `judge`, a judge rates what rules \
            cannot.",
    also_known_as: &[("ToolDescriptionReliabilityEvaluator", "Dokimos")],
    threshold: 0.8,
    schema: schema::<Settings>,
    build: |node| build(node, &WANTED, |limits: Settings| limits),
    example: "\
tool_description_reliability:
  max_input_args: 8
",
    ..Kind::PLAIN
};

/// Settings of `tool_description_reliability`.
#[derive(Clone, Debug, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    /// Recommended maximum of arguments of a tool. Default 5.
    #[default = 5]
    max_input_args: usize,
    /// Recommended maximum of optional arguments of a tool. Default 3.
    #[default = 3]
    max_optional_args: usize,
}

static WANTED: DefinitionChecks<Settings> =
    DefinitionChecks { rules: &RULES, checks: &CHECKS, guidance: GUIDANCE };

static RULES: [DefinitionRule<Settings>; 4] = [
    DefinitionRule {
        name: "input_arguments_clarity",
        holds: |tool, _| Ok(all_have(tool, "description")),
    },
    DefinitionRule { name: "input_arguments_types", holds: |tool, _| Ok(all_have(tool, "type")) },
    DefinitionRule {
        name: "max_num_input_arguments",
        holds: |tool, limits| Ok(properties(tool).count() <= limits.max_input_args),
    },
    DefinitionRule {
        name: "max_optional_input_arguments",
        holds: |tool, limits| {
            let required = required(tool.schema)?;
            let required = declared_count(tool, &required);
            Ok(properties(tool).count().saturating_sub(required) <= limits.max_optional_args)
        },
    },
];

/// Counts the names that are arguments of the tool.
fn declared_count(tool: &Tool<'_>, names: &[Cow<'_, str>]) -> usize {
    /// Number of arguments up to which names are searched for linearly; beyond it a table is built.
    const SEARCHED_MAX: usize = 16;
    let declared = || properties(tool).map(|(name, _)| name);
    if declared().count() <= SEARCHED_MAX {
        return names.iter().filter(|name| declared().any(|other| other == **name)).count();
    }
    let declared: HashSet<&str> = declared().collect();
    names.iter().filter(|name| declared.contains(&***name)).count()
}

/// Returns true if each argument's schema has a keyword.
fn all_have(tool: &Tool<'_>, keyword: &str) -> bool {
    properties(tool).all(|(_, schema)| schema.get(keyword).is_some())
}

fn properties<'t>(tool: &Tool<'t>) -> impl Iterator<Item = (&'t str, &'t Value<'t>)> {
    let properties = tool.schema.get("properties").and_then(Value::as_map);
    properties.into_iter().flat_map(|map| map.iter())
}
