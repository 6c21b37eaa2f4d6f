//! Replies parsed as in Dokimos, for `compat: dokimos`: lenient JSON, its counting, and a score of
//! 0 for an unreadable reply (`dokimos-dev/dokimos`, August 2026).

use std::sync::LazyLock;

use regex::Regex;

use super::form::scored;
use super::question::QuestionItem;
use super::reply::lenient::strict;
use crate::inquiry::{AnsweredItem, JudgeAnswer, JudgeAnswers};
use spanscore_base::value::{Value, json};

/// Form of the reply requested by Dokimos.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DokimosReply {
    /// Object with `tasks`: the number `completed`, of this total.
    Tasks(usize),
    /// List of calls: the number `grounded`, of this total.
    Calls(usize),
    /// Flags of 0 or 1 by tool.
    Flags,
}

impl DokimosReply {
    /// Returns the last line of the prompt, which requests the form.
    pub(super) fn closing(self) -> &'static str {
        match self {
            Self::Tasks(_) => {
                "Judge each task from the record. Reply with JSON only, no markdown: \
                 {\"tasks\": [{\"task\": \"...\", \"completed\": true or false, \"reason\": \
                 \"...\"}]}, one entry for each task."
            }
            Self::Calls(_) => {
                "Judge each call. Reply with a JSON list only, no markdown: [{\"toolName\": \
                 \"...\", \"grounded\": true or false, \"reason\": \"...\"}], one entry for each \
                 statement."
            }
            Self::Flags => {
                "Reply with one JSON object a line for each tool, no markdown: first \"tool\" with \
                 its number, then one flag for each of its statements, by the name in brackets, 1 \
                 where it holds and 0 where it does not."
            }
        }
    }
}

/// Parses a reply; an unreadable one counts as in Dokimos.
pub(super) fn read(wanted: DokimosReply, reply: &str, asked: &[&QuestionItem]) -> JudgeAnswers {
    let (key, count, list) = match wanted {
        DokimosReply::Flags => return flags(reply, asked),
        DokimosReply::Tasks(count) => ("completed", count, tasks(reply)),
        DokimosReply::Calls(count) => ("grounded", count, calls(reply)),
    };
    match list {
        Ok(list) => {
            let is_true = |entry: &&Value<'_>| entry.get(key) == Some(&Value::Bool(true));
            let held = list.iter().filter(is_true).count();
            let score = (held as f64 / count as f64).min(1.0);
            scored(score, false, &format!("{held} of {count}"))
        }
        Err(reason) => scored(0.0, false, reason),
    }
}

fn tasks(reply: &str) -> Result<Vec<Value<'static>>, &'static str> {
    const UNREADABLE: &str = "failed to parse the judge's reply";
    let value = first_value(reply).ok_or(UNREADABLE)?;
    let map = value.as_map().ok_or(UNREADABLE)?;
    match map.get("tasks") {
        None | Some(Value::Null) => Err("the judge's reply has no `tasks`"),
        Some(tasks) => objects(tasks).ok_or(UNREADABLE),
    }
}

fn calls(reply: &str) -> Result<Vec<Value<'static>>, &'static str> {
    let value = first_value(reply);
    value.as_ref().and_then(objects).ok_or("failed to parse the judge's reply")
}

fn objects(value: &Value<'static>) -> Option<Vec<Value<'static>>> {
    let list = value.as_list()?;
    list.iter().all(|entry| entry.as_map().is_some()).then(|| list.to_vec())
}

/// Parses the flags of each tool. A reply without tool names applies to every tool.
fn flags(reply: &str, asked: &[&QuestionItem]) -> JudgeAnswers {
    static TOOL: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r#""tool"[ \t\r\n]*:[ \t\r\n]*([0-9]{1,6})"#).ok());
    let text = without_fences(reply);
    let mut sections: Vec<(usize, &str)> = Vec::new();
    if let Some(tool) = &*TOOL {
        let starts: Vec<(usize, usize)> = tool
            .captures_iter(text)
            .filter_map(|found| Some((found[1].parse().ok()?, found.get(0)?.start())))
            .collect();
        for (at, (number, start)) in starts.iter().enumerate() {
            let end = starts.get(at + 1).map_or(text.len(), |(_, next)| *next);
            sections.push((*number, &text[*start..end]));
        }
    }
    let section = |number: usize| {
        if sections.is_empty() {
            text
        } else {
            sections.iter().find(|(own, _)| *own == number).map_or("", |(_, text)| text)
        }
    };
    let items = asked.iter().map(|item| {
        let holds = item.flag.is_some_and(|(tool, key)| flag(section(tool), key));
        let answer = if holds { JudgeAnswer::Yes } else { JudgeAnswer::No };
        AnsweredItem { answer, cites: Vec::new(), reason: String::new(), overturned: None }
    });
    JudgeAnswers { items: items.collect(), ..JudgeAnswers::default() }
}

/// Returns true if the first `"key": 0` or `1` in a text is a 1.
fn flag(text: &str, key: &str) -> bool {
    let quoted = format!("\"{key}\"");
    let white = |text: &'_ str| -> usize {
        text.len() - text.trim_start_matches([' ', '\t', '\n', '\r', '\x0b', '\x0c']).len()
    };
    let values = text.match_indices(&quoted).filter_map(|(at, _)| {
        let rest = &text[at + quoted.len()..];
        let rest = rest[white(rest)..].strip_prefix(':')?;
        let rest = &rest[white(rest)..];
        rest.chars().next().filter(|c| matches!(c, '0' | '1'))
    });
    values.into_iter().next() == Some('1')
}

fn without_fences(reply: &str) -> &str {
    let text = reply.trim();
    let text = text.strip_prefix("```json").or_else(|| text.strip_prefix("```")).unwrap_or(text);
    text.strip_suffix("```").unwrap_or(text).trim()
}

/// Parses the first value between the first opening bracket and the last matching one.
fn first_value(reply: &str) -> Option<Value<'static>> {
    let text = without_fences(reply);
    let start = text.find(['{', '['])?;
    let closer = if text[start..].starts_with('{') { '}' } else { ']' };
    let end = text.rfind(closer).filter(|end| *end > start)?;
    let strict = strict(&text[start..=end])?;
    json::parse(&strict).ok().map(Value::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(reply: &str, expected: Option<&str>) {
        let found = first_value(reply).map(|value| value.to_string());
        assert_eq!(found.as_deref(), expected, "{reply}");
    }

    #[test]
    fn lenient_replies_are_read_as_there() {
        check("```json\n{\"a\": 1,}\n```", Some(r#"{"a":1}"#));
        check(
            "Sure: {'a': 'it\\'s', b-c: [1, 2,], } // done }",
            Some(r#"{"a":"it's","b-c":[1,2]}"#),
        );
        check("{/* x */ \"a\": \"line\nbreak\"}", Some("{\"a\":\"line\\nbreak\"}"));
        check("{\"a\":1} }", Some(r#"{"a":1}"#));
        check("[1]: {\"a\":1}", Some("[1]"));
        check("Note []: [{}]", Some("[]"));
        check("{\"a\":1,\"a\":2}", Some(r#"{"a":2}"#));
        for refused in [
            "", "prose", "[1,,2]", "[,1]", "{\"a\":True}", "[NaN]", "[01]", "[.5]", "[\"\\d\"]",
            "{,}", "{\"a\" 1}", "[1", "# x\n[a]",
        ] {
            check(refused, None);
        }
    }

    #[test]
    fn flags_are_found_by_their_first_value() {
        assert!(flag("{\"a\" :\n1}", "a") && flag("{\"a\":10}", "a"));
        assert!(!flag("{\"a\":true}", "a") && !flag("{\"a\":0,\"a\":1}", "a"));
        assert!(!flag("{'a':1}", "a") && !flag("{\"b\":1}", "a"));
        assert!(flag("{\"a\":true, \"a\":1}", "a"));
    }
}
