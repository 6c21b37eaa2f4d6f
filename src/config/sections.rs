//! Help for misplaced settings, and for sections of other systems.

use serde_json::Value;

use super::schema::{schema, shared_schema};
use spanscore_base::settings::SettingsError;
use spanscore_evaluate::kinds::kind;

/// Sections of other files, with our replacement: the OpenTelemetry Collector's config, other
/// evaluators' files, and recordings.
const OTHER_SECTIONS: &[(&[&str], &str)] = &[
    (
        &["processors", "batch", "memory_limiter", "tail_sampling"],
        "there are none here: leave it out; batching, limits and sampling are settings \
      of `exporters`, `limits` and of each evaluator",
    ),
    (
        &["service"],
        "leave it out: every receiver feeds every evaluator, whose scores go to every \
      exporter; logs and metrics of its own are under `telemetry`",
    ),
    (&["extensions"], "leave it out: health is under `telemetry.health`"),
    (&["version", "name", "description", "title", "project", "metadata"], "leave it out"),
    (
        &["include", "includes", "import", "imports", "extends"],
        "name each file with a `--config` of its own: maps are merged, later files win",
    ),
    (
        &["apiVersion", "kind", "data"],
        "this is a manifest of Kubernetes: a config stands in its `data`",
    ),
    (&["connectors"], "leave it out: `forward` passes on what was received"),
    (&["expect"], OF_EVALUATOR),
    (&["criteria"], CRITERIA),
    (&["resourceSpans", "resourceLogs"], RECORDING),
    (&["id"], "this is a dataset, not a config: a config names it as `expect: {file: FILE}`"),
    (&["eval_cases", "evalCases", "eval_set_id"], EVAL_SET),
    (
        &["scorers", "metrics", "tests", "asserts", "assertions", "checks", "graders", "evals"],
        "what is called so elsewhere is `evaluators` here, a map keyed `kind/name`",
    ),
    (
        &["prompts", "scenarios", "defaultTest"],
        "leave it out: the agent runs as it does elsewhere, and its traces are judged",
    ),
    (&["providers", "models", "llm", "llms"], "models that evaluators ask are under `judges`"),
    (
        &["base", "defaults", "common", "templates", "anchors"],
        "leave it out: an anchor may stand where it is used first",
    ),
];

const OF_EVALUATOR: &str =
    "write it below an evaluator: `evaluators: {tool_trajectory: {expect: {file: FILE}}}`";
const CRITERIA: &str = "write it below an evaluator, as `evaluators: {tool_trajectory: {criteria: \
     ...}}`; a `test_config.json` of an eval set stands beside it: `spanscore score --golden SET`";
const RECORDING: &str = "this is a recording, not a config: name it without `--config`, as in \
     `spanscore score FILE`";
const EVAL_SET: &str =
    "this is an eval set, not a config: `spanscore score --golden FILE RECORDING`";

/// Adds help to unknown settings: our replacement of another system's section, or the section with
/// a setting of this name.
pub(super) fn explain(errors: &mut [SettingsError]) {
    let mut known = None;
    for error in errors {
        let name = error.message.strip_prefix("unknown setting `");
        let Some(name) = name.and_then(|rest| rest.strip_suffix('`')) else { continue };
        let is_listed = error.help.as_deref().is_some_and(|help| help.starts_with("known are "));
        let is_known = |word: &str| error.help.as_deref().is_some_and(|help| help.contains(word));
        let is_section = is_known("receivers, dialects");
        let other = OTHER_SECTIONS.iter().find(|(sections, _)| sections.contains(&name));
        let help = if matches!(name, "grpc" | "http") && is_known("protocols") {
            Some("write it below `protocols:`, indented".to_owned())
        } else if matches!(name, "endpoint" | "tls" | "insecure") && is_known("protocols") {
            Some(format!("write `protocols: {{http: {{{name}: ...}}}}`, or `grpc`"))
        } else if (is_known("otlp, file") || is_known("`otlp`?"))
            && (name.contains("grpc") || name.contains("http"))
        {
            let protocol = if name.contains("grpc") { "grpc" } else { "http" };
            Some(format!("write `otlp: {{protocols: {{{protocol}: ...}}}}`"))
        } else if let Some((_, here)) = other.filter(|_| is_section) {
            Some((*here).to_owned())
        } else if let Some(nested) = Some(name).filter(|_| is_section).and_then(nested) {
            Some(nested)
        } else if is_section && kind(name.split('/').next().unwrap_or(name)).is_some() {
            Some("it is an evaluator: write it below `evaluators:`, indented".to_owned())
        } else if is_listed {
            place_of(name, known.get_or_insert_with(schema))
        } else {
            None
        };
        error.help = help.or_else(|| error.help.take());
    }
}

/// Returns the nested form of a key with dots.
fn nested(name: &str) -> Option<String> {
    let (first, rest) = name.split_once('.')?;
    let depth = rest.matches('.').count() + 1;
    let inner = rest.replace('.', ": {");
    Some(format!("write `{first}: {{{inner}: ...{}`", "}".repeat(depth)))
}

/// Limit on places of a setting in a help text.
const PLACES_MAX: usize = 2;

/// Names the places of a setting with this name, if they are few.
fn place_of(name: &str, root: &Value) -> Option<String> {
    // Words of many places: `path` of `expect` is not that of `store`.
    if ["file", "path"].contains(&name) {
        return None;
    }
    let sections = root.get("properties")?.as_object()?;
    if sections.contains_key(name) {
        return Some(format!("`{name}` is a section of its own: write it without indent"));
    }
    let shared = shared_schema();
    if shared.pointer(&format!("/properties/{name}")).is_some() {
        return Some(format!(
            "it is a setting of each evaluator: `evaluators: {{tool_error: {{{name}: ...}}}}`"
        ));
    }
    let has = |schema: &Value| properties(schema, root).is_some_and(|own| own.get(name).is_some());
    let mut found: Vec<String> = Vec::new();
    for (section, schema) in sections {
        if has(schema) {
            found.push(section.clone());
        }
        let inner = properties(schema, root).and_then(Value::as_object);
        let inner = inner.into_iter().flatten().filter(|(_, schema)| has(schema));
        found.extend(inner.map(|(key, _)| format!("{section}.{key}")));
    }
    let is_few = (1..=PLACES_MAX).contains(&found.len());
    is_few.then(|| format!("it is a setting of `{}`: write it there", found.join("` or `")))
}

/// Returns the properties of a schema through its references and alternatives.
fn properties<'s>(schema: &'s Value, root: &'s Value) -> Option<&'s Value> {
    if let Some(own) = schema.get("properties") {
        return Some(own);
    }
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        return properties(root.pointer(reference.strip_prefix('#')?)?, root);
    }
    let alternatives = schema.get("anyOf").and_then(Value::as_array)?;
    alternatives.iter().find_map(|schema| properties(schema, root))
}
