use super::config::{ConditionConfig, FieldDetectorConfig, TextDetectorConfig};
use super::*;
use crate::limits::{HEAD_BYTES_MAX, TAIL_BYTES_MAX};
use crate::pack::compile::TextForm;
use crate::pack::config::with_named;
use crate::pack::expression::plain_of;
use crate::pack::testing::matching_texts;
use spanscore_base::model::WorkBudget;

fn said(text: &str) -> Option<(Says, String)> {
    let detectors = built_in_detectors().unwrap();
    detectors
        .judge_text(text, &WorkBudget::default())
        .map(|finding| (finding.says, finding.kind.to_owned()))
}

fn check(text: &str, says: Option<Says>) {
    assert_eq!(said(text).map(|(says, _)| says), says, "{text:.200}");
}

#[test]
fn a_failure_is_found_in_what_stands_around_it() {
    for text in [
        "Tool result: Error: boom",
        "\"Error: boom\"",
        "[{\"type\": \"text\", \"text\": \"Error: boom\"}]",
        "{'status': 'error'}",
        "{\"kwargs\": {\"content\": \"Error: boom\"}}",
        r#"{"role": "tool", "content": [{"type": "text", "text": "{\"ok\": false}"}]}"#,
    ] {
        check(text, Some(Says::Failed));
    }
}

#[test]
fn of_a_long_text_the_beginning_and_the_end_are_read() {
    let middle = |bytes: usize| "word ".repeat(bytes / 5);
    check(&format!("Error: boom {}", middle(1 << 20)), Some(Says::Failed));
    check(&format!("{}\nexit code: 2", middle(1 << 20)), Some(Says::Failed));
    let hidden = format!("{}\nexit code: 2\n{}", middle(HEAD_BYTES_MAX), middle(TAIL_BYTES_MAX));
    check(&hidden, None);
}

#[test]
fn what_stopped_a_program_stands_in_its_last_lines() {
    let copied = "copied a file\n".repeat(900);
    check(&format!("{copied}Error: could not copy: no space left"), Some(Says::Failed));
    check(&format!("{copied}cat: b.txt: No such file or directory"), Some(Says::Failed));
    check("Cloning into 'y'...\nfatal: unable to access 'https://x/'", Some(Says::Failed));
    let since = "all well\n".repeat(12);
    check(&format!("{copied}Error: could not copy: no space left\n{since}"), None);
}

#[test]
fn what_stands_in_a_record_is_not_said_of_the_call() {
    check(r#"[{"id": 3, "status": "failed", "error": "declined"}]"#, None);
    check(r#"{"id": 3, "status": "failed"}"#, None);
    check(r#"{"status": "failed", "message": "declined"}"#, Some(Says::Failed));
    check(r#"[{"status": "failed", "message": "declined"}]"#, Some(Says::Failed));
}

#[test]
fn what_was_not_done_is_a_failure_where_a_reason_is_given() {
    check(r#"{"booked": false, "reason": "payment declined"}"#, Some(Says::Failed));
    check(r#"{"booked": false}"#, None);
    check(r#"{"id": 3, "booked": false, "reason": "not asked for"}"#, None);
    check(r#"(1045, "Access denied for user 'root'")"#, Some(Says::Failed));
    check(r#"[1045, "Access denied for user 'root'"]"#, Some(Says::Failed));
}

#[test]
fn forms_that_hold_such_words_are_ordinary() {
    for text in [
        "Mean squared error: 0.031",
        "Rate limit: 4999 of 5000 remaining",
        "Not found: 0 of 12",
        "Nothing failed.",
        "Timeout: a thriller",
        "Fix error when saving (#12)",
        "Exit code: 0\nOutput: Error: quoted",
        r#"{"last_error": "timeout", "healthy": true}"#,
    ] {
        check(text, None);
    }
}

#[test]
fn a_record_in_yaml_is_read_by_its_fields() {
    for text in ["case_id: 7\nsync_state: failed", "last_error: none\nhealth_check: not passed"] {
        check(text, None);
    }
    for text in [
        "status_code: 503\nbody: gone",
        "error: card declined\nretry_allowed: false",
        "exit_code: 1\nstdout: ''",
        "result:\n  is_error: true\n  body: boom\ntook_ms: 4",
    ] {
        check(text, Some(Says::Failed));
    }
}

#[test]
fn results_that_name_errors_to_say_there_are_none_are_ordinary() {
    for text in [
        "Lint finished: no issues found.",
        "Build finished with 0 errors and 2 warnings",
        "Fehler: keine",
        "Erreur : aucune",
        "Ошибка: нет",
        "エラー：なし",
        "Nenhum erro encontrado.",
        "没有错误",
        "Warning: jq not found. Output is not pretty.\ndone",
        "Method run not found. Showing the closest one:\nrun_all()",
    ] {
        check(text, None);
    }
    for text in ["Fehler: Datei fehlt", "Method run not found. Use run_all instead"] {
        check(text, Some(Says::Failed));
    }
}

#[test]
fn a_call_that_waits_for_a_person_has_not_failed() {
    for text in [
        "agent_kit.exceptions.ApprovalRequired",
        "CallDeferred",
        "kit::tools::HumanInputRequiredError: ask first",
    ] {
        check(text, Some(Says::Interrupted));
    }
}

#[test]
fn what_a_browser_or_an_editor_shows_of_a_failure_is_one() {
    for text in [
        "Opened x.test, [x.test](chrome-error://chromewebdata/) at the top of the page",
        "Opened x.test\n\nCheck the address.\n\nDNS_PROBE_POSSIBLE\n\nReload",
        "The patch would have introduced 2 type errors:\n- line 4",
        r#"{"error": "", "response": "{'message': 'page must be an integer: two'}"}"#,
    ] {
        check(text, Some(Says::Failed));
    }
}

#[test]
fn hostile_texts_end() {
    for unit in
        ["[", "{\"a\":", "error ", "a: ", "\n at ", "Traceback (most recent call last):\n", "'"]
    {
        let _ = said(&unit.repeat(200_000 / unit.len()));
    }
}

#[test]
fn packs_of_a_config_come_first() {
    let texts = vec![
        TextDetectorConfig {
            kind: "the house rule".to_owned(),
            pattern: "no stock".to_owned(),
            ..TextDetectorConfig::default()
        },
        TextDetectorConfig {
            says: Says::Ordinary,
            kind: "a known warning".to_owned(),
            pattern: "error: cache cold".to_owned(),
            ..TextDetectorConfig::default()
        },
    ];
    let pack = FailurePackConfig { name: "house".to_owned(), texts, ..Default::default() };
    let detectors = FailureDetectors::new(&[pack], true).unwrap();
    let kind = |text| {
        detectors.judge_text(text, &WorkBudget::default()).map(|finding| finding.kind.to_owned())
    };
    assert_eq!(kind("No stock left").as_deref(), Some("the house rule"));
    assert_eq!(kind("Error: cache cold"), None);
    assert_eq!(kind("Error: x").as_deref(), Some("the result begins with an error"));
}

#[test]
fn a_result_that_is_nothing_but_an_exception_s_message_is_a_failure() {
    for text in [
        "[Errno 2] No such file or directory: 'x'",
        "division by zero",
        "'NoneType' object has no attribute 'get'",
        "invalid literal for int() with base 10: 'a'",
        "list index out of range",
        "unhashable type: 'list'",
        "max_size must be a positive number, not '2'",
        "grpc: received message larger than max (3 vs. 2)",
        "expected parsed statement to be of type amount but got city",
        r#"[{"type": "text", "text": "dkLen must be a number"}]"#,
        r#"{"result": "identifiers may not be negative"}"#,
    ] {
        check(text, Some(Says::Failed));
    }
}

#[test]
fn what_is_said_of_people_and_things_is_no_message_of_an_exception() {
    for text in [
        "The package was not delivered yet",
        "Order 17 is not shipped yet",
        "Account status: closed",
        "Missing Person (2019)",
        "Only 3 seats left",
        "fix: reject invalid index types (#12)",
        "Reject requests whose type is not known",
        // One of several, or beside its whole.
        r#"["the index must be a string", "Add a section", "done"]"#,
        r#"{"id": 1, "title": "t", "by": "a", "at": "b", "text": "buffer underflow"}"#,
    ] {
        check(text, None);
    }
}

#[test]
fn program_phrases_need_no_technical_noun() {
    for text in [
        "Eval name is required",
        "Callback called multiple times",
        "Sort aborted",
        "Received unknown parameter: colour",
        "incomplete input",
        "current transaction is aborted, commands ignored until end of transaction block",
    ] {
        check(text, Some(Says::Failed));
    }
    for text in [
        "color=red size=unknown",
        "The parcel was refused by the recipient.",
        "Raises ValueError if the value is not an integer.",
        "Segmentation fault (core dumped): causes and solutions",
        "I read the file; it holds 14 orders, two of them without a customer.",
    ] {
        check(text, None);
    }
}

/// Ordinary vocabulary of agents' tools, without a word of failing.
const PROSE: &str = "order refund the parcel customer of status search with agent tool should \
    then invoice date city because weather flight an result nearest retry";

#[test]
fn ordinary_words_open_no_detector_that_tells() {
    let built_in = built_in_detectors().unwrap();
    for texts in [&built_in.starts, &built_in.ends, &built_in.lasts] {
        assert_eq!(texts.opened(PROSE, &built_in.literals), [""; 0]);
    }
}

/// Limit on tried texts per expression.
const TRIED_MAX: usize = 24;

#[test]
fn what_opens_an_expression_stands_in_all_that_matches_it() {
    let built_in = built_in_detectors().unwrap();
    let pack = built_in_pack().unwrap();
    for (config, way) in pack.texts.iter().zip(0..) {
        let pattern = with_named(&config.pattern, &pack.expressions).unwrap();
        let hir = plain_of(&pattern, TextForm::Normalised).unwrap();
        let texts = matching_texts(&hir, way % 3);
        for text in texts.iter().step_by(texts.len() / TRIED_MAX + 1) {
            for text in [text.clone(), format!("2 of it: {text}."), format!("a\n {text}\nb: 404")] {
                for texts in [&built_in.starts, &built_in.ends, &built_in.lasts] {
                    let [opened, all] = texts.matched(&text, &built_in.literals);
                    assert_eq!(opened, all, "{text:?}");
                }
            }
        }
    }
}

#[test]
fn record_about_a_failure_is_none() {
    let told = r#""description": "Error at the gate", "status": "Open"}"#;
    check(&format!(r#"{{"id": 7, "title": "Gate", {told}"#), None);
    check(&format!("{{{told}"), Some(Says::Failed));
}

#[test]
fn an_exception_that_no_steps_are_left_for_is_no_finding() {
    let at = |name: &str| vec![name.to_owned()];
    let alarm = ConditionConfig { at: at("alarm"), filled: true, ..Default::default() };
    let is_drill =
        ConditionConfig { at: at("note"), matches: Some("drill".into()), ..Default::default() };
    let fields = vec![FieldDetectorConfig {
        kind: "an alarm".to_owned(),
        when: vec![alarm],
        unless: vec![is_drill],
        ..Default::default()
    }];
    let pack = FailurePackConfig { name: "house".to_owned(), fields, ..Default::default() };
    let detectors = FailureDetectors::new(&[pack], true).unwrap();
    let finds = |note: &str, steps: u64| {
        let text = format!(r#"{{"alarm": "fire", "note": "{note}"}}"#);
        detectors.judge_text(&text, &WorkBudget::new(steps)).is_some()
    };
    assert!(finds("in the hall", u64::from(u32::MAX)));
    let drill = format!("{}drill", "a ".repeat(200));
    for steps in (0..50_000).step_by(50) {
        assert!(!finds(&drill, steps), "{steps} steps");
    }
}
