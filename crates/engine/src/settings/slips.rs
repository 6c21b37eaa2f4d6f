//! Warnings about valid YAML that was probably not meant.

use super::load::Loaded;
use super::sources::ConfigProblem;
use spanscore_base::settings::{
    Key, Node, NodeKind, SettingsError, joined_key, space_behind_colon,
};
use spanscore_base::value::Value;

impl Loaded {
    /// Returns warnings about files without settings, about keys without a space after the colon,
    /// and about regular expressions where globs stand.
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
        for key in NAMES_OF_TOOLS {
            let mut lists = Vec::new();
            self.node.below(key, &mut lists);
            for (node, name) in lists.into_iter().flat_map(texts) {
                let Some(glob) = glob_of(name) else { continue };
                let message =
                    format!("`{name}` is read as a name, in which only `*` and `?` match");
                let error = SettingsError::new(message).with_help(format!("write `{glob}`"));
                slips.push(self.sources.problem(error.at(node.place)));
            }
        }
        slips
    }
}

/// Settings that list tools or agents by globs.
const NAMES_OF_TOOLS: [&str; 6] =
    ["forbidden", "allowed", "required", "only_tools", "exclude_tools", "only_agents"];

/// Returns the texts of a list, with their nodes.
fn texts(node: &Node) -> impl Iterator<Item = (&Node, &str)> {
    let items = if let NodeKind::List(items) = &node.kind { items.as_slice() } else { &[] };
    items.iter().filter_map(|item| match &item.kind {
        NodeKind::Scalar(Value::String(text)) => Some((item, &**text)),
        _ => None,
    })
}

/// Returns the glob that is meant by a regular expression: `delete_*` for `/^delete_.*$/`.
/// `files.*` alone is a glob, too.
fn glob_of(name: &str) -> Option<String> {
    let slashed = name.strip_prefix('/').and_then(|name| name.strip_suffix('/'));
    let inner = slashed.unwrap_or(name);
    let from_start = inner.strip_prefix('^');
    let to_end = inner.strip_suffix('$');
    slashed.or(from_start).or(to_end)?;
    let bare = inner.trim_start_matches('^').trim_end_matches('$');
    let bare = bare.replace(".*", "*").replace(".+", "*");
    let any = |is_bound: bool| if is_bound { "" } else { "*" };
    let glob = format!("{}{bare}{}", any(from_start.is_some()), any(to_end.is_some()));
    Some(glob.replace("**", "*"))
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
    fn regular_expressions_in_place_of_globs_are_told() {
        let told =
            |name: &str| format!("`{name}` is read as a name, in which only `*` and `?` match");
        let check_name = |name: &str, is_told: bool| {
            let text = format!("evaluators: {{tool_policy: {{forbidden: ['{name}']}}}}");
            let told = told(name);
            let told: &[&str] = if is_told { &[told.as_str()] } else { &[] };
            check(&text, told);
        };
        check_name("/delete_.*/", true);
        check_name("^rm$", true);
        check_name("delete_*", false);
        check_name("mcp.shop.buy", false);
        check_name("files.*", false);
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
