//! Texts that break JSON readers or are read differently by them. The tests of each reader pin its
//! results.

use std::fmt::Write;

const TEXTS: &[&str] = &[
    // Strings.
    r#""""#,
    r#""plain""#,
    r#""\"\\\/\b\f\n\r\t""#,
    r#""\u00e9\u00E9\u0000""#,
    r#""\ud83d\ude00""#,
    r#""\uD83D\uDE00x""#,
    r#""\ud800""#,
    r#""\udc00""#,
    r#""a\ud800\nb""#,
    r#""\ud800\u0041""#,
    r#""\ud800\ud83d\ude00""#,
    r#""\udc00\ud800""#,
    r#""\ud800\u12""#,
    r#""\ud800\uzzzz""#,
    r#""\ud800\"#,
    r#""\udbff\udfff""#,
    r#""\uffff""#,
    r#""\u""#,
    r#""\u1"#,
    r#""\u12g4""#,
    r#""\u+123""#,
    r#""\u123é""#,
    r#""\U0041""#,
    r#""\x41""#,
    r#""\'""#,
    r#""\é""#,
    r#""\"#,
    r#"""#,
    r#""abc"#,
    r#""abc\n"#,
    "\"\u{0}\"",
    "\"\t\"",
    "\"a\nb\"",
    "\"\\n\u{1f}\"",
    "\"0123456789012345678901234567890123456789\u{1}\"",
    "\"\u{7f}\u{80}\u{2028}\u{feff}\"",
    "\"é😀\"",
    r#""0123456\n89012345678901234567890123456789\t""#,
    r#""a" "b""#,
    "'a'",
    // Numbers.
    "0",
    "-0",
    "-0.0",
    "00",
    "01",
    "-01",
    "00.5",
    "01e5",
    "1.",
    "1.e5",
    "-.5",
    ".5",
    "1.5.5",
    "+1",
    "-",
    "--1",
    "- 1",
    "-x",
    "1e",
    "1e+",
    "1.5e-",
    "1E+5",
    "1e-5",
    "1e999",
    "-1e999",
    "1e-999",
    "e5",
    "1_000",
    "0x10",
    "1a",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "123456789012345678901234567890.0",
    "0.1",
    "1 2",
    // Words.
    "true",
    "false",
    "null",
    "tru",
    "truex",
    "True",
    "nul",
    "NaN",
    "Nan",
    "Infinity",
    "-Infinity",
    "-Inf",
    "undefined",
    // Structure and white space.
    "",
    " ",
    " \n\t\r1\r\t\n ",
    "\u{feff}1",
    "\u{feff}{}",
    "\u{a0}1",
    "\u{b}1",
    "\u{0}",
    "1\u{0}",
    "[]",
    "{}",
    "[ ]",
    "{ }",
    "[1,]",
    "[,1]",
    "[1 2]",
    "[1,,2]",
    "[1}",
    "[",
    "[1",
    "[1,",
    "]",
    "{\"a\":1,}",
    "{,}",
    "{\"a\"}",
    "{\"a\" 1}",
    "{\"a\":}",
    "{\"a\":1",
    "{\"a\":1 \"b\":2}",
    "{a:1}",
    "{1:2}",
    "{\"a\":1]",
    "{\"a\":1,\"b\":2,\"a\":[3]}",
    "{\"\\u0061\":1,\"\\ud800\":2}",
    "{\"a\":1} x",
    "[[1,{\"b\":[]}],\"c\"]",
    "// c\n1",
];

/// Returns the texts, and generated long ones.
fn texts() -> impl Iterator<Item = String> {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let objects = |depth: usize| format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
    let long = [511, 512, 513, 989, 990, 991, 998, 999, 1000, 1001, 5000].map(nested);
    let deep = [511, 512, 513, 989, 990, 991, 999, 1000, 1001].map(objects);
    let digits = [999, 1000, 1001, 4300, 4301].map(|count| "9".repeat(count));
    let fractions = [998, 999].map(|count| format!("1.{}", "9".repeat(count)));
    let short = TEXTS.iter().map(|text| (*text).to_owned());
    short.chain(long).chain(deep).chain(digits).chain(fractions)
}

/// Returns a reader's result for each text, alone and as the value of an object's entry, with
/// control characters escaped.
pub(crate) fn table(read: impl Fn(&str) -> String) -> String {
    let mut out = String::new();
    for text in texts() {
        let alone = read(&text);
        let within = read(&format!("{{\"k\": {text}}}"));
        let [alone, within] = [alone, within].map(|outcome| shown(&outcome, 300));
        let _ = writeln!(out, "{}\n    {alone}\n    {within}", shown(&text, 80));
    }
    out
}

fn shown(text: &str, chars_max: usize) -> String {
    let shown = text.escape_debug().to_string();
    let length = shown.chars().count();
    if length <= chars_max {
        return shown;
    }
    format!("{}... ({length} characters)", shown.chars().take(40).collect::<String>())
}
