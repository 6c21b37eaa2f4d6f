//! CEL expressions in settings, with errors at their places.

use super::sources::ConfigSources;
use spanscore_base::settings::{Node, NodeKind, Place, SettingsError, meant_or_known, nearest};
use spanscore_base::value::Value;
use spanscore_evaluate::engine::select::{
    VARIABLES, When, WhenError, is_part_of_name, place_of_words,
};

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
    (&["service", "app", "application"], "service_name"),
    (&["version", "release"], r#"resource["service.version"]"#),
    (&["environment", "env", "stage"], r#"resource["deployment.environment.name"]"#),
    (&["model", "llm"], r#"attributes["gen_ai.request.model"]"#),
    (&["user"], r#"attributes["user.id"]"#),
    (&["agent"], "agent_name"),
    (&["session", "conversation"], "session_id"),
    (&["trace"], "trace_id"),
    (&["tool", "tools"], TOOLS),
    (&["input", "prompt", "question"], "user_input"),
    (&["output", "answer", "response"], "final_output"),
];
/// Words for amounts, which no name tells.
const AMOUNTS: &[&str] =
    &["duration", "latency", "latency_ms", "duration_ms", "cost", "tokens", "total_tokens"];
/// Remedy for amounts, and for numbers with a unit.
const OF_BUDGET: &str = "limits of time, tokens and cost are those of `tool_budget`";
/// Functions that other languages write as operators, and ours.
const INFIX: &[(&[&str], &str)] = &[
    (&["contains", "includes", "like"], "contains"),
    (&["startswith", "starts_with"], "startsWith"),
    (&["endswith", "ends_with"], "endsWith"),
    (&["matches", "regex"], "matches"),
];
/// Name of the list of tools.
const TOOLS: &str = "tool_names";
/// Functions of one text.
const TEXT_FUNCTIONS: [&str; 4] = ["contains", "startsWith", "endsWith", "matches"];
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
        Ok(when) => match valid_mistake(setting, text) {
            None => return Some(when),
            Some(mistake) => mistake,
        },
        Err(error) => describe(&error, setting, text),
    };
    let number = |value: usize| u32::try_from(value).unwrap_or(0);
    let (line, column) = told.at;
    let place: Place = sources.place_within(node.place, text, number(line), number(column));
    errors.push(SettingsError { message: told.message, help: told.help, place: Some(place) });
    None
}

/// Describes what is valid, but never does what is meant.
fn valid_mistake(setting: &str, text: &str) -> Option<ExpressionMistake> {
    if let Some((at, sign)) = list_asked_as_text(text) {
        let message = format!("`{sign}` in `{setting}` is of texts, `tool_names` is a list");
        let help = Some(format!("write `{}`", in_tools(sign, "\"NAME\"")));
        return Some(ExpressionMistake { message, help, at: line_and_column(text, at) });
    }
    let (at, written, meant) = dotted_attribute(text)?;
    let message = format!("`{written}` in `{setting}` asks for a map in an attribute");
    let help = Some(format!("write {meant}"));
    Some(ExpressionMistake { message, help, at: line_and_column(text, at) })
}

/// Finds a function or a comparison of texts on the list of tools, with its place: no list is equal
/// to a text.
fn list_asked_as_text(text: &str) -> Option<(usize, &'static str)> {
    let bare = without_texts(text);
    let is_part = |it: char| it.is_alphanumeric() || "_.".contains(it);
    let lists = bare.match_indices(TOOLS).map(|(at, _)| (at, at + TOOLS.len()));
    let mut own = lists.filter(|(at, _)| !bare[..*at].ends_with(is_part));
    own.find_map(|(_, end)| {
        if bare[end..].starts_with(".contains(") {
            return Some((end + 1, "contains"));
        }
        let rest = text[end..].trim_start();
        let sign = ["==", "!="].into_iter().find(|sign| rest.starts_with(sign))?;
        let is_text = rest[sign.len()..].trim_start().starts_with(['"', '\'']);
        is_text.then_some((text.len() - rest.len(), sign))
    })
}

/// Returns the search of the tools for one, in place of its comparison by a sign.
fn in_tools(sign: &str, tool: &str) -> String {
    if sign == "!=" { format!("!({tool} in {TOOLS})") } else { format!("{tool} in {TOOLS}") }
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

fn describe(error: &WhenError, setting: &str, text: &str) -> ExpressionMistake {
    let (message, help, word): (String, String, &str) = match error {
        WhenError::Syntax { line, column, message } => {
            return syntax(message, (line - 1, column - 1), setting, text);
        }
        WhenError::NoTruthValue { what } => (
            format!("`{setting}` gives {what}, neither true nor false"),
            "compare it, such as `service_name == \"shop\"`, or ask `size(...) > 0`".to_owned(),
            "",
        ),
        WhenError::PatternOfData => (
            format!("`matches` in `{setting}` takes a pattern written as a text"),
            "a pattern made of data would be compiled for each trace; compare with `==`, \
             `contains` or `in`"
                .to_owned(),
            "matches",
        ),
        WhenError::Pattern { message } => {
            let why = message.lines().last().unwrap_or_default();
            let message = format!("`matches` in `{setting}` takes a pattern: {why}");
            return ExpressionMistake { message, help: None, at: find_word(text, "matches") };
        }
        WhenError::NoAttribute => (
            format!("`json` in `{setting}` takes an attribute by its name"),
            "such as `json(attributes[\"metadata\"]).case`".to_owned(),
            "json",
        ),
        WhenError::OtherThanText { name } => (
            format!("`{name}` in `{setting}` is a text, compared with something else"),
            format!("write a text in quotes: `{name} == \"...\"`"),
            name.as_str(),
        ),
        WhenError::UnknownFunction { name } => {
            let here = ELSEWHERE.iter().find(|(words, _)| words.contains(&name.as_str()));
            let help = match here {
                Some((_, here)) => format!("write {here}"),
                None => meant_or_known(name, FUNCTIONS),
            };
            (format!("unknown function `{name}` in `{setting}`"), help, name)
        }
        WhenError::UnknownName { name } => {
            (format!("unknown name `{name}` in `{setting}`"), remedy_of_name(text, name), name)
        }
    };
    ExpressionMistake { message, help: Some(help), at: find_word(text, word) }
}

/// Returns the remedy for an unknown name: another one, or a text in quotes.
fn remedy_of_name(text: &str, name: &str) -> String {
    let signs: &[&str] = if text.contains(" in [") { &["[", ", "] } else { &[] };
    let mut signs = ["== ", "!= "].iter().chain(signs);
    let holds = |words: &str| place_of_words(text, words).is_some();
    let is_right = signs.any(|sign| holds(&[sign, name].concat()));
    let is_key = ["attributes", "resource"].iter().any(|map| holds(&format!("{map}[{name}]")));
    let is_left = holds(&format!("{name} in "));
    let part = text.split_once(&format!("{name}.")).map(|(_, rest)| first_name(rest));
    let part =
        part.filter(|part| ["trace", "span", "root"].contains(&name) && VARIABLES.contains(part));
    let is_dotted = |known: &&&str| known.contains('_') && holds(&known.replace('_', "."));
    let dotted = VARIABLES.iter().find(is_dotted).copied();
    match nearest(name, VARIABLES).or(dotted) {
        _ if ["None", "nil", "undefined", "NULL", "Null"].contains(&name) => {
            "write `null`; `has(attributes.NAME)` asks whether there is one".to_owned()
        }
        _ if ["True", "False", "TRUE", "FALSE"].contains(&name) => {
            format!("write `{}`", name.to_lowercase())
        }
        _ if AMOUNTS.contains(&name) => OF_BUDGET.to_owned(),
        _ if let Some(part) = part => format!("write `{part}`"),
        Some(meant) => format!("did you mean `{meant}`?"),
        None if is_right || is_key => format!("a text stands in quotes: \"{name}\""),
        None => match (remedy_after_in(text, name), meant(name)) {
            (Some(remedy), _) => remedy,
            (None, Some(TOOLS)) => format!("write `{}`", remedy_of_tools(text, name)),
            (None, Some(meant)) => remedy_of_meant(text, name, meant),
            (None, None) if is_left => format!("a text stands in quotes: \"{name}\""),
            (None, None) if text == name => format!("of an attribute write attributes[\"{name}\"]"),
            (None, None) => format!(
                "known are {}; of an attribute write attributes[\"{name}\"]",
                VARIABLES.join(", ")
            ),
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
    let sought = format!("{name} in ");
    let listed = place_of_words(text, &sought).map(|at| first_name(&text[at + sought.len()..]));
    match listed.filter(|word| !word.is_empty()) {
        Some(word) if !VARIABLES.contains(&word) => format!("write `{meant} in [\"{word}\"]`"),
        _ => format!("write `{meant}`"),
    }
}

/// Returns the expression of the tools for a word that stands for one of them, or for their list.
fn remedy_of_tools(text: &str, name: &str) -> String {
    let at = place_of_words(text, name).unwrap_or(0);
    let rest = text[at..].strip_prefix(name).unwrap_or_default().trim_start();
    if let Some(sign) = ["==", "!="].into_iter().find(|sign| rest.starts_with(sign)) {
        let tool = rest[sign.len()..].trim_start();
        let bare = first_name(tool);
        let tool =
            if bare.is_empty() { first_text(tool).to_owned() } else { format!("\"{bare}\"") };
        return in_tools(sign, if tool.is_empty() { "\"NAME\"" } else { &tool });
    }
    let function = rest.strip_prefix('.').map(first_name).unwrap_or_default();
    match function {
        "contains" => in_tools(function, "\"NAME\""),
        _ if TEXT_FUNCTIONS.contains(&function) => {
            format!("{TOOLS}.exists(it, it.{function}(\"...\"))")
        }
        _ if rest.starts_with("in ") => format!("{TOOLS}.exists(it, it in [\"NAME\"])"),
        _ => TOOLS.to_owned(),
    }
}

/// Returns the name at the start of a text.
fn first_name(text: &str) -> &str {
    &text[..text.find(|it: char| !is_part_of_name(it)).unwrap_or(text.len())]
}

/// Returns the text in quotes, with them, at the start of an expression.
fn first_text(text: &str) -> &str {
    let quote = text.chars().next().filter(|it| matches!(it, '"' | '\''));
    let end = quote.and_then(|quote| text[1..].find(quote));
    end.map_or("", |end| &text[..end + 2])
}

/// Returns the text in quotes, with them, at the end of an expression.
fn last_text(text: &str) -> Option<&str> {
    let quote = text.chars().next_back().filter(|it| matches!(it, '"' | '\''))?;
    Some(&text[text[..text.len() - 1].rfind(quote)?..])
}

/// Returns the remedy for an unknown name after `in`, where lists stand.
fn remedy_after_in(text: &str, name: &str) -> Option<String> {
    let before = &text[..place_of_words(text, &format!(" in {name}"))?];
    Some(match (last_text(before), meant(name)) {
        (Some(sought), Some(meant)) if meant != TOOLS => {
            format!("write `{meant}.contains({sought})`")
        }
        (Some(sought), _) => {
            format!("of the tools that were called write `{sought} in {TOOLS}`")
        }
        (None, _) => {
            let left = before.split_whitespace().next_back()?.trim_start_matches(['(', '!']);
            format!("write a list: {} in [\"{name}\"]", meant(left).unwrap_or(left))
        }
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
    let lower = word.to_lowercase();
    let sign = OPERATORS.iter().find(|(theirs, _)| *theirs == lower);
    let infix = INFIX.iter().find(|(theirs, _)| theirs.contains(&&*lower));
    let start = text.lines().nth(at.0).and_then(|line| line.get(..at.1)).unwrap_or_default();
    let before = start.split_whitespace().next_back();
    let help = match sign {
        _ if word == ">" && without_texts(text).contains("<>") => Some("write `!=`".to_owned()),
        // `5s`: a number with a unit.
        _ if word.starts_with(char::is_alphabetic)
            && start.ends_with(|it: char| it.is_ascii_digit()) =>
        {
            Some(OF_BUDGET.to_owned())
        }
        _ if word == "not" && text.contains(" not in ") => {
            Some("write `!(\"NAME\" in tool_names)`".to_owned())
        }
        Some((_, sign)) => Some(format!("write `{sign}`")),
        None if infix.is_some() && before == Some(TOOLS) => {
            Some(format!("write `{}`", in_tools("==", "\"NAME\"")))
        }
        None if let Some((_, ours)) = infix => {
            Some(format!("write `{}.{ours}(\"...\")`", before.unwrap_or("user_input")))
        }
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
    line_and_column(text, place_of_words(text, word).unwrap_or(0))
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
    use super::{dotted_attribute, list_asked_as_text, remedy_of_name, single_equals, syntax};

    #[test]
    fn single_equals_is_found_outside_of_texts() {
        assert_eq!(single_equals(r#"service_name = "shop""#), Some(13));
        assert_eq!(single_equals(r#"a == "x = y" && b != 'z=' && c <= 1 && d >= 2"#), None);
        assert_eq!(single_equals(r#"a == "\" =" "#), None);
    }

    #[test]
    fn remedy_of_a_name_is_of_its_place() {
        let check = |text: &str, name: &str, expected: &str| {
            assert_eq!(remedy_of_name(text, name), expected, "{text}");
        };
        check(r#"tool == "search""#, "tool", r#"write `"search" in tool_names`"#);
        check("tool != search", "tool", r#"write `!("search" in tool_names)`"#);
        let starts = r#"write `tool_names.exists(it, it.startsWith("..."))`"#;
        check(r#"tool.startsWith("s")"#, "tool", starts);
        check(r#"tool in ["a"]"#, "tool", r#"write `tool_names.exists(it, it in ["NAME"])`"#);
        check("size(tools) > 2", "tools", "write `tool_names`");
        check(r#"app == "shop""#, "app", "write `service_name`");
        let contains = r#"write `user_input.contains("a refund")`"#;
        check(r#"!("a refund" in input)"#, "input", contains);
        let in_tools = r#"of the tools that were called write `"x" in tool_names`"#;
        check(r#""x" in tools"#, "tools", in_tools);
        check(r#""x" in calls"#, "calls", in_tools);
        check(
            r#"a == "b" && env == production"#,
            "env",
            r#"write `resource["deployment.environment.name"]`"#,
        );
        check(r#"user == "a" && x == users"#, "user", r#"write `attributes["user.id"]`"#);
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
        let asked = |text: &str| list_asked_as_text(text).map(|(_, sign)| sign);
        assert_eq!(asked(r#"a == "it's" && tool_names.contains("x")"#), Some("contains"));
        assert_eq!(asked(r#"a == "\"tool_names.contains(""#), None);
        assert_eq!(asked(r#"it.tool_names == "x" || tool_names == ["x"]"#), None);
        assert_eq!(asked(r#"tool_names ==["x"] && tool_names!= 'x'"#), Some("!="));
        let told = |text: &str| syntax("unexpected end", (0, 0), "when", text).message;
        assert_eq!(told(r#"a =~ "x""#), "`when` is not valid CEL: `=~`");
        assert_eq!(told(r#"a == "=~" &&"#), "`when` is not valid CEL: unexpected end");
    }
}
