//! Tests of sources, expressions and changed values.

use super::*;
use crate::judged::labelled::LabelledRun;
use spanscore_base::model::trajectory::KeptSpan;
use spanscore_base::model::{HeardTexts, WorkBudget};
use spanscore_base::otlp::AnyValue;

/// Counts the ungrounded values of a text in a list of bookings; a digit of each is changed if
/// `turned` is not 0.
fn ungrounded(turned: u32) -> usize {
    let turn = |text: &str| {
        let at = text.rfind(|c: char| c.is_ascii_digit()).expect("a digit");
        let digit = text[at..=at].parse::<u32>().expect("it is one");
        format!("{}{}{}", &text[..at], (digit + turned) % 10, &text[at + 1..])
    };
    let effort = &WorkBudget::default();
    let mut sources = GroundingSources::new(effort, 0);
    let grounding = Grounding { settings: Settings::default() };
    let values = (1..40).map(|n| {
        let date = format!("2024-{:02}-07", 1 + n % 12);
        [format!("R{}X", 7100 + 13 * n), date, (3000 + 170 * n).to_string()]
    });
    let values: Vec<[String; 3]> = values.collect();
    let booking = |[id, date, fare]: &[String; 3]| {
        format!(r#"{{"id": "{id}", "date": "{date}", "fare": {fare}}}"#)
    };
    let list = values.iter().map(booking).collect::<Vec<_>>().join(", ");
    assert!(sources.add(&format!("[{list}]").into(), TextOrigin::Tool));
    let changed = values.iter().flatten().map(|text| turn(text));
    changed
        .filter(|text| {
            let value = text.as_str().into();
            let judged = grounding.judge_scalar((&value, None), "value", &sources);
            judged == Some(false)
        })
        .count()
}

#[test]
fn one_changed_digit_of_an_id_a_date_or_an_amount_has_no_source() {
    assert_eq!(ungrounded(0), 0);
    for turned in 1..10 {
        assert_eq!(ungrounded(turned), 3 * 39, "{turned}");
    }
}

#[test]
fn words_are_plain_and_numbers_whole() {
    assert_eq!(plain(" Café, 1,234.50 (A-1)!"), "café 1234.50 a 1");
    assert_eq!(plain("1, 2"), "1 2");
}

#[test]
fn sources_hold_phrases_and_scattered_words() {
    let effort = &WorkBudget::default();
    let mut sources = GroundingSources::new(effort, 0);
    assert!(sources.add(&"What is the weather tomorrow in New York?".into(), TextOrigin::User));
    assert!(sources.hold("new york", 3));
    assert!(sources.hold("weather in New York tomorrow", 3));
    assert!(!sources.hold("weather in Boston", 3));
    assert!(sources.add(&"page_1, sheet_2".into(), TextOrigin::Tool));
    assert!(sources.hold("sheet_2", 3));
    assert!(!sources.hold("sheet_1", 3));
}

#[test]
fn parts_of_a_date_have_a_source() {
    let effort = &WorkBudget::default();
    let mut sources = GroundingSources::new(effort, 0);
    assert!(sources.add(&"On 17 May 2025, please.".into(), TextOrigin::User));
    let grounding = Grounding { settings: Settings::default() };
    for (key, text, expected) in
        [("day", "17", true), ("day", "18", false), ("year", "2025", true), ("fare", "2025", false)]
    {
        let judged = grounding.judge_scalar((&text.into(), None), key, &sources);
        assert_eq!(judged, Some(expected), "{key}: {text}");
    }
}

#[test]
fn expressions_are_judged_by_their_numbers_and_dotted_ones_as_a_whole() {
    let effort = &WorkBudget::default();
    let mut sources = GroundingSources::new(effort, 0);
    assert!(sources.add(&"Ping 192.168.1.76, then add 120 and 35.".into(), TextOrigin::User));
    let grounding = Grounding { settings: Settings::default() };
    for (text, expected) in [
        ("192.168.1.76", Some(true)),
        ("192.168.1.77", Some(false)),
        ("10.4.2", Some(false)),
        ("1.800.555.0199", Some(false)),
        ("120 + 35 * 2", Some(true)),
        ("120 + 36", Some(false)),
        ("3-4-5", None),
    ] {
        let judged = grounding.judge_scalar((&text.into(), None), "value", &sources);
        assert_eq!(judged, expected, "{text}");
    }
}

#[test]
fn what_the_operator_says_is_a_source_from_then_on() {
    let check = |instructions: &str, later_ns: u64, steps: u64| {
        let text = Value::from(instructions).to_string();
        let line = format!(
            r#"{{"id":"a","evaluator":"x","label":{{"verdict":"pass"}},"trajectory":{{
                "system_instructions":{text},"user_input":"My flight was late",
                "tool_calls":[
                {{"name":"send_certificate","arguments":{{"amount":50}}}}]}}}}"#
        );
        let run = LabelledRun::read(&line).unwrap();
        let mut trajectory = run.trajectory().unwrap();
        trajectory.effort = WorkBudget::new(steps);
        trajectory.kept_spans[0].start_ns = trajectory.tool_calls[0].start_ns + later_ns;
        Grounding { settings: Settings::default() }.evaluate(&trajectory, Want::ALL)
    };
    let scored = |outcome: Outcome| match outcome {
        Outcome::Scored(score) => Some(score.value),
        _ => None,
    };
    for (instructions, later_ns, steps, expected) in [
        ("A certificate is worth 50 a passenger.", 0, 10_000, Some(1.0)),
        ("A certificate is worth 50 a passenger.", 1, 10_000, Some(0.0)),
        (r#"{"example": {"amount": 50}}"#, 0, 10_000, Some(1.0)),
        // Its numbers are known as written, and not summed.
        (r#"{"example": [{"amount": 20}, {"amount": 30}]}"#, 0, 10_000, Some(0.0)),
        ("Be kind.", 0, 10_000, Some(0.0)),
        ("Be kind. ", 0, 10, None),
    ] {
        assert_eq!(scored(check(instructions, later_ns, steps)), expected, "{instructions}");
    }
}

#[test]
fn what_models_are_given_again_is_heard_once() {
    type GivenText = (u64, TextOrigin, &'static str, &'static str);
    let check = |given: &[GivenText], expected: &[(u64, &str)]| {
        // Each in its own turn.
        let turn = |(since_ns, origin, id, text): &GivenText| {
            let id = (*id).into();
            let value = (*text).into();
            HeardTexts::ready(vec![HeardText { since_ns: *since_ns, origin: *origin, id, value }])
        };
        let task = Map::from([("task", Value::from("Book a room in Porto"))]);
        let call = ToolCall {
            id: Some("a".into()),
            start_ns: 5,
            arguments: Content::ready(task.into()),
            result: Content::ready("found".into()),
            ..ToolCall::default()
        };
        let trajectory = Trajectory {
            heard: given.iter().map(turn).collect(),
            tool_calls: vec![call],
            ..Trajectory::default()
        };
        let heard = sources::heard(&trajectory);
        let told = heard.iter().map(|it| (it.since_ns, it.value.as_str().unwrap_or_default()));
        assert_eq!(told.collect::<Vec<_>>(), expected, "{given:?}");
    };
    let [user, tool] = [TextOrigin::User, TextOrigin::Tool];
    check(
        &[(9, user, "", "hi"), (1, user, "", "hi"), (9, tool, "", "hi")],
        &[(1, "hi"), (9, "hi")],
    );
    check(&[(9, tool, "a", "found"), (9, tool, "b", "more")], &[(9, "more")]);
    check(&[(3, tool, "a", "earlier"), (9, tool, "a", "earlier")], &[(3, "earlier")]);
    check(&[(3, tool, "a", "found")], &[]);
    check(&[(6, tool, "b", "more"), (7, tool, "c", "more")], &[(6, "more")]);
    // A model's text to a sub-agent is its own, except parts from the user.
    check(&[(6, user, "", " Book a room in Porto")], &[]);
    let said = (3, user, "", "Book a room in Porto");
    check(&[said], &[(3, "Book a room in Porto")]);
}

#[test]
fn instructions_are_charged_in_whatever_form_they_are_recorded() {
    let check = |value: AnyValue<'_>, expected: usize| {
        let span = KeptSpan {
            span_id: Default::default(),
            start_ns: 1,
            end_ns: 2,
            attributes: vec![(operator::SYSTEM_INSTRUCTIONS, value)],
        };
        let trajectory = Trajectory { kept_spans: vec![span], ..Trajectory::default() };
        assert_eq!(operator::kept_bytes(&trajectory), expected);
    };
    check(AnyValue::String("Be kind."), 8);
    check(AnyValue::Array(&[0; 4000]), 4000);
    check(AnyValue::Bool(true), 0);
}
