//! Estimate of the cost of applying a JSON Schema.
//!
//! Keywords such as `allOf` and `$ref` apply several schemas to one value; keywords such as `enum`
//! compare it with each listed value. With references between schemas the work multiplies at every
//! level of the value, so that a small schema could block a shard for years. Schemas come from
//! traces, so an upper bound is computed first.

use hashbrown::HashMap;
use serde_json::{Map, Value as Json};

use super::pattern;

/// Keywords with schemas for the value itself.
const IN_PLACE: [&str; 9] =
    ["allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"];
/// Keywords with one schema, or a list or map of them, for every child value.
const FOR_EACH: [&str; 6] = [
    "additionalProperties", "unevaluatedProperties", "additionalItems", "unevaluatedItems",
    "contains", "propertyNames",
];
/// Keywords of which one schema applies to a child value.
const FOR_ONE: [&str; 3] = ["properties", "items", "prefixItems"];
/// Keywords with schemas for child values.
const INNER: [&str; 11] = [
    "properties", "patternProperties", "additionalProperties", "unevaluatedProperties",
    "propertyNames", "items", "prefixItems", "additionalItems", "unevaluatedItems", "contains",
    "contentSchema",
];
/// Keywords that reference another schema.
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// Steps to apply a schema, then for each of its keywords.
const STEPS_PER_SCHEMA: f64 = 40.0;
const STEPS_PER_KEYWORD: f64 = 10.0;
/// Steps to search a name or compare a string.
const STEPS_PER_NAME: f64 = 8.0;
/// Steps to compare two numbers, lists or objects, without their content.
const STEPS_PER_COMPARED: f64 = 60.0;
/// Steps to compare one list item with the others, by hash or in pairs.
const STEPS_PER_UNIQUE: f64 = 250.0;
/// Steps per byte of a text checked by `format`.
const STEPS_PER_FORMAT_BYTE: f64 = 40.0;
/// Steps per byte of a text with counted characters.
const STEPS_PER_COUNTED_BYTE: f64 = 2.0;
/// Number of times that a child value is checked for evaluation by any schema.
const UNEVALUATED: f64 = 4.0;

/// Steps that schemas take for a value and its content.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Weight {
    /// Steps per value.
    pub(super) value: f64,
    /// Steps per byte of its text.
    pub(super) byte: f64,
    /// Steps per descendant.
    pub(super) within: f64,
}

impl Weight {
    fn add(&mut self, other: Self) {
        self.value += other.value;
        self.byte += other.byte;
        self.within += other.within;
    }

    fn raise(&mut self, other: Self) {
        self.value = self.value.max(other.value);
        self.byte = self.byte.max(other.byte);
        self.within = self.within.max(other.within);
    }

    fn times(self, factor: f64) -> Self {
        let Self { value, byte, within } = self;
        Self { value: value * factor, byte: byte * factor, within: within * factor }
    }
}

/// Size of a value to be checked.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Extent {
    /// Number of values, including itself.
    pub(super) nodes: usize,
    /// Bytes of texts and names.
    pub(super) bytes: usize,
    /// Depth of nesting.
    pub(super) depth: usize,
}

/// Cost of applying a schema.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cost {
    /// Maximum over all values.
    weight: Weight,
    /// Factor by which references multiply the work with each level of the value.
    levels: f64,
}

impl Cost {
    /// Estimates the steps for a value.
    pub(super) fn of(self, extent: Extent) -> f64 {
        let Weight { value, byte, within } = self.weight;
        let Extent { nodes, bytes, depth } = extent;
        let once = nodes as f64 * value
            + bytes as f64 * byte
            + (nodes as f64 + bytes as f64 / 16.0) * (depth as f64 + 1.0) * within;
        once * self.levels.powi(i32::try_from(depth).unwrap_or(i32::MAX))
    }
}

/// Returns the cost of a schema.
pub(super) fn highest(root: &Json) -> Cost {
    let mut count = SchemaCost::new(root);
    let mut levels: f64 = 1.0;
    let mut weight = count.most(root);
    let mut waiting = vec![root];
    while let Some(schema) = waiting.pop() {
        levels = levels.max(count.of(schema).inner);
        match schema {
            Json::Object(map) => waiting.extend(map.values()),
            Json::Array(list) => waiting.extend(list),
            _ => {}
        }
        // A reference may lead to any part of the schema.
        if count.refers {
            weight.raise(count.most(schema));
        }
    }
    Cost { weight, levels: if count.refers { levels } else { 1.0 } }
}

/// Schemas applied together to a value.
#[derive(Clone, Copy, Debug, Default)]
struct Applied {
    /// Their work on the value itself.
    own: Weight,
    /// Number of them that descend to child values.
    inner: f64,
}

/// Work by the address of a schema. An entry in progress has a partial result, which ends reference
/// cycles.
struct SchemaCost<'s> {
    root: &'s Json,
    applied: HashMap<usize, Applied>,
    children: HashMap<usize, Weight>,
    most: HashMap<usize, Weight>,
    refers: bool,
}

fn address(schema: &Json) -> usize {
    std::ptr::from_ref(schema) as usize
}

impl<'s> SchemaCost<'s> {
    fn new(root: &'s Json) -> Self {
        Self {
            root,
            applied: HashMap::new(),
            children: HashMap::new(),
            most: HashMap::new(),
            refers: false,
        }
    }

    /// Returns the schemas applied to a value by a schema.
    fn of(&mut self, schema: &'s Json) -> Applied {
        let Json::Object(map) = schema else { return Applied::default() };
        if let Some(known) = self.applied.get(&address(schema)) {
            return *known;
        }
        self.applied.insert(address(schema), Applied::default());
        let goes_on = INNER.iter().any(|key| map.contains_key(*key));
        let mut sum = Applied { own: own_weight(map), inner: f64::from(u8::from(goes_on)) };
        for part in self.in_place(map) {
            let Applied { own, inner } = self.of(part);
            sum.own.add(own);
            sum.inner += inner;
        }
        if is_unevaluated(map) {
            sum.own = sum.own.times(UNEVALUATED);
        }
        self.applied.insert(address(schema), sum);
        sum
    }

    /// Returns the maximal work of a schema on a value or any descendant.
    fn most(&mut self, schema: &'s Json) -> Weight {
        if let Some(known) = self.most.get(&address(schema)) {
            return *known;
        }
        let mut most = self.of(schema).own;
        self.most.insert(address(schema), most);
        most.raise(self.child(schema));
        self.most.insert(address(schema), most);
        most
    }

    /// Returns the maximal work of a schema on any child value.
    fn child(&mut self, schema: &'s Json) -> Weight {
        let Json::Object(map) = schema else { return Weight::default() };
        if let Some(known) = self.children.get(&address(schema)) {
            return *known;
        }
        self.children.insert(address(schema), Weight::default());
        let mut sum = self.within(map);
        for part in self.in_place(map) {
            sum.add(self.child(part));
        }
        if is_unevaluated(map) {
            sum.add(self.of(schema).own);
            sum = sum.times(UNEVALUATED);
        }
        self.children.insert(address(schema), sum);
        sum
    }

    /// Returns the schemas that a schema's keywords apply to the same value.
    fn in_place(&mut self, map: &'s Map<String, Json>) -> Vec<&'s Json> {
        let mut parts = Vec::new();
        for keyword in IN_PLACE.iter().filter_map(|key| map.get(*key)) {
            match keyword {
                Json::Array(list) => parts.extend(list),
                Json::Object(by_name) => {
                    parts.push(keyword);
                    parts.extend(by_name.values());
                }
                _ => {}
            }
        }
        for reference in REFERENCES.iter().filter_map(|key| map.get(*key)?.as_str()) {
            self.refers = true;
            // An unresolved reference may mean anything: at most the whole schema.
            let place = reference.strip_prefix('#').and_then(|place| self.root.pointer(place));
            parts.push(place.unwrap_or(self.root));
        }
        parts
    }

    /// Returns the maximal work of a schema's own keywords on any child value.
    fn within(&mut self, map: &'s Map<String, Json>) -> Weight {
        let mut sum = Weight::default();
        for keyword in FOR_ONE.iter().filter_map(|key| map.get(*key)) {
            let mut most = self.most(keyword);
            let parts: Vec<&Json> = match keyword {
                Json::Object(by_name) => by_name.values().collect(),
                Json::Array(list) => list.iter().collect(),
                _ => Vec::new(),
            };
            parts.into_iter().for_each(|part| most.raise(self.most(part)));
            sum.add(most);
        }
        for keyword in FOR_EACH.iter().filter_map(|key| map.get(*key)) {
            sum.add(self.most(keyword));
        }
        let patterns = map.get("patternProperties").and_then(Json::as_object);
        for (text, schema) in patterns.into_iter().flatten() {
            sum.add(Weight { value: STEPS_PER_KEYWORD, ..pattern_weight(text) });
            sum.add(self.most(schema));
        }
        sum
    }
}

fn is_unevaluated(map: &Map<String, Json>) -> bool {
    map.keys().any(|key| key.starts_with("unevaluated"))
}

/// Returns the work of a schema's own keywords on one value.
fn own_weight(map: &Map<String, Json>) -> Weight {
    let mut sum = Weight {
        value: STEPS_PER_SCHEMA + STEPS_PER_KEYWORD * map.len() as f64,
        ..Weight::default()
    };
    for (key, value) in map {
        match (key.as_str(), value) {
            ("enum", Json::Array(list)) => sum.value += list.iter().map(compared).sum::<f64>(),
            ("const", value) => sum.value += compared(value),
            ("uniqueItems", Json::Bool(true)) => sum.within += STEPS_PER_UNIQUE,
            ("pattern", Json::String(text)) => sum.add(pattern_weight(text)),
            ("format", _) => sum.byte += STEPS_PER_FORMAT_BYTE,
            ("minLength" | "maxLength", _) => sum.byte += STEPS_PER_COUNTED_BYTE,
            (
                "properties" | "required" | "dependentRequired" | "dependentSchemas"
                | "dependencies",
                _,
            ) => {
                sum.value += STEPS_PER_NAME * names(value) as f64;
            }
            _ => {}
        }
    }
    sum
}

/// Returns the steps to compare a value with a listed one, at most the listed one's size.
fn compared(listed: &Json) -> f64 {
    match listed {
        Json::Null | Json::Bool(_) => 1.0,
        Json::String(text) => STEPS_PER_NAME + text.len() as f64 / 16.0,
        Json::Number(_) => STEPS_PER_COMPARED,
        Json::Array(list) => STEPS_PER_COMPARED + list.iter().map(compared).sum::<f64>(),
        Json::Object(map) => {
            let values = map.values().map(|value| STEPS_PER_COMPARED + compared(value));
            STEPS_PER_COMPARED + values.sum::<f64>()
        }
    }
}

/// Counts the names in a list, a map or lists by name.
fn names(value: &Json) -> usize {
    match value {
        Json::Array(list) => list.len(),
        Json::Object(map) => {
            map.len() + map.values().filter_map(Json::as_array).map(Vec::len).sum::<usize>()
        }
        _ => 0,
    }
}

fn pattern_weight(text: &str) -> Weight {
    Weight { byte: pattern::steps_per_byte(text), ..Weight::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(schema: &str, extent: Extent) -> f64 {
        highest(&serde_json::from_str(schema).unwrap()).of(extent)
    }

    /// Checks that the second schema costs so many times the first, on a value of 100 values.
    fn check(one: &str, other: &str, (low, high): (f64, f64)) {
        let extent = Extent { nodes: 100, bytes: 1_000, depth: 3 };
        let times = steps(other, extent) / steps(one, extent);
        assert!(low <= times && times <= high, "{times} times: {other}");
    }

    fn listed(count: usize, one: impl Fn(usize) -> String) -> String {
        (0..count).map(one).collect::<Vec<_>>().join(",")
    }

    #[test]
    fn schemas_that_apply_to_one_value_add_up_and_properties_do_not() {
        let string = r#"{"properties": {"a": {"type": "string"}}}"#;
        check(
            string,
            r#"{"properties": {"a": {"type": "string"}, "b": {"type": "string"}}}"#,
            (1.0, 1.2),
        );
        let three = r#"{"items": {"anyOf": [{"items": {}}, {"properties": {}}, {}]}}"#;
        check(r#"{"items": {}}"#, three, (2.5, 5.0));
        let all = listed(20, |_| r#"{"items": {"allOf": [{}, {}, {}, {}, {}]}}"#.to_owned());
        check(r#"{"items": {}}"#, &format!(r#"{{"allOf": [{all}]}}"#), (90.0, 200.0));
    }

    #[test]
    fn lists_that_values_are_compared_with_count_by_what_they_hold() {
        let of = |items: String| format!(r#"{{"items": {{"enum": [{items}]}}}}"#);
        let pairs = |at| format!(r#"["v", {at}]"#);
        let more = |at| format!(r#""v{at}""#);
        check(&of(listed(400, pairs)), &of(listed(4_000, pairs)), (9.0, 11.0));
        check(&of(listed(400, more)), &of(listed(400, pairs)), (8.0, 20.0));
    }

    #[test]
    fn references_that_double_at_each_level_or_step_are_seen_to_be_many() {
        let tree = r##"{"$ref": "#/$defs/n", "$defs": {"n": {"properties": {
            "left": {"$ref": "#/$defs/n"}, "right": {"$ref": "#/$defs/n"}}}}}"##;
        let double = r##"{"properties": {"a": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}}}"##;
        let deep = Extent { nodes: 60, bytes: 0, depth: 59 };
        assert!(steps(tree, deep) < 1e5);
        assert!(steps(double, deep) > 1e18);
        let step = |n: usize| {
            let next = format!(r##"{{"$ref": "#/$defs/s{}"}}"##, n + 1);
            format!(r#""s{n}": {{"allOf": [{next}, {next}]}}"#)
        };
        let steps_of_60 = listed(60, step);
        let schema =
            format!(r##"{{"$defs": {{{steps_of_60}, "s60": {{}}}}, "$ref": "#/$defs/s0"}}"##);
        assert!(steps(&schema, Extent { nodes: 1, bytes: 0, depth: 0 }) > 1e18);
        assert!(steps(r##"{"$ref": "#"}"##, deep) < 1e5);
    }
}
