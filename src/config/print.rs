//! Printer of a merged config as YAML without its secrets.
//!
//! A value that came from the environment is printed as its reference, so the output is a config
//! again; a value under a key that names a secret is replaced by [`REDACTED`].

use std::fmt::Write;

use spanscore_base::settings::yaml::scalar::{self, ScalarForm};
use spanscore_base::settings::{Node, NodeKind, REDACTED, without_secrets};
use spanscore_base::value::Value;
use spanscore_base::visible;
use spanscore_engine::settings::ConfigSources;
use spanscore_engine::settings::Loaded;
use spanscore_engine::settings::secrets::Above;

/// Prints the config in block form.
pub fn redacted(loaded: &Loaded) -> String {
    let mut printer = ConfigPrinter { sources: &loaded.sources, out: String::new() };
    printer.block(&loaded.node, 0, Above::default());
    printer.out
}

struct ConfigPrinter<'a> {
    sources: &'a ConfigSources,
    out: String,
}

impl ConfigPrinter<'_> {
    /// Prints the entries or items of a collection, one a line.
    fn block(&mut self, node: &Node, indent: usize, above: Above) {
        match &node.kind {
            NodeKind::Map(entries) => {
                for (key, value) in entries {
                    let _ = write!(self.out, "{:indent$}{}:", "", text(&key.text));
                    self.value(value, indent, above.below(&key.text));
                }
            }
            NodeKind::List(items) => {
                for item in items {
                    let _ = write!(self.out, "{:indent$}-", "");
                    self.value(item, indent, above);
                }
            }
            _ => {}
        }
    }

    fn value(&mut self, node: &Node, indent: usize, above: Above) {
        let scalar = match &node.kind {
            NodeKind::Map(entries) if entries.is_empty() => "{}".to_owned(),
            NodeKind::List(items) if items.is_empty() => "[]".to_owned(),
            NodeKind::Map(_) | NodeKind::List(_) => {
                self.out.push('\n');
                return self.block(node, indent + 2, above);
            }
            _ => match (self.sources.reference(node.place), &node.kind) {
                (Some((written, form)), _) => match form {
                    ScalarForm::Plain if !written.contains(visible::is_hidden) => {
                        written.to_owned()
                    }
                    ScalarForm::Plain | ScalarForm::Quoted => quoted(written),
                    ScalarForm::Tagged(tag) => format!("!!{} {}", tag.name(), quoted(written)),
                },
                (None, NodeKind::Scalar(Value::String(_))) if above.is_secret => quoted(REDACTED),
                (None, NodeKind::Scalar(Value::String(value))) => {
                    text(&without_secrets(value).replace('$', "$$"))
                }
                (None, NodeKind::Scalar(value)) => value.to_string(),
                _ => "null".to_owned(),
            },
        };
        let _ = writeln!(self.out, " {scalar}");
    }
}

/// Returns a YAML scalar that reads back as the same text: bare if that is safe.
fn text(value: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '/' | '.' | ' ' | '-');
    let bare = value.starts_with(|c: char| c.is_ascii_alphanumeric())
        && value.chars().all(safe)
        && !value.ends_with(' ')
        && matches!(scalar::plain(value), Ok(NodeKind::Scalar(Value::String(_))));
    if bare { value.to_owned() } else { quoted(value) }
}

/// Returns a text as a JSON string, which YAML reads alike; characters that a terminal would obey
/// are escaped.
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
            "exporters:\n  otlp:\n    endpoint: \"h:1\"\n    headers:\n      \
             x-key: \"[REDACTED]\"\n    n:\n      - 1\n      -\n        a: yes\n\
             auth:\n  bearer_token: \"[REDACTED]\"\n  max_tokens: 5\n  \
             other: \"a ${env:KEY} b\"\n\
             plain: ${env:KEY}\ncost: \"$$5\"\nnothing: null\nempty: {}\n",
        );
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
