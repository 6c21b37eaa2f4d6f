//! Names in messages about something that does not exist: the called tool, or what it looked for.

/// Bytes of a message that are read: what does not exist is named at its beginning.
const MESSAGE_BYTES_MAX: usize = 512;
/// Words behind which the name of a tool stands.
const KINDS: [&str; 6] = ["tool", "tools", "function", "functions", "action", "actions"];
/// Words between such a word and the name.
const BETWEEN: [&str; 6] = ["with", "name", "named", "called", "call", "the"];
/// Words that name nothing.
const EMPTY: [&str; 16] = [
    "not",
    "is",
    "was",
    "were",
    "does",
    "doesn't",
    "could",
    "cannot",
    "can't",
    "error",
    "available",
    "unavailable",
    "unknown",
    "found",
    "registered",
    "that",
];

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

/// Returns the first thing that a message names.
fn named(message: &str) -> Option<&str> {
    let is_of_name = |c: char| c.is_alphanumeric() || "_.:/-\'".contains(c);
    let words = message.split(|c: char| !is_of_name(c));
    let words = words.map(|word| word.trim_matches(|c: char| !c.is_alphanumeric() && c != '_'));
    let mut words = words.filter(|word| !word.is_empty());
    words.find(|word| KINDS.contains(word))?;
    let name = words.find(|word| !BETWEEN.contains(word))?;
    (!EMPTY.contains(&name)).then_some(name)
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
        ] {
            assert_eq!(names_another(message, called), another, "{message}");
        }
    }
}
