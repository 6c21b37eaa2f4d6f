//! Cost estimate of a JSON Schema, made before it is applied.
//!
//! Keywords such as `allOf` and `$ref` apply several schemas to one value. Where schemas refer to
//! each other that multiplies, with every level of the value once more: a small schema could hold a
//! shard for years. Schemas come from traces, so this is counted first.

use hashbrown::HashMap;
use serde_json::Value as Json;

/// Keywords whose schemas apply to the value itself.
const IN_PLACE: [&str; 9] =
    ["allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"];
/// Keywords whose schemas apply to the values within.
const INNER: [&str; 11] = [
    "properties",
    "patternProperties",
    "additionalProperties",
    "unevaluatedProperties",
    "propertyNames",
    "items",
    "prefixItems",
    "additionalItems",
    "unevaluatedItems",
    "contains",
    "contentSchema",
];
/// Keywords that name another schema.
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// Cost of applying a schema to one value.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Cost {
    /// Schemas that apply to the value.
    pub(super) schemas: f64,
    /// Those among them that go on to the values within.
    pub(super) inner: f64,
}

impl Cost {
    /// Estimates the schemas applied to a value of `node_count` values, nested `depth` deep.
    pub(super) fn of(self, node_count: usize, depth: usize) -> f64 {
        let levels = i32::try_from(depth).unwrap_or(i32::MAX);
        node_count as f64 * self.schemas.max(1.0) * self.inner.max(1.0).powi(levels)
    }
}

/// Returns the highest cost of any schema within `root`; one without references costs no more than
/// its size for each value.
pub(super) fn highest(root: &Json) -> Cost {
    let mut count = SchemaCost { root, known: HashMap::new(), refers: false };
    let mut most = Cost::default();
    let mut waiting = vec![root];
    while let Some(schema) = waiting.pop() {
        let cost = count.of(schema);
        most.schemas = most.schemas.max(cost.schemas);
        most.inner = most.inner.max(cost.inner);
        match schema {
            Json::Object(map) => waiting.extend(map.values()),
            Json::Array(list) => waiting.extend(list),
            _ => {}
        }
    }
    if count.refers { most } else { Cost { inner: 1.0, ..most } }
}

struct SchemaCost<'s> {
    root: &'s Json,
    /// Costs by address. A schema in progress counts as 0, which ends circles of references.
    known: HashMap<usize, Cost>,
    refers: bool,
}

impl<'s> SchemaCost<'s> {
    fn of(&mut self, schema: &'s Json) -> Cost {
        let Json::Object(map) = schema else { return Cost::default() };
        let address = std::ptr::from_ref(schema) as usize;
        if let Some(cost) = self.known.get(&address) {
            return *cost;
        }
        self.known.insert(address, Cost::default());
        let inner = INNER.iter().any(|key| map.contains_key(*key));
        let mut sum = Cost { schemas: 1.0, inner: f64::from(u8::from(inner)) };
        let mut add = |cost: Cost| {
            sum.schemas += cost.schemas;
            sum.inner += cost.inner;
        };
        for keyword in IN_PLACE.iter().filter_map(|key| map.get(*key)) {
            match keyword {
                Json::Array(list) => list.iter().for_each(|schema| add(self.of(schema))),
                Json::Object(by_name) => {
                    add(self.of(keyword));
                    by_name.values().for_each(|schema| add(self.of(schema)));
                }
                _ => {}
            }
        }
        for reference in REFERENCES.iter().filter_map(|key| map.get(*key)?.as_str()) {
            self.refers = true;
            // A reference that resolves to no place may mean anything: at most the whole schema.
            let place = reference.strip_prefix('#').and_then(|place| self.root.pointer(place));
            add(self.of(place.unwrap_or(self.root)));
        }
        self.known.insert(address, sum);
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(schema: &str, expected: (f64, f64)) {
        let schema: Json = serde_json::from_str(schema).unwrap();
        let Cost { schemas, inner } = highest(&schema);
        assert_eq!((schemas, inner), expected, "{schema}");
    }

    #[test]
    fn schemas_that_apply_to_one_value_are_counted_with_those_they_refer_to() {
        check(r#"{"properties": {"a": {"type": "string"}}}"#, (1.0, 1.0));
        check(r#"{"anyOf": [{"items": {}}, {"properties": {}}]}"#, (3.0, 1.0));
        let tree = r##"{"$ref": "#/$defs/n", "$defs": {"n": {"properties": {
            "left": {"$ref": "#/$defs/n"}, "right": {"$ref": "#/$defs/n"}}}}}"##;
        check(tree, (2.0, 1.0));
        let double = r##"{"properties": {"a": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}}}"##;
        check(double, (5.0, 2.0));
        check(r##"{"$ref": "#"}"##, (1.0, 0.0));
    }

    #[test]
    fn references_that_double_at_each_step_are_seen_to_be_many() {
        let step = |n: usize| {
            let next = format!(r##"{{"$ref": "#/$defs/s{}"}}"##, n + 1);
            format!(r#""s{n}": {{"allOf": [{next}, {next}]}}"#)
        };
        let steps: Vec<_> = (0..60).map(step).collect();
        let schema =
            format!(r##"{{"$defs": {{{}, "s60": {{}}}}, "$ref": "#/$defs/s0"}}"##, steps.join(","));
        let cost = highest(&serde_json::from_str(&schema).unwrap());
        assert!(cost.of(1, 1) > 1e18);
    }
}
