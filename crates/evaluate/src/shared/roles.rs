//! Roles of tools, derived from the words of their names.

/// Tools that only record the model's thoughts, in letters only.
const THINKING: [&str; 15] = [
    "think", "thinking", "thinktool", "thought", "thoughts", "sequentialthinking", "scratchpad",
    "reflect", "reflection", "reason", "reasoning", "todowrite", "todoread", "writetodos",
    "updateplan",
];
/// Words of a hand-over, then its recipients.
const HANDS_OVER: [&str; 7] =
    ["transfer", "escalate", "forward", "route", "connect", "contact", "refer"];
const PEOPLE: [&str; 12] = [
    "human", "humans", "agent", "agents", "person", "operator", "support", "supervisor",
    "representative", "specialist", "staff", "manager",
];
/// Words of a question to a person, then its recipients, then its objects.
const ASKS: [&str; 4] = ["ask", "prompt", "consult", "await"];
const ASKED: [&str; 6] = ["user", "human", "customer", "person", "operator", "question"];
const REQUESTS: [&str; 3] = ["request", "get", "wait"];
const REPLIES: [&str; 6] =
    ["clarification", "confirmation", "approval", "input", "feedback", "help"];
/// Words of tools that look up or compute something without changes.
const LOOKS: [&str; 32] = [
    "get", "find", "search", "list", "read", "fetch", "lookup", "look", "query", "check", "view",
    "browse", "open", "show", "describe", "retrieve", "grep", "cat", "cd", "ls", "glob", "scan",
    "inspect", "verify", "poll", "watch", "monitor", "status", "calculate", "calculator",
    "compute", "convert",
];

/// Words of tools that poll a job.
const WATCHES: [&str; 15] = [
    "check", "describe", "fetch", "get", "inspect", "list", "monitor", "poll", "progress", "read",
    "show", "status", "view", "wait", "watch",
];
/// Words of tools that change something, even with other words in the name: `create_poll`.
const CHANGES: [&str; 54] = [
    "add", "append", "apply", "approve", "archive", "assign", "buy", "cancel", "clear", "close",
    "confirm", "create", "delete", "deploy", "disable", "drop", "edit", "enable", "execute",
    "insert", "install", "launch", "make", "merge", "modify", "move", "open", "patch", "pay",
    "post", "publish", "put", "refund", "register", "remove", "rename", "replace", "reset",
    "restart", "save", "schedule", "send", "set", "start", "stop", "submit", "subscribe", "toggle",
    "transfer", "trigger", "update", "upload", "upsert", "write",
];

/// Further words of tools that act, besides [`CHANGES`].
const ACTS: [&str; 22] = [
    "bash", "book", "call", "charge", "checkout", "deposit", "email", "exchange", "exec", "invoke",
    "issue", "login", "notify", "order", "python", "reserve", "return", "run", "shell", "sign",
    "terminal", "withdraw",
];

/// First words of tools that create something.
const MAKES: [&str; 12] = [
    "add", "create", "export", "generate", "insert", "make", "mkdir", "new", "register", "save",
    "touch", "write",
];

/// First words of tools that search.
const FINDS: [&str; 4] = ["find", "glob", "grep", "search"];

/// Words without information about action or object.
const BETWEEN: [&str; 11] =
    ["a", "and", "by", "for", "from", "in", "of", "on", "the", "to", "with"];

/// Splits a name into lower-case words: at anything but letters and digits, and before a capital
/// after a small letter.
pub(crate) fn words(name: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut after_small = false;
    for c in name.chars() {
        if (!c.is_alphanumeric() || (c.is_uppercase() && after_small)) && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if c.is_alphanumeric() {
            word.extend(c.to_lowercase());
        }
        after_small = c.is_lowercase() || c.is_numeric();
    }
    words.extend(Some(word).filter(|word| !word.is_empty()));
    words
}

/// Returns true for a thinking tool, ignoring a server's prefix.
pub(crate) fn is_thinking(name: &str) -> bool {
    let own = name.rsplit("__").next().unwrap_or(name);
    let own = own.rsplit(['.', '/', ':']).next().unwrap_or(own);
    let letters: String = words(own).concat();
    THINKING.contains(&letters.as_str())
}

/// Returns true for a tool that hands the run over, or asks a person.
pub(crate) fn is_end(name: &str) -> bool {
    let words = words(name);
    let any = |of: &[&str]| words.iter().any(|word| of.contains(&word.as_str()));
    let is_asked = any(&ASKS) && (any(&ASKED) || any(&REPLIES));
    let is_requested = any(&REQUESTS) && any(&REPLIES) && (any(&ASKED) || any(&["request"]));
    let hands = any(&HANDS_OVER) && any(&PEOPLE);
    let is_plain = any(&["handoff", "handover", "escalate", "escalation"])
        || words.windows(2).any(|two| two[0] == "hand" && ["off", "over"].contains(&&*two[1]));
    is_asked || is_requested || hands || is_plain
}

/// Returns true for a lookup: the first or second word says so.
pub(crate) fn is_lookup(name: &str) -> bool {
    let own = name.rsplit("__").next().unwrap_or(name);
    words(own).iter().take(2).any(|word| LOOKS.contains(&word.as_str()))
}

/// Returns true for a tool that creates something: the first word says so.
pub(crate) fn is_creation(name: &str) -> bool {
    let own = name.rsplit("__").next().unwrap_or(name);
    words(own).first().is_some_and(|word| MAKES.contains(&word.as_str()))
}

/// Returns true for a search, which may use values guessed by the model.
pub(crate) fn is_search(name: &str) -> bool {
    let own = name.rsplit("__").next().unwrap_or(name);
    words(own).first().is_some_and(|word| FINDS.contains(&word.as_str()))
}

/// Returns true for a tool that polls a job: a word says so, and none says that it changes
/// something.
pub(crate) fn is_polling(name: &str) -> bool {
    let own = words(name.rsplit("__").next().unwrap_or(name));
    let any = |of: &[&str]| own.iter().any(|word| of.contains(&word.as_str()));
    any(&WATCHES) && !any(&CHANGES)
}

/// Returns true for a tool that acts: a word says so.
pub(crate) fn is_action(name: &str) -> bool {
    let own = words(name.rsplit("__").next().unwrap_or(name));
    own.iter().any(|word| CHANGES.contains(&word.as_str()) || ACTS.contains(&word.as_str()))
}

/// Returns true if two names share at least half of their words.
pub(crate) fn share_half_of_words(one: &str, other: &str) -> bool {
    let one = words(one);
    let other = words(other);
    let shared = one.iter().filter(|word| other.contains(word)).count();
    shared > 0 && shared * 2 >= one.len() + other.len() - shared
}

/// Returns true if two names share a word for an action or object.
pub(crate) fn share_one_word(one: &str, other: &str) -> bool {
    let own = |name: &str| words(name.rsplit("__").next().unwrap_or(name));
    let other = own(other);
    own(one).iter().any(|word| !BETWEEN.contains(&word.as_str()) && other.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_read_from_names() {
        for (name, thinks, ends, reads) in [
            ("think", true, false, false),
            ("mcp__mind__sequentialThinking", true, false, false),
            ("rethink_order", false, false, false),
            ("transfer_to_human_agents", false, true, false),
            ("transfer_to_account", false, false, false),
            ("AskUserQuestion", false, true, false),
            ("get_user_input", false, true, true),
            ("get_user_help", false, true, true),
            ("get_help_page", false, false, true),
            ("get_user_details", false, false, true),
            ("handOff", false, true, false),
            ("mcp__shop__find_order", false, false, true),
            ("refund_order", false, false, false),
        ] {
            assert_eq!(
                (is_thinking(name), is_end(name), is_lookup(name)),
                (thinks, ends, reads),
                "{name}"
            );
        }
    }

    #[test]
    fn tools_that_change_something_watch_nothing() {
        for (name, watched) in [
            ("get_job", true),
            ("mcp__ci__wait_for_run", true),
            ("checkStatus", true),
            ("order_status", true),
            ("jobs.poll", true),
            ("get_order", true),
            ("open_ticket", false),
            ("create_poll", false),
            ("create_monitor", false),
            ("update_status", false),
            ("sendStatus", false),
            ("start_check", false),
            ("convert", false),
            ("pay", false),
        ] {
            assert_eq!(is_polling(name), watched, "{name}");
        }
    }

    #[test]
    fn names_share_half_of_their_words() {
        assert!(share_half_of_words("find_user_id_by_email", "find_user_id_by_name_zip"));
        assert!(!share_half_of_words("get_weather", "get_news"));
    }

    #[test]
    fn names_share_one_word_besides_prepositions() {
        assert!(share_one_word("exchange_order_items", "modifyPendingOrder"));
        assert!(!share_one_word("mcp__shop__charge_card", "mcp__shop__send_receipt"));
        assert!(!share_one_word("charge_to_card", "send_to_user"));
    }
}
