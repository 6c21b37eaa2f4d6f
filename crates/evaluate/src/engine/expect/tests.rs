use super::case::Case;
use super::*;
use crate::engine::select::When;
use crate::kinds::{KINDS, kind};
use spanscore_base::model::tool_call::Lazy;
use spanscore_base::model::{Content, Level, ToolCall};
use spanscore_base::otlp::AnyValue;

fn template() -> Template {
    let info = EvaluatorInfo {
        kind: "tool_call_count",
        name: "tool_call_count/a".into(),
        threshold: 1.0,
        level: Level::Trace,
        digest: [1; 16],
        case: None,
        own_version: None,
    };
    let settings = Node::from_value(&json::parse(r#"{"strict": true}"#).unwrap());
    Template { kind: kind("tool_call_count").unwrap(), settings, info: Arc::new(info) }
}

/// Returns the word and score, the reason, or the error for a trace with one call of `a` and these
/// attributes.
fn judged(expectations: &Expectations, attributes: Vec<(&str, AnyValue<'_>)>) -> String {
    judged_in(expectations, Some("seven"), attributes)
}

/// Returns the same for a trace of a session.
fn judged_in(
    expectations: &Expectations,
    session_id: Option<&str>,
    attributes: Vec<(&str, AnyValue<'_>)>,
) -> String {
    let call = ToolCall { name: "a".into(), ..ToolCall::default() };
    let user_input = attributes.iter().find_map(|(key, value)| match value {
        AnyValue::String(text) if *key == "said" => Some(Value::from(*text)),
        _ => None,
    });
    let trajectory = Trajectory {
        user_input: user_input.map(|text| Content::Recorded(Lazy::ready(text))).unwrap_or_default(),
        session_id: session_id.map(Into::into),
        attributes,
        tool_calls: vec![call],
        ..Trajectory::default()
    };
    let scope = Scope::new(&trajectory, expectations.reads());
    let outcome = match expectations.find(&trajectory, &scope, Want::ALL) {
        Ok(found) => found.evaluator.as_code().unwrap().evaluate(&trajectory, Want::ALL),
        Err(outcome) => outcome,
    };
    match outcome {
        Outcome::Scored(score) => format!("{}", score.value),
        Outcome::NotEvaluable { reason, explanation } => {
            format!("{}: {explanation}", reason.as_str())
        }
        Outcome::Failed { error_type, error } => format!("{error_type}: {error}"),
    }
}

fn row(count: i64) -> Arc<Expectation> {
    let criteria = format!(r#"{{"tool_calls_count": {{"a": ["=", {count}]}}}}"#);
    let criteria = json::parse(&criteria).unwrap();
    Arc::new(template().build(&criteria, Place::default()).unwrap())
}

/// Returns cases with one expected call under these names and words; the one named `none` has none.
fn dataset(key: CaseKey, cases: &[(&str, &str)]) -> Expectations {
    let mut rows = CaseRows::default();
    for (name, words) in cases {
        let row = row(i64::from(*name != "none"));
        rows.add((*name).to_owned(), &row);
        rows.add_words(words, &row);
    }
    Expectations::dataset(key, rows)
}

#[test]
fn row_is_found_by_what_the_key_gives() {
    assert_ne!(row(1).info.digest, row(2).info.digest);
    assert_eq!(row(1).info.digest, row(1).info.digest);
    let key = When::compile(r#"attributes["case"]"#).unwrap();
    let expectations =
        dataset(CaseKey::Expression(key), &[("one", "a"), ("7", "b"), ("none", "c")]);
    assert!(expectations.facts().root_attributes);
    let check = |value, expected: &str| {
        assert_eq!(judged(&expectations, vec![("case", value)]), expected);
    };
    check(AnyValue::String("one"), "1");
    check(AnyValue::Int(7), "1");
    check(AnyValue::String("none"), "0");
    check(AnyValue::String("x"), "no_expectation: the dataset has no case `x`");
    let long =
        "no_expectation: the dataset has no case of this name (3 characters, SHA-256 c8687a08)";
    check(AnyValue::String("a b"), long);
    check(
        AnyValue::Bool(true),
        "no_expectation: the trace names no case; its root span has `case`",
    );
    assert_eq!(judged(&expectations, vec![]), "no_expectation: the trace names no case");
}

#[test]
fn row_is_found_by_the_user_s_words() {
    let key = CaseKey::Expression(When::compile("user_input").unwrap());
    assert!(key.is_words());
    let expectations = dataset(key, &[("cafe", "Find a caf\u{e9} in  Oslo"), ("none", "stop")]);
    assert!(expectations.facts().user_input && !expectations.facts().root_attributes);
    let check = |said: &str, expected: &str| {
        let found = judged(&expectations, vec![("said", AnyValue::String(said))]);
        assert!(found.starts_with(expected), "{said}: {found}");
    };
    check(" Find a cafe\u{301}\n\tin Oslo ", "1");
    check("stop", "0");
    let unknown = "no_expectation: no case has the user's words (4 characters, SHA-256 ";
    check("Stop", unknown);
    assert!(judged(&expectations, vec![]).ends_with("the user's words are not recorded"));
}

#[test]
fn any_name_of_a_case_is_tried_and_a_wrong_id_ends_the_search() {
    let cases = [("oslo", "one"), ("none", "two"), ("x", "same"), ("y", "same")];
    let check = |attributes: &[(&str, &str)], expected: &str| {
        let expectations = dataset(CaseKey::Auto, &cases);
        let attributes = attributes.iter().map(|(key, text)| (*key, AnyValue::String(text)));
        let found = judged(&expectations, attributes.collect());
        assert!(found.starts_with(expected), "{expected}: {found}");
    };
    check(&[("eval.case.id", "oslo"), ("said", "two")], "1");
    check(&[("langfuse.trace.metadata.case", "none")], "0");
    check(&[("metadata", r#"{"thread": 1, "case": "none"}"#)], "0");
    check(&[("said", "one")], "1");
    check(&[("showcase", "x"), ("said", "two")], "0");
    check(
        &[("case", "bergen"), ("said", "one")],
        "no_expectation: the dataset has no case `bergen`",
    );
    check(&[("said", "same")], "no_expectation: several cases have the user's words (4 char");
    let metadata = [("b", ""), ("metadata", r#"{"thread": 1}"#)];
    let at_hand = "no_expectation: the trace names no case; its root span has `b`, `metadata` \
                   (JSON with `thread`)";
    check(&metadata, at_hand);
    let by_session = dataset(CaseKey::Auto, &[("seven", "one")]);
    assert_eq!(judged(&by_session, vec![("said", AnyValue::String("two"))]), "1");
}

#[test]
fn a_named_case_of_turns_alone_is_found_by_its_turns() {
    let check = |said: &str, expected: &str| {
        let attributes = [("case", "talk"), ("said", said)].map(|(k, v)| (k, AnyValue::String(v)));
        let mut rows = CaseRows::default();
        rows.add_turn("Find", "talk", Some(row(1)));
        rows.add_turn("Thanks", "talk", None);
        rows.add_turn("Bye", "other", Some(row(1)));
        let found = judged(&Expectations::dataset(CaseKey::Auto, rows), attributes.into());
        assert!(found.starts_with(expected), "{said}: {found}");
    };
    check("Find", "1");
    check("Thanks", "no_expectation: the case expects nothing of the turn");
    check("Bye", "no_expectation: the dataset has no case `talk`");
}

#[test]
fn a_case_that_expects_nothing_is_told_from_an_unknown_one() {
    let check = |attributes: &[(&str, &str)], expected: &str| {
        let attributes = attributes.iter().map(|(key, text)| (*key, AnyValue::String(text)));
        let mut rows = CaseRows::default();
        rows.add("oslo".to_owned(), &row(1));
        rows.add_words("one", &row(1));
        let said = ["Hello there", "one"].map(str::to_owned);
        rows.add_empty(&["greet".to_owned(), "g-1".to_owned()], said.iter());
        let found = judged(&Expectations::dataset(CaseKey::Auto, rows), attributes.collect());
        assert!(found.starts_with(expected), "{expected}: {found}");
    };
    let empty = "no_expectation: the dataset's case `greet` holds nothing that this evaluator";
    check(&[("said", " Hello  there")], empty);
    check(&[("case", "g-1"), ("said", "one")], empty);
    check(&[("said", "one")], "1");
    check(&[("said", "two")], "no_expectation: no case has the user's words");
}

/// Returns a conversation `Hi`, `Find`, where `Hi` expects nothing or no call, and a single-turn
/// case `Thanks`, whose words end another conversation without expectations.
fn conversations(silent: bool) -> Expectations {
    let named = |name: &str, count: i64| {
        let mut row = row(count);
        let made = Arc::get_mut(&mut row).unwrap();
        Arc::get_mut(&mut made.info).unwrap().case = Some(name.into());
        row
    };
    let mut rows = CaseRows::default();
    for (name, words) in [("seven", "Hi"), ("single", "Thanks")] {
        let row = named(name, 1);
        rows.add(name.to_owned(), &row);
        assert!(rows.add_words(words, &row));
    }
    rows.add_turn("Hi", "seven", (!silent).then(|| named("seven, turn 1", 0)));
    rows.add_turn("Find", "seven", Some(named("seven, turn 2", 1)));
    rows.add_turn("Thanks", "other", None);
    Expectations::dataset(CaseKey::Auto, rows)
}

#[test]
fn a_turn_that_expects_nothing_goes_before_its_case() {
    let check = |silent: bool, session: Option<&str>, said: &str, expected: &str| {
        let said = vec![("said", AnyValue::String(said))];
        let found = judged_in(&conversations(silent), session, said);
        assert!(found.starts_with(expected), "{session:?}: {found}");
    };
    let nothing = "no_expectation: the case expects nothing of the turn with the user's words (2 ";
    let ambiguous = "no_expectation: several cases have the user's words";
    for session in [Some("s-1"), Some("seven"), None] {
        check(true, session, "Hi", nothing);
        check(true, session, "Find", "1");
    }
    check(false, Some("s-1"), "Hi", "0");
    check(false, None, "Hi", "1");
    check(true, Some("s-1"), "Thanks", ambiguous);
    check(true, None, "Thanks", "1");
}

fn expected_of_attribute() -> Expectations {
    let sample = json::parse(r#"{"tool_calls_count": {}}"#).unwrap();
    let sample = template().build(&sample, Place::default()).unwrap();
    Expectations::attribute("want".into(), template(), &sample.evaluator)
}

#[test]
fn attribute_holds_the_criteria_themselves() {
    let expectations = expected_of_attribute();
    let check = |text: &str, expected: &str| {
        for _ in 0..2 {
            assert_eq!(judged(&expectations, vec![("want", AnyValue::String(text))]), expected);
        }
    };
    check(r#"{"tool_calls_count": {"a": ["=", 1]}}"#, "1");
    check(r#"{"toolCallsCount": {"a": ["<", 1]}}"#, "0");
    check("[1]", "invalid_criteria: `want`: criteria must be an object");
    check("{", "invalid_criteria: `want`: criteria: not valid JSON at byte 1");
    let unknown = "invalid_criteria: `want`: unknown setting `x`";
    assert!(
        judged(&expectations, vec![("want", AnyValue::String(r#"{"x":1}"#))]).starts_with(unknown)
    );
    let long = format!("{{\"x\":\"{}\"}}", "y".repeat(CRITERIA_BYTES_MAX));
    let refused = judged(&expectations, vec![("want", AnyValue::String(&long))]);
    assert!(refused.ends_with("bytes are more than 65536"), "{refused}");
    assert_eq!(judged(&expectations, vec![]), "no_expectation: the root span has no `want`");
    let broken = judged(&expectations, vec![("want", AnyValue::KeyValues(b"\x0a\x01\x0b"))]);
    assert_eq!(broken, "invalid_criteria: `want`: a malformed attribute value");
}

#[test]
fn remembered_criteria_are_bounded() {
    let expectations = expected_of_attribute();
    for count in 0..=KNOWN_MAX {
        let text = format!(r#"{{"tool_calls_count": {{"a": [">", {count}]}}}}"#);
        judged(&expectations, vec![("want", AnyValue::String(&text))]);
    }
    let ExpectationSource::Attribute { known, .. } = &expectations.source else { return };
    assert_eq!(known.lock().len(), 1);
}

#[test]
fn every_kind_that_takes_criteria_takes_them_from_elsewhere() {
    for kind in KINDS {
        let schema = (kind.schema)();
        let has = |key: &str| schema.get("properties").is_some_and(|all| all.get(key).is_some());
        let criteria = Case::sample_criteria(kind);
        assert_eq!(criteria.is_some(), has("criteria"), "{}", kind.name);
        let Some(criteria) = criteria else { continue };
        let needed = [
            ("judge", r#"{"judge": "a"}"#),
            ("classes", r#"{"classes": ["a", "b"]}"#),
            ("endpoint", r#"{"endpoint": "http://127.0.0.1:1"}"#),
            ("command", r#"{"command": ["a"]}"#),
        ];
        let settings = needed.iter().find(|(key, _)| has(key)).map_or("{}", |(_, text)| text);
        let settings = Node::from_value(&json::parse(settings).unwrap());
        let template = Template { kind, settings, ..template() };
        if let Err(error) = template.build(&criteria, Place::default()) {
            panic!("{}: {error}", kind.name);
        }
    }
}

#[test]
fn criteria_of_a_trace_hold_no_matcher() {
    let template = Template {
        kind: kind("tool_trajectory").unwrap(),
        settings: Node::from_value(&Value::Map(Default::default())),
        ..template()
    };
    let arguments = Content::ready(json::parse(r#"{"q": 1}"#).unwrap());
    let call = ToolCall { name: "a".into(), arguments, ..ToolCall::default() };
    let trajectory = Trajectory { tool_calls: vec![call], ..Trajectory::default() };
    let text = r#"{"tool_calls": [{"name": "a", "arguments": {"q": {"$is": "any"}}}]}"#;
    let criteria = json::parse(text).unwrap();
    let check = |built: Result<Expectation, SettingsError>, expected: f64| {
        let evaluator = built.unwrap().evaluator;
        match evaluator.as_code().unwrap().evaluate(&trajectory, Want::ALL) {
            Outcome::Scored(score) => assert_eq!(score.value, expected),
            other => panic!("{other:?}"),
        }
    };
    check(template.build(&criteria, Place::default()), 1.0);
    check(template.build_from_trace(&criteria), 0.0);
    check(template.build_literal(&criteria, Place::default()), 0.0);
}
