//! Diff of two configs: the changes that need a restart.

use spanscore_base::settings::{Node, NodeKind};
use spanscore_base::value::Value;

/// Settings that can change while a process runs.
const LIVE: [&str; 14] = [
    "dialects",
    "evaluators",
    "exporters",
    "failures",
    "forward",
    "judges",
    "judging",
    "limits",
    "receivers.otlp.auth",
    "receivers.otlp.max_connections_mib",
    "receivers.otlp.max_in_flight_mib",
    "sessions",
    "shutdown_timeout",
    "traces",
];

/// Returns true if a setting, or its whole section, can change at run time.
fn is_live(path: &str) -> bool {
    let holds =
        |live: &str| path.strip_prefix(live).is_some_and(|it| it.is_empty() || it.starts_with('.'));
    LIVE.into_iter().any(holds)
}

/// Limit on the depth of reported differences.
const DEPTH_MAX: usize = 4;

/// Returns the keys of changed settings that take effect only at the next start.
pub fn needs_restart(before: &Node, now: &Node) -> Vec<String> {
    let mut differ = Vec::new();
    compare(before, now, "", &mut differ);
    differ
}

fn compare(before: &Node, now: &Node, path: &str, differ: &mut Vec<String>) {
    if is_live(path) || before.to_value() == now.to_value() {
        return;
    }
    let is_map = |node: &Node| matches!(node.kind, NodeKind::Map(_) | NodeKind::Null);
    // Keys of exporters and such are names, so a difference at that level suffices.
    let depth = path.split('.').filter(|key| !key.is_empty()).count();
    if !(is_map(before) && is_map(now)) || depth >= DEPTH_MAX {
        differ.push(path.to_owned());
        return;
    }
    let nothing = Node::default();
    let mut keys: Vec<&str> = Vec::new();
    for (key, _) in before.entries().chain(now.entries()) {
        if !keys.contains(&key.text.as_str()) {
            keys.push(&key.text);
        }
    }
    for key in keys {
        let path = if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
        let before = before.get(key);
        let now = now.get(key);
        let has_live = is_live(&path) || LIVE.iter().any(|live| live.starts_with(&path));
        if before.is_none() != now.is_none() && !has_live {
            differ.push(path);
            continue;
        }
        compare(before.unwrap_or(&nothing), now.unwrap_or(&nothing), &path, differ);
    }
}

/// Returns all texts of a config, any of which may name a file: datasets and tool definitions.
pub fn texts(node: &Node) -> Vec<String> {
    let mut found = Vec::new();
    collect(&node.to_value(), &mut found);
    found
}

fn collect(value: &Value<'_>, found: &mut Vec<String>) {
    match value {
        Value::String(text) => found.push(text.to_string()),
        Value::List(items) => items.iter().for_each(|item| collect(item, found)),
        Value::Map(map) => map.iter().for_each(|(_, value)| collect(value, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanscore_base::value::json;

    fn check(before: &str, now: &str, expected: &[&str]) {
        let node = |text: &str| Node::from_value(&json::parse(text).unwrap());
        assert_eq!(needs_restart(&node(before), &node(now)), expected, "{before} -> {now}");
    }

    #[test]
    fn what_needs_a_restart_is_named() {
        check(r#"{"evaluators": {"a": 1}}"#, r#"{"evaluators": {"b": null}, "dialects": []}"#, &[]);
        check(r#"{"data_dir": "a"}"#, r#"{"data_dir": "b"}"#, &["data_dir"]);
        check(
            r#"{"receivers": {"otlp": {"protocols": {"grpc": {"endpoint": "a:1"}}}}}"#,
            r#"{"receivers": {"otlp": {"protocols": {"grpc": {"endpoint": "a:2"}}, "auth": {}}}}"#,
            &["receivers.otlp.protocols.grpc"],
        );
        check(
            r#"{"forward": {"otlp/a": {"endpoint": "x"}}, "exporters": {"file": {"path": "x"}}}"#,
            r#"{"forward": {"otlp/a": {"endpoint": "y"}, "otlp/b": {}}, "exporters": {}}"#,
            &[],
        );
        check(
            r#"{"telemetry": {"metrics": {"endpoint": "a:1"}}, "limits": {"memory_mib": 64}}"#,
            r#"{"telemetry": {"metrics": {"endpoint": "a:2"}}, "limits": {"memory_mib": 99}}"#,
            &["telemetry.metrics.endpoint"],
        );
        check(
            r#"{"sessions": {"key": "session", "idle_timeout": "1m"}}"#,
            r#"{"sessions": {"key": "other", "idle_timeout": "2m"}, "judging": {"settle": "1s"}}"#,
            &[],
        );
        check(r#"{"limits": {}}"#, r#"{"limits": null}"#, &[]);
    }
}
