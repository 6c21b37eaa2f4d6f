//! Rules for the lines of one file: first words of comments, bound values, choices by a bool,
//! clocks and I/O, imports between folders of a crate.

use crate::source::{Source, closing};
use crate::words::{skip_space, words};

/// First words that say nothing of the thing that they are about.
const QUESTIONS: [&str; 9] =
    ["What", "Whether", "Where", "How", "Which", "Who", "Whose", "When", "Why"];

/// Tags of blocks in docs that are Rust; others are of another language.
const RUST: [&str; 5] = ["rust", "no_run", "should_panic", "ignore", "compile_fail"];

/// Code that reads a clock or does I/O; imports that would hide it.
const IMPURE: [&str; 14] = [
    "SystemTime::now", "Instant::now", "std::fs", "std::net::Tcp", "std::net::Udp", "std::env",
    "std::process", "std::thread", "std::*", "std::{", "std as ", "std::time::*", "std::net::*",
    "tokio::",
];

/// Folders of a crate with the modules of it that they may not name, so that no circle forms.
const APART: [(&str, &[&str]); 10] = [
    ("crates/evaluate/src/shared/", &["compat", "engine", "external", "judged", "kinds"]),
    ("crates/evaluate/src/external/", &["compat", "engine", "judged", "kinds", "shared"]),
    ("crates/evaluate/src/judged/", &["compat", "engine", "external", "kinds"]),
    ("crates/evaluate/src/compat/", &["engine", "external", "judged", "kinds"]),
    ("crates/evaluate/src/kinds/", &["asked", "engine"]),
    ("crates/extract/src/decode", &["dialect", "record", "resolve", "suggest", "table"]),
    ("crates/extract/src/dialect", &["record", "resolve", "suggest", "table"]),
    ("crates/extract/src/table/", &["decode", "record", "resolve", "suggest"]),
    ("crates/extract/src/record/", &["decode", "resolve", "suggest"]),
    ("crates/extract/src/resolve/", &["suggest"]),
];

/// Returns the paragraphs of heads and docs that begin with a question word.
pub(crate) fn questions(source: &Source) -> Vec<String> {
    let mut found = Vec::new();
    let mut before = "";
    for (at, line) in source.lines() {
        let line = line.trim_start();
        for mark in ["//!", "///"] {
            let Some(text) = line.strip_prefix(mark) else { continue };
            let first = text.split_whitespace().next().unwrap_or_default();
            let is_continued = before.starts_with(mark) && before != mark;
            if !is_continued && QUESTIONS.contains(&first) {
                found.push(format!("{}:{at}: begins with `{first}`", source.path));
            }
        }
        before = line;
    }
    found
}

/// Returns the blocks of docs that are Rust: code, which a test of docs runs.
pub(crate) fn examples(source: &Source) -> Vec<String> {
    let fence = |(at, line)| {
        let line = str::trim_start(line);
        let text = ["//!", "///"].iter().find_map(|mark| line.strip_prefix(mark))?.trim();
        text.starts_with("```").then_some((at, text))
    };
    // Each second one ends a block.
    let blocks = source.lines().filter_map(fence).step_by(2);
    let is_code = |text: &str| {
        let mut tags = text.trim_start_matches('`').split([',', ' ']).map(str::trim);
        tags.all(|tag| tag.is_empty() || RUST.contains(&tag))
    };
    let code = blocks.filter(|(_, text)| is_code(text));
    code.map(|(at, _)| format!("{}:{at}: an example that is not run", source.path)).collect()
}

/// Returns the tuples of values that a `let` takes apart, but for swaps.
pub(crate) fn tuples(source: &Source) -> Vec<String> {
    let bare = &source.bare;
    let group = |at: usize| {
        let end = bare[at..].starts_with('(').then(|| closing(bare.as_bytes(), at))??;
        Some((parts(&bare[at + 1..end]), skip_space(bare, end + 1)))
    };
    let is_tuple = |at: &usize| {
        let (names, next) = group(skip_space(bare, at + 3))?;
        let values = skip_space(bare, next + bare[next..].starts_with('=').then_some(1)?);
        let (values, end) = group(values)?;
        let is_swap = values.iter().all(|value| names.contains(value));
        Some(names.len() > 1 && !is_swap && bare[end..].starts_with(';'))
    };
    let lets = words(bare, "let").into_iter().filter(|at| !source.is_test(*at));
    let tuples = lets.filter(|at| is_tuple(at) == Some(true));
    tuples.map(|at| format!("{}:{}: a tuple of values", source.path, source.line_of(at))).collect()
}

/// Returns the parts of a list, those of inner lists whole.
fn parts(list: &str) -> Vec<&str> {
    let mut depth = 0_i32;
    let split = list.split(|c| {
        depth += i32::from("([{".contains(c)) - i32::from(")]}".contains(c));
        c == ',' && depth == 0
    });
    split.map(str::trim).filter(|part| !part.is_empty()).collect()
}

/// Returns the arms of matches on a bool.
pub(crate) fn bools(source: &Source) -> Vec<String> {
    let arms = ["true =>", "false =>", "true if ", "false if "];
    let found = source
        .code()
        .filter(|(_, line)| arms.iter().any(|arm| line.trim_start().starts_with(arm)))
        .map(|(at, _)| format!("{}:{at}: a match on a bool", source.path));
    found.collect()
}

/// Returns the places that read a clock or do I/O, or import what does.
pub(crate) fn impure(source: &Source) -> Vec<String> {
    let mut found = Vec::new();
    for (at, line) in source.code() {
        let impure = IMPURE.iter().find(|word| line.contains(*word));
        found.extend(impure.map(|word| format!("{}:{at}: {word}", source.path)));
    }
    found
}

/// Returns the names of modules that a folder must not know.
pub(crate) fn arrows(source: &Source) -> Vec<String> {
    let apart = APART.iter().find(|(folder, _)| source.path.starts_with(folder));
    let forbidden = apart.map_or(&[][..], |(_, names)| names);
    let mut found = Vec::new();
    for (at, line) in source.code() {
        for name in forbidden {
            let is_named = |path: String| !words(line, &path).is_empty();
            if is_named(format!("crate::{name}")) || line.contains("use crate::{") {
                found.push(format!("{}:{at}: names `{name}`", source.path));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Holds that a rule finds each text of a file, and none of the others.
    fn check(rule: fn(&Source) -> Vec<String>, path: &str, bad: &[&str], good: &[&str]) {
        for text in bad {
            assert_eq!(rule(&Source::new(path, text)).len(), 1, "{text}");
        }
        for text in good {
            assert_eq!(rule(&Source::new(path, text)), [""; 0], "{text}");
        }
    }

    #[test]
    fn paragraphs_that_begin_with_a_question_word_are_found() {
        let bad = [
            "//! What it is.",
            "    /// Whether it is.",
            "/// A.\n///\n/// When so.",
            "/// # Errors\n///\n/// Why not.",
        ];
        let good =
            ["/// A thing.\n/// What follows is a line of it.", "// What a note.", "/// Whatever."];
        check(questions, "src/a.rs", &bad, &good);
    }

    #[test]
    fn blocks_of_code_in_docs_are_found() {
        let text = "/// ```text\n/// a\n/// ```\n";
        let second = format!("{text}/// ```rust\n/// ```");
        let bad = [
            "//! ```\n//! f();\n//! ```",
            "    /// ```no_run\n    /// ```",
            &second,
            "/// ```rust,ignore\n/// ```",
        ];
        let good = [text, "// ```\n// a\n// ```", "/// ```json\n/// {}\n/// ```"];
        check(examples, "src/a.rs", &bad, &good);
    }

    #[test]
    fn tuples_of_values_are_found_however_they_are_laid_out() {
        let bad = [
            "let (a, b) = (x.len(), f(y).g());",
            "let (a, mut b) =\n    (x, [1, 2]);",
            "let (\n    a,\n    (b, c),\n) = (\n    x,\n    y,\n);",
        ];
        let good = [
            "let (a, b) = f(x, y);",
            "let (a, b) = (b, a);",
            "let (a, b) = (x, y).max();",
            "let (Some(a), Some(b)) = (x, y) else { return };",
            "let a = (x, y);",
            "#[cfg(test)]\nmod tests { fn f() { let (a, b) = (1, 2); } }",
        ];
        check(tuples, "src/a.rs", &bad, &good);
    }

    #[test]
    fn matches_on_a_bool_are_found() {
        check(bools, "src/a.rs", &["  true => 1,", "false if a => 1,"], &["Some(true) => 1,"]);
    }

    #[test]
    fn clocks_and_io_are_found_in_every_spelling() {
        let bad = [
            "use std::{fs, io};", "use std as s;", "use std::time::*;", "Instant::now();",
            "use std::fs::File;",
        ];
        check(impure, "src/a.rs", &bad, &["use std::time::Duration;", "use std::net::IpAddr;"]);
    }

    #[test]
    fn folders_that_are_apart_do_not_name_each_other() {
        let path = "crates/extract/src/record/a.rs";
        check(
            arrows,
            path,
            &["use crate::resolve::A;"],
            &["use crate::table::A;", "crate::resolved()"],
        );
        assert_eq!(arrows(&Source::new(path, "use crate::{resolve, table};")).len(), 3);
    }
}
