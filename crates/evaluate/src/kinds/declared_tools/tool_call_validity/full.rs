//! Full JSON Schema check with limits, since schemas come from traces: patterns take linear time,
//! external references are rejected, and the size of a schema is bounded.

use std::sync::Arc;

use jsonschema::{PatternOptions, Validator};

use super::Problem;
use super::compiled::{CompileWork, Compiled, CompiledSchemas};
use super::cost::{self, Cost, Extent};
use super::pattern;
use crate::shared::step_limit::{self, STEPS_MAX, WorkBudget};
use spanscore_base::model::Explanation;
use spanscore_base::value::{Number, Value};

/// Longest schema, bytes of JSON.
const SCHEMA_BYTES_MAX: usize = 256 * 1024;

/// Size limit of one compiled pattern, bytes.
const PATTERN_BYTES_MAX: usize = 256 * 1024;

/// Limit on the patterns of a schema, which are expensive to compile.
pub(super) const PATTERNS_MAX: usize = 100;

/// Reason why arguments cannot be checked against a schema.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum SchemaError {
    #[error("its {0} bytes are more than {SCHEMA_BYTES_MAX}")]
    TooLarge(usize),
    #[error("{0}")]
    Invalid(String),
    /// The check would exceed the remaining budget.
    #[error("{}", step_limit::words())]
    TooMuch,
}

/// Cache of compiled schemas by their text: traces repeat their definitions.
#[derive(Default)]
pub(super) struct Validators {
    compiled: CompiledSchemas,
}

/// Compiled schema with its cost.
pub(super) struct Schema {
    validator: Validator,
    cost: Cost,
}

/// Compiled schemas of one trajectory, by the addresses of their definitions.
pub(super) type SchemasByAddress = hashbrown::HashMap<usize, Result<Arc<Schema>, SchemaError>>;

impl Validators {
    /// Checks arguments against a schema; errors name the failing path and keyword.
    pub(super) fn check(
        &self,
        schema: &Value<'_>,
        arguments: &Value<'_>,
        (found, effort): (&mut SchemasByAddress, &WorkBudget),
        error: &mut dyn FnMut(&dyn Problem),
    ) -> Result<(), SchemaError> {
        let address = std::ptr::from_ref(schema) as usize;
        let schema = match found.get(&address) {
            Some(known) => known.clone()?,
            // A rejection is cached too, since finding it costs in proportion to the schema.
            None => found.entry(address).or_insert(self.schema(schema, effort)).clone()?,
        };
        let Schema { validator, cost } = &*schema;
        let steps = cost.of(extent(arguments));
        if steps > STEPS_MAX as f64 || !effort.spend(steps as usize) {
            return Err(SchemaError::TooMuch);
        }
        let arguments = to_json(arguments);
        if validator.is_valid(&arguments) {
            return Ok(());
        }
        for problem in validator.iter_errors(&arguments).take(super::ERRORS_MAX) {
            error(&SchemaProblem { path: problem.instance_path().to_string(), error: problem });
        }
        Ok(())
    }

    fn schema(&self, schema: &Value<'_>, effort: &WorkBudget) -> Result<Arc<Schema>, SchemaError> {
        let text = schema.to_string();
        if text.len() > SCHEMA_BYTES_MAX {
            return Err(SchemaError::TooLarge(text.len()));
        }
        if let Some(Compiled { schema, work }) = self.compiled.get(&text) {
            charge(work, work.steps_before_parts() + work.steps_of_parts(), effort)?;
            return schema.map_err(SchemaError::Invalid);
        }
        let json = match schema {
            Value::Null => serde_json::Value::Bool(true),
            schema => to_json(schema),
        };
        let (mut work, patterns) = CompileWork::of(&json, text.len());
        charge(work, work.steps_before_parts(), effort)?;
        if !work.is_refused() {
            work.parse(&patterns);
        }
        charge(work, work.steps_of_parts(), effort)?;
        let schema = compile(&json, work).map(Arc::new);
        self.compiled.keep(text, Compiled { schema: schema.clone(), work });
        schema.map_err(SchemaError::Invalid)
    }
}

/// Charges the steps of a compilation; a schema rejected for its patterns takes none.
fn charge(work: CompileWork, steps: usize, effort: &WorkBudget) -> Result<(), SchemaError> {
    let is_left = work.is_refused() || effort.spend(steps);
    if is_left { Ok(()) } else { Err(SchemaError::TooMuch) }
}

fn compile(schema: &serde_json::Value, work: CompileWork) -> Result<Schema, String> {
    let CompileWork { patterns, longest, .. } = work;
    if patterns > PATTERNS_MAX {
        return Err(format!("its {patterns} patterns are more than {PATTERNS_MAX}"));
    }
    if longest > pattern::TEXT_MAX {
        let most = pattern::TEXT_MAX;
        return Err(format!("the {longest} bytes of a pattern are more than {most}"));
    }
    let automata =
        PatternOptions::regex().size_limit(PATTERN_BYTES_MAX).dfa_size_limit(PATTERN_BYTES_MAX);
    let validator = jsonschema::options()
        .offline()
        .with_pattern_options(automata)
        .with_format("regex", pattern::is_regular_expression)
        .build(schema)
        .map_err(|error| format!("{} at `{}`", error.masked(), error.instance_path()))?;
    Ok(Schema { validator, cost: cost::highest(schema) })
}

/// Returns the extent of a value.
fn extent(value: &Value<'_>) -> Extent {
    let within = |sum: Extent, value: &Value<'_>| {
        let Extent { nodes, bytes, depth } = extent(value);
        Extent {
            nodes: sum.nodes + nodes,
            bytes: sum.bytes + bytes,
            depth: sum.depth.max(depth + 1),
        }
    };
    let one = |bytes| Extent { nodes: 1, bytes, depth: 0 };
    match value {
        Value::List(list) => list.iter().fold(one(0), within),
        Value::Map(map) => {
            let names = map.iter().map(|(key, _)| key.len()).sum();
            map.iter().map(|(_, value)| value).fold(one(names), within)
        }
        Value::String(text) => one(text.len()),
        Value::Number(Number::Big(digits)) => one(digits.len()),
        _ => one(0),
    }
}

/// Error found by the validator, without the value.
struct SchemaProblem<'p> {
    path: String,
    error: jsonschema::ValidationError<'p>,
}

impl Problem for SchemaProblem<'_> {
    /// Describes the error; names from the arguments are hidden.
    fn words(&self) -> Explanation {
        let path = if self.path.is_empty() { "/" } else { &self.path };
        let mut words = Explanation::default();
        words.hide(&format!("{path}: {}", self.error.masked()), "the arguments break the schema");
        words.push(&format!(" ({})", self.error.schema_path()));
        words
    }
}

fn to_json(value: &Value<'_>) -> serde_json::Value {
    match value {
        Value::Null => serde_json::Value::Null,
        Value::Bool(value) => serde_json::Value::Bool(*value),
        Value::Number(number) => number_to_json(number),
        Value::String(text) => serde_json::Value::String(text.to_string()),
        Value::List(list) => list.iter().map(to_json).collect(),
        Value::Map(map) => {
            map.iter().map(|(key, value)| (key.to_owned(), to_json(value))).collect()
        }
    }
}

fn number_to_json(number: &Number) -> serde_json::Value {
    match number {
        Number::Int(value) => (*value).into(),
        // JSON has no infinities, so they become null.
        Number::Float(value) => (*value).into(),
        Number::Big(digits) => serde_json::from_str(digits).unwrap_or(serde_json::Value::Null),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanscore_base::value::json;

    fn check(schema: &str, arguments: &str, found: &str) {
        let schema = json::parse(schema).unwrap();
        let arguments = json::parse(arguments).unwrap();
        let mut errors = Vec::new();
        let mut schemas = SchemasByAddress::default();
        let effort = WorkBudget::default();
        let result = Validators::default().check(
            &schema,
            &arguments,
            (&mut schemas, &effort),
            &mut |error| {
                errors.push(error.words().to_string());
            },
        );
        match result {
            Ok(()) => assert_eq!(errors.join("; "), found, "{schema}"),
            Err(error) => assert!(error.to_string().contains(found), "{error}"),
        }
    }

    #[test]
    fn errors_name_the_failing_path_and_never_the_value() {
        check(
            r#"{"properties":{"guests":{"items":{"required":["name"]}}}}"#,
            r#"{"guests":[{"name":"x"},{"secret":"y"}]}"#,
            r#"/guests/1: "name" is a required property (/properties/guests/items/required)"#,
        );
        check(
            r#"{"properties":{"city":{"pattern":"^[A-Z]"}}}"#,
            r#"{"city":"secret"}"#,
            r#"/city: value does not match "^[A-Z]" (/properties/city/pattern)"#,
        );
        check(r#"{"type":5}"#, "{}", "");
    }

    #[test]
    fn schemas_that_refer_to_themselves_come_to_an_end() {
        check(r##"{"$ref":"#"}"##, "{}", "");
        check(r##"{"allOf":[{"$ref":"#"}]}"##, r#"{"a":1}"#, "");
        check(
            r##"{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}},"$ref":"#/$defs/a"}"##,
            "{}",
            "",
        );
        check(r##"{"properties":{"a":{"$ref":"#"}}}"##, r#"{"a":{"a":{"a":{}}}}"#, "");
    }

    #[test]
    fn schemas_that_multiply_are_refused() {
        let too_much = "more than 64000000 steps";
        let double = r##"{"properties":{"a":{"allOf":[{"$ref":"#"},{"$ref":"#"}]}}}"##;
        check(double, r#"{"a":{"a":{"a":{}}}}"#, "");
        let deep = format!("{}{{}}{}", r#"{"a":"#.repeat(60), "}".repeat(60));
        check(double, &deep, too_much);
        let values: Vec<_> = (0..20_000).map(|n| n.to_string()).collect();
        let list = values.join(",");
        let schema = format!(r#"{{"properties":{{"x":{{"items":{{"enum":[{list}]}}}}}}}}"#);
        check(&schema, r#"{"x":[19999]}"#, "");
        check(&schema, &format!(r#"{{"x":[{}]}}"#, vec!["-1"; 200_000].join(",")), too_much);
        let pairs = |sign: &str, count: usize| {
            let pairs: Vec<_> = (1..=count).map(|n| format!(r#"["v",{sign}{n}]"#)).collect();
            pairs.join(",")
        };
        let of_pairs = |count| {
            let one = format!(r#"{{"enum":[{}]}}"#, pairs("", count));
            format!(r#"{{"properties":{{"x":{{"items":{one}}}}}}}"#)
        };
        check(&of_pairs(40), &format!(r#"{{"x":[{}]}}"#, pairs("", 40)), "");
        check(&of_pairs(4_000), &format!(r#"{{"x":[{}]}}"#, pairs("-", 4_000)), too_much);
        let patterns = |count: usize| {
            let one = |n: usize| format!(r#""p{n}":{{"pattern":"^{n}$"}}"#);
            let all: Vec<_> = (0..count).map(one).collect();
            format!(r#"{{"properties":{{{}}}}}"#, all.join(","))
        };
        check(&patterns(100), "{}", "");
        check(&patterns(101), "{}", "its 101 patterns are more than 100");
    }

    #[test]
    fn patterns_that_would_backtrack_take_linear_time() {
        let text = "a".repeat(5000);
        check(
            r#"{"properties":{"x":{"pattern":"^(a+)+$"}}}"#,
            &format!(r#"{{"x":"{text}!"}}"#),
            r#"/x: value does not match "^(a+)+$" (/properties/x/pattern)"#,
        );
    }
}
