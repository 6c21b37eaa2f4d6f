use proptest::prelude::*;

use super::*;
use spanscore_base::settings::Node;
use spanscore_base::value::json;

fn parse(text: &str) -> Value<'static> {
    json::parse(text).unwrap().into_owned()
}

/// Returns true if an actual value matches as the arguments of a call.
fn holds(wanted: &str, found: &str) -> bool {
    let options = ArgumentMatcher::default();
    let effort = WorkBudget::default();
    let expected = expected(parse(&format!(r#"{{"a": {wanted}}}"#))).unwrap();
    let matching = MatchContext { options: &options, effort: &effort };
    matching.arguments(&expected, &parse(&format!(r#"{{"a": {found}}}"#)))
}

fn check(wanted: &str, right: &[&str], wrong: &[&str]) {
    for found in right {
        assert!(holds(wanted, found), "{wanted} {found}");
    }
    for found in wrong {
        assert!(!holds(wanted, found), "{wanted} {found}");
    }
}

#[test]
fn numbers_are_near_or_in_a_range_with_both_edges() {
    let near = r#"{"$is": {"near": 90, "within": 0.01}}"#;
    check(near, &["90", "90.01", "89.99", "9e1"], &["90.011", "89.98", r#""90""#, "null", "[90]"]);
    check(r#"{"$is": {"near": 0.3, "within": 0}}"#, &["0.3", "0.30000000000000004"], &["0.31"]);
    let large = r#"{"$is": {"near": 9007199254740993, "within": 0}}"#;
    check(large, &["9007199254740993"], &["9007199254740992", "9007199254740994"]);
    let range = r#"{"$is": {"range": [1, 2.5]}}"#;
    check(range, &["1", "2", "2.5"], &["0.99", "2.51", r#""2""#, "true"]);
    check(r#"{"$is": {"range": [null, 3]}}"#, &["-1e300", "3"], &["3.1"]);
}

#[test]
fn texts_match_a_pattern_a_moment_or_each_other_under_options() {
    let pattern = r#"{"$is": {"pattern": "^A-\\d+"}}"#;
    check(pattern, &[r#""A-17""#, r#""A-1 later""#], &[r#""B A-17""#, "17", "null"]);
    let day = r#"{"$is": {"instant": "2024-05-01"}}"#;
    let same = [
        r#""2024-05-01""#,
        r#""2024-05-01T00:00:00Z""#,
        r#""2024-05-01T02:00:00+02:00""#,
        r#""2024-05-01 00:00:00.000""#,
    ];
    check(day, &same, &[r#""2024-05-01T00:00:01""#, r#""May 1""#, "1714521600"]);
    check(r#"{"$is": {"text": "Zoé"}}"#, &[r#""Zoé""#], &[r#""zoé""#, r#"" Zoé""#]);
    let each = r#"{"$is": {"text": " Zoe\u0301", "trim": true, "fold_case": true, "nfc": true}}"#;
    check(each, &[r#""ZOÉ\n""#, r#""zoe\u0301""#], &[r#""Zoe""#, "1"]);
    check(r#"{"$is": {"text": "Zoe\u0301", "fold_case": true}}"#, &[], &[r#""zoé""#]);
}

#[test]
fn json_in_a_text_is_read_however_it_is_written() {
    let json = r#"{"$is": {"json": {"to": "rob", "amount": {"$is": {"range": [1, 5]}}}}}"#;
    let right = [r#""{\"amount\":5, \"to\": \"rob\"}""#, r#"{"to": "rob", "amount": 1}"#];
    check(json, &right, &[r#""{\"to\": \"rob\"}""#, r#""rob 5""#, "5", "null"]);
    check(r#"{"$is": {"json": [1]}}"#, &[r#""[1.0]""#], &[r#""[1, 1]""#]);
}

#[test]
fn lists_and_objects_hold_what_is_asked_for() {
    let set = r#"{"$is": {"unordered": [1, "x", 1]}}"#;
    check(set, &[r#"[1, 1, "x"]"#, r#"["x", 1.0, 1]"#], &[r#"[1, "x"]"#, r#"[1, "x", "x"]"#]);
    // The first item takes the only match of the second, unless the pairing is optimal.
    let wide = r#"{"$is": {"unordered": [{"$is": "any"}, {"$is": {"range": [1, 1]}}]}}"#;
    check(wide, &["[1, 2]", "[2, 1]"], &["[2, 2]", "[1]"]);
    check(r#"{"$is": {"one_of": [1, {"$is": {"pattern": "^x"}}]}}"#, &["1", r#""xy""#], &["2"]);
    check(r#"{"$is": {"contains": "b"}}"#, &[r#""abc""#, r#"["b"]"#], &[r#"["abc"]"#, "1"]);
    check(r#"{"$is": {"contains": [1, 1]}}"#, &["[1, 2, 1]"], &["[1, 2]", "1"]);
    let entries = r#"{"$is": {"contains": {"k": 1, "z": {"$is": "absent"}}}}"#;
    check(entries, &[r#"{"k": 1, "l": 2}"#, r#"[0, {"k": 1}]"#], &[r#"{"k": 1, "z": 0}"#]);
    check(r#"[{"$is": "any"}, 2]"#, &["[1, 2]", "[null, 2]"], &["[2, 1]", "[2]", "[1, 2, 3]"]);
}

#[test]
fn keys_are_there_or_absent() {
    let check = |wanted: &str, found: &str, is_right: bool| {
        let options = ArgumentMatcher::default();
        let effort = WorkBudget::default();
        let expected = expected(parse(wanted)).unwrap();
        let matching = MatchContext { options: &options, effort: &effort };
        assert_eq!(matching.arguments(&expected, &parse(found)), is_right, "{wanted} {found}");
    };
    check(r#"{"a": {"$is": "any"}}"#, r#"{"a": null}"#, true);
    check(r#"{"a": {"$is": "any"}}"#, "{}", false);
    check(r#"{"a": {"$is": "any"}}"#, r#"{"a": 1, "b": 1}"#, false);
    check(r#"{"a": {"$is": "absent"}}"#, "{}", true);
    check(r#"{"a": {"$is": "absent"}}"#, "null", true);
    check(r#"{"a": {"$is": "absent"}}"#, r#"{"a": null}"#, false);
    check(r#"{"a": {"b": {"$is": "absent"}}}"#, r#"{"a": {}}"#, true);
    check(r#"{"a": {"b": {"$is": "absent"}}}"#, "{}", false);
    let default = r#"{"a": {"$is": {"one_of": [1, {"$is": "absent"}]}}}"#;
    check(default, "{}", true);
    check(default, r#"{"a": 1}"#, true);
    check(default, r#"{"a": 2}"#, false);
    check(default, r#"{"b": 1}"#, false);
}

#[test]
fn modes_of_the_comparison_hold_beside_matchers() {
    let check = |mode: ArgumentMode, found: &str, is_right: bool| {
        let options = ArgumentMatcher { mode, ..ArgumentMatcher::default() };
        let effort = WorkBudget::default();
        let wanted = r#"{"a": {"$is": "any"}, "b": {"c": {"$is": {"pattern": "x"}}}}"#;
        let expected = expected(parse(wanted)).unwrap();
        let matching = MatchContext { options: &options, effort: &effort };
        assert_eq!(matching.arguments(&expected, &parse(found)), is_right, "{mode:?} {found}");
    };
    let whole = r#"{"b": {"c": "x"}, "a": 1}"#;
    let more = r#"{"b": {"c": "x"}, "a": 1, "d": 2}"#;
    let nested = r#"{"b": {"c": "x", "d": 2}, "a": 1}"#;
    check(ArgumentMode::Exact, whole, true);
    check(ArgumentMode::Exact, more, false);
    check(ArgumentMode::Subset, more, true);
    check(ArgumentMode::Subset, nested, false);
    check(ArgumentMode::NestedSubset, nested, true);
    check(ArgumentMode::Superset, r#"{"a": 1}"#, true);
    check(ArgumentMode::Superset, r#"{"b": {"c": "y"}}"#, false);
    check(ArgumentMode::Superset, more, false);
    check(ArgumentMode::Ignore, "{}", true);
}

#[test]
fn value_that_looks_like_a_matcher_can_be_written() {
    let plain = |text: &str| expected(parse(text)).unwrap().into_plain().map(|it| it.to_string());
    let check = |text: &str, meant: &str| {
        assert_eq!(plain(text).unwrap(), parse(meant).to_string(), "{text}");
    };
    check(r#"{"$is": {"equals": {"$is": "any"}}}"#, r#"{"$is": "any"}"#);
    check(r#"{"$is": "any", "x": 1}"#, r#"{"$is": "any", "x": 1}"#);
    check(r#"{"a": [{"$is": {"equals": null}}]}"#, r#"{"a": [null]}"#);
    check(r#"{"$is2": "any"}"#, r#"{"$is2": "any"}"#);
    assert!(plain(r#"{"a": {"$is": "any"}}"#).is_err());
}

#[test]
fn mistakes_name_the_word_and_the_remedy() {
    let written = |rule: &str| {
        let node = Node::from_value(&parse(&format!(r#"{{"a": {{"$is": {rule}}}}}"#)));
        super::check(&node).map_or_else(|error| error.to_string(), |()| "right".to_owned())
    };
    let rules = [
        r#""anny""#,
        r#"{"nera": 1}"#,
        "{}",
        "3",
        r#""near""#,
        r#"{"near": 1}"#,
        r#"{"near": "1", "within": 1}"#,
        r#"{"near": 1, "within": -1}"#,
        r#"{"near": 1, "within": 1, "pattern": "x"}"#,
        r#"{"pattern": "("}"#,
        r#"{"pattern": "(?:a{1000}){1000}"}"#,
        r#"{"range": [2, 1]}"#,
        r#"{"range": [1]}"#,
        r#"{"unordered": 1}"#,
        r#"{"instant": "yesterday"}"#,
        r#"{"text": "x", "trim": 1}"#,
        r#"{"text": "x", "trm": true}"#,
        r#"{"unordered": [{"$is": "absent"}]}"#,
        r#"{"one_of": [{"$is": "nay"}]}"#,
        r#"{"unordered": [{"$is": {"one_of": [1, {"$is": "absent"}]}}]}"#,
    ];
    let lines: Vec<String> =
        rules.iter().map(|rule| format!("{rule}: {}", written(rule))).collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn budget_that_is_spent_matches_nothing_and_says_so() {
    let options = ArgumentMatcher::default();
    let effort = WorkBudget::new(20);
    let expected = expected(parse(r#"{"$is": {"pattern": "a"}}"#)).unwrap();
    let matching = MatchContext { options: &options, effort: &effort };
    let long = Value::from("a".repeat(1_000));
    assert!(!matching.value(&expected, Some(&long)));
    assert!(effort.is_spent());
}

/// Values of any form, including `$is` keys.
fn values() -> impl Strategy<Value = Value<'static>> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3_i64..3).prop_map(Value::from),
        "[ab]{0,2}".prop_map(Value::from),
    ];
    scalar.prop_recursive(3, 24, 3, |inner| {
        let key = prop_oneof![Just("$is".to_owned()), Just("equals".to_owned()), "[ab]"];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::vec((key, inner), 0..3)
                .prop_map(|entries| Value::Map(entries.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn escaped_criteria_mean_what_they_say(value in values()) {
        let read = expected(escaped(value.clone())).map(Expected::into_plain);
        prop_assert_eq!(read.unwrap().unwrap(), value);
    }

    #[test]
    fn every_value_can_be_written_and_is_equal_to_itself_alone(one in values(), two in values()) {
        let rule = Value::Map([("equals", one.clone())].into_iter().collect());
        let written = Value::Map([("$is", rule)].into_iter().collect());
        let read = expected(written).unwrap();
        let options = ArgumentMatcher::default();
        let effort = WorkBudget::default();
        let matching = MatchContext { options: &options, effort: &effort };
        prop_assert!(matching.value(&read, Some(&one)));
        prop_assert_eq!(matching.value(&read, Some(&two)), one == two);
    }

    #[test]
    fn any_order_of_a_list_is_the_same_set(
        (items, shuffled) in prop::collection::vec(-3_i64..3, 0..6)
            .prop_flat_map(|items| (Just(items.clone()), Just(items).prop_shuffle())),
        extra in -3_i64..3,
    ) {
        let list =
            |items: &[i64]| Value::List(items.iter().map(|item| Value::from(*item)).collect());
        let rule = Value::Map([("unordered", list(&items))].into_iter().collect());
        let read = expected(Value::Map([("$is", rule)].into_iter().collect())).unwrap();
        let options = ArgumentMatcher::default();
        let effort = WorkBudget::default();
        let matching = MatchContext { options: &options, effort: &effort };
        prop_assert!(matching.value(&read, Some(&list(&shuffled))));
        let more: Vec<i64> = shuffled.into_iter().chain([extra]).collect();
        prop_assert!(!matching.value(&read, Some(&list(&more))));
    }

    #[test]
    fn nothing_that_is_written_under_the_mark_panics(value in values()) {
        let written = Value::Map([("$is", value.clone())].into_iter().collect());
        let options = ArgumentMatcher::default();
        let effort = WorkBudget::default();
        if let Ok(read) = expected(written) {
            MatchContext { options: &options, effort: &effort }.value(&read, Some(&value));
        }
    }
}

#[test]
fn too_many_pairs_leave_no_steps_rather_than_an_answer() {
    // The square exceeds the limit of a pairing.
    const COUNT: usize = 4001;
    let options = ArgumentMatcher::default();
    let check = |found: i64, is_spent: bool| {
        let effort = WorkBudget::default();
        let matching = MatchContext { options: &options, effort: &effort };
        let wanted = vec![Expected::Plain(Value::from(1)); COUNT];
        let found = vec![Value::from(found); COUNT];
        assert_eq!(matching.each_among(&wanted, &found), !is_spent);
        assert_eq!((effort.is_spent(), effort.is_trace_spent()), (is_spent, false));
    };
    check(1, false);
    check(2, true);
}
