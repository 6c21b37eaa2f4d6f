use super::*;
use spanscore_base::value::json;

type Called = (&'static str, Option<&'static str>);

fn check(settings: &str, calls: &[Called], expected: f64, lcs: &str) {
    let groups: Vec<&[Called]> = calls.chunks(1).collect();
    check_groups(settings, &groups, expected, lcs);
}

fn check_groups(settings: &str, groups: &[&[Called]], expected: f64, lcs: &str) {
    let node = Node::from_value(&json::parse(settings).unwrap());
    let evaluator = build(&node).unwrap();
    let calls = (1..).zip(groups).flat_map(|(group, calls)| calls.iter().map(move |c| (group, c)));
    let call = |(group, (name, id)): (u32, &Called)| ToolCall {
        name: (*name).into(),
        id: id.map(Into::into),
        group,
        ..ToolCall::default()
    };
    let tool_calls = calls.map(call).collect();
    let trajectory = Trajectory { tool_calls, ..Trajectory::default() };
    let Outcome::Scored(score) = evaluator.as_code().unwrap().evaluate(&trajectory, Want::ALL)
    else {
        panic!()
    };
    assert_eq!(score.value, expected, "{settings}");
    assert_eq!(score.details.get("lcs").unwrap().to_string(), lcs);
    let Outcome::Scored(bare) = evaluator.as_code().unwrap().evaluate(&trajectory, Want::SCORE)
    else {
        panic!()
    };
    assert_eq!(bare.value, expected);
}

#[test]
fn the_longest_part_of_the_order_that_was_kept_counts() {
    let settings = r#"{"criteria": {"tool_calls_order": ["a", "b", "c", "d"]}}"#;
    let calls = [("a", None), ("x", None), ("c", None), ("b", None), ("d", None)];
    check(settings, &calls, 0.75, r#"["a","b","d"]"#);
    check(settings, &[], 0.0, "[]");
}

#[test]
fn strict_takes_exactly_the_expected_calls() {
    let settings = r#"{"strict": true, "criteria": {"tool_calls_order": ["a", "b"]}}"#;
    check(settings, &[("a", None), ("b", None)], 1.0, r#"["a","b"]"#);
    check(settings, &[("a", None), ("b", None), ("b", None)], 0.0, r#"["a","b"]"#);
    check(settings, &[("b", None), ("a", None)], 0.0, r#"["a"]"#);
}

#[test]
fn a_call_is_expected_by_name_or_by_id() {
    let settings = r#"{"criteria": {"tool_calls_order": ["a", "id-1", "b"]}}"#;
    let calls = [("a", None), ("b", Some("id-1")), ("b", Some("id-2"))];
    check(settings, &calls, 1.0, r#"["a","id-1","b"]"#);
}

#[test]
fn calls_made_together_are_in_any_order() {
    let settings = r#"{"criteria": {"tool_calls_order": ["a", "b", "c", "d"]}}"#;
    let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| (name, None));
    check_groups(settings, &[&[c, a, b], &[d]], 1.0, r#"["a","b","c","d"]"#);
    check_groups(settings, &[&[d, c], &[b, a]], 0.5, r#"["a","b"]"#);
    check_groups(settings, &[&[a], &[d, b, ("x", None)], &[c]], 0.75, r#"["a","b","c"]"#);
    let strict = settings.replace("{\"criteria", "{\"strict\": true, \"criteria");
    check_groups(&strict, &[&[b, a], &[d, c]], 1.0, r#"["a","b","c","d"]"#);
    check_groups(&strict, &[&[b, a], &[d, c, a]], 0.0, r#"["a","b","c","d"]"#);
    let ids = r#"{"criteria": {"tool_calls_order": ["a", "1", "a", "2"]}}"#;
    let [one, two] = ["1", "2"].map(|id| ("a", Some(id)));
    check_groups(ids, &[&[two, a, one, a]], 1.0, r#"["a","1","a","2"]"#);
}

#[test]
fn an_empty_order_is_a_mistake() {
    let node = Node::from_value(&json::parse(r#"{"criteria": {"tool_calls_order": []}}"#).unwrap());
    let message = build(&node).err().map(|error| error.to_string());
    assert_eq!(message.as_deref(), Some("`tool_calls_order` is empty: name at least one tool"));
}
