//! Warnings about valid YAML that was probably not meant.

use super::load::Loaded;
use super::sources::ConfigProblem;
use spanscore_base::settings::{
    Key, Node, NodeKind, SettingsError, joined_key, space_behind_colon,
};

impl Loaded {
    /// Returns warnings about files without settings, and about keys without a space after the
    /// colon.
    pub fn slips(&self) -> Vec<ConfigProblem> {
        let blank = self.sources.blank().map(|name| {
            ConfigProblem::new(format!("{name} sets nothing: the built-in config holds"))
        });
        let mut slips: Vec<ConfigProblem> = blank.collect();
        joined(&self.node, &mut |key, parts| {
            let message = format!("`{}` is one word, a key without a value", key.text);
            let error = SettingsError::new(message).with_help(space_behind_colon(parts));
            slips.push(self.sources.problem(error.at(key.place)));
        });
        slips
    }
}

/// Finds keys such as `seats:2`.
fn joined(node: &Node, found: &mut impl FnMut(&Key, (&str, &str))) {
    match &node.kind {
        NodeKind::List(items) => items.iter().for_each(|item| joined(item, found)),
        NodeKind::Map(entries) => {
            for (key, value) in entries {
                let parts = joined_key(&key.text);
                match (&value.kind, parts) {
                    (NodeKind::Null, Some(parts)) => found(key, parts),
                    _ => joined(value, found),
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use crate::settings::{ConfigPart, load};

    fn check(text: &str, expected: &[&str]) {
        let part = ConfigPart::Text { name: "a.yaml".to_owned(), text: text.to_owned() };
        let loaded = load(&[part], "evaluators: {tool_error: }", &|_| None).unwrap();
        let slips: Vec<String> = loaded.slips().iter().map(|it| it.message.clone()).collect();
        assert_eq!(slips, expected, "{text}");
    }

    #[test]
    fn blank_files_and_joined_keys_are_told() {
        check("", &["a.yaml sets nothing: the built-in config holds"]);
        check("# nothing\n---\n", &["a.yaml sets nothing: the built-in config holds"]);
        check("a: {seats:2}", &["`seats:2` is one word, a key without a value"]);
        check("a: [{seats:2: }]", &["`seats:2` is one word, a key without a value"]);
        check("a: {seats: 2, 'x y:z': , 'b:c': 1}", &[]);
        check("a: {'http://localhost:1': }", &[]);
    }
}
