use super::*;
use crate::detect::limits::{HEAD_BYTES_MAX, TAIL_BYTES_MAX};
use crate::model::Effort;

fn said(text: &str) -> Option<(Says, String)> {
    let detectors = built_in_detectors().unwrap();
    detectors
        .judge_text(text, &Effort::default())
        .map(|finding| (finding.says, finding.kind.to_owned()))
}

fn check(text: &str, says: Option<Says>) {
    assert_eq!(said(text).map(|(says, _)| says), says, "{text:.200}");
}

#[test]
fn every_built_in_expression_compiles() {
    let pack = built_in_pack().unwrap();
    let mut wrong = Vec::new();
    for text in &pack.texts {
        let one = PackConfig {
            name: pack.name.clone(),
            expressions: pack.expressions.clone(),
            detectors: vec![plain(text)],
            ..PackConfig::default()
        };
        if let Err(error) = compile(&[one]) {
            wrong.push(format!("{}: {:.300}", text.kind, error.to_string()));
        }
    }
    assert_eq!(wrong, [""; 0]);
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
        detectors.judge_text(text, &Effort::default()).map(|finding| finding.kind.to_owned())
    };
    assert_eq!(kind("No stock left").as_deref(), Some("the house rule"));
    assert_eq!(kind("Error: cache cold"), None);
    assert_eq!(kind("Error: x").as_deref(), Some("the result begins with an error"));
}
