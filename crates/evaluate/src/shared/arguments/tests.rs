//! Matching arguments, and equality of their hashes.

use proptest::prelude::*;

use super::*;
use spanscore_base::value::json;

fn matcher(mode: ArgumentMode) -> ArgumentMatcher {
    ArgumentMatcher { mode, ..ArgumentMatcher::default() }
}

fn check(matcher: &ArgumentMatcher, expected: &str, actual: &str, matches: bool) {
    let a = json::parse(expected).unwrap();
    let b = json::parse(actual).unwrap();
    assert_eq!(matcher.matches(&a, &b), matches, "{expected} against {actual}");
    if matches && matcher.is_symmetric() {
        let build = hashbrown::DefaultHashBuilder::default();
        assert_eq!(matcher.hash(&a, &build), matcher.hash(&b, &build), "{expected} {actual}");
    }
}

#[test]
fn modes_compare_keys_at_the_top_only() {
    use ArgumentMode::{Exact, Ignore, Subset, Superset};
    let one = r#"{"a":1}"#;
    let two = r#"{"b":2,"a":1.0}"#;
    for (mode, forth, back) in [
        (Exact, false, false),
        (Subset, true, false),
        (Superset, false, true),
        (Ignore, true, true),
    ] {
        check(&matcher(mode), one, two, forth);
        check(&matcher(mode), two, one, back);
        check(&matcher(mode), "null", "{}", true);
    }
    check(&matcher(Subset), r#"{"a":{"b":1}}"#, r#"{"a":{"b":1,"c":2}}"#, false);
    check(&matcher(Exact), r#"{"a":null}"#, "{}", false);
    check(&matcher(Exact), r#"{"a":true}"#, r#"{"a":1}"#, false);
    check(&matcher(Exact), r#"[1,"x"]"#, r#"[1.0,"x"]"#, true);
}

#[test]
fn a_nested_subset_may_lack_entries_at_any_depth() {
    let nested = matcher(ArgumentMode::NestedSubset);
    let whole = r#"{"a":{"b":1,"c":[{"d":2,"at":"10:05"},{}]},"e":3}"#;
    for (part, matches) in [
        (r#"{"a":{"c":[{"d":2.0},{}]}}"#, true),
        ("null", true),
        (r#"{"a":{"c":[{"d":2}]}}"#, false),
        (r#"{"a":{"c":[{"x":2},{}]}}"#, false),
        (r#"{"a":{"b":1,"c":[{},{}],"f":null}}"#, false),
        (r#"{"a":1}"#, false),
    ] {
        check(&nested, part, whole, matches);
    }
    check(&nested, whole, whole, true);
    assert!(!nested.is_symmetric());
}

#[test]
fn numbers_are_equal_by_their_decimal_text() {
    let exact = matcher(ArgumentMode::Exact);
    for (a, b, equal) in [
        ("1", "1.0", true),
        ("0", "-0.0", true),
        ("1e0", "1", true),
        ("9007199254740993", "9007199254740992.0", false),
        ("1152921504606846976", "1152921504606846976.0", false),
        ("1e22", "10000000000000000000000", true),
        ("1e23", "100000000000000000000000", true),
        ("-1e22", "-10000000000000000000000", true),
        ("9223372036854775807", "9223372036854775807.0", false),
        ("18446744073709551617", "18446744073709551616", false),
        ("1e400", "1e500", true),
        ("1e400", "-1e400", false),
    ] {
        check(&exact, &format!(r#"{{"a":{a}}}"#), &format!(r#"{{"a":{b}}}"#), equal);
        check(&exact, &format!(r#"{{"a":[{b}]}}"#), &format!(r#"{{"a":[{a}]}}"#), equal);
    }
}

#[test]
fn texts_are_trimmed_before_case_is_ignored() {
    let tolerant =
        ArgumentMatcher { trim_strings: true, case_insensitive: true, ..Default::default() };
    check(&tolerant, r#"{"a":[" PARIS\n"]}"#, r#"{"a":["paris"]}"#, true);
    check(&tolerant, r#"{"A":"x"}"#, r#"{"a":"x"}"#, false);
    check(&ArgumentMatcher::default(), r#"{"a":"x "}"#, r#"{"a":"x"}"#, false);
}

#[test]
fn only_the_named_paths_are_compared() {
    let keys = vec!["city".to_owned(), "address.zip".to_owned()];
    let matcher = ArgumentMatcher { keys, ..Default::default() };
    check(&matcher, r#"{"city":"a","x":1}"#, r#"{"city":"a","address":{"zip":null}}"#, true);
    check(&matcher, r#"{"address":{"zip":1,"b":2}}"#, r#"{"address":{"zip":1.0}}"#, true);
    check(&matcher, r#"{"address":{"zip":1}}"#, r#"{"city":"a","address":{"zip":1}}"#, false);
}

fn value() -> impl Strategy<Value = Value<'static>> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3_i64..3).prop_map(Value::from),
        (-3_i64..3).prop_map(|whole| Value::from(whole as f64)),
        "[ab]{0,1}".prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 12, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::List),
            proptest::collection::vec(("[ab]", inner), 0..3)
                .prop_map(|entries| Value::Map(entries.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn matching_is_value_equality_and_hashes_agree(a in value(), b in value()) {
        let matcher = ArgumentMatcher::default();
        let build = hashbrown::DefaultHashBuilder::default();
        let a = Value::List(vec![a]);
        let b = Value::List(vec![b]);
        prop_assert_eq!(matcher.matches(&a, &b), a == b);
        if a == b {
            prop_assert_eq!(matcher.hash(&a, &build), matcher.hash(&b, &build));
        }
    }
}
