//! Names in messages about something that does not exist: the called tool, or what it looked for.

/// Bytes of a message that are read: what does not exist is named at its beginning.
const MESSAGE_BYTES_MAX: usize = 512;
/// Words behind which the name of a tool stands.
const KINDS: [&str; 6] = ["tool", "tools", "function", "functions", "action", "actions"];
/// Words between such a word and the name.
const BETWEEN: [&str; 6] = ["with", "name", "named", "called", "call", "the"];
/// Words that say that what stands before them does not exist.
const ABSENCE: [&str; 15] = [
    "not", "is", "isn't", "was", "wasn't", "were", "does", "doesn't", "don't", "could", "couldn't",
    "cannot", "can't", "unknown", "unavailable",
];
/// Other words that name nothing.
const EMPTY: [&str; 12] = [
    "that", "which", "this", "it", "itself", "you", "requested", "specified", "given", "found",
    "available", "error",
];
/// Signs that end what a word belongs to.
const ENDS: [char; 8] = [',', '.', ';', '!', '?', '\n', '{', '}'];
/// Signs around names.
const QUOTES: [char; 5] = ['"', '\'', '`', '\u{2018}', '\u{201c}'];

/// Returns true if a message names a tool, function or action, and not the one that was called.
pub(super) fn names_another(message: &str, called: &str) -> bool {
    let start = &message[..message.floor_char_boundary(MESSAGE_BYTES_MAX)].to_lowercase();
    let called = called.to_lowercase();
    if called.is_empty() || start.contains(&called) {
        return false;
    }
    // A server's prefix is part of the name here and not there: `mcp__shop__search`.
    named(start).is_some_and(|name| !called.contains(name))
}

/// Returns the tool, function or action that a message names: behind such a word, and quoted, or
/// written as no word is, or directly before the words of absence.
fn named(message: &str) -> Option<&str> {
    let mut rest = message;
    while !KINDS.contains(&next_word(&mut rest)?.1) {}
    let (gap, name) = loop {
        let (gap, word) = next_word(&mut rest)?;
        if gap.contains(ENDS) {
            return None;
        }
        if !BETWEEN.contains(&word) {
            break (gap, word);
        }
    };
    let is_marked = gap.ends_with(QUOTES) || name.contains(['_', '.', ':', '/']);
    let is_absent = |word: &str| ABSENCE.contains(&word);
    let mut is_before_absence = || next_word(&mut rest).is_some_and(|(_, word)| is_absent(word));
    let is_empty = is_absent(name) || EMPTY.contains(&name);
    (!is_empty && (is_marked || is_before_absence())).then_some(name)
}

/// Takes the next word off a text; returns it behind what stands before it.
fn next_word<'m>(rest: &mut &'m str) -> Option<(&'m str, &'m str)> {
    let is_core = |c: char| c.is_alphanumeric() || c == '_';
    let (gap, tail) = rest.split_at(rest.find(is_core)?);
    let end = tail.find(|c| !is_core(c) && !".:/-'".contains(c)).unwrap_or(tail.len());
    let word = tail[..end].trim_end_matches(|c| !is_core(c));
    *rest = &tail[word.len()..];
    Some((gap, word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_not_the_tool_s_is_what_it_looked_for() {
        for (message, called, another) in [
            ("Tool `nope` not found", "nope", false),
            ("Error: function search not found", "mcp__shop__search", false),
            ("Unknown tool: shop.search", "shop.search", false),
            ("Tool not found", "nope", false),
            ("No such tool available.", "nope", false),
            ("Tool nop not found. Use one of: nope", "nope", false),
            ("nope is not a valid tool, try one of [search]", "nope", false),
            ("Function main not found in a.out", "disassemble", true),
            ("the function \'parse\' does not exist", "edit", true),
            ("No action named Deploy was registered", "run_workflow", true),
            ("Function \"main\" not found", "disassemble", true),
            ("Unknown function: core.parse", "edit", true),
            ("Error: Function call request for a function that wasn't defined.", "nope", false),
            ("There is no tool by that name", "nope", false),
            ("No tool exists with the given name", "nope", false),
            ("the model tried to call a tool which does not exist", "nope", false),
            ("The tool you requested does not exist", "nope", false),
            ("The tool requested is not available", "nope", false),
            ("No such tool. `search` is one", "nope", false),
            (r#"{"error":"Unknown tool","status":"failed"}"#, "nope", false),
            (r#"{"tool":"not found"}"#, "nope", false),
        ] {
            assert_eq!(names_another(message, called), another, "{message}");
        }
    }
}
