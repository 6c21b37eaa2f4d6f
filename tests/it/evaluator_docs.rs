//! `docs/evaluators.md` says of each kind what the kind says of itself.

use serde_json::Value;
use spanscore_evaluate::{KINDS, Kind};

const MARK: &str = "cargo test --test it evaluator_docs -->\n";

/// Deepest settings that are shown.
const LEVELS_MAX: usize = 3;

/// The kinds that pages of their own describe.
const ELSEWHERE: &[&str] = &[
    "tool_call_args", "tool_call_count", "tool_call_order", "tool_call_output", "output_rules",
    "exact_match", "contains", "json_similarity",
];

/// Follows the reference of a schema; of a choice with `null` the other.
fn resolved<'a>(schema: &'a Value, root: &'a Value) -> &'a Value {
    if let Some(reference) = schema["$ref"].as_str() {
        return root.pointer(reference.trim_start_matches('#')).unwrap_or(schema);
    }
    match schema["anyOf"].as_array().and_then(|choices| choices.first()) {
        Some(first) => resolved(first, root),
        None => schema,
    }
}

fn settings(schema: &Value, root: &Value, level: usize, out: &mut String) {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let target = resolved(property, root);
        let about = property["description"].as_str().or(target["description"].as_str());
        let about = about.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
        out.push_str(&format!("{}- `{name}`: {about}\n", "  ".repeat(level)));
        if level + 1 < LEVELS_MAX {
            let inner = match (&target["items"], &target["additionalProperties"]) {
                (Value::Object(_), _) => resolved(&target["items"], root),
                (_, Value::Object(_)) => resolved(&target["additionalProperties"], root),
                _ => target,
            };
            settings(inner, root, level + 1, out);
        }
    }
}

fn describe(kind: &Kind) -> String {
    let about = kind.about;
    let mut out = format!("\n### `{}`\n\n{about}\n\nPasses from {} on", kind.name, kind.threshold);
    out.push_str(if kind.needs_criteria { "; needs `criteria`.\n" } else { ".\n" });
    if !kind.also_known_as.is_empty() {
        let names = kind.also_known_as.iter().map(|(name, origin)| format!("{name} ({origin})"));
        out.push_str(&format!("Elsewhere: {}.\n", names.collect::<Vec<_>>().join(", ")));
    }
    out.push('\n');
    let schema = (kind.schema)().to_value();
    settings(&schema, &schema, 0, &mut out);
    out.push_str(&format!("\n```yaml\n{}```\n", kind.example));
    out
}

#[test]
fn documentation_describes_each_kind_as_it_is() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/evaluators.md");
    let text = std::fs::read_to_string(path).expect("the page exists");
    let end = text.find(MARK).expect("the page has the mark") + MARK.len();
    let here = KINDS.iter().filter(|kind| !ELSEWHERE.contains(&kind.name));
    let described: String = here.map(|kind| describe(kind)).collect();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, format!("{}{described}", &text[..end])).expect("the page is written");
        return;
    }
    assert!(text[end..] == described, "docs/evaluators.md is out of date: run with UPDATE_DOCS=1");
}
