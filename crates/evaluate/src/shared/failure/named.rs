//! Subject of messages about something that does not exist: the called tool, or an object it
//! sought.

/// Bytes read of a message: it names its subject at the start.
const MESSAGE_BYTES_MAX: usize = 512;
/// Words before the name of a tool.
const KINDS: [&str; 6] = ["tool", "tools", "function", "functions", "action", "actions"];
/// Words between such a word and the name.
const BETWEEN: [&str; 6] = ["with", "name", "named", "called", "call", "the"];
/// Words that state the absence of the preceding subject.
const ABSENCE: [&str; 15] = [
    "not", "is", "isn't", "was", "wasn't", "were", "does", "doesn't", "don't", "could", "couldn't",
    "cannot", "can't", "unknown", "unavailable",
];
/// Stop words.
const EMPTY: [&str; 12] = [
    "that", "which", "this", "it", "itself", "you", "requested", "specified", "given", "found",
    "available", "error",
];
/// Characters that end a phrase.
const ENDS: [char; 8] = [',', '.', ';', '!', '?', '\n', '{', '}'];
/// Opening quotation marks.
const QUOTES: [char; 5] = ['"', '\'', '`', '\u{2018}', '\u{201c}'];

/// Returns true if a message names a tool, function or action other than the called one.
pub(super) fn names_another(message: &str, called: &str) -> bool {
    let start = &message[..message.floor_char_boundary(MESSAGE_BYTES_MAX)].to_lowercase();
    let called = called.to_lowercase();
    if called.is_empty() || start.contains(&called) {
        return false;
    }
    // A server's prefix may be part of only one of the names: `mcp__shop__search`.
    named(start).is_some_and(|name| !called.contains(name))
}

/// Returns the tool, function or action named in a message: after such a word and either quoted or
/// spelt unlike a word, or directly before the words of absence.
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

/// Takes the next word of a text; returns the text before it too.
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
