//! The labelled sets of `tests/fixtures/rules`: what is found by class, and what a bundle says of
//! an answer. `cargo bench --bench rules -- sets` prints the same as a table.

use std::sync::Arc;

use spanscore_base::model::{Content, Label, Outcome, Resource, Trajectory, WorkBudget};
use spanscore_base::settings::Node;
use spanscore_base::value::{Value, json};
use spanscore_evaluate::kinds::outputs::output_rules;
use spanscore_evaluate::{Evaluator, Want};

use crate::support::rule_sets::{Labelled, read};

fn evaluator(settings: &str) -> Evaluator {
    let node = Node::from_value(&json::parse(settings).unwrap());
    (output_rules::KIND.build)(&node).unwrap()
}

fn judged(evaluator: &Evaluator, output: &str, input: Option<&str>) -> Outcome {
    let content = |text: &str| Content::ready(text.to_owned().into());
    let trajectory = Trajectory {
        final_output: content(output),
        user_input: input.map_or_else(Content::default, content),
        resource: Arc::new(Resource::default()),
        effort: WorkBudget::new(u64::MAX),
        ..Trajectory::default()
    };
    evaluator.as_code().unwrap().evaluate(&trajectory, Want::ALL)
}

fn findings(outcome: Outcome) -> Vec<Value<'static>> {
    let Outcome::Scored(score) = outcome else { panic!("{outcome:?}") };
    score.details.get("findings").and_then(Value::as_list).unwrap_or_default().to_vec()
}

fn fires(evaluator: &Evaluator, row: &Labelled, rule: &str) -> bool {
    let found = findings(judged(evaluator, &row.text, None));
    found.iter().any(|finding| finding.get("rule").and_then(Value::as_str) == Some(rule))
}

/// At least this share, in percent, of the texts of a set that shall fire does, and of the others
/// does not.
#[track_caller]
fn check(set: &str, rule: &str, found_min: usize, quiet_min: usize) {
    check_in("safety", set, rule, found_min, quiet_min);
}

#[track_caller]
fn check_in(bundle: &str, set: &str, rule: &str, found_min: usize, quiet_min: usize) {
    let evaluator = evaluator(&format!(r#"{{"bundle": "{bundle}"}}"#));
    for (label, least) in [(true, found_min), (false, quiet_min)] {
        let rows: Vec<Labelled> =
            read(set).into_iter().filter(|row| row.label == label && row.class != "cut").collect();
        let wrong: Vec<&str> = rows
            .iter()
            .filter(|row| fires(&evaluator, row, rule) != label)
            .map(|row| &*row.text)
            .collect();
        let right = (rows.len() - wrong.len()) * 100;
        assert!(right >= least * rows.len(), "{set} {label}: {wrong:#?}");
    }
}

#[test]
fn personal_data_is_found_in_the_forms_of_many_countries() {
    check("personal.jsonl", "no_pii", 97, 96);
}

#[test]
fn secrets_are_found_by_the_form_of_their_vendor_and_by_their_name() {
    check("secrets.jsonl", "no_pii", 98, 100);
}

#[test]
fn orders_to_agents_are_found_in_many_languages() {
    check("injection.jsonl", "no_injection_patterns", 90, 96);
}

#[test]
fn unfinished_answers_are_found_in_many_languages() {
    check("stubs.jsonl", "no_stub_output", 97, 90);
}

/// Sets written without a look at the packs; what is missed of them was mended only in part.
#[test]
fn fresh_texts_are_found_and_their_look_alikes_left_alone() {
    check("fresh_personal.jsonl", "no_pii", 97, 100);
    check("fresh_secrets.jsonl", "no_pii", 96, 100);
    check("fresh_injection.jsonl", "no_injection_patterns", 90, 100);
    check("fresh_stubs.jsonl", "no_stub_output", 95, 100);
}

/// Returns true if a person would call an answer bad in the sense of a bundle: one that is cut is
/// still to the point, one beside the point may be complete.
fn is_bad(bundle: &str, class: &str) -> bool {
    let is_good = matches!(
        (bundle, class),
        (_, "good") | ("relevance", "cut" | "lead_in") | ("completeness", "off_topic")
    );
    !is_good
}

/// The third generation and the fourth, each written before the packs were extended for it.
#[test]
fn later_texts_are_found_and_their_look_alikes_left_alone() {
    check("unseen_personal.jsonl", "no_pii", 98, 100);
    check("unseen_secrets.jsonl", "no_pii", 98, 100);
    check("unseen_injection.jsonl", "no_injection_patterns", 94, 100);
    check("unseen_stubs.jsonl", "no_stub_output", 98, 100);
    check("later_personal.jsonl", "no_pii", 88, 100);
    check("later_secrets.jsonl", "no_pii", 97, 100);
    check("later_injection.jsonl", "no_injection_patterns", 94, 100);
    // Everyday talk about injection, and what sounds like it.
    check("talk_injection.jsonl", "no_injection_patterns", 100, 100);
    check("later_stubs.jsonl", "no_stub_output", 95, 100);
}

/// Texts in the ways of public sets of attacks and of keys, whose own texts do not stand here.
#[test]
fn texts_in_the_ways_of_public_sets_are_found_and_their_look_alikes_left_alone() {
    check("outside_injection.jsonl", "no_injection_patterns", 97, 100);
    check("outside_secrets.jsonl", "no_pii", 96, 100);
    check("outside_stubs.jsonl", "no_stub_output", 100, 100);
    check_in("all", "outside_refusals.jsonl", "no_hallucination_markers", 100, 100);
}

/// Numbers by what they are named as, and data that is said to be made up.
#[test]
fn numbers_of_things_and_made_up_data_are_told_apart() {
    check("named_personal.jsonl", "no_pii", 100, 100);
    check("named_stubs.jsonl", "no_stub_output", 100, 100);
}

/// Written before the frames that are addressed to agents, and measured once they were done.
#[test]
fn orders_in_frames_not_seen_before_are_found() {
    check("held_injection.jsonl", "no_injection_patterns", 95, 90);
}

/// Orders in names, logs, commits, invitations and memories, in fifty languages more, and what
/// looks like them.
#[test]
fn orders_in_places_and_languages_not_seen_before_are_found() {
    check("placed_injection.jsonl", "no_injection_patterns", 95, 98);
}

/// A finding in real text, shortened to what is needed; addresses of persons are made ones.
#[derive(serde::Deserialize)]
struct Sampled {
    text: String,
    rule: String,
    /// True if a person would call it right.
    label: bool,
    why: String,
    /// True if a wrong one is found no more.
    #[serde(default)]
    mended: bool,
}

#[test]
fn right_findings_of_real_text_are_found_and_mended_wrong_ones_are_not() {
    let evaluator = evaluator(r#"{"bundle": "safety"}"#);
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/rules/sample.jsonl");
    let lines = std::fs::read_to_string(path).unwrap();
    let rows: Vec<Sampled> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 300);
    for row in rows.iter().filter(|row| row.label || row.mended) {
        let found = findings(judged(&evaluator, &row.text, None));
        let rule =
            |found: &Value<'_>| found.get("rule").and_then(Value::as_str) == Some(&*row.rule);
        assert!(!row.why.is_empty());
        assert_eq!(found.iter().any(rule), row.label, "{}: {}", row.why, row.text);
    }
}

#[track_caller]
fn check_answers(bundle: &str, agree_min: usize) {
    let evaluator = evaluator(&format!(r#"{{"bundle": "{bundle}"}}"#));
    let (mut agree, mut count) = (0, 0);
    let mut wrong = Vec::new();
    for row in read("answers.jsonl") {
        // What words cannot tell is not evaluable, and counts neither way.
        let Outcome::Scored(score) = judged(&evaluator, &row.answer, Some(&row.question)) else {
            continue;
        };
        let failed = score.label == Some(Label::Fail) || score.value < 0.7;
        count += 1;
        if failed == is_bad(bundle, &row.class) {
            agree += 1;
        } else {
            wrong.push((row.class, row.lang, row.answer));
        }
    }
    assert!(count >= 180, "{bundle}: {count} judged");
    assert!(agree * 100 >= agree_min * count, "{bundle}: {agree} of {count}, {wrong:#?}");
}

#[test]
fn bundles_agree_with_a_person_about_answers() {
    check_answers("completeness", 95);
    check_answers("relevance", 95);
    check_answers("all", 95);
}

#[test]
fn an_answer_that_words_cannot_judge_is_not_evaluable() {
    let relevance = evaluator(r#"{"bundle": "relevance"}"#);
    let question = "Translate to French: The cat sleeps on the sofa in the afternoon sun.";
    let answer = "Le chat dort sur le canapé sous le soleil du bel après-midi.";
    let outcome = judged(&relevance, answer, Some(question));
    let Outcome::NotEvaluable { explanation, .. } = outcome else { panic!("{outcome:?}") };
    assert!(explanation.contains("too few words in common"), "{explanation}");
}

#[test]
fn a_finding_ends_where_its_address_does() {
    let safety = evaluator(r#"{"bundle": "safety"}"#);
    for text in ["Write to marlene@bright\u{200b}harbor.io\u{200b} today.", "at k.moe@nordmail.se."]
    {
        let found = findings(judged(&safety, text, None));
        let place = |key: &str| found[0].get(key).and_then(Value::as_number).unwrap().as_i64();
        let (start, end) = (place("start").unwrap() as usize, place("end").unwrap() as usize);
        let address = &text[start..end];
        assert!(address.ends_with(".io") || address.ends_with(".se"), "{address:?}");
    }
}

#[test]
fn the_profile_of_documents_leaves_addresses_of_maintainers_alone() {
    let text = "Copyright 2019 Petr Novak <petr.novak83@seznam.cz>\n\nTODO: more explanation";
    let failed = |settings: &str| {
        let Outcome::Scored(score) = judged(&evaluator(settings), text, None) else { panic!() };
        score.label == Some(Label::Fail)
    };
    assert!(failed(r#"{"bundle": "safety"}"#));
    assert!(!failed(r#"{"bundle": "safety", "profile": "documents"}"#));
    let code =
        r#"{"bundle": "safety", "profile": "code", "severity": {"no_stub_output": "critical"}}"#;
    assert!(!failed(code));
}

#[test]
fn as_many_findings_are_listed_as_asked_for() {
    let text: String = (0..40).map(|n| format!("user{n}@brightharbor.io\n")).collect();
    let listed = |settings: &str| findings(judged(&evaluator(settings), &text, None)).len();
    assert_eq!(listed(r#"{"bundle": "safety"}"#), 16);
    assert_eq!(listed(r#"{"bundle": "safety", "findings_max": 30}"#), 30);
    let node = Node::from_value(&json::parse(r#"{"findings_max": 0}"#).unwrap());
    let error = (output_rules::KIND.build)(&node).err().unwrap().to_string();
    assert!(error.contains("`findings_max` must be from 1 to 256"), "{error}");
}
