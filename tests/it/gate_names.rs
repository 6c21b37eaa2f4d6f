//! Names of runs: cases found without touching the agent, the same in every report and baseline.

use std::path::Path;

use serde_json::{Value as Json, json};

use crate::gate::{CASES, Walk, trace};
use crate::support::ran::run;

/// A run whose root span has these attributes in place of its case.
fn run_with(id: usize, attributes: &[(&str, &str)], tools: &[&str]) -> Json {
    let mut run = trace(id, "", tools);
    let root = &mut run["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["attributes"];
    let list = root.as_array_mut().expect("attributes");
    list.pop();
    let text = |key: &str, value: &str| json!({"key": key, "value": {"stringValue": value}});
    list.extend(attributes.iter().map(|(key, value)| text(key, value)));
    run
}

#[test]
fn a_case_is_found_without_touching_the_agent() {
    let walk = Walk::new();
    let row = |id: &str, words: &str, tools: &[&str]| {
        json!({"id": id, "user_input": words, "criteria": {"tool_calls_order": tools}}).to_string()
    };
    let rows =
        [row("Oslo", "Weather in  Oslo?", &["find"]), row("Rome", "Weather in Rome?", &["pay"])];
    walk.write("cases.jsonl", &rows.join("\n"));
    let runs = [
        run_with(1, &[("metadata", r#"{"case": "Oslo", "thread_id": 7}"#)], &["find"]),
        run_with(2, &[("input.value", " Weather in Oslo?\n")], &["find"]),
    ];
    let files = [1, 2].map(|at| walk.write(&format!("{at}.json"), &runs[at - 1].to_string()));
    let check = |by: &str, file: &str, code: i32, words: &[&str]| {
        let config = walk.write(
            "eval.yaml",
            &format!("evaluators: {{tool_call_order/a: {{expect: {{file: cases.jsonl, {by}}}}}}}"),
        );
        let ended = run(&["score", "--format", "junit", "--config", &config, file]);
        assert_eq!(ended.code, code, "{by}: {} {}", ended.out, ended.err);
        let said = ended.out + &ended.err;
        assert!(words.iter().all(|word| said.contains(word)), "{by}: {said}");
    };
    let [metadata, words] = files.each_ref().map(String::as_str);
    let oslo = r#"<testcase name="Oslo" "#;
    check(r#"key: 'json(attributes["metadata"]).case'"#, metadata, 0, &[oslo]);
    check(r#"key: 'attributes["metadata"].case'"#, metadata, 0, &[oslo]);
    check("key: user_input", words, 0, &[oslo]);
    for file in [metadata, words] {
        check("match: auto", file, 0, &[oslo]);
    }
    let keys = "`metadata` (JSON with `case`, `thread_id`)";
    check(
        r#"key: 'attributes["cases"]'"#,
        metadata,
        2,
        &["gate: shut: no trace names a case", keys],
    );
    let hidden = "the dataset has no case of this name (18 characters, SHA-256 ";
    check(r#"key: 'user_input + ""'"#, words, 2, &[hidden]);
}

#[test]
fn cases_named_by_words_are_learned_with_short_names() {
    let walk = Walk::new();
    let run_of = |id: usize, tools: &[&str]| {
        run_with(id, &[("input.value", "Weather in Oslo?")], tools).to_string()
    };
    let good = walk.write("good.json", &run_of(1, &["find"]));
    let golden = walk.folder.path().join("golden.jsonl");
    let golden = golden.to_str().expect("text");
    let learned = run(&["learn", "--key", "user_input", "-o", golden, &good]);
    assert_eq!(learned.code, 0, "{}", learned.err);
    let row: Json =
        serde_json::from_str(&std::fs::read_to_string(golden).expect("rows")).expect("JSON");
    let id = row["id"].as_str().expect("a name");
    assert!(id.starts_with("case-") && id.len() == 13, "{id}");
    assert_eq!(row["user_input"], "Weather in Oslo?");
    let config = golden.replace(".jsonl", ".yaml");
    let again = walk.write("again.json", &run_of(2, &["find"]));
    let passed = run(&["score", "--golden", &config, &again]);
    assert!(passed.code == 0 && passed.out.contains(id), "{} {}", passed.out, passed.err);
}

#[test]
fn a_turn_of_a_conversation_is_judged_against_its_turn_of_the_case() {
    let walk = Walk::new();
    let turn = |words: &str, tool: &str| {
        json!({
            "user_content": {"role": "user", "parts": [{"text": words}]},
            "intermediate_data": {"tool_uses": [{"name": tool, "args": {}}]},
        })
    };
    let case = |id: &str, turns: &[Json]| json!({"eval_id": id, "conversation": turns});
    let talks = [
        case("talk", &[turn("Find A-17", "find"), turn("Refund it", "pay"), turn("Thanks", "end")]),
        case("single", &[turn("Thanks", "bow")]),
    ];
    walk.write("talks.json", &json!({"eval_cases": talks}).to_string());
    let said = |id: usize, words: &str, tools: &[&str]| {
        run_with(id, &[("input.value", words), ("session.id", "s-1")], tools).to_string()
    };
    let score = |runs: &[String], args: &[&str]| {
        let config = walk.write(
            "eval.yaml",
            "evaluators: {tool_trajectory/a: {match_mode: exact, argument_matcher: {mode: ignore}, \
             expect: {file: talks.json, match: auto}}}",
        );
        let file = walk.write("runs.jsonl", &runs.join("\n"));
        run(&[&["score", "--config", &config, &file], args].concat())
    };
    let check = |runs: &[String], code: i32, words: &[&str]| {
        let ended = score(runs, &[]);
        assert_eq!(ended.code, code, "{} {}", ended.out, ended.err);
        let said = ended.out + &ended.err;
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
    };
    let find = said(1, "Find A-17", &["find"]);
    let pay = said(2, " Refund  it", &["pay"]);
    check(&[find.clone(), pay], 0, &["2 evaluations: 2 pass", "`single`"]);
    let half = [find.clone(), said(2, "Refund it", &["find"])];
    check(&half, 2, &["1 pass, 1 fail", " talk, turn 1  ", " talk, turn 2  "]);
    let once = score(&half, &["--format", "junit", "--fail-on", "flaky"]);
    let junit = once.out + &once.err;
    assert!(once.code == 0 && !junit.contains("flaky") && !junit.contains("pass^"), "{junit}");
    assert!(junit.contains(r#"<testcase name="talk, turn 2" "#), "{junit}");
    let twice = [&half[..], &[said(4, "Refund it", &["pay"])]].concat();
    check(&twice, 2, &["flaky: `talk, turn 2 (1 of 2)`", " talk, turn 2 #2  "]);
    check(&[said(3, "Thanks", &["bow"])], 2, &["several cases have the user's words"]);
}

#[test]
fn turns_of_a_row_are_judged_one_by_one_and_as_a_session() {
    let walk = Walk::new();
    let turn =
        |words: &str, tool: &str| json!({"user_input": words, "criteria": {"tool_calls": [tool]}});
    let turns = [turn("Find A-17", "find"), turn("Refund it", "pay")];
    walk.write("talks.jsonl", &json!({"id": "talk", "turns": turns}).to_string());
    let config = walk.write(
        "eval.yaml",
        "evaluators:
           tool_trajectory/turn: {expect: {file: talks.jsonl, match: auto}}
           tool_trajectory/talk: {level: session, expect: {file: talks.jsonl, match: auto}}",
    );
    let said = |id: usize, words: &str, tool: &str| {
        let run = run_with(id, &[("input.value", words), ("session.id", "s-1")], &[tool]);
        // One turn after the other.
        run.to_string().replace("17900000", &format!("1790{id}000"))
    };
    let check = |second: &str, code: i32, parts: &[&str]| {
        let runs = [said(1, "Find A-17", "find"), said(2, "Refund it", second)];
        let file = walk.write("runs.jsonl", &runs.join("\n"));
        let ended = run(&["score", "--config", &config, &file]);
        let said = ended.out + &ended.err;
        assert!(ended.code == code && parts.iter().all(|part| said.contains(part)), "{said}");
    };
    check("pay", 0, &["3 evaluations: 3 pass", " talk, turn 1  ", " talk, turn 2  "]);
    check("find", 2, &["3 evaluations: 1 pass, 2 fail", "tool_trajectory/talk  0.500"]);
}

#[test]
fn classes_of_many_runs_are_summed_up() {
    let walk = Walk::new();
    let case = |id: usize, class: &str| {
        json!({"id": format!("c{id}"), "criteria": {"expected_class": class}}).to_string()
    };
    walk.write("cases.jsonl", &[case(1, "spam"), case(2, "spam"), case(3, "Ham")].join("\n"));
    let config = walk.write(
        "eval.yaml",
        "evaluators: {classification/mail: {classes: [spam, ham],
           expect: {file: cases.jsonl, key: 'attributes[\"case\"]'}}}",
    );
    let said = |id: usize, class: &str| {
        let case = format!("c{id}");
        run_with(id, &[("output.value", class), ("case", &case)], &["look"]).to_string()
    };
    let runs = [said(1, "Spam"), said(2, "ham"), said(3, "ham")];
    let file = walk.write("runs.jsonl", &runs.join("\n"));
    let check = |format: &str, is_out: bool| {
        let ended = run(&["score", "--config", &config, "--format", format, &file]);
        let said = if is_out { ended.out } else { ended.err };
        for line in [
            "macro mean of 2 classes: precision 0.750, recall 0.750, F1 0.667, 3 runs",
            "micro mean of 2 classes: precision 0.667, recall 0.667, F1 0.667, 3 runs",
            "`spam`: precision 1.000, recall 0.500, F1 0.667, 3 runs",
            "`ham`: precision 0.500, recall 1.000, F1 0.667, 3 runs",
        ] {
            assert!(said.contains(&format!("classes: classification/mail: {line}")), "{said}");
        }
    };
    ["table", "summary", "markdown"].into_iter().for_each(|format| check(format, true));
    ["jsonl", "junit", "github"].into_iter().for_each(|format| check(format, false));
}

#[test]
fn an_eval_set_needs_no_config() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let at = |path: &str| root.join(path).display().to_string();
    let check = |golden: &str, code: i32, part: &str| {
        let trace = at("examples/traces/weather_agent.json");
        let ended = run(&["score", "--golden", golden, &trace]);
        let said = ended.out + &ended.err;
        assert!(ended.code == code && said.contains(part), "{golden}: {said}");
        said
    };
    let said = check(&at("config/examples/weather.evalset.json"), 2, " rain in Lisbon  ");
    let shown = said.lines().nth(1).expect("a score").trim_end();
    let page = std::fs::read_to_string(at("docs/gate.md")).expect("a page");
    assert!(page.contains(shown), "{said}");
    check(&at("config/examples/refund_cases.jsonl"), 64, "refund_cases.yaml");
}

#[test]
fn an_eval_set_is_judged_by_the_metrics_beside_it() {
    let walk = Walk::new();
    let set = json!({"eval_cases": [{"eval_id": "rain", "conversation": [{
        "user_content": {"parts": [{"text": "Rain?"}]},
        "final_response": {"parts": [{"text": "It rains in Lisbon"}]},
        "intermediate_data": {"tool_uses": [{"name": "look", "args": {}}]}
    }]}]});
    let set = walk.write("home.evalset.json", &set.to_string());
    let run_of = |answer: &str| {
        run_with(1, &[("input.value", "Rain?"), ("output.value", answer)], &["ask", "look"])
    };
    let close = walk.write("close.json", &run_of("Lisbon: it is raining").to_string());
    let check = |criteria: &str, code: i32, parts: &[&str]| {
        walk.write("test_config.json", criteria);
        let ended = run(&["score", "--golden", &set, &close]);
        let said = ended.out + &ended.err;
        assert!(ended.code == code && parts.iter().all(|part| said.contains(part)), "{said}");
    };
    let answer = "word_overlap/golden  0.750  pass";
    check(
        r#"{"criteria": {"response_match_score": 0.7, "final_response_match_v2": 0.5}}"#,
        0,
        &[answer, "`final_response_match_v2` is left out", "1 evaluation: 1 pass"],
    );
    let ordered = r#"{"criteria": {"response_match_score": {"threshold": 0.8},
        "tool_trajectory_avg_score": {"threshold": 1, "match_type": "IN_ORDER", "ignoreArgs": true}
        }}"#;
    check(
        ordered,
        2,
        &["word_overlap/golden     0.750  fail", "tool_trajectory/golden  1.000  pass"],
    );
    check(r#"{"criteria": {"tool_trajectory_avg_score": 1.0}}"#, 2, &["0.000  fail"]);
    let alone = [
        "`safety_v1` is left out",
        "no metric is left: the tool calls are judged",
        "tool_trajectory/golden  0.000  fail",
    ];
    check(r#"{"criteria": {"safety_v1": 0.5}}"#, 2, &alone);
    check(r#"{"criteria": {}}"#, 2, &alone[1..]);
    check("[]", 64, &["test_config.json has no object `criteria`"]);
    check(r#"{"criteria": "#, 64, &["test_config.json is not valid JSON at byte 13"]);
    for (metric, criterion, told) in [
        ("response_match_score", "8", "a `threshold` from 0 to 1 is needed"),
        ("response_match_score", r#"{"threshold": "0.8"}"#, "a `threshold` from 0 to 1 is needed"),
        (
            "tool_trajectory_avg_score",
            r#"{"threshold": 1, "match_type": "SUBSET"}"#,
            "`match_type` is \"SUBSET\"; it is EXACT, IN_ORDER or ANY_ORDER",
        ),
    ] {
        let told = format!("test_config.json `{metric}`: {told}");
        check(&format!(r#"{{"criteria": {{"{metric}": {criterion}}}}}"#), 64, &[&told]);
    }
}

#[test]
fn a_case_without_an_answer_is_no_unknown_one() {
    let walk = Walk::new();
    let case = |id: &str, words: &str| {
        json!({"eval_id": id, "conversation": [{
            "user_content": {"parts": [{"text": words}]},
            "intermediate_data": {"tool_uses": [{"name": "look", "args": {}}]}
        }]})
    };
    let set = json!({"eval_cases": [case("rain", "Rain?")]}).to_string();
    let set = walk.write("home.evalset.json", &set);
    walk.write("test_config.json", r#"{"criteria": {"response_match_score": 0.7}}"#);
    let run_of = run_with(1, &[("input.value", "Rain?"), ("output.value", "Yes")], &["look"]);
    let ended = run(&["score", "--golden", &set, &walk.write("run.json", &run_of.to_string())]);
    let said = ended.out + &ended.err;
    let told = "the dataset's case `rain` holds nothing that this evaluator compares";
    assert!(ended.code == 2 && said.contains(told), "{said}");
}

#[test]
fn a_run_has_one_name_in_every_report() {
    let walk = Walk::new();
    let config = walk.config(&CASES[..2]);
    let runs: [(&str, &[&str]); 3] = [CASES[0], ("cancel", &["!stop"]), ("refund", &["!pay"])];
    let recorded = walk.record("runs.json", 1, &runs);
    let check = |format: &str, names: &[&str]| {
        let ended = run(&["score", "--config", &config, "--format", format, &recorded]);
        for name in names {
            assert_eq!(ended.out.matches(name).count(), 2, "{format} {name}: {}", ended.out);
        }
        assert!(!ended.out.contains(r#"name="0000"#), "{format}: {}", ended.out);
    };
    check("table", &["refund  ", "cancel  ", "refund #2  "]);
    check("jsonl", &[r#""run":"refund"}"#, r#""run":"cancel"}"#, r#""run":"refund #2"}"#]);
    let case = |name: &str| format!(r#"<testcase name="{name}" "#);
    check("junit", &[&case("refund"), &case("cancel"), &case("refund #2")]);
    check("github", &["cancel::", "refund #2::"]);
    check("markdown", &["| cancel | ", "| refund #2 | "]);
    let junit = run(&["score", "--config", &config, "--format", "junit", &recorded]).out;
    assert_eq!(junit.matches(r#" time="9.000""#).count(), 6, "{junit}");
    assert_eq!(junit.matches(r#" time="27.000""#).count(), 2, "{junit}");
    assert_eq!(junit.matches(r#" time="54.000""#).count(), 1, "{junit}");
}

#[test]
fn runs_of_a_case_are_summed_up_and_flaky_ones_named() {
    let walk = Walk::new();
    let config = walk.config(&CASES[..1]);
    let runs: [(&str, &[&str]); 3] = [CASES[0], ("refund", &["!pay"]), CASES[0]];
    let recorded = walk.record("runs.json", 1, &runs);
    let score =
        |args: &[&str]| run(&[&["score", "--config", &config], args, &[&recorded]].concat());
    let line = "runs: tool_error: 1 case run 3 times or more: pass^3 0.000 (95 %: 0.009 to 0.827), \
                pass@3 1.000 (95 %: 0.503 to 1.000); flaky: `refund (2 of 3)`";
    assert!(score(&[]).out.contains(line), "{}", score(&[]).out);
    assert!(score(&["--format", "jsonl"]).err.contains(line));
    let junit = score(&["--format", "junit"]).out;
    for property in [
        r#"<property name="pass^3" value="0.000"/>"#,
        r#"<property name="flaky" value="`refund (2 of 3)`"/>"#,
    ] {
        assert!(junit.contains(property), "{junit}");
    }
    let shut = score(&["--fail-on", "flaky", "--format", "summary"]);
    assert!(shut.code == 2 && shut.out.contains("tool_error: flaky: `refund"), "{}", shut.out);
    let scores = walk.folder.path().join("scores.jsonl");
    let scores = scores.to_str().expect("text");
    score(&["--format", "jsonl", "-o", scores]);
    let again = score(&["--baseline", scores]).out;
    assert!(again.contains("; pass^3 0.000 -> pass^3 0.000"), "{again}");
}

#[test]
fn a_case_that_passed_before_and_fails_now_shuts_the_gate_where_asked() {
    let walk = Walk::new();
    let config = walk.config(&CASES);
    let main = walk.record("main.json", 1, &CASES);
    let mut runs = CASES;
    runs[3].1 = &["!other"];
    let change = walk.record("pr.json", 91, &runs);
    let scores = walk.folder.path().join("scores.jsonl");
    let scores = scores.to_str().expect("text");
    let score = |args: &[&str]| run(&[&["score", "--config", &config], args].concat());
    assert_eq!(score(&["--format", "jsonl", "-o", scores, &main]).code, 0);
    let baseline = ["--baseline", scores, "--format", "summary"];
    let loose = score(&[&baseline, [change.as_str()].as_slice()].concat());
    assert_eq!(loose.code, 0, "one of six is no evidence: {}", loose.out);
    let strict = [&baseline[..], &["--fail-on", "newly_failing"]].concat();
    let shut = score(&[&strict[..], &[&change]].concat());
    assert_eq!(shut.code, 2, "{}", shut.out);
    for name in ["tool_error", "tool_call_order/golden"] {
        let reason = format!("{name}: passed in the baseline and fails now: `greet`");
        assert!(shut.out.contains(&reason), "{}", shut.out);
    }
    let same = score(&[&strict[..], &[&main]].concat());
    assert_eq!(same.code, 0, "{}", same.out);
    let alone = score(&["--fail-on", "newly_failing", &main]);
    assert!(alone.code == 64 && alone.err.contains("needs --baseline"), "{}", alone.err);
}
