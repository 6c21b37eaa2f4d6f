use super::*;
use spanscore_base::model::Content;
use spanscore_base::value::json;

const IN_ORDER: CountedDifferences =
    CountedDifferences { order: true, missing: true, extra: true, allows_more: "mode: subset" };

fn expected(calls: &[(&str, &str)]) -> Vec<ExpectedCall> {
    let call = |(name, arguments): &(&str, &str)| ExpectedCall {
        name: (*name).to_owned(),
        arguments: json::parse(arguments).expect("JSON").into_owned(),
        ..ExpectedCall::default()
    };
    calls.iter().map(call).collect()
}

fn check(wanted: &[(&str, &str)], made: &[(&str, &str)], counted: CountedDifferences, words: &str) {
    let wanted = expected(wanted);
    let actual = expected(made);
    let calls: Vec<ToolCall<'_>> = actual
        .into_iter()
        .map(|call| ToolCall {
            name: call.name.into(),
            arguments: Content::ready(call.arguments),
            ..ToolCall::default()
        })
        .collect();
    let calls: Vec<&ToolCall<'_>> = calls.iter().collect();
    let matcher = CallMatcher::default();
    let difference = Difference::new(&matcher, &wanted, &calls, counted, &WorkBudget::default());
    assert_eq!(&*difference.words(), words);
    assert!(!difference.words().without_content().contains("secret"));
}

#[test]
fn each_difference_is_named_with_its_place() {
    let find = ("find", r#"{"id": 1}"#);
    let pay = ("pay", r#"{"amount": 30}"#);
    check(&[find, pay], &[find, pay], IN_ORDER, "");
    check(&[find, pay], &[pay, find], IN_ORDER, "find came as call 2, expected at place 1");
    check(&[find, pay], &[find], IN_ORDER, "pay was not called");
    check(&[find], &[find, pay], IN_ORDER, "pay was not expected (call 2)");
    check(&[find], &[find, find, find], IN_ORDER, "find was called 3 times, expected once");
    let other = ("pay", r#"{"amount": 35, "secret": 1}"#);
    check(
        &[find, pay],
        &[find, other],
        IN_ORDER,
        "pay (call 2): `amount` is not as expected; `secret` was not expected (`mode: subset` \
         allows more)",
    );
    let empty = ("pay", "{}");
    check(&[pay], &[empty], IN_ORDER, "pay (call 1): `amount` is missing");
}

#[test]
fn differences_that_do_not_count_are_not_told() {
    let find = ("find", "{}");
    let pay = ("pay", "{}");
    check(&[find], &[find, pay], CountedDifferences { extra: false, ..IN_ORDER }, "");
    check(&[find, pay], &[find], CountedDifferences { missing: false, ..IN_ORDER }, "");
    check(&[find, pay], &[pay, find], CountedDifferences { order: false, ..IN_ORDER }, "");
}

#[test]
fn many_differences_are_counted() {
    let made = [("a", "{}"), ("b", "{}"), ("c", "{}"), ("d", "{}"), ("e", "{}")];
    check(
        &[],
        &made,
        IN_ORDER,
        "a was not expected (call 1); b was not expected (call 2); c was not expected (call 3); \
         and 2 more",
    );
}

#[test]
fn calls_beyond_the_limit_still_count() {
    let made = vec![("a", "{}"); CALLS_MAX + 1];
    check(
        &[("b", "{}")],
        &made,
        IN_ORDER,
        "b was not called; a was not expected (calls 1, 2, 3 \
         and more)",
    );
}

#[test]
fn rules_that_are_broken_are_named_without_values() {
    let check = |wanted: &str, found: &str| {
        let arguments = json::parse(wanted).expect("JSON").into_owned();
        let rules = crate::shared::matcher::expected(arguments).expect("matchers");
        let actual = json::parse(found).expect("JSON");
        let wanted = (Some(&rules), &Value::Null);
        let words = argument_words(&ArgumentMatcher::default(), wanted, &actual, "mode: subset");
        format!("{wanted} {found}: {}", &*words)
    };
    let rule = |rule: &str| format!(r#"{{"a": {{"$is": {rule}}}}}"#);
    let one = r#"{"a": "secret"}"#;
    let rules = [
        r#"{"near": 1, "within": 0}"#,
        r#"{"range": [1, 2]}"#,
        r#"{"pattern": "x"}"#,
        r#"{"one_of": [1, 2]}"#,
        r#"{"unordered": [1, 2]}"#,
        r#"{"contains": "x"}"#,
        r#"{"instant": "2024-05-01"}"#,
        r#"{"text": "x", "trim": true}"#,
        r#""absent""#,
    ];
    let mut lines: Vec<String> = rules.iter().map(|it| check(&rule(it), one)).collect();
    lines.push(check(&rule(r#""any""#), "{}"));
    lines.push(check(&rule(r#""any""#), "[]"));
    let nested = r#"{"to": {"zip": {"$is": {"pattern": "x"}}, "street": "y"}, "b": 1}"#;
    lines.push(check(nested, r#"{"to": {"zip": "secret", "street": "z"}, "b": 2, "c": 3}"#));
    lines.push(check(nested, r#"{"to": {"zip": "x", "street": "y", "secret": 1}, "b": 1}"#));
    lines.push(check(r#"{"l": [1, {"$is": "any"}]}"#, r#"{"l": [2, 2]}"#));
    insta::assert_snapshot!(lines.join("\n"));
}
