//! Commands that answer by their exit code: `grep` that finds nothing ends with 1, `diff` that
//! finds a difference, and `test` whose condition does not hold.

use std::borrow::Cow;

use spanscore_base::model::{Content, ToolCall, WorkBudget};
use spanscore_base::value::{Map, Value};

/// Arguments that hold a command.
const COMMANDS: [&str; 5] = ["command", "cmd", "script", LIST_OF_COMMANDS, "commandLine"];
/// The one of them that may list several.
const LIST_OF_COMMANDS: &str = "commands";
/// Programs whose exit code 1 is an answer; those of `git` by their second word.
const ANSWERING: [&str; 13] = [
    "grep", "egrep", "fgrep", "zgrep", "rg", "ag", "ack", "pgrep", "diff", "cmp", "test", "[", "[[",
];
const ANSWERING_IN_GIT: [&str; 2] = ["grep", "diff"];
/// Options of `git` before its second word whose value is a word of its own.
const VALUED_IN_GIT: [&str; 5] = ["-C", "-c", "--git-dir", "--work-tree", "--namespace"];
/// Programs that read a command from the word behind `-c`.
const SHELLS: [&str; 6] = ["sh", "bash", "zsh", "dash", "ksh", "ash"];
/// Characters between the commands of a line.
const BETWEEN: [char; 4] = [';', '|', '&', '\n'];
/// Signs of two of them.
const JOINERS: [&str; 3] = ["&&", "||", "|&"];
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
/// Words of a command that is given as a list; of a longer one it is not told.
const WORDS_MAX: usize = 1024;
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
    if !fits(&command) || !last_command(&command).is_some_and(answers) {
        return false;
    }
    let answered = |text: &str| {
        fits(text) && rest_of_one(text).is_some_and(|rest| rest.is_empty() || !is_failure(&rest))
    };
    let error = call.error.as_deref();
    if error.is_some_and(|error| !error.trim().is_empty() && !answered(error)) {
        return false;
    }
    match &call.result {
        Content::Recorded(result) => match result.get() {
            Value::Map(map) if CODES.iter().any(|key| map.get(key).is_some()) => {
                let is_quiet = |text: &str| {
                    let rest =
                        fits(text).then(|| rest_of_one(text).unwrap_or_else(|| text.to_owned()));
                    rest.is_some_and(|rest| rest.trim().is_empty() || !is_failure(&rest))
                };
                let mut outputs = OUTPUTS.iter().filter_map(|key| output(map.get(key)?));
                ended_with_one(map) && outputs.all(is_quiet)
            }
            Value::String(text) => answered(text),
            other => output(other).is_some_and(answered),
        },
        _ => error.is_some_and(answered),
    }
}

/// Returns the command among the arguments, as a line; of a shell that is given one, that.
fn command<'v>(arguments: &'v Value<'_>) -> Option<Cow<'v, str>> {
    let map = arguments.as_map()?;
    let words = match COMMANDS.iter().find_map(|key| map.get(key))? {
        Value::String(text) => return Some(Cow::Borrowed(text)),
        Value::List(words) if words.len() <= WORDS_MAX => words,
        _ => return None,
    };
    let words: Vec<&str> = words.iter().map(Value::as_str).collect::<Option<_>>()?;
    if let [line] = words[..] {
        return Some(Cow::Borrowed(line));
    }
    if words.first().is_some_and(|program| SHELLS.contains(&base_name(program))) {
        let is_flag = |word: &&str| word.starts_with('-') && word.ends_with('c');
        let line = words.iter().skip_while(|word| !is_flag(word)).nth(1)?;
        return Some(Cow::Borrowed(line));
    }
    // Several commands: of those before the last it is not told how they ended.
    if map.get(LIST_OF_COMMANDS).is_some() {
        return Some(Cow::Owned(words.join(" && ")));
    }
    // A word is no line, whatever it holds.
    let is_plain = |word: &&str| !word.contains(['"', '\'']) && !word.contains(BETWEEN);
    let is_joiner = |word: &str| word.chars().all(|c| BETWEEN.contains(&c));
    let words: Vec<&str> =
        words.into_iter().filter(|word| is_plain(word) || is_joiner(word)).collect();
    Some(Cow::Owned(words.join(" ")))
}

fn base_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// Returns the last of the commands that a line joins, if an exit code of the line other than 0 is
/// its own: behind `&&` it may be that of a command before, unless that only changes the folder.
fn last_command(line: &str) -> Option<&str> {
    let mut rest = line.trim_end_matches([';', '\n', ' ', '\t']);
    let mut is_own = true;
    while let Some((before, joiner, behind)) = split(rest) {
        rest = behind;
        let mut words = before.trim_start_matches([' ', '(']).split_whitespace();
        is_own = match (words.next(), joiner) {
            // A line that goes on behind its joiner.
            (None, _) | (_, "|" | "|&") => is_own,
            (program, "&&") => is_own && program == Some("cd"),
            _ => true,
        };
    }
    is_own.then_some(rest)
}

/// Splits a line at its first joiner of commands.
fn split(line: &str) -> Option<(&str, &str, &str)> {
    let mut quote = None;
    let mut is_escaped = false;
    let mut before = ' ';
    for (at, c) in line.char_indices() {
        let behind = &line[at..];
        match (quote, c) {
            _ if is_escaped => {}
            (Some(open), _) if c == open => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            // Of a redirection: `2>&1`, `&>file`.
            (None, '&') if matches!(before, '>' | '<') || behind.starts_with("&>") => {}
            (None, _) if BETWEEN.contains(&c) => {
                let long = JOINERS.iter().find(|joiner| behind.starts_with(**joiner));
                let (joiner, behind) = behind.split_at(long.map_or(1, |joiner| joiner.len()));
                return Some((&line[..at], joiner, behind));
            }
            _ => {}
        }
        is_escaped = c == '\\' && !is_escaped && quote != Some('\'');
        before = c;
    }
    None
}

fn answers(command: &str) -> bool {
    let mut words = command.split_whitespace().skip_while(|word| {
        RUNNERS.contains(word) || word.contains('=') && !word.starts_with(['[', '-'])
    });
    let program = base_name(words.next().unwrap_or_default());
    ANSWERING.contains(&program) || program == "git" && answers_in_git(words)
}

fn answers_in_git<'w>(mut words: impl Iterator<Item = &'w str>) -> bool {
    while let Some(word) = words.next() {
        if VALUED_IN_GIT.contains(&word) {
            words.next();
        } else if !word.starts_with('-') {
            return ANSWERING_IN_GIT.contains(&word);
        }
    }
    false
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
    let is_set = |key| map.get(key).and_then(Value::as_bool) == Some(true);
    is_one && !is_set("isError") && COMPLAINTS.iter().filter_map(|key| map.get(key)).all(is_blank)
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
        check_with_error(command, result, None, expected);
    }

    /// A command that is JSON stands for its value.
    fn check_with_error(
        command: &'static str,
        result: &str,
        error: Option<&'static str>,
        expected: bool,
    ) {
        let parse = spanscore_base::value::json::parse;
        let given = parse(command).map_or(Value::from(command), Value::into_owned);
        let arguments = Map::from([("command", given)]);
        let result = parse(result).unwrap_or_default();
        let call = ToolCall {
            arguments: Content::ready(Value::Map(arguments)),
            result: Content::ready(result.into_owned()),
            error: error.map(Cow::Borrowed),
            ..ToolCall::default()
        };
        let is_failure = |rest: &str| rest.contains("rror") || rest.contains("failing");
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

    #[test]
    fn an_exit_code_that_another_command_may_have_given_is_no_answer() {
        const ONE: &str = r#""exit code 1""#;
        check("npm test && git diff", ONE, false);
        check("npm test &&\n git diff", ONE, false);
        check("npm test && ls | grep x", ONE, false);
        check("cd a && npm test && cd b && git diff", ONE, false);
        check("(cd a && cd b && grep x y)", ONE, true);
        check("npm test || git diff", ONE, true);
        check("npm test && ls; git diff", ONE, true);
        check("git diff", r#"{"exit_code": 1, "stdout": "3 failing"}"#, false);
        check("git diff", r#"{"exit_code": 1, "output": "exit code: 1"}"#, true);
    }

    #[test]
    fn a_command_is_read_as_a_shell_does() {
        const ONE: &str = r#""exit code 1""#;
        check("grep x y 2>&1", ONE, true);
        check("grep x y &>/dev/null", ONE, true);
        check("make 2>&1 & grep x y", ONE, true);
        check("git -C dir --no-pager diff", ONE, true);
        check("git -C diff push", ONE, false);
        check(r#"["grep", "a|b", "file"]"#, ONE, true);
        check(r#"["make", "grep"]"#, ONE, false);
        check(r#"["echo", "a; grep b"]"#, ONE, false);
        check(r#"["/bin/bash", "-lc", "cd a && grep x y", "zero"]"#, ONE, true);
        check(r#"["bash", "grep x"]"#, ONE, false);
    }

    #[test]
    fn an_error_beside_the_exit_code_is_no_answer() {
        const ONE: &str = r#"{"exit_code": 1, "stderr": ""}"#;
        check_with_error("grep x y", ONE, Some("timed out after 60s"), false);
        check_with_error("grep x y", ONE, Some(" "), true);
        check_with_error("grep x y", ONE, Some("exit status 1"), true);
        check("grep x y", r#"{"exit_code": 1, "isError": true}"#, false);
    }
}
