//! Patterns, flags and texts with V8's answers.

use super::*;

fn check(pattern: &str, flags: &str, text: &str, expected: Result<bool, &str>) {
    let found = JsRegex::new(pattern, flags).map(|regex| regex.is_match(text));
    let found = found.map_err(|error| error.to_string());
    assert_eq!(found, expected.map_err(str::to_owned), "/{pattern}/{flags} on {text:?}");
}

#[test]
fn matches_as_javascript_does() {
    check(".", "", "\u{2028}", Ok(false));
    check(r"\bk\b", "iu", "\u{212a}x", Ok(false));
    check(r"\Wk", "m", "ék", Ok(true));
    check("s", "i", "ſ", Ok(false));
    check("É", "i", "é", Ok(true));
    check("^.$", "", "🙂", Ok(false));
    check("^.$", "u", "🙂", Ok(true));
    check("^..$", "", "🙂", Ok(true));
    check("🙂{2}", "", "🙂🙂", Ok(false));
    check(r"[^\s]", "", "\u{feff}", Ok(false));
    check("[]", "", "x", Ok(false));
    check("[^]", "", "\n", Ok(true));
    check("a{,2}", "", "a{,2}", Ok(true));
    check(r"\p", "", "p", Ok(true));
    check(r"\p{L}", "u", "я", Ok(true));
    check("y$", "m", "y\u{2029}x", Ok(true));
    check("b", "y", "ab", Ok(false));
    check(r"\08", "", "\u{0}8", Ok(true));
    check(r"[\d-x]", "", "-", Ok(true));
    check("{", "", "{", Ok(true));
    check("a.b", "isu", "A\nB", Ok(true));
    check("[^]", "isu", "\n", Ok(true));
    check(r"[\c1]", "", "\u{11}", Ok(true));
    check(r"\W", "iu", "sK\u{17f}\u{212a}", Ok(false));
    check(r"\bx", "iu", "\u{17f}x", Ok(false));
    check(r"\W", "i", "é", Ok(true));
    check(r"\p{Script=Greek}", "u", "λ", Ok(true));
    check("(?<n>a)|b", "", "b", Ok(true));
}

#[test]
fn lines_end_as_in_javascript() {
    check("^$", "m", "a\r\nb", Ok(true));
    check("^\u{2028}$", "m", "a\u{2028}b", Ok(false));
    check("a\u{2028}^b", "m", "a\u{2028}b", Ok(true));
    check("a\n^b", "m", "a\u{2028}b", Ok(false));
    check("a[^x]^b", "m", "a\rb", Ok(true));
    check("a[^\\r]b", "m", "a\rb", Ok(false));
    check("a.b", "ms", "a\u{2029}b", Ok(true));
    check("a.b", "m", "a\nb", Ok(false));
    check(r"^\B", "m", "a\nb", Ok(false));
    check(r"\s$", "my", "\r\n", Ok(true));
}

#[test]
fn positions_lie_between_characters() {
    check(r"\B", "", "aéb", Ok(false));
    check(r"\B", "u", "a🙂b", Ok(false));
    check(r"\B", "", "a🙂b", Ok(true));
}

#[test]
fn refuses_what_is_wrong_or_not_linear() {
    check("a**", "", "", Err("Nothing to repeat"));
    check("[z-a]", "", "", Err("Range out of order in character class"));
    check("a", "gg", "", Err("Invalid flags supplied to RegExp constructor 'gg'"));
    check("(?=a)", "", "", Err("a lookahead cannot be matched in linear time"));
    check(r"(a)\1", "", "", Err("a back-reference cannot be matched in linear time"));
    check(")", "", "", Err("Unmatched ')'"));
    check(r"\p{Greek}", "u", "", Err("Invalid property name"));
    check(r"\p{lu}", "u", "", Err("Invalid property name"));
    check(r"\_", "u", "", Err("Invalid escape"));
    check(r"\2(a)", "u", "", Err("Invalid decimal escape"));
    check(r"(?<n>a)\k<m>", "", "", Err("Invalid named capture referenced"));
    check(r"(?<n>a)\k<n>", "", "", Err("a back-reference cannot be matched in linear time"));
    check("(?<n>a)|(?<n>b)", "", "", Err("Duplicate capture group name"));
    check("[a--b]", "v", "", Err("sets of classes are not known"));
    check("[(]", "v", "", Err("Invalid set operation in character class"));
}
