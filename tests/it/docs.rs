//! Settings and metrics in the documentation, held against the program.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use spanscore::config::{ConfigPart, ResolvedConfig, load};

use crate::support::collector::Running;
use crate::support::fake_judge::FakeJudge;
use crate::support::spans::{request, searches};

fn page(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).expect(path)
}

/// Returns the texts between backticks, code blocks left out.
fn quoted(text: &str) -> Vec<&str> {
    let prose = text.split("```").step_by(2);
    prose.flat_map(|part| part.split('`').skip(1).step_by(2)).collect()
}

/// The part of the schema that describes a setting, by its path.
fn described<'s>(schema: &'s Value, path: &str) -> Option<&'s Value> {
    path.split('.').try_fold(schema, |at, key| {
        let at = resolved(schema, at);
        at["properties"].get(key).or_else(|| {
            let patterns = at["patternProperties"].as_object()?;
            patterns.iter().find(|(pattern, _)| pattern.contains(key)).map(|(_, found)| found)
        })
    })
}

fn resolved<'s>(schema: &'s Value, at: &'s Value) -> &'s Value {
    if let Some(options) = at["anyOf"].as_array().or(at["allOf"].as_array()) {
        return resolved(schema, &options[0]);
    }
    match at["$ref"].as_str() {
        Some(reference) => {
            let found = schema.pointer(reference.trim_start_matches('#')).expect(reference);
            resolved(schema, found)
        }
        None => at,
    }
}

#[test]
fn settings_are_there_with_the_defaults_that_are_told() {
    let schema = serde_json::to_value(spanscore::config::schema()).expect("JSON");
    let sections = schema["properties"].as_object().expect("sections");
    let mut told = 0;
    for name in ["README.md", "docs/config.md", "docs/operations.md", "docs/output.md"] {
        let text = page(name);
        for words in quoted(&text) {
            let (path, default) = match words.split_once(": ") {
                Some((path, default)) => (path, Some(default)),
                None => (words, None),
            };
            let is_path = path.chars().all(|c| c.is_ascii_lowercase() || c == '.' || c == '_');
            let section = path.split('.').next().unwrap_or_default();
            let is_setting = is_path && sections.contains_key(section);
            // A section alone is talked of in many ways.
            if !is_setting || !(path.contains('.') || path == "shutdown_timeout") {
                continue;
            }
            let found = described(&schema, path);
            let found = found.unwrap_or_else(|| panic!("{name}: there is no `{path}`"));
            if let Some(default) = default {
                let known = match &found["default"] {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                assert_eq!(known.replace("1800s", "30m"), default, "{name}: `{path}`");
                told += 1;
            }
        }
    }
    assert!(told > 20, "{told}");
}

#[tokio::test]
async fn metrics_are_those_of_a_scrape() {
    let config = "exporters: {prometheus: }
telemetry:
  metrics: {otlp: {endpoint: 'http://127.0.0.1:1'}}
  traces: {otlp: {endpoint: 'http://127.0.0.1:1'}}
receivers: {file: {include: [/nonexistent/*.json]}}
forward: {otlp_grpc: {endpoint: 'http://127.0.0.1:1'}}
evaluators:
  tool_error: {}
  task_completion: {judge: small, criteria: {tasks: [x]}}
  agentevals/none: {command: [/nonexistent/program]}
judging: {settle: 0s}
";
    let judge = FakeJudge::saying("yes").await;
    let config = format!("{config}judges: {{small: {}}}\n", judge.settings("openai", ""));
    let running = Running::start(&config).await;
    running.send(request(searches(7, &[2, 3]))).await;
    running.events(3).await;
    // Counted after all that a delivery counts.
    let sent = "spanscore_exporter_sent_evaluations_total{exporter=\"otlp_grpc/backend\"}";
    running.counted(sent, 3).await;
    let text = running.exposition();
    let is_ours = |name: &&str| name.starts_with("spanscore_");
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let scraped: BTreeSet<_> =
        types.filter_map(|line| line.split(' ').next()).filter(is_ours).collect();
    let (operations, output) = (page("docs/operations.md"), page("docs/output.md"));
    let told: BTreeSet<_> = quoted(&operations).into_iter().filter(is_ours).collect();
    assert_eq!(told, scraped);
    let told: BTreeSet<_> = quoted(&output).into_iter().filter(is_ours).collect();
    assert!(told.is_subset(&scraped), "{told:?}");
}

#[test]
fn index_and_contents_of_the_documentation_reach_every_page() {
    let index = page("docs/README.md");
    let contents = page("docs/SUMMARY.md");
    let pages = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs"));
    let names = pages.expect("docs").map(|entry| entry.expect("an entry").file_name());
    let names: Vec<_> = names.filter_map(|name| name.into_string().ok()).collect();
    let is_missed = |name: &&String| {
        let link = format!("]({name})");
        let is_page =
            name.ends_with(".md") && !["README.md", "SUMMARY.md"].contains(&name.as_str());
        is_page && !(index.contains(&link) && contents.contains(&link))
    };
    assert_eq!(names.iter().find(is_missed), None);
}

#[test]
fn mistakes_in_the_config_of_the_readme_are_shown_as_the_page_of_the_config_says() {
    let readme = page("README.md");
    let config = readme.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next());
    let text = config.expect("a config").replace("threshold: 1.0", "treshold: 1.0");
    let part = ConfigPart::Text { name: "spanscore.yaml".to_owned(), text };
    let plan = load(&[part], &|_| None).and_then(|loaded| ResolvedConfig::new(&loaded));
    let said = plan.err().expect("a mistake").to_string();
    assert!(page("docs/config.md").contains(&format!("```\n{said}\n```")), "{said}");
}

#[test]
fn config_of_the_readme_judges_the_sample() {
    let readme = page("README.md");
    let config = readme.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next());
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("spanscore.yaml");
    std::fs::write(&path, config.expect("a config")).expect("written");
    let scored = Command::new(env!("CARGO_BIN_EXE_spanscore"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["score", "--fail-on", "unused_evaluator,unused_case,no_agent", "--config"])
        .arg(&path)
        .arg("examples/traces/refund_agent.json")
        .output()
        .expect("it runs");
    let printed = String::from_utf8(scored.stdout).expect("text");
    assert!(scored.status.success(), "{printed}");
    assert!(printed.contains("tool_call_args/refund") && printed.contains("1.000"), "{printed}");
    assert!(!printed.contains("not judged"), "{printed}");
}

#[test]
fn scores_are_printed_as_the_page_of_the_gate_says() {
    let files = ["examples/traces/refund_agent.json", "examples/traces/weather_agent.json"];
    let scored = Command::new(env!("CARGO_BIN_EXE_spanscore"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .arg("score")
        .args(files)
        .output()
        .expect("it runs");
    let printed = String::from_utf8(scored.stdout).expect("text");
    assert!(page("docs/gate.md").contains(&format!("```text\n{printed}```")), "{printed}");
}
