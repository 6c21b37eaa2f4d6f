//! What a change of the config means for a process that runs.

use crate::settings::{Node, NodeKind};
use crate::value::Value;

/// What can change while a process runs.
const LIVE: [&str; 5] = ["evaluators", "dialects", "exporters", "failures", "receivers.otlp.auth"];

/// How deep a difference is named.
const DEPTH_MAX: usize = 4;

/// The settings that differ and hold only from the next start on, by their keys.
pub fn needs_restart(before: &Node, now: &Node) -> Vec<String> {
    let mut differ = Vec::new();
    compare(before, now, "", &mut differ);
    differ
}

fn compare(before: &Node, now: &Node, path: &str, differ: &mut Vec<String>) {
    if LIVE.contains(&path) || before.to_value() == now.to_value() {
        return;
    }
    let is_map = |node: &Node| matches!(node.kind, NodeKind::Map(_) | NodeKind::Null);
    // The keys of exporters and such are names, which say what is meant.
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
        let (before, now) = (before.get(key), now.get(key));
        if before.is_none() != now.is_none() && !LIVE.iter().any(|live| live.starts_with(&path)) {
            differ.push(path);
            continue;
        }
        compare(before.unwrap_or(&nothing), now.unwrap_or(&nothing), &path, differ);
    }
}

/// Texts in a config that may be names of files: datasets and definitions of tools.
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
    use crate::value::json;

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
            &["forward.otlp/a.endpoint", "forward.otlp/b"],
        );
        check(r#"{"limits": {}}"#, r#"{"limits": null}"#, &[]);
    }
}
