//! CEL expressions in settings, with errors at their places.

use super::sources::ConfigSources;
use spanscore_base::settings::{Node, NodeKind, Place, SettingsError, meant_or_known, nearest};
use spanscore_base::value::Value;
use spanscore_evaluate::engine::select::{VARIABLES, When, WhenError};

/// Longest expression, bytes.
const EXPRESSION_BYTES_MAX: usize = 8_192;

/// Functions and macros listed in a help.
const FUNCTIONS: &[&str] = &[
    "size", "contains", "startsWith", "endsWith", "matches", "exists", "all", "filter", "map",
    "has", "json", "int", "double", "string",
];
/// Functions of other languages, and their equivalents.
const ELSEWHERE: &[(&[&str], &str)] = &[
    (&["len", "length", "count"], "`size(...)`"),
    (&["lower", "upper", "toLower", "toLowerCase", "lowerAscii"], "`matches(\"(?i)...\")`"),
    (&["not"], "`!`"),
    (&["any", "some"], "`exists(it, ...)`"),
];
/// Operators of other languages, and their equivalents in CEL.
const OPERATORS: &[(&str, &str)] = &[
    ("and", "&&"),
    ("or", "||"),
    ("not", "!"),
    ("is", "=="),
    ("eq", "=="),
    ("ne", "!="),
    ("=", "=="),
    ("&", "&&"),
    ("|", "||"),
];
/// Words for what a trace tells, and the expressions that tell it.
const MEANT: &[(&[&str], &str)] = &[
    (&["service", "app", "application"], r#"resource["service.name"]"#),
    (&["version", "release"], r#"resource["service.version"]"#),
    (&["environment", "env", "stage"], r#"resource["deployment.environment.name"]"#),
    (&["model", "llm"], r#"attributes["gen_ai.request.model"]"#),
    (&["user"], r#"attributes["user.id"]"#),
    (&["agent"], "agent_name"),
    (&["session", "conversation"], "session_id"),
    (&["trace"], "trace_id"),
    (&["tool", "tools"], "tool_names"),
    (&["input", "prompt", "question"], "user_input"),
    (&["output", "answer", "response"], "final_output"),
];
/// Beginnings of names that conventions give attributes, by the variable that holds those: no
/// attribute has such a name alone, as nobody sends a map of it.
const NAMESPACES: [(&str, &[&str]); 2] = [
    ("attributes", &["gen_ai", "openinference", "traceloop"]),
    ("resource", &["service", "telemetry", "deployment", "k8s"]),
];

/// Compiles the expression of a setting; an error is placed at the character within it.
pub(super) fn compile(
    setting: &str,
    node: &Node,
    sources: &ConfigSources,
    errors: &mut Vec<SettingsError>,
) -> Option<When> {
    let NodeKind::Scalar(Value::String(text)) = &node.kind else { return None };
    if text.len() > EXPRESSION_BYTES_MAX {
        let message = format!("`{setting}` is longer than {EXPRESSION_BYTES_MAX} bytes");
        errors.push(SettingsError::new(message).at(node.place));
        return None;
    }
    let compiled = match setting {
        "when" => When::compile_condition(text),
        "run_if" => When::compile_run_if(text),
        _ => When::compile(text),
    };
    let told = match compiled {
        Ok(_) if asks_list_for_text(text) => {
            let message = format!("`contains` in `{setting}` is of texts, `tool_names` is a list");
            let help = "write `\"NAME\" in tool_names`".to_owned();
            ExpressionMistake { message, help: Some(help), at: find_word(text, "contains") }
        }
        Ok(when) => match dotted_attribute(text) {
            None => return Some(when),
            Some((at, written, meant)) => ExpressionMistake {
                message: format!("`{written}` in `{setting}` asks for a map in an attribute"),
                help: Some(format!("write {meant}")),
                at: line_and_column(text, at),
            },
        },
        Err(error) => describe(error, setting, text),
    };
    let number = |value: usize| u32::try_from(value).unwrap_or(0);
    let (line, column) = told.at;
    let place: Place = sources.place_within(node.place, text, number(line), number(column));
    errors.push(SettingsError { message: told.message, help: told.help, place: Some(place) });
    None
}

/// Returns true if an expression calls `contains` on the list of tools, which is valid but never
/// true.
fn asks_list_for_text(text: &str) -> bool {
    let text = without_texts(text);
    text.match_indices("tool_names.contains(")
        .any(|(at, _)| !text[..at].ends_with(|it: char| it.is_alphanumeric() || "_.".contains(it)))
}

/// Finds an attribute name whose dots are read as field accesses, which never exist:
/// `attributes.gen_ai.system`. Returns its place, itself, and the intended access to an attribute
/// or a map.
fn dotted_attribute(text: &str) -> Option<(usize, String, String)> {
    let text = without_texts(text);
    let is_part = |it: char| it.is_alphanumeric() || "_.".contains(it);
    NAMESPACES.into_iter().find_map(|(map, namespaces)| {
        text.match_indices(map).find_map(|(at, _)| {
            let rest = text[at + map.len()..].strip_prefix('.')?;
            let name = &rest[..rest.find(|it| !is_part(it)).unwrap_or(rest.len())];
            let is_call = rest[name.len()..].starts_with('(');
            // The last word of a call is a function.
            let name = if is_call { name.rsplit_once('.')?.0 } else { name };
            let (first, part) = name.split_once('.')?;
            let is_alone = !text[..at].ends_with(is_part);
            (is_alone && namespaces.contains(&first)).then(|| {
                let meant = format!("`{map}[\"{name}\"]`; of a map, `{map}[\"{first}\"].{part}`");
                (at, format!("{map}.{name}"), meant)
            })
        })
    })
}

/// Error in an expression, with its line and column there, from 0.
struct ExpressionMistake {
    message: String,
    help: Option<String>,
    at: (usize, usize),
}

fn describe(error: WhenError, setting: &str, text: &str) -> ExpressionMistake {
    match error {
        WhenError::NoTruthValue { what } => ExpressionMistake {
            message: format!("`{setting}` gives {what}, neither true nor false"),
            help: Some(
                "compare it, such as `service_name == \"shop\"`, or ask `size(...) > 0`".into(),
            ),
            at: (0, 0),
        },
        WhenError::Syntax { line, column, message } => {
            syntax(&message, (line - 1, column - 1), setting, text)
        }
        WhenError::PatternOfData => ExpressionMistake {
            message: format!("`matches` in `{setting}` takes a pattern written as a text"),
            help: Some(
                "a pattern made of data would be compiled for each trace; compare with `==`, \
                 `contains` or `in`"
                    .into(),
            ),
            at: find_word(text, "matches"),
        },
        WhenError::Pattern { message } => {
            let why = message.lines().last().unwrap_or_default();
            let message = format!("`matches` in `{setting}` takes a pattern: {why}");
            ExpressionMistake { message, help: None, at: find_word(text, "matches") }
        }
        WhenError::NoAttribute => ExpressionMistake {
            message: format!("`json` in `{setting}` takes an attribute by its name"),
            help: Some("such as `json(attributes[\"metadata\"]).case`".into()),
            at: find_word(text, "json"),
        },
        WhenError::OtherThanText { name } => ExpressionMistake {
            message: format!("`{name}` in `{setting}` is a text, compared with something else"),
            help: Some(format!("write a text in quotes: `{name} == \"...\"`")),
            at: find_word(text, &name),
        },
        WhenError::UnknownFunction { name } => {
            let here = ELSEWHERE.iter().find(|(words, _)| words.contains(&&*name));
            let help = match here {
                Some((_, here)) => format!("write {here}"),
                None => meant_or_known(&name, FUNCTIONS),
            };
            let message = format!("unknown function `{name}` in `{setting}`");
            ExpressionMistake { message, help: Some(help), at: find_word(text, &name) }
        }
        WhenError::UnknownName { name } => {
            let message = format!("unknown name `{name}` in `{setting}`");
            let help = Some(remedy_of_name(text, &name));
            ExpressionMistake { message, help, at: find_word(text, &name) }
        }
    }
}

/// Returns the remedy for an unknown name: another one, or a text in quotes.
fn remedy_of_name(text: &str, name: &str) -> String {
    let signs: &[&str] = if text.contains(" in [") { &["[", ", "] } else { &[] };
    let mut signs = ["== ", "!= "].iter().chain(signs);
    let is_right = signs.any(|sign| text.contains(&[sign, name].concat()));
    let is_left = text.contains(&format!("{name} in "));
    let is_dotted = |known: &&&str| known.contains('_') && text.contains(&known.replace('_', "."));
    let dotted = VARIABLES.iter().find(is_dotted).copied();
    match nearest(name, VARIABLES).or(dotted) {
        _ if ["None", "nil", "undefined", "NULL", "Null"].contains(&name) => {
            "write `null`; `has(attributes.NAME)` asks whether there is one".to_owned()
        }
        _ if ["True", "False", "TRUE", "FALSE"].contains(&name) => {
            format!("write `{}`", name.to_lowercase())
        }
        Some(meant) => format!("did you mean `{meant}`?"),
        None if is_right => format!("a text stands in quotes: \"{name}\""),
        None => match (remedy_after_in(text, name), meant(name)) {
            (Some(remedy), _) => remedy,
            (None, Some(meant)) => remedy_of_meant(text, name, meant),
            (None, None) if is_left => format!("a text stands in quotes: \"{name}\""),
            (None, None) if text == name => format!("of an attribute write attributes[\"{name}\"]"),
            (None, None) => format!("known are {}", VARIABLES.join(", ")),
        },
    }
}

/// Returns the expression that is meant by a word.
fn meant(word: &str) -> Option<&'static str> {
    let known = MEANT.iter().find(|(words, _)| words.contains(&word));
    known.map(|(_, expression)| *expression)
}

/// Returns the remedy for a word of what a trace tells, with the list that stands behind `in`.
fn remedy_of_meant(text: &str, name: &str, meant: &str) -> String {
    let listed = text.split_once(&format!("{name} in ")).map(|(_, list)| list);
    let end = |list: &str| list.find(|it: char| !is_part_of_name(it)).unwrap_or(list.len());
    match listed.map(|list| &list[..end(list)]).filter(|word| !word.is_empty()) {
        Some(word) if !VARIABLES.contains(&word) => format!("write `{meant} in [\"{word}\"]`"),
        _ => format!("write `{meant}`"),
    }
}

fn is_part_of_name(sign: char) -> bool {
    sign.is_alphanumeric() || sign == '_'
}

/// Returns the remedy for an unknown name after `in`, where lists stand.
fn remedy_after_in(text: &str, name: &str) -> Option<String> {
    let sought = format!(" in {name}");
    let is_whole = |at: &usize| !text[at + sought.len()..].starts_with(is_part_of_name);
    let at = text.match_indices(&sought).map(|(at, _)| at).find(is_whole)?;
    let left = text[..at].split_whitespace().next_back()?.trim_start_matches(['(', '!']);
    Some(if left.ends_with(['"', '\'']) {
        "of the tools that were called write `\"...\" in tool_names`".to_owned()
    } else {
        format!("write a list: {} in [\"{name}\"]", meant(left).unwrap_or(left))
    })
}

/// Quotes of word processors.
const TYPOGRAPHIC: [char; 4] = ['\u{2018}', '\u{2019}', '\u{201c}', '\u{201d}'];

/// Describes a syntax error, without the parser's list of expected tokens, which does not help
/// people.
fn syntax(message: &str, at: (usize, usize), setting: &str, text: &str) -> ExpressionMistake {
    if let Some(matches) = without_texts(text).find("=~") {
        let message = format!("`{setting}` is not valid CEL: `=~`");
        let help = Some("write `NAME.matches(\"PATTERN\")`".to_owned());
        return ExpressionMistake { message, help, at: line_and_column(text, matches) };
    }
    if let Some(equals) = single_equals(text) {
        let message = format!("`{setting}` is not valid CEL: a single `=`");
        let help = Some("write `==` to compare".to_owned());
        return ExpressionMistake { message, help, at: line_and_column(text, equals) };
    }
    let message = message.split(" expecting ").next().unwrap_or_default();
    let message = message
        .trim_start_matches("Syntax error: ")
        .replace("mismatched input", "unexpected")
        .replace("extraneous input", "unexpected")
        .replace("'<EOF>'", "end");
    let word = message.split('\'').nth(1).unwrap_or_default().trim();
    let sign = OPERATORS.iter().find(|(theirs, _)| *theirs == word);
    let help = match sign {
        _ if word == "not" && text.contains(" not in ") => {
            Some("write `!(\"NAME\" in tool_names)`".to_owned())
        }
        Some((_, sign)) => Some(format!("write `{sign}`")),
        None if text.contains("{{") || text.contains("${") => {
            Some("a name stands without braces: `service_name == \"shop\"`".to_owned())
        }
        None if text.contains(TYPOGRAPHIC) => Some("write plain quotes: \" or '".to_owned()),
        None => None,
    };
    ExpressionMistake { message: format!("`{setting}` is not valid CEL: {message}"), help, at }
}

/// Returns line and column, from 0, of the first occurrence of a word.
fn find_word(text: &str, word: &str) -> (usize, usize) {
    let found = text.match_indices(word).find(|(at, _)| {
        !text[..*at].ends_with(is_part_of_name)
            && !text[at + word.len()..].starts_with(is_part_of_name)
    });
    line_and_column(text, found.map_or(0, |(at, _)| at))
}

/// Returns line and column, from 0, of an index in a text.
fn line_and_column(text: &str, at: usize) -> (usize, usize) {
    let before = &text[..at];
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    (before.matches('\n').count(), before[line_start..].chars().count())
}

/// Finds a single `=` outside of strings, the comparison of other languages.
fn single_equals(text: &str) -> Option<usize> {
    let text = without_texts(text);
    let mut places = text.match_indices('=').map(|(at, _)| at);
    places
        .find(|at| !text[..*at].ends_with(['=', '!', '<', '>']) && !text[at + 1..].starts_with('='))
}

/// Returns an expression with its strings replaced by as many spaces as bytes.
fn without_texts(text: &str) -> String {
    let mut quote = None;
    let mut is_escaped = false;
    let mut rest = String::with_capacity(text.len());
    for sign in text.chars() {
        match quote {
            Some(_) if std::mem::take(&mut is_escaped) => {}
            Some(_) if sign == '\\' => is_escaped = true,
            Some(open) if sign == open => quote = None,
            Some(_) => {}
            None if matches!(sign, '"' | '\'') => quote = Some(sign),
            None => {
                rest.push(sign);
                continue;
            }
        }
        rest.extend(std::iter::repeat_n(' ', sign.len_utf8()));
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::{asks_list_for_text, dotted_attribute, single_equals, syntax};

    #[test]
    fn single_equals_is_found_outside_of_texts() {
        assert_eq!(single_equals(r#"service_name = "shop""#), Some(13));
        assert_eq!(single_equals(r#"a == "x = y" && b != 'z=' && c <= 1 && d >= 2"#), None);
        assert_eq!(single_equals(r#"a == "\" =" "#), None);
    }

    #[test]
    fn mistakes_are_found_outside_of_texts() {
        let dotted = |text: &str| dotted_attribute(text).map(|(at, _, meant)| (at, meant));
        let both = |map: &str, first: &str, part: &str| {
            format!("`{map}[\"{first}.{part}\"]`; of a map, `{map}[\"{first}\"].{part}`")
        };
        let meant = both("attributes", "gen_ai", "agent.name");
        let found = dotted(r#""it's" == attributes.gen_ai.agent.name"#);
        assert_eq!(found, Some((10, meant)));
        let meant = both("resource", "service", "name");
        assert_eq!(dotted(r#"resource.service.name == "a""#), Some((0, meant)));
        assert_eq!(dotted(r#"attributes.llm.model == "a""#), None);
        assert_eq!(dotted(r#"a == "\"attributes.gen_ai.system\"""#), None);
        assert!(asks_list_for_text(r#"a == "it's" && tool_names.contains("x")"#));
        assert!(!asks_list_for_text(r#"a == "\"tool_names.contains(""#));
        let told = |text: &str| syntax("unexpected end", (0, 0), "when", text).message;
        assert_eq!(told(r#"a =~ "x""#), "`when` is not valid CEL: `=~`");
        assert_eq!(told(r#"a == "=~" &&"#), "`when` is not valid CEL: unexpected end");
    }
}
