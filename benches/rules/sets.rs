//! Findings in the labelled sets, by class.

use std::collections::BTreeMap;

use super::texts::{self, Labelled};
use super::{evaluator, findings, scored, trajectory};
use spanscore_base::model::Label;
use spanscore_evaluate::{Evaluator, Want};

const SETS: [(&str, &str); 4] = [
    ("personal.jsonl", "no_pii"),
    ("secrets.jsonl", "no_pii"),
    ("injection.jsonl", "no_injection_patterns"),
    ("stubs.jsonl", "no_stub_output"),
];

/// Sets of one kind, by what stands before their name: in the order in which they were written.
const WRITTEN: [&str; 4] = ["", "fresh_", "unseen_", "later_"];

/// Prints what each rule finds of its sets, then what the bundles say of the answers; with
/// `written`, only of the sets whose names start with it.
pub(crate) fn print(written: Option<&str>, list: bool) {
    for prefix in WRITTEN {
        if written.is_none_or(|written| written == prefix) {
            print_sets(prefix, list);
        }
    }
    if written.is_none() {
        for bundle in ["completeness", "relevance", "all"] {
            answers(bundle, list);
        }
    }
}

fn print_sets(prefix: &str, list: bool) {
    let safety = evaluator(r#"{"bundle": "safety"}"#);
    for (name, rule) in SETS {
        let name = &*format!("{prefix}{name}");
        let mut classes: BTreeMap<String, (usize, usize)> = BTreeMap::new();
        for row in texts::read(name) {
            let judged = trajectory(&row.text, None);
            let kinds: Vec<String> = scored(&safety, &judged, Want::ALL)
                .map(|score| findings(&score))
                .unwrap_or_default()
                .into_iter()
                .filter(|finding| finding.rule == rule)
                .map(|finding| finding.kind)
                .collect();
            let right = kinds.is_empty() != row.label;
            note(&mut classes, &row, right);
            if list && !right {
                println!("{name} {} {}: {:?} {kinds:?}", row.class, row.lang, row.text);
            }
        }
        print_classes(name, &classes);
    }
}

fn note(classes: &mut BTreeMap<String, (usize, usize)>, row: &Labelled, right: bool) {
    let (rights, all) = classes.entry(row.class.clone()).or_default();
    *rights += usize::from(right);
    *all += 1;
}

fn print_classes(name: &str, classes: &BTreeMap<String, (usize, usize)>) {
    println!("{name}");
    let (mut rights, mut all) = (0, 0);
    for (class, (right, count)) in classes {
        println!("  {class:12} {right:4} of {count}");
        if class != "benign" {
            (rights, all) = (rights + right, all + count);
        }
    }
    println!("  without benign {rights} of {all}: {:.1} %", rights as f64 * 100.0 / all as f64);
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

fn answers(bundle: &str, list: bool) {
    let evaluator: Evaluator = evaluator(&format!(r#"{{"bundle": "{bundle}"}}"#));
    let mut classes: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    let mut undecided: BTreeMap<String, usize> = BTreeMap::new();
    for row in texts::read("answers.jsonl") {
        let judged = trajectory(&row.answer, Some(&row.question));
        let Some(score) = scored(&evaluator, &judged, Want::ALL) else {
            *undecided.entry(row.class).or_default() += 1;
            continue;
        };
        let failed = score.label == Some(Label::Fail) || score.value < 0.7;
        let right = failed == is_bad(bundle, &row.class);
        note(&mut classes, &row, right);
        if list && !right {
            println!("{bundle} {} {}: {:?} => {:?}", row.class, row.lang, row.question, row.answer);
            println!("    {:?}", score.explanation);
        }
    }
    print_classes(&format!("answers, bundle {bundle}"), &classes);
    println!("  not evaluable: {undecided:?}");
}
