//! `docs/evaluators.md` says of each kind what the kind says of itself.

use serde_json::Value;
use spanscore_evaluate::{KINDS, Kind};

const MARK: &str = "cargo test --test it evaluator_docs -->\n";

/// Deepest settings that are shown.
const LEVELS_MAX: usize = 3;

/// Kinds that have a setting in the same words, from which on it is told once for all of them.
const SHARED_BY: usize = 5;

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

/// A setting as it is told.
struct DocumentedSetting {
    name: String,
    line: String,
    /// Lines of the settings within it.
    within: String,
}

impl DocumentedSetting {
    fn new(name: &str, property: &Value, root: &Value, level: usize) -> Self {
        let target = resolved(property, root);
        let about = property["description"].as_str().or(target["description"].as_str());
        let about = about.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
        let line = format!("{}- `{name}`: {about}\n", "  ".repeat(level));
        let inner = match (&target["items"], &target["additionalProperties"]) {
            (Value::Object(_), _) => resolved(&target["items"], root),
            (_, Value::Object(_)) => resolved(&target["additionalProperties"], root),
            _ => target,
        };
        let within = settings(inner, root, level + 1).iter().map(Self::text).collect();
        Self { name: name.to_owned(), line, within }
    }

    fn text(&self) -> String {
        format!("{}{}", self.line, self.within)
    }
}

/// The settings of a schema. Those within one are told once, where an earlier one has the same.
fn settings(schema: &Value, root: &Value, level: usize) -> Vec<DocumentedSetting> {
    let mut told: Vec<DocumentedSetting> = Vec::new();
    if level >= LEVELS_MAX {
        return told;
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let mut one = DocumentedSetting::new(name, property, root, level);
        if told.iter().any(|earlier| earlier.within == one.within) {
            one.within.clear();
        }
        told.push(one);
    }
    told
}

fn settings_of(kind: &Kind) -> Vec<DocumentedSetting> {
    let schema = (kind.schema)().to_value();
    settings(&schema, &schema, 0)
}

/// Texts of the settings that many kinds have in the same words, in the order of the kinds.
fn shared(kinds: &[&Kind]) -> Vec<String> {
    let all: Vec<String> =
        kinds.iter().flat_map(|kind| settings_of(kind)).map(|told| told.text()).collect();
    let mut shared: Vec<String> = Vec::new();
    for text in &all {
        let count = all.iter().filter(|other| *other == text).count();
        if count >= SHARED_BY && !shared.contains(text) {
            shared.push(text.clone());
        }
    }
    shared
}

fn describe(kind: &Kind, shared: &[String]) -> String {
    let about = kind.about;
    let mut out = format!("\n### `{}`\n\n{about}\n\nPasses from {} on", kind.name, kind.threshold);
    out.push_str(if kind.needs_criteria { "; needs `criteria`.\n" } else { ".\n" });
    if !kind.also_known_as.is_empty() {
        let names = kind.also_known_as.iter().map(|(name, origin)| format!("{name} ({origin})"));
        out.push_str(&format!("Elsewhere: {}.\n", names.collect::<Vec<_>>().join(", ")));
    }
    let mut elsewhere = Vec::new();
    let mut own = String::new();
    for told in settings_of(kind) {
        if shared.contains(&told.text()) {
            elsewhere.push(format!("`{}`", told.name));
        } else {
            own.push_str(&told.text());
        }
    }
    if !elsewhere.is_empty() {
        own.push_str(&format!("- [shared](#shared-settings): {}\n", elsewhere.join(", ")));
    }
    out.push_str(&format!("\n{own}\n```yaml\n{}```\n", kind.example));
    out
}

#[test]
fn documentation_describes_each_kind_as_it_is() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/evaluators.md");
    let text = std::fs::read_to_string(path).expect("the page exists");
    let end = text.find(MARK).expect("the page has the mark") + MARK.len();
    let here = KINDS.iter().filter(|kind| !ELSEWHERE.contains(&kind.name));
    let here: Vec<&Kind> = here.copied().collect();
    let shared = shared(&here);
    let head = "\n### Shared settings\n\nSeveral kinds take these, as their lists say.\n\n";
    let mut described = format!("{head}{}", shared.concat());
    described.extend(here.iter().map(|kind| describe(kind, &shared)));
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, format!("{}{described}", &text[..end])).expect("the page is written");
        return;
    }
    assert!(text[end..] == described, "docs/evaluators.md is out of date: run with UPDATE_DOCS=1");
}
