//! Printer of a merged config as YAML without its secrets.
//!
//! A value from the environment is printed as its reference, so the output is a config again; a
//! value under a secret key is replaced by [`REDACTED`].

use std::fmt::Write;

use spanscore_base::settings::yaml::scalar::{self, ScalarForm};
use spanscore_base::settings::{Node, NodeKind, REDACTED, without_secrets};
use spanscore_base::value::Value;
use spanscore_base::visible;
use spanscore_engine::settings::ConfigSources;
use spanscore_engine::settings::Loaded;
use spanscore_engine::settings::secrets::Above;

/// Prints the config in its original layout: one-line values stay on one line.
pub fn redacted(loaded: &Loaded) -> String {
    let mut printer = ConfigPrinter { sources: &loaded.sources, out: String::new() };
    printer.block(&loaded.node, 0, Above::default());
    printer.out
}

/// Longest line of a flow collection, characters; a longer one is printed as a block.
const LINE_CHARS_MAX: usize = 120;

struct ConfigPrinter<'a> {
    sources: &'a ConfigSources,
    out: String,
}

impl ConfigPrinter<'_> {
    /// Prints the entries or items of a collection, one per line.
    fn block(&mut self, node: &Node, indent: usize, above: Above) {
        match &node.kind {
            NodeKind::Map(entries) => {
                for (key, value) in entries {
                    let start = format!("{:indent$}{}:", "", text(&key.text));
                    // A block below a key has the place of the key.
                    let is_flow = key.place.line == value.place.line && key.place != value.place;
                    self.value(&start, value, is_flow, indent, above.below(&key.text));
                }
            }
            NodeKind::List(items) => {
                for item in items {
                    self.value(
                        &format!("{:indent$}-", ""),
                        item,
                        is_flow_item(item),
                        indent,
                        above,
                    );
                }
            }
            _ => {}
        }
    }

    /// Prints a value after the start of its line.
    fn value(&mut self, start: &str, node: &Node, is_flow: bool, indent: usize, above: Above) {
        self.out.push_str(start);
        let is_collection = match &node.kind {
            NodeKind::Map(entries) => !entries.is_empty(),
            NodeKind::List(items) => !items.is_empty(),
            _ => false,
        };
        let line = if is_collection && !is_flow { None } else { self.flow(node, above) };
        let room = LINE_CHARS_MAX.saturating_sub(start.chars().count());
        match line {
            Some(line) if !is_collection || line.chars().count() <= room => {
                // Null below a key needs no word.
                let is_bare = line == "null" && start.ends_with(':');
                if !is_bare {
                    let _ = write!(self.out, " {line}");
                }
                self.out.push('\n');
            }
            _ => {
                self.out.push('\n');
                self.block(node, indent + 2, above);
            }
        }
    }

    /// Returns a value on one line; `None` for a collection with a reference that must be unquoted
    /// on its own line.
    fn flow(&self, node: &Node, above: Above) -> Option<String> {
        match &node.kind {
            NodeKind::Map(entries) => {
                let entries = entries.iter().map(|(key, value)| {
                    let value = self.inner(value, above.below(&key.text))?;
                    Some(format!("{}: {value}", text(&key.text)))
                });
                Some(format!("{{{}}}", entries.collect::<Option<Vec<_>>>()?.join(", ")))
            }
            NodeKind::List(items) => {
                let items = items.iter().map(|item| self.inner(item, above));
                Some(format!("[{}]", items.collect::<Option<Vec<_>>>()?.join(", ")))
            }
            _ => Some(self.scalar(node, above)),
        }
    }

    fn inner(&self, node: &Node, above: Above) -> Option<String> {
        let reference = self.sources.reference(node.place);
        let is_bare = matches!(reference, Some((_, ScalarForm::Plain)));
        if is_bare { None } else { self.flow(node, above) }
    }

    fn scalar(&self, node: &Node, above: Above) -> String {
        match (self.sources.reference(node.place), &node.kind) {
            (Some((written, form)), _) => match form {
                ScalarForm::Plain if !written.contains(visible::is_hidden) => written.to_owned(),
                ScalarForm::Plain | ScalarForm::Quoted => quoted(written),
                ScalarForm::Tagged(tag) => format!("!!{} {}", tag.name(), quoted(written)),
            },
            (None, NodeKind::Scalar(Value::String(_))) if above.is_secret => quoted(REDACTED),
            (None, NodeKind::Scalar(Value::String(value))) => {
                text(&without_secrets(value).replace('$', "$$"))
            }
            (None, NodeKind::Scalar(value)) => value.to_string(),
            _ => "null".to_owned(),
        }
    }
}

/// Returns true for an item in brackets; a block map begins at its first key.
fn is_flow_item(item: &Node) -> bool {
    match &item.kind {
        NodeKind::Map(entries) => entries.first().is_none_or(|(key, _)| key.place != item.place),
        _ => true,
    }
}

/// Returns a YAML scalar that reads back as the same text: unquoted if that is safe.
fn text(value: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '/' | '.' | ' ' | '-');
    let bare = value.starts_with(|c: char| c.is_ascii_alphanumeric())
        && value.chars().all(safe)
        && !value.ends_with(' ')
        && matches!(scalar::plain(value), Ok(NodeKind::Scalar(Value::String(_))));
    if bare { value.to_owned() } else { quoted(value) }
}

/// Returns a text as a JSON string, which is valid YAML; terminal control characters are escaped.
fn quoted(value: &str) -> String {
    visible::json(Value::from(value)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ConfigPart, load};

    fn check(text: &str, printed: &str) {
        let part = |text: &str| ConfigPart::Text { name: "config.yaml".into(), text: text.into() };
        let lookup = |_: &str| Some("s3cret".to_owned());
        let loaded = load(&[part(text)], &lookup).expect(text);
        let shown = redacted(&loaded);
        assert!(shown.starts_with(printed), "{shown}");
        let again = load(&[part(&shown)], &lookup).expect(printed);
        assert_eq!(redacted(&again), shown, "what is printed reads back");
    }

    #[test]
    fn secrets_are_left_out() {
        check(
            "exporters: {otlp: {endpoint: 'h:1', headers: {x-key: abc}, n: [1, {a: 'yes'}]}}\n\
             auth: {bearer_token: abc, max_tokens: 5, other: \"a ${env:KEY} b\"}\n\
             plain: ${env:KEY}\ncost: $$5\nnothing:\nempty: {}\n",
            "exporters: {otlp: {endpoint: \"h:1\", headers: {x-key: \"[REDACTED]\"}, \
             n: [1, {a: yes}]}}\n\
             auth: {bearer_token: \"[REDACTED]\", max_tokens: 5, other: \"a ${env:KEY} b\"}\n\
             plain: ${env:KEY}\ncost: \"$$5\"\nnothing:\nempty: {}\n",
        );
    }

    #[test]
    fn the_shape_of_the_file_stays() {
        let text = "evaluators:\n  tool_error:\n  tool_call_args/refund:\n    \
                    criteria: {tool_calls: [{name: issue_refund, args: {order: A-17}}]}\n    \
                    only_tools:\n      - a\n      - [b, c]\n      -\n        d: 1\n        \
                    e: {f: null}\nexporters: {}\n";
        check(text, text);
        let long = "x".repeat(LINE_CHARS_MAX);
        check(&format!("a: [{long}]\n"), &format!("a:\n  - {long}\n"));
    }

    #[test]
    fn what_is_tagged_keeps_its_tag() {
        check(
            "a: !!str ${env:KEY}\nb: !!str 5\nc: !!float 5\n\
             d: !<tag:yaml.org,2002:str> \"${KEY}\"\n",
            "a: !!str \"${env:KEY}\"\nb: \"5\"\nc: 5.0\nd: !!str \"${KEY}\"\n",
        );
    }

    #[test]
    fn what_a_terminal_would_obey_is_escaped_and_reads_back() {
        check(
            "a: \"x\\e[2J\\x7f\\x9b\u{202e}\"\n\"\u{200b}\": \"${KEY}\u{feff}\"\nc: \u{e0041}\n",
            "a: \"x\\u001b[2J\\u007f\\u009b\\u202e\"\n\"\\u200b\": \"${KEY}\\ufeff\"\n\
             c: \"\\udb40\\udc41\"\n",
        );
    }
}
