//! Roles of tools by the words of their names, as far as reactions and repetitions show them.

/// Tools that only take down what the model thinks, in letters alone.
const THINKING: [&str; 15] = [
    "think", "thinking", "thinktool", "thought", "thoughts", "sequentialthinking", "scratchpad",
    "reflect", "reflection", "reason", "reasoning", "todowrite", "todoread", "writetodos",
    "updateplan",
];
/// Words by which a run is handed over, and to whom.
const HANDS_OVER: [&str; 7] =
    ["transfer", "escalate", "forward", "route", "connect", "contact", "refer"];
const PEOPLE: [&str; 12] = [
    "human", "humans", "agent", "agents", "person", "operator", "support", "supervisor",
    "representative", "specialist", "staff", "manager",
];
/// Words by which a person is asked, whom, and for what.
const ASKS: [&str; 4] = ["ask", "prompt", "consult", "await"];
const ASKED: [&str; 6] = ["user", "human", "customer", "person", "operator", "question"];
const REQUESTS: [&str; 3] = ["request", "get", "wait"];
const REPLIES: [&str; 6] =
    ["clarification", "confirmation", "approval", "input", "feedback", "help"];
/// Words of tools that look something up or work something out, and change nothing.
const LOOKS: [&str; 32] = [
    "get", "find", "search", "list", "read", "fetch", "lookup", "look", "query", "check", "view",
    "browse", "open", "show", "describe", "retrieve", "grep", "cat", "cd", "ls", "glob", "scan",
    "inspect", "verify", "poll", "watch", "monitor", "status", "calculate", "calculator",
    "compute", "convert",
];

/// Words of tools that watch a job.
const WATCHES: [&str; 15] = [
    "check", "describe", "fetch", "get", "inspect", "list", "monitor", "poll", "progress", "read",
    "show", "status", "view", "wait", "watch",
];
/// Words of tools that change something, whatever else their names say: `create_poll`.
const CHANGES: [&str; 54] = [
    "add", "append", "apply", "approve", "archive", "assign", "buy", "cancel", "clear", "close",
    "confirm", "create", "delete", "deploy", "disable", "drop", "edit", "enable", "execute",
    "insert", "install", "launch", "make", "merge", "modify", "move", "open", "patch", "pay",
    "post", "publish", "put", "refund", "register", "remove", "rename", "replace", "reset",
    "restart", "save", "schedule", "send", "set", "start", "stop", "submit", "subscribe", "toggle",
    "transfer", "trigger", "update", "upload", "upsert", "write",
];

/// Words of tools that act, beside those that change something.
const ACTS: [&str; 22] = [
    "bash", "book", "call", "charge", "checkout", "deposit", "email", "exchange", "exec", "invoke",
    "issue", "login", "notify", "order", "python", "reserve", "return", "run", "shell", "sign",
    "terminal", "withdraw",
];

/// First words of tools that make something new.
const MAKES: [&str; 12] = [
    "add", "create", "export", "generate", "insert", "make", "mkdir", "new", "register", "save",
    "touch", "write",
];

/// First words of tools that look for something.
const FINDS: [&str; 4] = ["find", "glob", "grep", "search"];

/// Words of names that say neither what is done nor to what.
const BETWEEN: [&str; 11] =
    ["a", "and", "by", "for", "from", "in", "of", "on", "the", "to", "with"];

/// Splits a name into its words in lower case: at anything but letters and digits, and before a
/// capital after a small letter.
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

/// Returns true for a tool by which a model only thinks; the prefix of a server does not count.
pub(crate) fn is_thinking(name: &str) -> bool {
    let own = name.rsplit("__").next().unwrap_or(name);
    let own = own.rsplit(['.', '/', ':']).next().unwrap_or(own);
    let letters: String = words(own).concat();
    THINKING.contains(&letters.as_str())
}

/// Returns true for a tool that hands the run over to somebody, or asks a person.
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

/// Returns true for a tool that changes nothing: its first or second word looks something up.
pub(crate) fn looks(name: &str) -> bool {
    let own = name.rsplit("__").next().unwrap_or(name);
    words(own).iter().take(2).any(|word| LOOKS.contains(&word.as_str()))
}

/// Returns true for a tool that makes something new: its first word says so.
pub(crate) fn makes(name: &str) -> bool {
    let own = name.rsplit("__").next().unwrap_or(name);
    words(own).first().is_some_and(|word| MAKES.contains(&word.as_str()))
}

/// Returns true for a tool that looks for something by what the model supposes of it.
pub(crate) fn finds(name: &str) -> bool {
    let own = name.rsplit("__").next().unwrap_or(name);
    words(own).first().is_some_and(|word| FINDS.contains(&word.as_str()))
}

/// Returns true for a tool that watches a job: a word of its name says so, and none says that it
/// changes something.
pub(crate) fn watches(name: &str) -> bool {
    let own = words(name.rsplit("__").next().unwrap_or(name));
    let any = |of: &[&str]| own.iter().any(|word| of.contains(&word.as_str()));
    any(&WATCHES) && !any(&CHANGES)
}

/// Returns true for a tool that does something: a word of its name says so.
pub(crate) fn acts(name: &str) -> bool {
    let own = words(name.rsplit("__").next().unwrap_or(name));
    own.iter().any(|word| CHANGES.contains(&word.as_str()) || ACTS.contains(&word.as_str()))
}

/// Returns true if two names have at least half of their words in common.
pub(crate) fn is_akin(one: &str, other: &str) -> bool {
    let one = words(one);
    let other = words(other);
    let shared = one.iter().filter(|word| other.contains(word)).count();
    shared > 0 && shared * 2 >= one.len() + other.len() - shared
}

/// Returns true if two names share a word that says what is done, or to what.
pub(crate) fn share_word(one: &str, other: &str) -> bool {
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
                (is_thinking(name), is_end(name), looks(name)),
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
            assert_eq!(watches(name), watched, "{name}");
        }
    }

    #[test]
    fn names_are_akin_by_half_of_their_words() {
        assert!(is_akin("find_user_id_by_email", "find_user_id_by_name_zip"));
        assert!(!is_akin("get_weather", "get_news"));
    }

    #[test]
    fn names_share_verbs_and_nouns() {
        assert!(share_word("exchange_order_items", "modifyPendingOrder"));
        assert!(!share_word("mcp__shop__charge_card", "mcp__shop__send_receipt"));
        assert!(!share_word("charge_to_card", "send_to_user"));
    }
}
