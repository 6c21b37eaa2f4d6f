//! Remedies for values of another kind in an evaluator's entry, and for other systems' settings.

use spanscore_base::settings::{Key, Node, NodeKind, SettingsError};
use spanscore_base::value::Value;

/// Returns the error of a number or a truth value in the place of an evaluator's settings.
pub(super) fn of_scalar(key: &Key, node: &Node) -> Option<SettingsError> {
    let help = match &node.kind {
        NodeKind::Scalar(Value::Bool(true)) => Some(format!("write `{}:` alone", key.text)),
        NodeKind::Scalar(Value::Bool(false)) => of_entry("enabled").map(str::to_owned),
        NodeKind::Scalar(Value::Number(number)) if (0.0..=1.0).contains(&number.as_f64()) => {
            Some(format!("write `threshold: {number}`"))
        }
        _ => None,
    };
    let message = format!("`{}` takes a map of settings", key.text);
    Some(SettingsError::new(message).with_help(help?).at(node.place))
}

/// Adds the remedy for a map in the place of a judge's name, or of an expression.
pub(super) fn explain_maps(node: &Node, errors: &mut [SettingsError]) {
    let is_map = |error: &&mut SettingsError| error.message == "expected a text, found a map";
    for error in errors.iter_mut().filter(is_map) {
        let is_it = |(_, value): &&(Key, Node)| Some(value.place) == error.place;
        let key = node.entries().find(is_it).map_or("", |(key, _)| &key.text);
        error.help = match key {
            "judge" => Some("write `judge: NAME` beside `judges: {NAME: {model: ...}}`".into()),
            "when" | "run_if" => {
                Some(format!("write one expression: `{key}: 'service_name == \"shop\"'`"))
            }
            _ => continue,
        };
    }
}

/// Returns the remedy for another system's setting that belongs in the evaluator's entry here.
pub(super) fn of_entry(word: &str) -> Option<&'static str> {
    Some(match word {
        "name" | "id" => "write the name in the key: `tool_error/name_of_yours:`",
        "type" | "kind" | "class" => "the kind stands in the key: `tool_error:`",
        "enabled" | "enable" | "disabled" => "to switch it off, leave out the evaluator",
        "weight" => "leave it out: scores of several evaluators are not added up",
        _ => return None,
    })
}
