use super::*;
use spanscore_base::model::Content;
use spanscore_base::value::json;

fn node(settings: &str) -> Node {
    Node::from_value(&json::parse(settings).unwrap())
}

fn check(settings: &str, expected: &str, actual: &[&'static str], score: f64) {
    let settings = format!(r#"{{{settings}, "criteria": {{"tool_calls": {expected}}}}}"#);
    let call = |arguments: &&'static str| ToolCall {
        name: "search".into(),
        arguments: Content::ready(json::parse(arguments).unwrap()),
        ..ToolCall::default()
    };
    let tool_calls = actual.iter().map(call).collect();
    let trajectory = Trajectory { tool_calls, ..Trajectory::default() };
    let evaluator = build(&node(&settings)).unwrap();
    match evaluator.as_code().unwrap().evaluate(&trajectory, Want::ALL) {
        Outcome::Scored(found) => assert_eq!(found.value, score, "{settings} {actual:?}"),
        other => panic!("{settings}: {other:?}"),
    }
}

#[test]
fn a_name_alone_expects_a_call_whatever_its_arguments() {
    let modes = [
        r#""match_mode": "names_and_args""#,
        r#""match_mode": "call_f1""#,
        r#""match_mode": "call_accuracy""#,
        r#""match_mode": "call_accuracy", "strict_order": false"#,
        r#""match_mode": "call_accuracy", "compat": "ragas""#,
        r#""match_mode": "best_match", "evaluation_params": ["input_parameters"]"#,
        r#""match_mode": "best_match_in_order", "evaluation_params": ["input_parameters"]"#,
        r#""match_mode": "parameter_match""#,
    ];
    for mode in modes {
        check(mode, r#"["search"]"#, &[r#"{"q": 1}"#], 1.0);
        check(mode, r#"["search"]"#, &["{}"], 1.0);
        check(mode, r#"["search", "search"]"#, &[r#"{"q": 1}"#, r#"{"q": 1}"#], 1.0);
    }
    let beside = r#"["search", {"name": "search", "arguments": {"q": 1}}]"#;
    for mode in [modes[1], modes[3], modes[5]] {
        check(mode, beside, &[r#"{"q": 1}"#, r#"{"q": 2}"#], 1.0);
    }
    check(modes[1], r#"["search"]"#, &[r#"{"q": 1}"#, r#"{"q": 2}"#], 0.6667);
    check(modes[1], r#"[{"name": "search"}]"#, &[r#"{"q": 1}"#], 0.0);
}

#[test]
fn rules_for_arguments_are_refused_where_texts_are_compared() {
    let check = |matcher: &str, message: Option<&str>| {
        let settings = format!(
            r#"{{"match_mode": "call_accuracy", "compat": "ragas", {matcher}
                "criteria": {{"tool_calls": ["search"]}}}}"#
        );
        let found = build(&node(&settings)).err().map(|error| error.to_string());
        assert_eq!(found.as_deref(), message, "{settings}");
    };
    let refused = Some(
        "`match` does not go with `compat: ragas` (leave out `compat`, which compares by value)",
    );
    check("", None);
    check(r#""argument_matcher": {"match": {"q": "any"}},"#, refused);
    check(r#""argument_matchers": {"search": {"match": {"q": "any"}}},"#, refused);
}
