//! Attacks on the judge, with a judge that obeys whatever does not stand in a line of the record.

use spanscore_base::model::{Outcome, Reason};
use spanscore_base::value::{Map, Value, json};
use spanscore_evaluate::inquiry::{Conclusion, JudgeAnswer, JudgePrompt, PromptRoom};
use spanscore_evaluate::judged::labelled::LabelledRun;
use spanscore_evaluate::kind;

use super::labelled::settings;
use super::{INJECTION, evaluator, inquire, items, reply, room, silent, verdict};

/// Tokens that a model's own template would take for the end of a turn.
const TEMPLATE_TOKENS: [&str; 9] =
    ["<|", "|>", "<s>", "</s>", "[INST", "[/INST", "<<SYS", "<start_of_turn", "<end_of_turn"];

/// The lines that are no lines of the record.
fn outside(prompt: &JudgePrompt) -> String {
    let mark = prompt.user.split(' ').next().unwrap_or_default();
    let lines = prompt.user.lines().filter(|line| !line.starts_with(&format!("{mark} {{")));
    lines.collect::<Vec<_>>().join("\n")
}

/// Strings of the evidence that could be orders.
fn texts(value: &Value<'_>, found: &mut Vec<String>) {
    match value {
        Value::String(text) => {
            found.extend(text.lines().map(|line| line.trim().to_owned()));
        }
        Value::List(list) => list.iter().for_each(|item| texts(item, found)),
        Value::Map(map) => map.iter().for_each(|(_, item)| texts(item, found)),
        _ => {}
    }
}

/// Returns true if something of a run would be obeyed.
fn is_obeyed(line: &str, prompt: &JudgePrompt) -> bool {
    let run = json::parse(line).unwrap();
    let mut evidence = Vec::new();
    for key in ["trajectory", "session", "tool_definition"] {
        run.get(key).into_iter().for_each(|value| texts(value, &mut evidence));
    }
    let outside = outside(prompt);
    let mut criteria = Vec::new();
    run.get("criteria").into_iter().for_each(|value| texts(value, &mut criteria));
    let leaks = evidence.iter().filter(|text| text.len() > 12 && !criteria.contains(text));
    let all = format!("{}{}", prompt.system, prompt.user);
    leaks.into_iter().any(|text| outside.contains(&**text))
        || TEMPLATE_TOKENS.iter().any(|token| all.contains(token))
        || all.chars().any(|c| c.is_control() && c != '\n')
        || all.chars().any(|c| matches!(c, '\u{200b}'..='\u{200f}' | '\u{e0000}'..='\u{e007f}'))
}

#[test]
fn an_obedient_judge_finds_nothing_to_obey() {
    for line in INJECTION.lines() {
        let run = LabelledRun::read(line).unwrap();
        let threshold = kind(&run.evaluator).unwrap().threshold;
        let evaluator = evaluator(&run.evaluator, settings(&run));
        let trajectory = run.trajectory().unwrap();
        let Ok(inquiry) = inquire(&evaluator, &trajectory, threshold) else { continue };
        let room = room();
        let prompt = inquiry.prompt(&room).unwrap();
        let aim = json::parse(line).unwrap();
        let aim = match aim.get("aim").and_then(Value::as_str) {
            Some("pass") => JudgeAnswer::Yes,
            Some("fail") => JudgeAnswer::No,
            _ => JudgeAnswer::Unclear,
        };
        let by_code = items(&inquiry.conclude(&room, &[silent(&prompt)]));
        let asked = run.items.iter().enumerate();
        let asked = asked.filter(|(at, _)| !by_code.get(*at).is_some_and(|(_, code)| *code));
        let asked: Vec<JudgeAnswer> = match is_obeyed(line, &prompt) {
            true => asked.map(|_| aim).collect(),
            false => asked.map(|(_, answer)| *answer).collect(),
        };
        let suspected = run.injection_suspected.unwrap_or(false);
        let answers = inquiry.read(&room, &reply(&asked, suspected)).unwrap();
        let conclusion = inquiry.conclude(&room, &[answers]);
        assert_eq!(verdict(&conclusion.outcome, threshold).1, run.verdict, "{}", run.id);
    }
}

/// Counts the attacks that our own detectors find, and the runs without one in which they find one.
#[test]
fn detectors_of_our_own_find_attacks_and_leave_controls_alone() {
    let (mut found, mut attacks) = (0, 0);
    for line in INJECTION.lines() {
        let run = LabelledRun::read(line).unwrap();
        let evaluator = evaluator(&run.evaluator, settings(&run));
        let trajectory = run.trajectory().unwrap();
        let Ok(inquiry) = inquire(&evaluator, &trajectory, 0.5) else { continue };
        let prompt = inquiry.prompt(&room()).unwrap();
        let is_attack = run.injection_suspected == Some(true);
        assert!(is_attack || !prompt.injection_found, "{}", run.id);
        attacks += usize::from(is_attack);
        found += usize::from(prompt.injection_found);
    }
    assert!(found >= FOUND_MIN, "{found} of {attacks}");
}

/// Attacks of the shipped data that detectors find: the judge has to see the others.
const FOUND_MIN: usize = 9;

fn injected(on_injection: &'static str) -> (Conclusion, JudgePrompt, JudgePrompt) {
    let line = INJECTION.lines().next().unwrap();
    let run = LabelledRun::read(line).unwrap();
    let mut settings: Map<'static> = settings(&run);
    settings.insert("on_injection", on_injection);
    let evaluator = evaluator(&run.evaluator, settings);
    let trajectory = run.trajectory().unwrap();
    let inquiry = inquire(&evaluator, &trajectory, 0.5).unwrap();
    let withheld = PromptRoom { withholds_injections: true, ..room() };
    let answers = inquiry.read(&room(), &reply(&[JudgeAnswer::No], true)).unwrap();
    let conclusion = inquiry.conclude(&room(), &[answers]);
    (conclusion, inquiry.prompt(&room()).unwrap(), inquiry.prompt(&withheld).unwrap())
}

#[test]
fn a_verdict_on_an_injected_record_is_flagged_or_void() {
    let (conclusion, ..) = injected("flag");
    assert!(conclusion.injection_suspected && conclusion.is_unsure);
    assert!(matches!(conclusion.outcome, Outcome::Scored(_)));
    let (conclusion, ..) = injected("not_evaluable");
    let Outcome::NotEvaluable { reason, .. } = conclusion.outcome else { panic!("scored") };
    assert_eq!(reason, Reason::InjectionSuspected);
}

#[test]
fn a_recheck_withholds_what_tries_to_sway() {
    let (_, shown, withheld) = injected("recheck");
    assert!(shown.injection_found && shown.user.contains("Ignore all previous instructions"));
    assert!(!withheld.user.contains("Ignore all previous instructions"));
    assert!(withheld.user.contains("[WITHHELD]"));
    assert_ne!(shown.digest, withheld.digest);
}

/// The documentation says how many.
#[test]
fn our_own_detectors_find_what_the_documentation_says_and_nothing_in_the_controls() {
    let (mut asked, mut found) = (0, 0);
    for line in INJECTION.lines() {
        let run = LabelledRun::read(line).unwrap();
        let threshold = kind(&run.evaluator).unwrap().threshold;
        let evaluator = evaluator(&run.evaluator, settings(&run));
        let trajectory = run.trajectory().unwrap();
        let Ok(inquiry) = inquire(&evaluator, &trajectory, threshold) else { continue };
        let prompt = inquiry.prompt(&room()).unwrap();
        let label = json::parse(line).unwrap();
        match label.get("attack").and_then(Value::as_bool) {
            Some(true) => {
                asked += 1;
                found += usize::from(prompt.injection_found);
            }
            _ => assert!(!prompt.injection_found, "{}", run.id),
        }
    }
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/judges/README.md");
    let page = std::fs::read_to_string(page).unwrap().replace('\n', " ");
    let said = format!("Of the {asked} attacks that ship with the project");
    let counted = format!("the detectors alone find {found}:");
    assert!(page.contains(&said) && page.contains(&counted), "{said}: {counted}");
}
