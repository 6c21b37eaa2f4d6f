use proptest::prelude::*;

use super::*;
use crate::value::json::hard_texts;

/// Returns CPython's printed value of a text, or the kind of its error.
fn shown(result: Result<PyValue<'_>, PyError>) -> String {
    result.map_or_else(|error| error.to_string(), |value| value.repr())
}

const NO: &str = "not a Python value";
const UNHASHABLE: &str = "unhashable value as a dict key or set member";

#[test]
fn literals_read_as_cpython_reads_them() {
    for (text, expected) in [
        (
            "{'a': [1, 2.50, -0, +1e3], \"b\": (None, True,)}",
            "{'a': [1, 2.5, 0, 1000.0], 'b': (None, True)}",
        ),
        ("  {'a': 1} # c\n\n", "{'a': 1}"),
        ("\n {'a': 1}", NO),
        ("{'a': 1}\n ", NO),
        ("{'a': 1},", "({'a': 1},)"),
        ("{1: 'a', True: 'b', 1.0: 'c'}", "{1: 'c'}"),
        ("{[1]: 2}", UNHASHABLE),
        ("{(1, [2])}", UNHASHABLE),
        ("{[1]: 2", NO),
        ("{[1]: 2, 'a': x}", UNHASHABLE),
        ("{'a': x, [1]: 2}", NO),
        ("-{[1]: 2}", NO),
        ("'it''s' \"x\"", "'itsx'"),
        (r#"'it\'s' "\"""#, r#"'it\'s"'"#),
        (r#""it's""#, r#""it's""#),
        (r"'\x41\101\u00e9\U0001F600\q\ud800'", r"'AAé😀\\q\ud800'"),
        (r"rb'\x' b'\xff'", r"b'\\x\xff'"),
        ("'''a\r\nb'''", r"'a\nb'"),
        ("'a\nb'", NO),
        ("f'x'", NO),
        ("b'é'", NO),
        ("'a' b'b'", NO),
        ("0x_1F + 2j", "(31+2j)"),
        ("-2j", "(-0-2j)"),
        ("1_000", "1000"),
        ("01", NO),
        ("01.5", "1.5"),
        ("1 + 2", NO),
        ("--1", NO),
        ("-True", NO),
        ("set()", "set()"),
        ("dict(a=1)", NO),
        ("true", NO),
        ("...", "Ellipsis"),
        ("[,]", NO),
        ("1e16", "1e+16"),
        ("0.00001", "1e-05"),
        ("1e400", "inf"),
        ("'\u{ad}\u{3000}\u{e0001}'", r"'\xad\u3000\U000e0001'"),
    ] {
        assert_eq!(shown(literal::parse(text)), expected, "{text:?}");
    }
}

#[test]
fn json_reads_as_json_loads_reads_it() {
    for (text, expected) in [
        (r#" {"a": [1, 2.50, -0, 1e3], "b": null} "#, "{'a': [1, 2.5, 0, 1000.0], 'b': None}"),
        (r#"{"a":1,"b":2,"a":3}"#, "{'a': 3, 'b': 2}"),
        ("[NaN, -Infinity, 1e999]", "[nan, -inf, inf]"),
        (r#""\ud83d\ude00\ud800x""#, r"'😀\ud800x'"),
        ("12345678901234567890123", "12345678901234567890123"),
        ("\"\t\"", NO),
        ("\u{feff}1", NO),
        ("01", NO),
        ("1.", NO),
        ("[1,]", NO),
        ("{'a': 1}", NO),
    ] {
        assert_eq!(shown(json::parse(text)), expected, "{text:?}");
    }
}

#[test]
fn hard_texts_read_as_ever() {
    let read = |text: &str| {
        let entry = json::entry(text, "k");
        let entry = entry.map(|found| found.map(|at| at.map(|value| value.repr())));
        format!("{}, {entry:?}", shown(json::parse(text)))
    };
    insta::assert_snapshot!(hard_texts::table(read));
}

#[test]
fn nesting_and_digits_are_read_to_the_limit_and_refused_one_past_it() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(literal::parse(&nested(literal::DEPTH_MAX)).is_ok());
    assert_eq!(literal::parse(&nested(literal::DEPTH_MAX + 1)).err(), Some(PyError::Invalid));
    let deepest = nested(json::DEPTH_MAX);
    let value = json::parse(&deepest).unwrap();
    assert_eq!(value.repr(), deepest);
    assert_eq!(value, value.clone());
    assert_eq!(json::parse(&nested(json::DEPTH_MAX + 1)).err(), Some(PyError::TooDeep));
    let digits = "9".repeat(4300);
    assert_eq!(shown(json::parse(&digits)), digits);
    assert_eq!(shown(literal::parse(&digits)), digits);
    let digits = "9".repeat(4301);
    assert_eq!(shown(json::parse(&digits)), NO);
    assert_eq!(shown(literal::parse(&digits)), NO);
    let hexadecimal = format!("0x{}", "f".repeat(3600));
    assert_eq!(literal::parse(&hexadecimal).err(), Some(PyError::TooLarge));
}

#[test]
fn equality_is_pythons() {
    for (a, b, equal) in [
        ("1", "1.0", true),
        ("1", "True", true),
        ("0", "False", true),
        ("1", "1+0j", true),
        ("9007199254740993", "9007199254740992.0", false),
        ("[1]", "(1,)", false),
        ("{1, 2}", "{2, 1.0}", true),
        ("{'a': 1, 'b': [2]}", "{'b': [2.0], 'a': True}", true),
        ("{'a': None}", "{'b': None}", false),
        ("'a'", "b'a'", false),
        ("None", "0", false),
    ] {
        let [left, right] = [a, b].map(|text| literal::parse(text).unwrap());
        assert_eq!(left == right, equal, "{a} and {b}");
    }
}

#[test]
fn plain_data_becomes_a_value_and_other_literals_do_not() {
    let shown = |text| parse_literal(text).map(|value| value.to_string());
    assert_eq!(
        shown("{'a': (1, 2.5), 'b': {'c': None}, 'd': True}").as_deref(),
        Some(r#"{"a":[1,2.5],"b":{"c":null},"d":true}"#)
    );
    for text in ["{1: 2}", "{1}", "b'a'", "1j", "...", "x", ""] {
        assert_eq!(shown(text), None, "{text}");
    }
}

#[test]
fn long_runs_of_strings_and_entries_take_linear_time() {
    let strings = "'a' ".repeat(200_000);
    assert_eq!(literal::parse(&strings).unwrap().to_text().len(), 200_000);
    let entries: String = (0..100_000).map(|key| format!("{key}: 0,")).collect();
    assert!(literal::parse(&format!("{{{entries}}}")).is_ok());
}

proptest! {
    #[test]
    fn no_text_makes_a_reader_panic(text in r#"[\[\](){},:'"\\#+\-.0-9a-fjrxu\n\r éN]{0,40}"#) {
        let _ = literal::parse(&text);
        let _ = json::parse(&text);
    }

    #[test]
    fn what_repr_prints_reads_back(text in any::<String>(), number in any::<f64>()) {
        let value = PyValue::List(vec![
            PyValue::text(&text),
            PyValue::Number(Number::Float(if number.is_finite() { number } else { 0.5 })),
        ]);
        let printed = value.repr();
        prop_assert!(literal::parse(&printed).unwrap() == value, "{printed}");
    }
}

#[test]
fn one_entry_is_what_the_whole_object_has() {
    let check = |text: &str| {
        let whole = json::parse(text).map(|value| match value {
            PyValue::Dict(_) => Some(value.get("a").map(PyValue::repr)),
            _ => None,
        });
        let entry = json::entry(text, "a").map(|found| found.map(|at| at.map(|v| v.repr())));
        assert_eq!(entry, whole, "{text}");
    };
    for text in [
        "{}",
        " { } ",
        "[]",
        "[1",
        r#"{"a": 1}"#,
        r#"{"a": 1} x"#,
        r#"{"b": [1, {"a": 2}], "\u0061": {"a": [NaN]}}"#,
        r#"{"a": 1, "a": 2}"#,
        r#"{"a": 1, "b": 01}"#,
        r#"{"a": 1, "b": "\x"}"#,
        r#"{"a": 1,}"#,
        r#"{"b": 1 "a": 2}"#,
        r#"{"b": {"c": 1,}, "a": 2}"#,
    ] {
        check(text);
    }
    let nested =
        |depth: usize| format!(r#"{{"b": {}{}, "a": 1}}"#, "[".repeat(depth), "]".repeat(depth));
    check(&nested(json::DEPTH_MAX - 1));
    check(&nested(json::DEPTH_MAX));
    let digits = |count: usize| format!(r#"{{"b": {}, "a": 1}}"#, "1".repeat(count));
    check(&digits(4_300));
    check(&digits(4_301));
}

#[test]
fn plain_data_is_what_the_whole_reader_takes_for_it() {
    for text in [
        "{'a': 1, 'b': [True, None, -2.5]}",
        "('a' 'b', (1), ())",
        "{'a': 1, 'a': 2}",
        "{1, 2}",
        "{1: 2}",
        "[1j]",
        "[b'a']",
        "[...]",
        "[name]",
        "{'a': {'b'}}",
        "{[]: 1}",
        "[1 + 2j]",
        "set()",
        "[",
    ] {
        let whole = literal::parse(text).ok().and_then(PyValue::into_value);
        assert_eq!(parse_literal(text), whole, "{text}");
    }
}

#[test]
fn repeated_keys_of_a_large_dict_keep_the_last_value() {
    let entries: Vec<String> = (0..100).map(|at| format!("'k{}': {at}", at % 50)).collect();
    let text = format!("{{{}}}", entries.join(", "));
    let value = parse_literal(&text).expect("a dict");
    let map = value.as_map().expect("a map");
    assert_eq!((map.len(), map.get("k7")), (50, Some(&Value::from(57))));
}
