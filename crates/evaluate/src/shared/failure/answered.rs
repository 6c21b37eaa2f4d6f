//! Commands that answer by their exit code: `grep` that finds nothing ends with 1, `diff` that
//! finds a difference, and `test` whose condition does not hold.

use spanscore_base::model::{Content, ToolCall, WorkBudget};
use spanscore_base::value::{Map, Value};

/// Arguments that hold a command.
const COMMANDS: [&str; 5] = ["command", "cmd", "script", "commands", "commandLine"];
/// Programs whose exit code 1 is an answer; those of `git` by their second word.
const ANSWERING: [&str; 13] = [
    "grep", "egrep", "fgrep", "zgrep", "rg", "ag", "ack", "pgrep", "diff", "cmp", "test", "[", "[[",
];
const ANSWERING_IN_GIT: [&str; 2] = ["grep", "diff"];
/// Words before the program that run it.
const RUNNERS: [&str; 5] = ["sudo", "command", "time", "env", "!"];
/// Fields of the exit code, and of what a program says of failures.
const CODES: [&str; 7] =
    ["exit_code", "exitCode", "returncode", "return_code", "exit_status", "exit", "rc"];
const COMPLAINTS: [&str; 3] = ["stderr", "error", "message"];
/// Fields that hold the output as a text.
const OUTPUTS: [&str; 4] = ["content", "output", "stdout", "text"];
/// Bytes of a command and of a result that are read; of a longer one it is not told.
const READ_BYTES_MAX: usize = 64 * 1024;
/// Bytes between the word `exit` and its number.
const BETWEEN_BYTES_MAX: usize = 24;
/// Steps to read a byte.
const STEPS_PER_BYTE: usize = 2;

/// Returns true if the command of a call answered by its exit code 1, and nothing else speaks of a
/// failure; `is_failure` judges the rest of its output.
pub(super) fn by_exit_code(
    call: &ToolCall<'_>,
    effort: &WorkBudget,
    is_failure: impl Fn(&str) -> bool,
) -> bool {
    let Some(command) = call.arguments.value().and_then(command) else { return false };
    let fits =
        |text: &str| text.len() <= READ_BYTES_MAX && effort.spend(text.len() * STEPS_PER_BYTE);
    if !fits(command) || !answers(last_command(command)) {
        return false;
    }
    let answered = |text: &str| {
        fits(text) && rest_of_one(text).is_some_and(|rest| rest.is_empty() || !is_failure(&rest))
    };
    match (&call.result, call.error.as_deref()) {
        (Content::Recorded(result), _) => match result.get() {
            Value::Map(map) if CODES.iter().any(|key| map.get(key).is_some()) => {
                ended_with_one(map)
            }
            Value::String(text) => answered(text),
            other => output(other).is_some_and(answered),
        },
        (_, Some(error)) => answered(error),
        _ => false,
    }
}

/// Returns the command among the arguments; of a shell that is given one, that.
fn command<'v>(arguments: &'v Value<'_>) -> Option<&'v str> {
    let map = arguments.as_map()?;
    match COMMANDS.iter().find_map(|key| map.get(key))? {
        Value::String(text) => Some(text),
        Value::List(words) => words.last()?.as_str(),
        _ => None,
    }
}

/// Returns the last of the commands that a line joins: its exit code is that of the line.
fn last_command(line: &str) -> &str {
    let mut quote = None;
    let mut from = 0;
    let mut is_escaped = false;
    let line = line.trim_end_matches([';', '\n', ' ', '\t']);
    for (at, c) in line.char_indices() {
        match (quote, c) {
            _ if is_escaped => {}
            (Some(open), _) if c == open => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, ';' | '|' | '&' | '\n') => from = at + 1,
            _ => {}
        }
        is_escaped = c == '\\' && !is_escaped && quote != Some('\'');
    }
    &line[from..]
}

fn answers(command: &str) -> bool {
    let mut words = command.split_whitespace().skip_while(|word| {
        RUNNERS.contains(word) || word.contains('=') && !word.starts_with(['[', '-'])
    });
    let program = words.next().unwrap_or_default();
    let program = program.rsplit('/').next().unwrap_or(program);
    ANSWERING.contains(&program)
        || program == "git"
            && words
                .find(|word| !word.starts_with('-'))
                .is_some_and(|word| ANSWERING_IN_GIT.contains(&word))
}

/// Returns true if fields say exit code 1, and no complaint.
fn ended_with_one(map: &Map<'_>) -> bool {
    let is_blank = |value: &Value<'_>| match value {
        Value::Null => true,
        Value::String(text) => text.trim().is_empty(),
        _ => false,
    };
    let code = CODES.iter().find_map(|key| map.get(key));
    let is_one = code.is_some_and(|code| match code {
        Value::String(text) => text.trim() == "1",
        code => code.as_number().is_some_and(|code| code.as_f64() == 1.0),
    });
    is_one && COMPLAINTS.iter().filter_map(|key| map.get(key)).all(is_blank)
}

/// Returns the text of an output: a field of it, or the only block of a list.
fn output<'v>(value: &'v Value<'_>) -> Option<&'v str> {
    match value {
        Value::String(text) => Some(text),
        Value::Map(map) => output(OUTPUTS.iter().find_map(|key| map.get(key))?),
        Value::List(blocks) => match &blocks[..] {
            [block] => output(block),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the lines of a text but the one that tells exit code 1; `None` where none does.
fn rest_of_one(text: &str) -> Option<String> {
    let tells_one = |line: &&str| {
        let line = line.to_ascii_lowercase();
        line.match_indices("exit").any(|(at, word)| {
            let behind = &line[at + word.len()..];
            let digits = behind.find(|c: char| c.is_ascii_digit());
            digits.filter(|digits| *digits <= BETWEEN_BYTES_MAX).is_some_and(|digits| {
                let number = &behind[digits..];
                let end = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
                &number[..end] == "1" && !behind[..digits].ends_with('-')
            })
        })
    };
    text.lines().any(|line| tells_one(&line)).then(|| {
        let rest: Vec<&str> = text.lines().filter(|line| !tells_one(line)).collect();
        rest.join("\n").trim().trim_matches(['(', ')']).trim_start_matches("no output").to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(command: &'static str, result: &str, expected: bool) {
        let arguments = Map::from([("command", Value::from(command))]);
        let result = spanscore_base::value::json::parse(result).unwrap_or_default();
        let call = ToolCall {
            arguments: Content::ready(Value::Map(arguments)),
            result: Content::ready(result.into_owned()),
            ..ToolCall::default()
        };
        let is_failure = |rest: &str| rest.contains("rror");
        let found = by_exit_code(&call, &WorkBudget::default(), is_failure);
        assert_eq!(found, expected, "{command}");
    }

    #[test]
    fn a_search_without_a_finding_is_an_answer() {
        const ONE: &str = r#""(no output)\n\nCommand exited with code 1""#;
        const FIELDS: &str = r#"{"stdout": "< a", "stderr": "", "exit_code": 1}"#;
        check(r#"grep -r "a|b" ."#, ONE, true);
        check("cd src && ls | rg -i x", ONE, true);
        check("ls; LANG=C sudo /usr/bin/grep x y;\n", r#""Exit code 1""#, true);
        check("diff a b", FIELDS, true);
        check("git -P diff --exit-code", FIELDS, true);
        check("[ -f a ]", r#"{"content": [{"type": "text", "text": "[exit:1]"}]}"#, true);
        check("grep x y | sort", ONE, false);
        check("make test", ONE, false);
        check("git push", FIELDS, false);
        check("echo 'a; grep b'", ONE, false);
        check("grep [ x", r#"{"stderr": "grep: brackets", "exit_code": 2}"#, false);
        check("grep x y", r#"{"stderr": "grep: y: no file", "exit_code": 1}"#, false);
        check("grep x y", r#""Error: shell is gone\nexit code 1""#, false);
        check("grep x y", r#""exit code 127""#, false);
    }
}
