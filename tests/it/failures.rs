//! Failure of a tool call, by its result alone: held against results labelled by hand, each with
//! its origin.

use std::collections::BTreeMap;

use serde::Deserialize;
use spanscore_base::model::{CallStatus, Content, ToolCall};
use spanscore_base::value::{Value, json};
use spanscore_evaluate::{FailureJudge, FailureSettings};

#[derive(Deserialize)]
struct Labelled {
    /// Part of the set: results that the detectors were written from, that they were first measured
    /// on, and that were written or gathered afterwards; `docs/failures.md` tells of each.
    half: String,
    origin: String,
    class: String,
    failed: bool,
    result: serde_json::Value,
}

/// Counts of a class: results that are labelled so, and those that were judged otherwise.
#[derive(Default)]
struct Tally {
    failures: usize,
    missed: usize,
    ordinary: usize,
    alarms: usize,
}

impl Tally {
    fn add(&mut self, failed: bool, right: bool) {
        let (all, wrong) = match failed {
            true => (&mut self.failures, &mut self.missed),
            false => (&mut self.ordinary, &mut self.alarms),
        };
        *all += 1;
        *wrong += usize::from(!right);
    }
}

fn labelled(name: &str) -> Vec<Labelled> {
    let path = format!("tests/fixtures/{name}.jsonl");
    let text = std::fs::read_to_string(path).expect("the fixture");
    text.lines().map(|line| serde_json::from_str(line).expect("a labelled result")).collect()
}

/// The judgement on a result as it is recorded: a text, and an object as value and as text.
fn judged(judge: &FailureJudge, result: &serde_json::Value) -> Vec<(bool, String)> {
    let text = result.to_string();
    let mut forms = vec![json::parse(&text).expect("JSON")];
    if !result.is_string() {
        forms.push(Value::String(text.clone().into()));
    }
    let judged = forms.into_iter().map(|form| {
        let result = Content::ready(form);
        let call = ToolCall { result, status: CallStatus::Ok, ..ToolCall::default() };
        let (failed, reason) = judge.judge(&call);
        (failed == Some(true), reason.unwrap_or_default().to_owned())
    });
    judged.collect()
}

/// Tallies of a labelled set by class and by half, and what was judged otherwise.
struct Tallies {
    by_class: BTreeMap<String, Tally>,
    by_half: BTreeMap<String, Tally>,
    wrong: Vec<String>,
}

impl Tallies {
    fn of(name: &str) -> Self {
        let judge = FailureJudge::new(&FailureSettings::default()).expect("the built-in table");
        let (by_class, by_half, wrong) = Default::default();
        let mut tallies = Self { by_class, by_half, wrong };
        for one in labelled(name) {
            let found = judged(&judge, &one.result);
            let right = found.iter().all(|(failed, _)| *failed == one.failed);
            tallies.by_half.entry(one.half.clone()).or_default().add(one.failed, right);
            tallies.by_class.entry(one.class.clone()).or_default().add(one.failed, right);
            if !right {
                let (half, origin, result) = (&one.half, &one.origin, &one.result);
                let line = format!("{half} {} ({origin}): {result} {found:?}", one.failed);
                tallies.wrong.push(line);
            }
        }
        tallies
    }

    /// The table as the documentation holds it.
    fn table(&self) -> String {
        let mut table = String::from("| class | failures | found | ordinary | false alarms |\n");
        table.push_str("|---|---|---|---|---|\n");
        for (name, tally) in self.by_class.iter().chain(&self.by_half) {
            let Tally { failures, missed, ordinary, alarms } = tally;
            let found = failures - missed;
            table.push_str(&format!("| {name} | {failures} | {found} | {ordinary} | {alarms} |\n"));
        }
        table
    }

    fn sum(&self, of: fn(&Tally) -> usize) -> usize {
        self.by_half.values().map(of).sum()
    }
}

#[test]
fn labelled_results_are_judged_as_a_person_would() {
    let tallies = Tallies::of("failures");
    let table = tallies.table();
    println!("{}\n{table}", tallies.wrong.join("\n"));
    let (failures, ordinary) = (tallies.sum(|t| t.failures), tallies.sum(|t| t.ordinary));
    assert!(failures + ordinary >= 300);
    assert!(tallies.sum(|t| t.missed) * 100 <= failures * 5, "{table}");
    assert!(tallies.sum(|t| t.alarms) * 100 <= ordinary * 2, "{table}");
    let docs = std::fs::read_to_string("docs/failures.md").unwrap_or_default();
    assert!(docs.contains(&table), "docs/failures.md holds another table than\n{table}");
}

#[test]
fn messages_of_other_languages_and_services_are_found_where_nothing_announces_them() {
    let tallies = Tallies::of("failure_messages");
    let table = tallies.table();
    println!("{}\n{table}", tallies.wrong.join("\n"));
    let failures = tallies.sum(|t| t.failures);
    assert!(failures >= 400 && tallies.sum(|t| t.ordinary) >= 300);
    assert!(tallies.sum(|t| t.missed) * 100 <= failures * 15, "{table}");
    let docs = std::fs::read_to_string("docs/failures.md").unwrap_or_default();
    assert!(docs.contains(&table), "docs/failures.md holds another table than\n{table}");
}
