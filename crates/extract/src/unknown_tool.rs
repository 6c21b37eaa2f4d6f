//! Detection of status messages about tools that do not exist.
//!
//! Some frameworks create no span for a call of a missing tool and give the model no result.
//! Instead the turn fails with the status `Tool not found: {'tool_name': 'nope'}`.

use memchr::memmem;

/// Bytes read of a status message: it names the failed tool at the start.
const MESSAGE_BYTES_MAX: usize = 512;

/// Phrases for "does not exist", in lower case.
const DOES_NOT_EXIST: [&str; 9] = [
    "not found", "unknown", "does not exist", "doesn't exist", "no such", "not registered",
    "not available", "unavailable", "not a valid",
];

/// Returns true if a status message states that a tool does not exist.
pub(super) fn is_reported(message: &[u8]) -> bool {
    if message.is_empty() {
        return false;
    }
    let small = beginning(message).to_ascii_lowercase();
    let says = |words: &str| memmem::find(&small, words.as_bytes()).is_some();
    (says("tool") || says("function")) && DOES_NOT_EXIST.iter().any(|words| says(words))
}

/// Returns true if a message about an unknown tool names this one.
pub(super) fn is_named(message: &str, tool: &str) -> bool {
    if tool.is_empty() {
        return false;
    }
    let message = beginning(message.as_bytes());
    let part_of_name = |byte: Option<&u8>| {
        byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
    };
    memmem::find_iter(message, tool.as_bytes()).any(|at| {
        let before = at.checked_sub(1).and_then(|at| message.get(at));
        !part_of_name(before) && !part_of_name(message.get(at + tool.len()))
    })
}

fn beginning(message: &[u8]) -> &[u8] {
    &message[..message.len().min(MESSAGE_BYTES_MAX)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_about_unknown_tools_are_told_from_others() {
        for message in ["Tool not found: {'tool_name': 'nope'}", "Unknown function: nope"] {
            assert!(is_reported(message.as_bytes()), "{message}");
            assert!(is_named(message, "nope"), "{message}");
            assert!(!is_named(message, "no"), "{message}");
        }
        for message in ["", "timed out", "tool failed", "page not found"] {
            assert!(!is_reported(message.as_bytes()), "{message}");
        }
    }
}
