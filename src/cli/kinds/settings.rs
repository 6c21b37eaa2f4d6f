//! Settings of a kind as text, from its JSON Schema.

use serde_json::Value;

/// Deepest level of settings shown.
const LEVELS_MAX: usize = 4;

/// Prints the properties of a schema, with those of nested objects below them.
pub(super) fn settings(schema: &Value, root: &Value, level: usize, out: &mut String) {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
    let indent = "  ".repeat(level);
    for (name, property) in properties {
        let target = resolved(property, root);
        let mut line = format!("{indent}{name}: {}", type_of(property, root));
        let default = property.get("default").filter(|default| !is_plain_absence(default));
        if let Some(default) = default {
            line.push_str(&format!(", default {default}"));
        }
        out.push_str(&line);
        out.push('\n');
        let about = property.get("description").or_else(|| target.get("description"));
        for line in about.and_then(Value::as_str).unwrap_or_default().lines() {
            out.push_str(&format!("{indent}    {line}\n"));
        }
        if level < LEVELS_MAX {
            settings(item_of(target, root), root, level + 1, out);
        }
    }
}

/// Returns true for `null`, empty lists and objects, which as defaults only mean that a setting is
/// optional.
fn is_plain_absence(default: &Value) -> bool {
    default.is_null() || default.is_object() || default.as_array().is_some_and(Vec::is_empty)
}

/// Resolves the reference of a schema; of a choice with `null` the other one.
pub(super) fn resolved<'a>(schema: &'a Value, root: &'a Value) -> &'a Value {
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        return reference.strip_prefix('#').and_then(|at| root.pointer(at)).unwrap_or(schema);
    }
    let choices = schema.get("anyOf").and_then(Value::as_array).into_iter().flatten();
    let mut others = choices.filter(|choice| choice.get("type").is_none_or(|t| t != "null"));
    let only = others.next().filter(|_| others.next().is_none());
    only.map_or(schema, |only| resolved(only, root))
}

/// Returns the schema with the properties to show: for a collection that of its items or values.
fn item_of<'a>(schema: &'a Value, root: &'a Value) -> &'a Value {
    let inner = schema.get("items").or_else(|| schema.get("additionalProperties"));
    inner.filter(|inner| inner.is_object()).map_or(schema, |inner| resolved(inner, root))
}

fn type_of(property: &Value, root: &Value) -> String {
    let schema = resolved(property, root);
    if let Some(words) = words_of(schema) {
        return words.join(" | ");
    }
    let name = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let word = match schema.get("type") {
        Some(Value::String(word)) => word.clone(),
        Some(Value::Array(words)) => {
            let words = words.iter().filter(|word| *word != "null").map(name);
            words.collect::<Vec<_>>().join(" or ")
        }
        _ => match schema.get("anyOf").or_else(|| schema.get("oneOf")).and_then(Value::as_array) {
            Some(choices) => {
                let types = choices.iter().map(|choice| type_of(choice, root));
                types.collect::<Vec<_>>().join(" or ")
            }
            None => "any".to_owned(),
        },
    };
    let collection = |word: &str, key: &str| {
        let inner = schema.get(key).filter(|inner| inner.is_object())?;
        Some(format!("{word} of {}", type_of(inner, root)))
    };
    match word.as_str() {
        "array" => collection("list", "items").unwrap_or_else(|| "list".to_owned()),
        "object" => collection("map", "additionalProperties").unwrap_or_else(|| "map".to_owned()),
        "string" => "text".to_owned(),
        _ => word,
    }
}

/// Returns the words of an enumeration.
fn words_of(schema: &Value) -> Option<Vec<String>> {
    if let Some(words) = schema.get("enum").and_then(Value::as_array) {
        return words.iter().map(|word| Some(word.as_str()?.to_owned())).collect();
    }
    let choices = schema.get("oneOf").and_then(Value::as_array)?.iter();
    let words = choices.map(|choice| match choice.get("const").and_then(Value::as_str) {
        Some(word) => Some(vec![word.to_owned()]),
        None => words_of(choice),
    });
    words.collect::<Option<Vec<_>>>().map(|words| words.concat())
}
