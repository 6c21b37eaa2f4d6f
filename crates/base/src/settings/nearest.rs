//! Spelling suggestions: the nearest valid word.

/// Returns a "did you mean" question for the nearest known word, or the list of known words.
pub fn meant_or_known(word: &str, known: &[&str]) -> String {
    meant_or(word, known.iter().copied(), || format!("known are {}", known.join(", ")))
}

/// Returns a "did you mean" question for the nearest known word, or another hint.
pub fn meant_or<'a>(
    word: &str,
    known: impl IntoIterator<Item = &'a str>,
    other: impl FnOnce() -> String,
) -> String {
    nearest(word, known).map_or_else(other, |meant| format!("did you mean `{meant}`?"))
}

/// Returns the candidate closest to `word`, at most a third of its length (and at least one) in
/// edits away; case and `-` for `_` are ignored.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |text: &str| text.to_lowercase().replace('-', "_");
    let meant = plain(word);
    candidates
        .into_iter()
        .filter(|candidate| !is_opposite(word, candidate))
        .map(|candidate| (strsim::osa_distance(&meant, &plain(candidate)), candidate))
        .filter(|(edits, candidate)| {
            let length = candidate.chars().count();
            // A word without a common letter was not meant.
            *edits < length && *edits <= (length / 3).max(1)
        })
        // Of two spellings the one in the case of the word: `in_order` for `inOrder`.
        .min_by_key(|(edits, candidate)| (*edits, strsim::osa_distance(word, candidate)))
        .map(|(_, candidate)| candidate)
}

/// Returns true if one word negates the other: `ordered` and `unordered`.
fn is_opposite(word: &str, candidate: &str) -> bool {
    let negates = |long: &str, short: &str| {
        ["un", "non_", "not_", "dis"].iter().any(|no| long.strip_prefix(no) == Some(short))
    };
    negates(word, candidate) || negates(candidate, word)
}

/// Largest number of related words; with more, none is likely.
const RELATED_MAX: usize = 2;

/// Returns the candidates that contain every part of a word, in any order: `match_mode` for `mode`,
/// `tool_call_args` for `tool_arguments`. Otherwise returns the candidate whose every part is in
/// the word: `reference` for `reference_goal`. Empty for more than two.
pub fn related<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let parts = |text: &str| -> Vec<String> {
        let parts = words(text).into_iter().map(|part| part.trim_end_matches('s').to_lowercase());
        parts.filter(|part| part.len() >= 3).collect()
    };
    let wanted = parts(word);
    let has = |candidate: &&str| {
        let own = parts(candidate);
        let is_in = |part: &String| {
            own.iter().any(|own| own.starts_with(part.as_str()) || part.starts_with(own.as_str()))
        };
        !wanted.is_empty() && wanted.iter().all(is_in)
    };
    let candidates: Vec<&str> = candidates.into_iter().collect();
    let mut found: Vec<&str> = candidates.iter().copied().filter(has).collect();
    if found.is_empty() {
        let is_whole = |own: &[String]| !own.is_empty() && own.iter().all(|it| wanted.contains(it));
        let within = |name: &&&str| is_whole(&parts(name));
        found.extend(candidates.iter().filter(within).max_by_key(|name| parts(name).len()));
    }
    // Two spellings of one name count as one.
    let plain = |name: &str| name.to_lowercase().replace('_', "");
    let is_ours = |name: &&&str| name.contains('_');
    let ours: Vec<String> = found.iter().filter(is_ours).map(|name| plain(name)).collect();
    found.retain(|name| name.contains('_') || !ours.contains(&plain(name)));
    if found.len() > RELATED_MAX { Vec::new() } else { found }
}

/// Splits a name at its signs and before its capitals.
fn words(name: &str) -> Vec<&str> {
    let mut starts: Vec<usize> = vec![0];
    let pairs = name.char_indices().zip(name.char_indices().skip(1));
    let is_start = |(before, after): &((usize, char), (usize, char))| {
        !before.1.is_uppercase() && after.1.is_uppercase()
    };
    starts.extend(pairs.filter(is_start).map(|(_, (at, _))| at));
    let ends = starts.iter().skip(1).copied().chain([name.len()]);
    let parts = starts.iter().zip(ends).map(|(start, end)| &name[*start..end]);
    parts.flat_map(|part| part.trim_end_matches('.').split(['_', '-', ' '])).collect()
}

/// Returns a "did you mean" question for related words; `None` without any.
pub fn meant_of(related: &[&str]) -> Option<String> {
    let listed: Vec<String> = related.iter().map(|word| format!("`{word}`")).collect();
    (!listed.is_empty()).then(|| format!("did you mean {}?", listed.join(" or ")))
}

/// Providers and servers of models with OpenAI's interface.
const HOSTS: &[&str] = &[
    "azure", "azure_openai", "bedrock", "custom", "deepseek", "gemini", "google", "groq",
    "litellm", "mistral", "ollama", "openrouter", "together", "vertex", "vllm",
];

/// Foreign names of our settings: theirs, ours, and the value to write where it differs.
const ELSEWHERE: &[(&[&str], &str, &str)] = &[
    (&["endpoint"], "series_max", "telemetry: {metrics: {endpoint: 127.0.0.1:8888}}"),
    (&["port"], "endpoint", "endpoint: 127.0.0.1:PORT"),
    (&["url", "uri", "host", "address"], "endpoint", ""),
    (&["url", "uri", "host", "endpoint"], "base_url", ""),
    (&["provider"], "api", ""),
    (&["insecure"], "tls", "tls: {insecure: true}"),
    (&["topic"], "traces", "traces: {topics: [NAME]}"),
    (&["days"], "age", "age: 14d"),
    (&["token", "tokens", "bearer", "api_key"], "clients", "clients: {NAME: {token: TOKEN}}"),
    (&["log_level"], "logs", "logs: {level: info}"),
    (&["evaluation_criteria", "evaluationCriteria", "prompt"], "criteria", ""),
    (&["trajectory"], "tool_calls", ""),
    (&["eval_type", "evalType"], "bundle", ""),
    (&["mode"], "match_mode", ""),
    (
        &[
            "deny", "denied", "blocked", "denied_tools", "blocked_tools", "forbidden_tools",
            "blacklist", "denylist", "blocklist", "must_not_call",
        ],
        "forbidden",
        "",
    ),
    (&["allow", "allowed_tools", "allowlist", "whitelist"], "allowed", ""),
    (&["must_call", "required_tools"], "required", ""),
    (&["rules", "patterns"], "custom_rules", ""),
    (
        &["size", "size_max", "max_size", "ttl"],
        "retention",
        "retention: {size_mib: 2048, age: 14d}",
    ),
    (&["max_tool_calls"], "max_calls", ""),
    (&["max_failures", "max_errors"], "max_failed_calls", ""),
    (&["memory_limit_mib", "limit_mib", "memory_limit", "max_memory"], "memory_mib", ""),
    (
        &["sample_rate", "sampling", "sampling_rate", "probability", "sampling_percentage"],
        "sample",
        "",
    ),
    (
        &["sampling_percentage", "sampling_ratio", "sampling", "sample"],
        "signals",
        "traces: fail` or `traces: agent",
    ),
    (&["function", "tool", "function_name"], "name", ""),
    (&["filter", "condition", "if"], "when", ""),
    (&["min_score", "pass_threshold"], "threshold", ""),
    (&["decision_wait"], "quiet_period", ""),
    (&["dataset", "eval_set", "golden"], "expect", "expect: {file: FILE, match: auto}"),
    (&["path", "paths", "file", "files", "filename"], "include", "include: [FILE]"),
    (&["file", "filename", "output"], "path", ""),
    (&["path", "filename", "dataset"], "id_field", "file: FILE"),
    (
        &["url", "dsn", "database", "connection"],
        "path",
        "path: scores.db`, a file of SQLite in `data_dir",
    ),
    (&["rpm", "max_rpm"], "requests_per_minute", ""),
    (&["tpm", "max_tpm"], "tokens_per_minute", ""),
    (&["daily", "per_day", "max_usd", "usd"], "usd_per_day", ""),
    (&["prompt", "prompt_tokens"], "input", ""),
    (&["completion", "completion_tokens"], "output", ""),
    (&["statement", "criterion", "question"], "text", ""),
    (
        &["plain_text", "plain", "scram"],
        "sasl",
        "sasl: {mechanism: PLAIN, username: NAME, password: ${env:KAFKA_PASSWORD}}",
    ),
    (&["verbosity", "verbose"], "details", "details: true"),
    (&["max_retries", "max_attempts", "retries"], "max_elapsed_time", "max_elapsed_time: 5m"),
    (&["max_steps", "max_turns"], "max_calls", ""),
    (HOSTS, "openai", "api: openai` with the provider's `base_url"),
    (&["fsync", "sync", "always"], "disk", ""),
    (&["start", "earliest"], "beginning", ""),
    (&["model"], "judge", "judge: NAME` beside `judges: {NAME: {model: ...}}"),
];

/// Returns the known word for another system's word, with help that explains it.
pub fn called_here(word: &str, known: &[&str]) -> Option<(&'static str, String)> {
    let is_it =
        |(theirs, ours, _): &&(&[&str], &str, &str)| theirs.contains(&word) && known.contains(ours);
    let (_, ours, written) = ELSEWHERE.iter().find(is_it)?;
    let help = match *written {
        "" => format!("what is called so elsewhere is `{ours}` here"),
        written => format!("write `{written}`"),
    };
    Some((ours, help))
}

/// Returns key and value of a text without a space after its colon: `seats:2`.
pub fn joined_key(text: &str) -> Option<(&str, &str)> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.split_once(':').filter(|(name, value)| {
        !name.is_empty()
            && !value.is_empty()
            && !value.starts_with('/')
            && name.chars().all(is_word)
    })
}

/// Returns the remedy for such a text.
pub fn space_behind_colon((name, value): (&str, &str)) -> String {
    format!("write a space behind the colon: `{name}: {value}`")
}

#[cfg(test)]
mod tests {
    use super::{nearest, related};

    #[test]
    fn mistyped_words_find_what_was_meant() {
        let words = ["threshold", "criteria", "when", "subset", "strict"];
        assert_eq!(nearest("treshold", words), Some("threshold"));
        assert_eq!(nearest("Strict", words), Some("strict"));
        assert_eq!(nearest("wehn", words), Some("when"));
        assert_eq!(nearest("completely_else", words), None);
        assert_eq!(nearest("inOrder", ["IN_ORDER", "in_order"]), Some("in_order"));
        assert_eq!(nearest("ordered", ["unordered"]), None);
        let names =
            ["match_mode", "reference", "expected_class", "expectedClass", "a_tool", "tool"];
        let check = |word: &str, meant: &[&str]| assert_eq!(related(word, names), meant, "{word}");
        check("mode", &["match_mode"]);
        check("trajectory_match_mode", &["match_mode"]);
        check("reference_goal", &["reference"]);
        check("expected", &["expected_class"]);
        check("tool", &["a_tool", "tool"]);
        check("else", &[]);
        check("Builtin.MatchModeScore", &["match_mode"]);
    }
}
