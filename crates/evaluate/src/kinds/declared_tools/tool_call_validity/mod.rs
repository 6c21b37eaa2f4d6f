//! `tool_call_validity`: the share of tool calls valid by their tool's definition.
//!
//! `schema: basic` checks as Dokimos does: required and unexpected parameters, and the type and
//! enumeration of each, one level deep. `schema: full` is JSON Schema. A call of an undeclared tool
//! is invalid. Unrecorded arguments are not judged, nor are those of a tool with a malformed
//! schema.

mod basic;
mod compiled;
mod cost;
mod dialects;
mod full;
mod pattern;

use std::fmt::Write as _;

use hashbrown::HashMap;
use schemars::JsonSchema;
use serde::Deserialize;

use self::basic::BasicRules;
use crate::compat::DokimosCompat;
use crate::evaluator::{CallJudge, CodeEvaluator, Evaluator, Kind};
use crate::shared::definitions::{Definitions, InvalidDefinition, Tools};
use crate::shared::report;
use crate::shared::step_limit::{self, WorkBudget};
use spanscore_base::model::{
    Content, Explanation, Facts, Outcome, Reason, ToolCall, Trajectory, Want,
};
use spanscore_base::settings::{Node, SettingsError};
use spanscore_base::value::{Map, Value};

/// Limit on the errors listed for one call.
const ERRORS_MAX: usize = 10;

/// Registry entry of `tool_call_validity`.
pub static KIND: Kind = Kind {
    name: "tool_call_validity",
    about: "Share of the tool calls that name a declared tool and whose arguments its schema \
            allows.",
    also_known_as: &[("ToolCallValidityEvaluator", "Dokimos")],
    schema: || schemars::schema_for!(Settings),
    build,
    example: "\
tool_call_validity:
  schema: full
  tools:
    - name: book_hotel
      inputSchema:
        type: object
        properties:
          city: {type: string, minLength: 1}
          nights: {type: integer, minimum: 1}
        required: [city]
        additionalProperties: false
",
    ..Kind::PLAIN
};

/// Extent of the check against a schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Depth {
    /// `required`, `additionalProperties: false`, and `type` and `enum` of each parameter.
    #[default]
    Basic,
    /// All of JSON Schema, drafts 4 to 2020-12 as `$schema` says, 2020-12 by default. Regular
    /// expressions run in linear time. References to other documents are errors.
    Full,
}

/// Settings of `tool_call_validity`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    /// Extent of the check against a schema: `basic` (default) or `full`.
    schema: Depth,
    /// Counts undeclared parameters as errors even if `additionalProperties` allows them. Only with
    /// `schema: basic`. Default `false`.
    strict_mode: bool,
    /// Definitions of the tools: a list of `{name, inputSchema}`, or the `tools` of an MCP server
    /// or a model request. They take precedence over definitions in the trace. Default: the
    /// definitions in the trace.
    #[schemars(with = "Option<Vec<serde_json::Map<String, serde_json::Value>>>")]
    tools: Option<Value<'static>>,
    /// JSON file with definitions in the form of `tools`, read at the start.
    tools_file: Option<String>,
    /// `dokimos` reproduces the scores of Dokimos: arguments that are not recorded are empty, and a
    /// trace without calls scores 1.
    compat: Option<DokimosCompat>,
}

struct Validity {
    full: Option<full::Validators>,
    strict: bool,
    definitions: Definitions,
    dokimos: bool,
}

fn build(node: &Node) -> Result<Evaluator, SettingsError> {
    let settings: Settings = node.read()?;
    if settings.strict_mode && settings.schema == Depth::Full {
        return Err(SettingsError::new("`strict_mode` goes only with `schema: basic`"));
    }
    Ok(Evaluator::code(Validity {
        full: (settings.schema == Depth::Full).then(full::Validators::default),
        strict: settings.strict_mode,
        definitions: Definitions::new(settings.tools, settings.tools_file.as_deref())?,
        dokimos: settings.compat.is_some(),
    }))
}

/// Validity of one call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CallValidity {
    Valid,
    Invalid,
    NotRecorded,
    /// The recorded schema is malformed.
    Unusable,
}

/// Reason why a call cannot be checked against its definition.
#[derive(Debug, thiserror::Error)]
enum DefinitionError {
    #[error(transparent)]
    Invalid(#[from] InvalidDefinition),
    #[error(transparent)]
    Full(#[from] full::SchemaError),
}

/// State for one trajectory: compiled schemas and the work budget.
struct ValidityWork<'t> {
    schemas: full::SchemasByAddress,
    /// Schemas converted from other dialects, by the addresses of the definitions.
    rewritten: HashMap<usize, Option<Box<Value<'static>>>>,
    effort: &'t WorkBudget,
}

/// Error in a call.
trait Problem {
    /// Describes the error, without the value.
    fn words(&self) -> Explanation;
}

impl Problem for &'static str {
    fn words(&self) -> Explanation {
        Explanation::plain(*self)
    }
}

/// Call with descriptions of its errors.
struct DescribedCall {
    name: String,
    validity: CallValidity,
    errors: Vec<Explanation>,
}

impl<'t> ValidityWork<'t> {
    fn new(effort: &'t WorkBudget) -> Self {
        Self { schemas: full::SchemasByAddress::new(), rewritten: HashMap::new(), effort }
    }
}

/// Returns a definition's schema as JSON Schema.
fn plain_schema<'s>(
    schema: &'s Value<'s>,
    rewritten: &'s mut HashMap<usize, Option<Box<Value<'static>>>>,
    effort: &WorkBudget,
) -> &'s Value<'s> {
    let address = std::ptr::from_ref(schema) as usize;
    let rewrite = || {
        effort.spend(schema.node_count());
        dialects::as_json_schema(schema).map(Box::new)
    };
    rewritten.entry(address).or_insert_with(rewrite).as_deref().unwrap_or(schema)
}

impl Validity {
    /// Checks one call; passes each error to `error`.
    fn find(
        &self,
        tools: &Tools<'_>,
        call: &ToolCall<'_>,
        work: &mut ValidityWork<'_>,
        error: &mut dyn FnMut(&dyn Problem),
    ) -> Result<CallValidity, DefinitionError> {
        let empty = Value::Map(Map::new());
        let Some(tool) = tools.of_call(call) else {
            error(&"the tool is not declared");
            return Ok(CallValidity::Invalid);
        };
        let arguments = match &call.arguments {
            Content::Recorded(value) => value.get(),
            _ if self.dokimos => &empty,
            _ => return Ok(CallValidity::NotRecorded),
        };
        let arguments = match arguments {
            Value::Null => &empty,
            Value::Map(_) => arguments,
            _ => {
                error(&"the arguments are not an object");
                return Ok(CallValidity::Invalid);
            }
        };
        let ValidityWork { schemas, rewritten, effort } = work;
        let schema =
            if self.dokimos { tool.schema } else { plain_schema(tool.schema, rewritten, effort) };
        let mut valid = true;
        let mut tell = |what: &dyn Problem| {
            valid = false;
            error(what);
        };
        match &self.full {
            Some(validators) => {
                validators.check(schema, arguments, (schemas, effort), &mut tell)?;
            }
            None => {
                if !effort.spend(basic::steps(schema, arguments)) {
                    return Err(full::SchemaError::TooMuch.into());
                }
                let rules = BasicRules { strict: self.strict, dokimos: self.dokimos };
                basic::check(schema, arguments, rules, &mut tell)?;
            }
        }
        Ok(if valid { CallValidity::Valid } else { CallValidity::Invalid })
    }

    /// Describes each call, for the details and the explanation.
    fn results(
        &self,
        tools: &Tools<'_>,
        calls: &[ToolCall<'_>],
        work: &mut ValidityWork<'_>,
    ) -> Vec<DescribedCall> {
        let describe = |call: &ToolCall<'_>| {
            let mut errors = Vec::new();
            let finding = self.find(tools, call, work, &mut |error| {
                if errors.len() < ERRORS_MAX {
                    errors.push(error.words());
                }
            });
            let validity = finding.unwrap_or(CallValidity::Unusable);
            DescribedCall { name: call.name.to_string(), validity, errors }
        };
        calls.iter().map(describe).collect()
    }

    fn explain(results: &[DescribedCall], valid: usize, judged: usize) -> Explanation {
        let mut words = Explanation::plain(format!("{valid} of {judged} tool calls are valid"));
        let each = (1..).zip(results);
        let invalid = each.filter(|(_, call)| call.validity == CallValidity::Invalid);
        report::few(&mut words, invalid, |words, (place, call)| {
            // Writing to a string cannot fail.
            let _ = write!(words, "{} (call {place}): ", call.name);
            for (index, error) in call.errors.iter().enumerate() {
                words.push(if index > 0 { ", " } else { "" });
                words.append(error);
            }
        });
        for (validity, what) in [
            (CallValidity::NotRecorded, "arguments of {} not recorded"),
            (CallValidity::Unusable, "schemas of {} cannot be used"),
        ] {
            let count = results.iter().filter(|call| call.validity == validity).count();
            if count > 0 {
                words.push(&format!("; {}", what.replace("{}", &count.to_string())));
            }
        }
        words
    }

    fn details(results: &[DescribedCall]) -> Map<'static> {
        let result = |DescribedCall { name, validity, errors }: &DescribedCall| {
            let valid = match validity {
                CallValidity::Valid => Value::from(true),
                CallValidity::Invalid => Value::from(false),
                CallValidity::NotRecorded | CallValidity::Unusable => Value::Null,
            };
            let errors =
                Value::List(errors.iter().map(|error| Value::from(error.to_string())).collect());
            Value::Map(Map::from([
                ("name", name.clone().into()),
                ("valid", valid),
                ("errors", errors),
            ]))
        };
        let results = Value::List(results.iter().map(result).collect());
        Map::from([("results", results)])
    }
}

impl CodeEvaluator for Validity {
    fn facts(&self) -> Facts {
        Facts { arguments: true, tool_definitions: true, ..Facts::default() }
    }

    fn evaluate(&self, trajectory: &Trajectory<'_>, want: Want) -> Outcome {
        let mut work = ValidityWork::new(&trajectory.effort);
        let tools = self.definitions.of(trajectory);
        self.judge(&tools, &trajectory.tool_calls, &mut work, want)
    }

    fn call_judge<'t>(
        &'t self,
        trajectory: &'t Trajectory<'_>,
        want: Want,
    ) -> Option<CallJudge<'t>> {
        let mut work = ValidityWork::new(&trajectory.effort);
        let tools = self.definitions.of(trajectory);
        Some(Box::new(move |call| self.judge(&tools, std::slice::from_ref(call), &mut work, want)))
    }
}

impl Validity {
    fn judge(
        &self,
        tools: &Tools<'_>,
        calls: &[ToolCall<'_>],
        work: &mut ValidityWork<'_>,
        want: Want,
    ) -> Outcome {
        if tools.all.is_empty() && !self.definitions.is_given() {
            return report::not_evaluable(Reason::ToolDefinitionsNotRecorded, want, || {
                "no definition of the tools is known".to_owned()
            });
        }
        if calls.is_empty() {
            return if self.dokimos {
                report::scored(1.0, want, || "no tool was called", Map::new)
            } else {
                report::no_tool_calls(want)
            };
        }
        let mut valid = 0;
        let mut judged = 0;
        let mut unusable = None;
        for call in calls {
            match self.find(tools, call, work, &mut |_| {}) {
                Ok(CallValidity::NotRecorded | CallValidity::Unusable) => {}
                Ok(finding) => {
                    judged += 1;
                    valid += usize::from(finding == CallValidity::Valid);
                }
                Err(DefinitionError::Full(full::SchemaError::TooMuch)) => {
                    return report::not_evaluable(
                        Reason::TrajectoryTooLarge,
                        want,
                        step_limit::words,
                    );
                }
                Err(error) => {
                    let error = format!("the schema of `{}`: {error}", call.name);
                    if self.dokimos || tools.get(&call.name).is_some_and(|it| it.is_configured) {
                        return Outcome::Failed { error_type: "invalid_tool_definition", error };
                    }
                    unusable.get_or_insert(error);
                }
            }
        }
        if let (0, Some(error)) = (judged, unusable) {
            return report::not_evaluable(Reason::SchemaUnusable, want, || error);
        }
        if judged == 0 {
            return report::not_evaluable(Reason::ArgumentsNotRecorded, want, || {
                "the arguments of no tool call are recorded".to_owned()
            });
        }
        let results = if want.reasons() { self.results(tools, calls, work) } else { Vec::new() };
        report::scored(
            report::ratio(valid, judged),
            want,
            || Self::explain(&results, valid, judged),
            || Self::details(&results),
        )
    }
}
