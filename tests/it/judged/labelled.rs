//! Every labelled run through a judge that answers as its label says.

use spanscore_base::value::Map;
use spanscore_evaluate::inquiry::{Conclusion, JudgeAnswer};
use spanscore_evaluate::judged::labelled::LabelledRun;
use spanscore_evaluate::kind;

use super::{CALIBRATION, INJECTION, evaluator, inquire, items, reply, room, silent, verdict};

/// The settings that a labelled run is judged by.
pub(super) fn settings(run: &LabelledRun) -> Map<'static> {
    let mut settings = Map::new();
    if !run.criteria.is_null() {
        settings.insert("criteria", run.criteria.clone());
    }
    if run.evaluator == "tool_description_reliability" {
        // The labels are those of the judged checks alone.
        settings.insert("rules", false);
    }
    settings
}

/// Returns the conclusion from a judge that answers by the label, with the prompt that it saw.
pub(super) fn by_label(run: &LabelledRun) -> (Conclusion, Option<String>) {
    let threshold = kind(&run.evaluator).expect("the kind exists").threshold;
    let evaluator = evaluator(&run.evaluator, settings(run));
    let trajectory = run.trajectory().unwrap();
    let inquiry = match inquire(&evaluator, &trajectory, threshold) {
        Ok(inquiry) => inquiry,
        Err(conclusion) => return (*conclusion, None),
    };
    let room = room();
    let prompt = inquiry.prompt(&room).expect("it fits");
    let by_code = items(&inquiry.conclude(&room, &[silent(&prompt)]));
    let asked: Vec<JudgeAnswer> = match by_code.is_empty() {
        // Without a score there are no details; then nothing was settled as yes.
        true => run.items.clone(),
        false => {
            assert_eq!(by_code.len(), run.items.len(), "{}", run.id);
            let pairs = by_code.iter().zip(&run.items);
            pairs.filter(|((_, by_code), _)| !by_code).map(|(_, answer)| *answer).collect()
        }
    };
    let suspected = run.injection_suspected.unwrap_or(false);
    let answers = inquiry.read(&room, &reply(&asked, suspected)).unwrap();
    let conclusion = inquiry.conclude(&room, &[answers]);
    (conclusion, Some(prompt.user))
}

fn check(data: &str) -> usize {
    let mut without_request = 0;
    for line in data.lines() {
        let run = LabelledRun::read(line).unwrap();
        let threshold = kind(&run.evaluator).unwrap().threshold;
        let (conclusion, prompt) = by_label(&run);
        without_request += usize::from(prompt.is_none());
        let (score, found) = verdict(&conclusion.outcome, threshold);
        assert_eq!(found, run.verdict, "{}: {:?}", run.id, conclusion.outcome);
        match (score, run.score) {
            (Some(score), Some(label)) => assert!((score - label).abs() < 1e-4, "{}", run.id),
            (score, label) => assert_eq!(score, label, "{}", run.id),
        }
        for ((answer, _), label) in items(&conclusion).iter().zip(&run.items) {
            assert_eq!(answer, label.as_str(), "{}", run.id);
        }
        if let (Some(expected), Some(_)) = (run.injection_suspected, prompt) {
            assert_eq!(conclusion.injection_suspected, expected, "{}", run.id);
        }
    }
    without_request
}

#[test]
fn every_calibration_line_comes_to_its_label() {
    let without_request = check(CALIBRATION);
    assert_eq!(without_request, 6, "runs that need no request");
}

#[test]
fn every_injection_line_comes_to_what_is_expected() {
    check(INJECTION);
}

/// The prompts of a data set, one after the other.
fn prompts(data: &str) -> String {
    let mut out = String::new();
    for line in data.lines() {
        let run = LabelledRun::read(line).unwrap();
        let (_, prompt) = by_label(&run);
        let prompt = prompt.as_deref().unwrap_or("(nothing to ask)");
        out.push_str(&format!("=== {} {}\n{prompt}\n\n", run.id, run.evaluator));
    }
    out
}

#[test]
fn prompts_of_the_calibration_data_stay_what_they_are() {
    insta::assert_snapshot!(prompts(CALIBRATION));
}

#[test]
fn prompts_of_the_injection_data_stay_what_they_are() {
    insta::assert_snapshot!(prompts(INJECTION));
}

#[test]
fn the_instructions_stay_what_they_are() {
    let run = LabelledRun::read(CALIBRATION.lines().next().unwrap()).unwrap();
    let evaluator = evaluator(&run.evaluator, settings(&run));
    let trajectory = run.trajectory().unwrap();
    let inquiry = inquire(&evaluator, &trajectory, 0.5).unwrap();
    insta::assert_snapshot!(inquiry.prompt(&room()).unwrap().system);
}
