use std::path::Path;

use super::super::evaluators::{Surroundings, configure};
use super::super::{ConfigError, ConfigPart, Loaded, load, report};
use spanscore_base::model::Facts;
use spanscore_evaluate::engine::run::Configured;

/// Returns the facts of an evaluator with these files in its folder, or its errors.
fn said(files: &[(&str, &str)], evaluator: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    match plan(&dir.path().join("spanscore.yaml"), evaluator) {
        Ok(evaluators) => format!("{:?}", evaluators[0].facts()),
        Err(error) => error.replace(&*dir.path().to_string_lossy(), "DIR"),
    }
}

fn configured(loaded: &Loaded) -> Result<Vec<Configured>, ConfigError> {
    let mut errors = Vec::new();
    let around = Surroundings { failures: None, judges: None, sources: &loaded.sources };
    let evaluators = configure(loaded.node.get("evaluators"), around, &mut errors);
    if errors.is_empty() { Ok(evaluators) } else { Err(report(errors, &loaded.sources)) }
}

fn plan(path: &Path, evaluator: &str) -> Result<Vec<Configured>, String> {
    let text = format!("evaluators:\n  {evaluator}\n");
    let part = ConfigPart::Text { name: path.display().to_string(), text };
    let plan = load(&[part], "{}", &|_| None).and_then(|loaded| configured(&loaded));
    plan.map_err(|error| {
        let said = error.problems.iter().map(|problem| match &problem.help {
            Some(help) => format!("{} ({help})", problem.message),
            None => problem.message.clone(),
        });
        said.collect::<Vec<_>>().join("\n")
    })
}

const KEY: &str = "key: session_id";

#[test]
fn dataset_is_found_from_the_folder_of_the_config() {
    let case = r#"{"id": "a", "criteria": {"tool_calls": [{"name": "x", "args": {}}]}}"#;
    let facts = said(
        &[("c.jsonl", case)],
        &format!("tool_call_args: {{expect: {{file: c.jsonl, {KEY}}}}}"),
    );
    assert_eq!(facts, format!("{:?}", Facts { arguments: true, ..Facts::default() }));
    let missing = said(&[], &format!("tool_call_args: {{expect: {{file: c.jsonl, {KEY}}}}}"));
    assert!(missing.starts_with("cannot read the dataset DIR/c.jsonl: "), "{missing}");
}

#[test]
fn mistake_in_a_row_names_its_file_and_line() {
    let cases = "{\"id\": \"a\", \"criteria\": {\"tool_calls\": []}}\n\
                 {\"id\": \"b\", \"criteria\": {\"tool_cals\": []}}\n\
                 {\"id\": \"a\", \"criteria\": {\"tool_calls\": []}}\n";
    let expected = "DIR/c.jsonl:2: unknown setting `tool_cals` (did you mean `tool_calls`?)\n\
                    DIR/c.jsonl:3: case `a` comes twice";
    let entry = format!("tool_call_args: {{expect: {{file: c.jsonl, {KEY}}}}}");
    assert_eq!(said(&[("c.jsonl", cases)], &entry), expected);
}

#[test]
fn cases_of_turns_alone_have_names_of_their_own() {
    let turns = r#"[{"user_input": "x", "criteria": {"tool_calls": []}}, {"user_input": "y"}]"#;
    let row = format!("{{\"id\": \"a\", \"turns\": {turns}}}");
    let entry = "tool_trajectory: {expect: {file: c.jsonl, match: auto}}";
    let twice = "DIR/c.jsonl:2: case `a` comes twice";
    assert_eq!(said(&[("c.jsonl", &format!("{row}\n{row}"))], entry), twice);
}

#[test]
fn mistake_in_a_turn_names_its_number_and_is_told_once() {
    let turn = |criteria: &str| {
        format!(r#"{{"user_input": "{criteria}", "criteria": {{"{criteria}": []}}}}"#)
    };
    let row = format!(r#"{{"id": "a", "turns": [{}, {}]}}"#, turn("tool_calls"), turn("tool_cals"));
    let expected =
        "DIR/c.jsonl:1: turn 2: unknown setting `tool_cals` (did you mean `tool_calls`?)";
    let entry = "tool_trajectory: {expect: {file: c.jsonl, match: auto}}";
    assert_eq!(said(&[("c.jsonl", &row)], entry), expected);
}

#[test]
fn cases_of_equal_words_are_a_mistake_where_words_name_them() {
    let case = |id: &str, words: &str| {
        format!("{{\"id\": \"{id}\", {words} \"criteria\": {{\"tool_calls\": []}}}}\n")
    };
    let cases = [
        case("a", r#""user_input": "Hello  there","#),
        case("b", r#""user_input": " Hello there","#),
        case("c", ""),
    ]
    .concat();
    let check = |by: &str, expected: &str| {
        let entry = format!("tool_call_args: {{expect: {{file: c.jsonl, {by}}}}}");
        let said = said(&[("c.jsonl", &cases)], &entry);
        assert!(said.starts_with(expected), "{by}: {said}");
    };
    let expected = "DIR/c.jsonl:2: another case (line 1) has the same `user_input` (name cases by \
                    something else, or leave one of them out)\n\
                    DIR/c.jsonl:3: the case has no `user_input`";
    check("key: user_input", expected);
    check("match: auto", "Facts");
    check("key: session_id, match: auto", "`key` and `match` exclude each other");
}

#[test]
fn mistake_in_the_settings_is_told_once() {
    let cases = "{\"id\": 1, \"criteria\": {\"tool_calls\": []}}\n\
                 {\"id\": 2, \"criteria\": {\"tool_calls\": []}}\n";
    let entry = format!("tool_call_args: {{strikt: true, expect: {{file: c.jsonl, {KEY}}}}}");
    let expected = "unknown setting `strikt` (did you mean `strict`?)";
    assert_eq!(said(&[("c.jsonl", cases)], &entry), expected);
    let entry = "tool_call_args: {strict: 3, expect: {attribute: x}}";
    assert_eq!(said(&[], entry), "expected true or false, found 3");
}

#[test]
fn what_does_not_fit_together_is_refused() {
    let check = |entry: &str, expected: &str| {
        let case = r#"{"id": "a", "criteria": {"tool_calls": [{"name": "b", "args": {}}]}}"#;
        let said = said(&[("c.jsonl", case)], entry);
        assert!(said.starts_with(expected), "{entry}: {said}");
    };
    check("tool_call_args: {expect: {file: c.jsonl}}", "`expect` lacks `key`");
    check("tool_call_args: {expect: {key: session_id}}", "`expect` lacks `file`");
    check("tool_call_args: {expect: {}}", "`expect` says nothing");
    check(
        "tool_call_args: {expect: {file: c.jsonl, key: session_id, attribute: x}}",
        "`file` with `key`, and `attribute` exclude each other",
    );
    check(
        "tool_call_args: {criteria: {tool_calls: []}, expect: {attribute: x}}",
        "`criteria` and `expect` exclude each other",
    );
    check("tool_error: {expect: {attribute: x}}", "`tool_error` takes no criteria");
    check(
        "tool_call_args: {expect: {file: c.jsonl, key: sesion_id}}",
        "unknown name `sesion_id` in `key` (did you mean `session_id`?)",
    );
    check(
        "tool_error: {early: true}",
        "`tool_error` knows nothing before the end of a trace (`early` goes with tool_call_count",
    );
    check("tool_loop: {early: true, level: call}", "`early` goes only with `level: trace`");
}

#[test]
fn matchers_stand_in_own_datasets_and_in_imported_ones_where_they_are_asked_for() {
    let check = |file: &str, text: &str, more: &str, expected: &str| {
        let entry = format!("tool_call_args: {{expect: {{file: {file}, {KEY}{more}}}}}");
        let said = said(&[(file, text)], &entry);
        assert!(said.contains(expected), "{file}{more}: {said}");
    };
    let args = r#"{"q": {"$is": "nay"}}"#;
    let row = format!(
        r#"{{"id": "a", "criteria": {{"tool_calls": [{{"name": "x", "args": {args}}}]}}}}"#
    );
    let set = format!(
        r#"{{"eval_cases": [{{"eval_id": "a", "conversation": [{{"intermediate_data":
        {{"tool_uses": [{{"name": "x", "args": {args}}}]}}}}]}}]}}"#
    );
    check("c.jsonl", &row, "", "DIR/c.jsonl:1: `nay` is no matcher");
    check("c.json", &set, "", "arguments: true");
    check("c.json", &set, ", matchers: true", "`nay` is no matcher");
}
