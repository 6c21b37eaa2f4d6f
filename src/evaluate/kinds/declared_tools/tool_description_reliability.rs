//! `tool_description_reliability`: whether the schemas of the declared tools are well described.
//!
//! Four rules of Dokimos, on the top level of the schema; the checks that need a judge are not
//! among them.

use std::borrow::Cow;

use hashbrown::HashSet;
use schemars::JsonSchema;
use serde::Deserialize;

use super::reliability::{DefinitionRule, evaluate};
use crate::evaluate::evaluator::{Evaluator, Kind};
use crate::evaluate::shared::definitions::{Definitions, Tool, required};
use crate::model::{Facts, Outcome, Trajectory, Want};
use crate::settings::{Node, SettingsError};
use crate::value::Value;

/// `tool_description_reliability`.
pub static KIND: Kind = Kind {
    name: "tool_description_reliability",
    about: "Whether the declared tools describe their arguments: each with a description and a \
            type, and not too many of them.",
    also_known_as: &[("ToolDescriptionReliabilityEvaluator", "Dokimos")],
    threshold: 0.8,
    needs_criteria: false,
    early: false,
    schema: || schemars::schema_for!(Settings),
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
}

impl Default for Settings {
    fn default() -> Self {
        Self { max_input_args: 5, max_optional_args: 3, tools: None, tools_file: None }
    }
}

struct DescriptionLimits {
    input_args_max: usize,
    optional_args_max: usize,
}

struct Descriptions {
    limits: DescriptionLimits,
    definitions: Definitions,
}

fn build(node: &Node) -> Result<Box<dyn Evaluator>, SettingsError> {
    let settings: Settings = node.read()?;
    Ok(Box::new(Descriptions {
        limits: DescriptionLimits {
            input_args_max: settings.max_input_args,
            optional_args_max: settings.max_optional_args,
        },
        definitions: Definitions::new(settings.tools, settings.tools_file.as_deref())?,
    }))
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
        Facts { tool_definitions: true, ..Facts::default() }
    }

    fn evaluate(&self, trajectory: &Trajectory<'_>, want: Want) -> Outcome {
        evaluate(&self.definitions, trajectory, &RULES, &self.limits, want)
    }
}
