//! CEL expressions in settings, with their mistakes shown at their places.

use super::sources::ConfigSources;
use spanscore_base::settings::{Node, NodeKind, Place, SettingsError, nearest};
use spanscore_base::value::Value;
use spanscore_evaluate::engine::select::{VARIABLES, When, WhenError};

/// Longest expression, bytes.
const EXPRESSION_BYTES_MAX: usize = 8_192;

/// Compiles the expression of a setting; a mistake is placed at the character within it.
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
    let (message, help, line, column) = match compiled {
        Ok(when) => return Some(when),
        Err(WhenError::NoTruthValue { what }) => {
            let message = format!("`{setting}` gives {what}, neither true nor false");
            let help = "compare it, such as `service_name == \"shop\"`, or ask `size(...) > 0`";
            (message, Some(help.to_owned()), 0, 0)
        }
        Err(WhenError::Syntax { .. }) if single_equals(text).is_some() => {
            let at = single_equals(text).unwrap_or_default();
            let (line, column) = line_and_column(text, at);
            let message = format!("`{setting}` is not valid CEL: a single `=`");
            (message, Some("write `==` to compare".to_owned()), line, column)
        }
        Err(WhenError::Syntax { line, column, message }) => {
            // The parser lists the tokens that it expected: of no use to people.
            let message = message.split(" expecting ").next().unwrap_or_default();
            let message = message
                .trim_start_matches("Syntax error: ")
                .replace("mismatched input", "unexpected")
                .replace("extraneous input", "unexpected")
                .replace("'<EOF>'", "end");
            (format!("`{setting}` is not valid CEL: {message}"), None, line - 1, column - 1)
        }
        Err(WhenError::PatternOfData) => {
            let (line, column) = find_word(text, "matches");
            let message = format!("`matches` in `{setting}` takes a pattern written as a text");
            let help = "a pattern made of data would be compiled for each trace; compare with \
                        `==`, `contains` or `in`";
            (message, Some(help.to_owned()), line, column)
        }
        Err(WhenError::Pattern { message }) => {
            let (line, column) = find_word(text, "matches");
            let why = message.lines().last().unwrap_or_default().to_owned();
            (format!("`matches` in `{setting}` takes a pattern: {why}"), None, line, column)
        }
        Err(WhenError::NoAttribute) => no_attribute(setting, text),
        Err(WhenError::UnknownName { name }) => {
            let (line, column) = find_word(text, &name);
            let help = match nearest(&name, VARIABLES) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!("known are {}", VARIABLES.join(", ")),
            };
            (format!("unknown name `{name}` in `{setting}`"), Some(help), line, column)
        }
    };
    let number = |value: usize| u32::try_from(value).unwrap_or(0);
    let place: Place = sources.place_within(node.place, text, number(line), number(column));
    errors.push(SettingsError { message, help, place: Some(place) });
    None
}

/// Describes a call of `json` on something else than an attribute, with its line and column.
fn no_attribute(setting: &str, text: &str) -> (String, Option<String>, usize, usize) {
    let (line, column) = find_word(text, "json");
    let help = "such as `json(attributes[\"metadata\"]).case`".to_owned();
    (format!("`json` in `{setting}` takes an attribute by its name"), Some(help), line, column)
}

/// Returns line and column, from 0, of the first occurrence of a word.
fn find_word(text: &str, word: &str) -> (usize, usize) {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let found = text.match_indices(word).find(|(at, _)| {
        !text[..*at].ends_with(is_part) && !text[at + word.len()..].starts_with(is_part)
    });
    line_and_column(text, found.map_or(0, |(at, _)| at))
}

/// Returns line and column, from 0, of a place in a text.
fn line_and_column(text: &str, at: usize) -> (usize, usize) {
    let before = &text[..at];
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    (before.matches('\n').count(), before[line_start..].chars().count())
}

/// Finds a single `=` outside of texts: in other languages that compares.
fn single_equals(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut quote = None;
    let mut at = 0;
    while at < bytes.len() {
        match (quote, bytes[at]) {
            (Some(_), b'\\') => at += 1,
            (Some(open), byte) if byte == open => quote = None,
            (Some(_), _) => {}
            (None, byte @ (b'"' | b'\'')) => quote = Some(byte),
            (None, b'=') => {
                let before = at.checked_sub(1).map(|before| bytes[before]);
                let is_alone = !matches!(before, Some(b'=' | b'!' | b'<' | b'>'))
                    && bytes.get(at + 1) != Some(&b'=');
                if is_alone {
                    return Some(at);
                }
            }
            (None, _) => {}
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::single_equals;

    #[test]
    fn single_equals_is_found_outside_of_texts() {
        assert_eq!(single_equals(r#"service_name = "shop""#), Some(13));
        assert_eq!(single_equals(r#"a == "x = y" && b != 'z=' && c <= 1 && d >= 2"#), None);
        assert_eq!(single_equals(r#"a == "\" =" "#), None);
    }
}
