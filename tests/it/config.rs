//! Config files with mistakes, and what is said of them.

use std::fs;
use std::path::{Path, PathBuf};

use spanscore::config::{ConfigPart, ResolvedConfig, load};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn yaml_files(folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join(folder)).expect(folder);
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut paths: Vec<_> =
        paths.filter(|path| path.extension() == Some("yaml".as_ref())).collect();
    paths.sort();
    paths
}

/// The environment of these tests.
fn environment(name: &str) -> Option<String> {
    match name {
        "SECRET_TOKEN" => Some("hunter2-hunter2".to_owned()),
        "PORT" => Some("4317".to_owned()),
        "OTLP_AUTHORIZATION" => Some("Bearer hunter2-hunter2".to_owned()),
        "OTLP_ENDPOINT" => Some("http://127.0.0.1:4317".to_owned()),
        _ => None,
    }
}

/// Returns the errors of a config, or that it holds.
fn said(parts: &[ConfigPart]) -> String {
    let plan = load(parts, &environment).and_then(|loaded| ResolvedConfig::new(&loaded));
    match plan {
        Ok(_) => "no mistakes".to_owned(),
        Err(error) => error.to_string(),
    }
}

fn named(path: &Path) -> ConfigPart {
    let name = path.file_name().expect("a file").to_string_lossy().into_owned();
    ConfigPart::Text { name, text: fs::read_to_string(path).expect("a readable file") }
}

/// Runs with snapshots beside the fixtures.
fn beside_fixtures(run: impl FnOnce()) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(root().join("tests/fixtures/config"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(run);
}

/// Mistakes that newcomers made, each with the words that help.
#[test]
fn newcomers_are_told_the_place_and_the_remedy() {
    beside_fixtures(|| {
        let mut all = String::new();
        for path in yaml_files("tests/fixtures/config/newcomers") {
            let part = [named(&path)];
            let slips = load(&part, &environment).map(|loaded| loaded.slips()).unwrap_or_default();
            let slips: String = slips.iter().map(|slip| format!("{slip}\n")).collect();
            let name = path.file_name().unwrap_or_default().display();
            all.push_str(&format!("{name}\n{slips}{}\n\n", said(&part)));
        }
        insta::assert_snapshot!("newcomers", all);
    });
}

#[test]
fn each_kind_of_mistake_is_shown_at_its_place() {
    beside_fixtures(|| {
        for path in yaml_files("tests/fixtures/config") {
            let said = said(&[named(&path)]);
            assert!(!said.contains("hunter2"), "a secret is shown: {said}");
            assert_ne!(said, "no mistakes", "{}", path.display());
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            insta::assert_snapshot!(name, said);
        }
    });
}

#[test]
fn the_annotated_default_and_the_examples_hold() {
    for folder in ["config", "config/examples"] {
        for path in yaml_files(folder) {
            // As a file: an example may name others beside it.
            assert_eq!(
                said(&[ConfigPart::File(path.clone())]),
                "no mistakes",
                "{}",
                path.display()
            );
        }
    }
}

/// The fenced blocks of a language in a Markdown text.
fn blocks<'a>(text: &'a str, language: &str) -> Vec<&'a str> {
    let fence = format!("```{language}\n");
    text.split(&fence).skip(1).filter_map(|rest| rest.split("```").next()).collect()
}

#[test]
fn configs_in_the_documentation_hold() {
    let mut pages = vec![root().join("README.md")];
    for folder in ["docs", "docs/judges"] {
        let docs = fs::read_dir(root().join(folder)).expect("docs");
        pages.extend(docs.map(|entry| entry.expect("an entry").path()));
    }
    pages.retain(|path| path.is_file());
    for path in pages {
        let text = fs::read_to_string(&path).expect("a page");
        for block in blocks(&text, "yaml") {
            let sections = ["receivers:", "evaluators:", "exporters:", "limits:", "traces:"];
            if !sections.iter().any(|section| block.contains(&format!("{section}\n")))
                && !block.starts_with("evaluators:")
            {
                continue;
            }
            let name = path.display().to_string();
            let part = |text: &str| ConfigPart::Text { name: name.clone(), text: text.to_owned() };
            // What asks a judge shows how elsewhere.
            let parts = [part("judges: {small: {api: openai, model: m}}"), part(block)];
            assert_eq!(said(&parts), "no mistakes", "{name}:\n{block}");
        }
    }
}

#[test]
fn the_examples_of_the_kinds_hold() {
    let validator = jsonschema::validator_for(&spanscore::config::schema()).expect("a schema");
    for kind in spanscore_evaluate::KINDS {
        let indented = || kind.example.lines().map(|line| format!("  {line}\n"));
        let text = match kind.example.starts_with("evaluators:") {
            true => kind.example.to_owned(),
            false => format!("evaluators:\n{}", indented().collect::<String>()),
        };
        let judge = "{api: openai, model: m}";
        let text = format!("judges: {{small: {judge}, large: {judge}}}\n{text}");
        let part = ConfigPart::Text { name: kind.name.into(), text };
        assert_eq!(said(std::slice::from_ref(&part)), "no mistakes", "{}", kind.example);
        let node = load(&[part], &environment).expect("reads").node;
        let value = serde_json::from_str(&node.to_value().to_string()).expect("JSON");
        let mistakes: Vec<_> = validator.iter_errors(&value).map(|e| e.to_string()).collect();
        assert!(mistakes.is_empty(), "{}: {mistakes:?}", kind.name);
    }
}

#[test]
fn the_page_of_evaluators_lists_every_kind() {
    let page = fs::read_to_string(root().join("docs/evaluators.md")).expect("a page");
    for kind in spanscore_evaluate::KINDS {
        let row = format!("| `{}` | {} |", kind.name, kind.about.trim_end_matches('.'));
        assert!(page.contains(&row), "docs/evaluators.md lacks this row:\n{row}");
    }
}

#[test]
fn the_annotated_default_says_what_holds_without_it() {
    let loaded = load(&[], &environment).expect("the default reads");
    let plan = ResolvedConfig::new(&loaded).expect("the default holds");
    let mut default = spanscore::config::Config::default();
    // `auto` is what the machine has.
    default.limits.memory_mib = plan.config.limits.memory_mib;
    assert_eq!(plan.config, default);
    let names: Vec<_> = plan.evaluators.iter().map(|e| e.info.name.as_str()).collect();
    assert_eq!(names, ["tool_error", "tool_efficiency"]);
    let names: Vec<_> = plan.exporters.iter().map(|exporter| exporter.name.as_str()).collect();
    assert_eq!(names, ["console", "prometheus"]);
}

#[test]
fn a_section_that_is_left_out_is_as_in_the_default() {
    let plan = |text: &str| {
        let part = ConfigPart::Text { name: "config.yaml".into(), text: text.into() };
        let loaded = load(&[part, ConfigPart::Set("limits.queue_mib=7".into())], &environment);
        ResolvedConfig::new(&loaded.expect("reads")).expect("holds")
    };
    assert_eq!(plan("").evaluators.len(), 2);
    assert_eq!(plan("evaluators: {}").evaluators.len(), 0);
    assert_eq!(plan("evaluators: {tool_error: }").evaluators.len(), 1);
    assert_eq!(plan("exporters: {}").exporters.len(), 0);
    assert_eq!(plan("").config.limits.queue_mib, Some(7));
}

#[test]
fn later_files_and_values_win_and_mistakes_name_their_file() {
    let part = |name: &str, text: &str| ConfigPart::Text { name: name.into(), text: text.into() };
    let base = part("base.yaml", "evaluators:\n  tool_error: {threshold: 0.5}\n");
    let over = part("over.yaml", "evaluators:\n  tool_error:\n    sample: 0.1\n");
    let set = ConfigPart::Set("evaluators.tool_error.threshold=0.75".into());
    let loaded = load(&[base.clone(), over, set], &environment).expect("reads");
    let plan = ResolvedConfig::new(&loaded).expect("holds");
    assert_eq!(plan.evaluators[0].info.threshold, 0.75);
    assert_eq!(plan.evaluators[0].sample, 0.1);

    let over = part("over.yaml", "\nevaluators: {tool_error: {smaple: 0.1}}\n");
    let set = ["shutdown_timeout=1s", "evaluators.tool_error.treshold=1"];
    let set = set.map(|text| ConfigPart::Set(text.into()));
    beside_fixtures(|| {
        insta::assert_snapshot!("merged_files", said(&[&[base, over], &set[..]].concat()));
        let set = |text: &str| said(&[ConfigPart::Set(text.into())]);
        insta::assert_snapshot!("set_without_value", set("limits.open_traces_max"));
        insta::assert_snapshot!("set_wrong_value", set("shutdown_timeout=soon"));
        let unset = set("receivers.otlp.http.endpoint=${HOST}:4318");
        insta::assert_snapshot!("set_without_variable", unset);
    });
}

#[test]
fn the_committed_schema_is_current() {
    let schema = serde_json::to_string_pretty(&spanscore::config::schema()).expect("JSON") + "\n";
    let path = root().join("config/schema.json");
    let committed = fs::read_to_string(&path).unwrap_or_default();
    if committed != schema {
        // So that one run repairs what it finds.
        let fresh = std::env::temp_dir().join("spanscore-schema.json");
        fs::write(&fresh, schema).expect("a writable folder");
        panic!("run `cargo run -- schema > config/schema.json`, or copy {}", fresh.display());
    }
}

#[test]
fn the_schema_takes_what_the_config_takes() {
    let validator = jsonschema::validator_for(&spanscore::config::schema()).expect("a schema");
    for folder in ["config", "config/examples"] {
        for path in yaml_files(folder) {
            let loaded = load(&[named(&path)], &environment).expect("reads");
            let value = serde_json::from_str(&loaded.node.to_value().to_string()).expect("JSON");
            let mistakes: Vec<_> =
                validator.iter_errors(&value).map(|error| error.to_string()).collect();
            assert!(mistakes.is_empty(), "{}: {mistakes:?}", path.display());
        }
    }
    let wrong = serde_json::json!({"evaluators": {"tool_errors": {}}});
    assert!(!validator.is_valid(&wrong));
}

#[test]
fn a_tagged_reference_is_replaced_and_is_what_its_tag_says() {
    let lookup = |name: &str| match name {
        "PIN" => Some("0042".to_owned()),
        "WORD" => Some("hunter2".to_owned()),
        _ => None,
    };
    let read = |value: &str| {
        let part = ConfigPart::Text { name: "own.yaml".into(), text: format!("x: {value}\n") };
        let loaded = load(&[part], &lookup).map_err(|error| error.to_string())?;
        Ok(loaded.node.get("x").map(|node| node.to_value().to_string()).unwrap_or_default())
    };
    let is = |value: &str, expected: &str| {
        assert_eq!(read(value).as_deref(), Ok(expected), "{value}");
    };
    is(r#"!!str "${env:PIN}""#, r#""0042""#);
    is("!!str ${env:PIN}", r#""0042""#);
    is("!!int '${env:PIN}'", "42");
    is("!!int 1${env:PIN}", "10042");
    is("!!str ${env:NONE:-a}$$b", r#""a$b""#);
    is("! ${env:WORD}", r#""hunter2""#);
    let error: String = read("!!int ${env:WORD}").expect_err("no integer");
    assert!(error.contains("own.yaml:1:10: not a value of its tag `!!int`"), "{error}");
    assert!(!error.contains("hunter2"), "{error}");
}
