//! Argument values listed in a tool's definition.

use super::sources::plain;
use spanscore_base::model::WorkBudget;
use spanscore_base::value::Value;

/// Words in a description after which only examples follow.
const EXAMPLES: [&str; 3] = [" e g ", " example", " for instance "];
/// Bytes of a description read in one step.
const READ_BYTES_PER_STEP: usize = 2;
/// Keywords that describe the items of a list beyond their type.
const TELLING: [&str; 7] =
    ["enum", "const", "description", "properties", "items", "anyOf", "default"];

/// Returns the schema of a list's items, or the list's own if that has no details.
pub(super) fn of_items<'s, 'v>(list: &'s Value<'v>) -> &'s Value<'v> {
    let tells = |items: &&Value<'_>| TELLING.iter().any(|key| items.get(key).is_some());
    list.get("items").filter(tells).unwrap_or(list)
}

/// Returns true if an argument's schema lists a value or its description names it.
pub(super) fn is_named(value: &Value<'_>, schema: Option<&Value<'_>>, effort: &WorkBudget) -> bool {
    let either = schema.and_then(|schema| schema.get("anyOf")).and_then(Value::as_list);
    let mut schemas = schema.into_iter().chain(either.unwrap_or_default());
    schemas.any(|schema| lists(value, schema, effort) || describes(value, schema, effort))
}

fn lists(value: &Value<'_>, schema: &Value<'_>, effort: &WorkBudget) -> bool {
    let allowed = schema.get("enum").and_then(Value::as_list).unwrap_or_default();
    if !effort.spend(1 + allowed.len()) {
        return false;
    }
    let alone = ["const", "default"].into_iter().filter_map(|key| schema.get(key));
    allowed.iter().chain(alone).any(|allowed| allowed == value)
}

/// Returns true if a description names a word as a possible value. A word with digits is an id,
/// which an example in the description must not ground.
fn describes(value: &Value<'_>, schema: &Value<'_>, effort: &WorkBudget) -> bool {
    let description = schema.get("description").and_then(Value::as_str).unwrap_or_default();
    let Some(text) = value.as_str().filter(|text| !text.contains(|c: char| c.is_ascii_digit()))
    else {
        return false;
    };
    let is_read = text.len() < description.len()
        && effort.spend((text.len() + description.len()) / READ_BYTES_PER_STEP);
    is_read && {
        let words = format!(" {} ", plain(description));
        let end = EXAMPLES.iter().filter_map(|mark| words.find(mark)).min();
        let text = plain(text);
        !text.is_empty()
            && words[..end.map_or(words.len(), |end| end + 1)].contains(&format!(" {text} "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanscore_base::value::json;

    #[test]
    fn declarations_name_values() {
        let check = |schema: &str, value: &str, expected: bool| {
            let schema = json::parse(schema).unwrap();
            let effort = WorkBudget::default();
            let schema = of_items(&schema);
            assert_eq!(is_named(&value.into(), Some(schema), &effort), expected, "{value}");
        };
        let doors =
            r#"{"items": {"type": "string"}, "description": "One of [\"rear_left\", \"rear\"]"}"#;
        check(doors, "rear_left", true);
        check(doors, "left", true);
        check(doors, "front", false);
        check(r#"{"description": "The order, such as A1"}"#, "A1", false);
        check(r#"{"description": "The city, e.g. \"Paris\""}"#, "Paris", false);
        check(r#"{"items": {"enum": ["a"]}, "description": "b"}"#, "b", false);
        check(r#"{"enum": ["big"], "description": "small"}"#, "big", true);
    }
}
