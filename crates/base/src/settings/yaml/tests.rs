use super::*;

fn read(text: &str) -> Result<Node, Vec<SettingsError>> {
    parse(text, 0, &mut |written| scalar::typed(written.text, written.form))
}

/// Checks the JSON of the tree, or the first error with its place.
fn check(text: &str, expected: &str) {
    let found = match read(text) {
        Ok(node) => node.to_value().to_string(),
        Err(errors) => {
            let place = errors[0].place.unwrap_or_default();
            format!("{}:{}: {}", place.line, place.column, errors[0])
        }
    };
    assert_eq!(found, expected, "{text}");
}

#[test]
fn yaml_and_json_give_the_same_tree() {
    check("a: 1\nb: [x, 'y', \"1\", 1.5, null]\n", r#"{"a":1,"b":["x","y","1",1.5,null]}"#);
    check(r#"{"a": 1, "b": ["x", true, {}]}"#, r#"{"a":1,"b":["x",true,{}]}"#);
    check("a: 123456789012345678901234567890", r#"{"a":123456789012345678901234567890}"#);
    check(
        "a: |\n  two\n  lines\nb: >\n  one\n  line\n",
        r#"{"a":"two\nlines\n","b":"one line\n"}"#,
    );
    check("", "null");
    check("# nothing\n---\n", "null");
}

#[test]
fn aliases_and_merges_copy_what_they_name() {
    check("a: &x {k: 1}\nb: *x\n", r#"{"a":{"k":1},"b":{"k":1}}"#);
    check("a: &x {k: 1, l: 2}\nb: {<<: *x, l: 3}\n", r#"{"a":{"k":1,"l":2},"b":{"l":3,"k":1}}"#);
    check("b: {<<: [{k: 1}, {k: 2, m: 3}]}\n", r#"{"b":{"k":1,"m":3}}"#);
    check("b: {\"<<\": 1}\n", r#"{"b":{"<<":1}}"#);
    check(
        "a: &x !!map {k: 1}\nb: !!str &y 5\nc: [*x, *y]\n",
        r#"{"a":{"k":1},"b":"5","c":[{"k":1},"5"]}"#,
    );
    check("&k a: 1\nb: *k\n", r#"{"a":1,"b":"a"}"#);
    let digits = "f".repeat(40);
    check(&format!("0x{digits}: 1\n"), &format!(r#"{{"0x{digits}":1}}"#));
}

#[test]
fn merges_take_maps_alone() {
    let message = "`<<` takes a map or a list of maps";
    check("a: {<<: [1, 2]}\n", &format!("1:10: {message}"));
    check("a: {<<: [{k: 1}, [{k: 2}]]}\n", &format!("1:18: {message}"));
    check("a: {<<: 1}\n", &format!("1:5: {message}"));
    check("a: {<<: }\n", &format!("1:5: {message}"));
    check("a: &x [1]\nb: {<<: *x}\n", &format!("1:8: {message}"));
    check("a: {<<: []}\n", r#"{"a":{}}"#);
}

/// Remedies for a tag that is not known.
const CORE: &str = "only the tags of YAML's core schema are known, such as !!str";
const TEXT: &str = "put a text that begins with ! between quotes; known are tags such as !!str";

#[test]
fn tags_say_what_a_value_must_be() {
    check("a: !!str 1\nb: !!int \"2\"\n", r#"{"a":"1","b":2}"#);
    check("a: !!float 1\nb: !!bool 'true'\nc: !!null ''\n", r#"{"a":1.0,"b":true,"c":null}"#);
    check("a: ! 1\nb: ! {k: ! [1]}\n", r#"{"a":"1","b":{"k":[1]}}"#);
    check("a: !!map {}\nb: !!seq []\nc: !!str\n", r#"{"a":{},"b":[],"c":""}"#);
    check("!!str 1: a\n!!int 2: b\n", r#"{"1":"a","2":"b"}"#);
    check("!!str <<: {k: 1}\n", r#"{"<<":{"k":1}}"#);
    let misfit = |tag| {
        let help = "where text is meant, leave out the tag, or write !!str";
        format!("not a value of its tag `!!{tag}` ({help})")
    };
    check("a: !!int abc\n", &format!("1:10: {}", misfit("int")));
    check("a: !!bool yes\n", &format!("1:11: {}", misfit("bool")));
    check("!!int abc: 1\n", &format!("1:7: {}", misfit("int")));
    check("a: !!map 1\n", "1:10: the tag `!!map` does not fit a scalar");
    check("a: !!seq {}\n", "1:10: the tag `!!seq` does not fit a map");
    check("a: !!str [1]\n", "1:10: the tag `!!str` does not fit a list");
    let unknown = |tag: &str| {
        let help = if tag.starts_with("!!") { CORE } else { TEXT };
        format!("unknown tag `{tag}` ({help})")
    };
    check("a: !secret [x]\n", &format!("1:12: {}", unknown("!secret")));
    check("!secret a: x\n", &format!("1:9: {}", unknown("!secret")));
    check("a: !!set {x: }\n", &format!("1:10: {}", unknown("!!set")));
    check("!!merge <<: {k: 1}\n", &format!("1:9: {}", unknown("!!merge")));
    check("a: !ENV x\n", "1:9: unknown tag `!ENV` (write ${env:x})");
}

#[test]
fn quotes_take_every_character_of_json() {
    let all: String = ('\u{7f}'..='\u{9f}').chain(['\u{fffe}', '\u{ffff}', '\u{f0000}']).collect();
    for quote in ['"', '\''] {
        let node =
            read(&format!("{{{quote}k{all}{quote}: {quote}{all}{quote}, b: 1}}")).expect("YAML");
        assert_eq!(node.get(&format!("k{all}")).map(Node::to_value), Some(all.as_str().into()));
        let column = node.entries().nth(1).map(|(key, _)| key.place.column);
        assert_eq!(column, Some(2 * all.chars().count() as u32 + 11));
    }
    check("\"\\ud83d\\ude00\\/\"", "\"😀/\"");
    let message = "the character U+007F stands outside of quotes (quote the text)";
    check("a: b\u{7f}\n", &format!("1:4: {message}"));
    check("a\u{7f}: b\n", &format!("1:1: {message}"));
    check("a: |\n  b\u{7f}\n", &format!("2:3: {message}"));
    check("a: \"\u{1}\"\n", "1:5: unexpected character: `\\u{1}'");
}

#[test]
fn what_is_not_a_config_is_an_error_with_its_place() {
    check("a: 1\na: 2\n", "2:1: `a` is given twice (it was first given at line 1, column 1)");
    check("a: !secret x\n", &format!("1:12: unknown tag `!secret` ({TEXT})"));
    check("a: 1\n---\nb: 2\n", "2:1: a second document in one file (give it as a file of its own)");
    check("? [a]\n: 1\n", "1:3: a key must be a word, not a list or map");
    check(
        "a: *x\n",
        "1:4: while parsing node, found unknown anchor (put a text that begins with * between \
         quotes)",
    );
    check("a: [1\nb: 2\n", "2:2: illegal placement of ':' indicator");
    check("a: {b: 1\n", "1:4: unclosed bracket '{' (it has no end: close it)");
    check(
        "a: b: c\n",
        "1:5: mapping values are not allowed in this context (give all keys of a map the same \
         indent, and put a text that holds `: ` between quotes)",
    );
}

#[test]
fn depth_and_size_are_limited() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(read(&nested(DEPTH_MAX)).is_ok());
    assert!(read(&nested(DEPTH_MAX + 1)).is_err());
    assert!(read(&nested(100_000)).is_err());
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..10 {
        let last = format!("*a{}, ", level - 1);
        bomb.push_str(&format!("a{level}: &a{level} [{}]\n", last.repeat(10)));
    }
    assert!(read(&bomb).is_err_and(|errors| errors[0].message.contains("values")));
}

#[test]
fn each_value_knows_its_place() {
    let node = read("a:\n  b: [1, {c: 2}]\n").expect("YAML");
    let place = |node: &Node| (node.place.line, node.place.column);
    let a = node.get("a").expect("a");
    assert_eq!(place(a), (1, 1), "a map below its key stands at the key");
    let b = a.get("b").expect("b");
    assert_eq!(place(b), (2, 6));
    let NodeKind::List(items) = &b.kind else { panic!("a list") };
    assert_eq!(place(&items[0]), (2, 7));
    assert_eq!(items[1].entries().next().map(|(key, _)| key.place.column), Some(11));
}
