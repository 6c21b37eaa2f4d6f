//! Checks of evaluators with a judge or an external evaluator.

use std::collections::BTreeMap;

use spanscore_base::settings::{Node, SettingsError};
use spanscore_base::value::Value;
use spanscore_evaluate::Kind;
use spanscore_evaluate::external::is_external;
use spanscore_evaluate::inquiry::{PROMPT_VERSION, unknown_judge};
use spanscore_evaluate::kinds::external::settings::REACHING_KEYS;

/// Identities of judges (model and parameters) by name.
pub type JudgeIdentities = BTreeMap<String, String>;

/// Settings that name a judge, or a list of them.
const NAMING: [&str; 3] = ["judge", "jury", "escalate_to"];

/// Returns true if an evaluator of a kind with these settings uses a judge or an external
/// evaluator.
pub(super) fn asks(kind: &Kind, own: &Node) -> bool {
    is_external(kind.name) || asks_judge(kind, own)
}

fn asks_judge(kind: &Kind, own: &Node) -> bool {
    own.get("judge").is_some_and(|judge| judge.to_value().as_str().is_some()) && kind.takes("judge")
}

/// Returns the errors in an evaluator's settings about its judge.
pub(super) fn mistakes(
    kind: &Kind,
    shared: &Node,
    own: &Node,
    judges: Option<&JudgeIdentities>,
) -> Vec<SettingsError> {
    let mut errors = Vec::new();
    let asks = asks(kind, own);
    if let (false, Some(run_if)) = (asks, shared.get("run_if")) {
        let text = "`run_if` goes only with evaluators that ask a judge or another process";
        let error = SettingsError::new(text);
        errors.push(error.with_help("`when` chooses the traces of all others").at(run_if.place));
    }
    if !asks_judge(kind, own) {
        return errors;
    }
    if let Some(level) = shared.get("level").filter(|it| it.to_value().as_str() == Some("call")) {
        let error =
            SettingsError::new("`level: call` does not go with a judge, which reads whole traces");
        let help = "leave `level` out: kinds that judge calls give one evaluation for each anyway";
        errors.push(error.with_help(help).at(level.place));
    }
    let named = NAMING.into_iter().filter_map(|key| Some((key, own.get(key)?)));
    for (key, node) in named {
        let (Some(judges), value) = (judges, node.to_value()) else { continue };
        for name in names(&value).filter(|name| !judges.contains_key(*name)) {
            errors.push(unknown_judge(key, name, judges.keys().map(String::as_str)).at(node.place));
        }
    }
    errors
}

/// Returns the names in a setting that holds one judge or several.
fn names<'v>(value: &'v Value<'static>) -> impl Iterator<Item = &'v str> {
    let list = value.as_list().unwrap_or_else(|| std::slice::from_ref(value));
    list.iter().filter_map(Value::as_str)
}

/// Replaces names of judges by model and parameters, which determine an answer, unlike names in a
/// config. The address of an external evaluator is left out likewise.
pub(super) fn identify(
    kind: &Kind,
    settings: &mut Value<'static>,
    judges: Option<&JudgeIdentities>,
) {
    let Value::Map(map) = settings else { return };
    if is_external(kind.name) {
        for key in REACHING_KEYS {
            map.remove(key);
        }
        return;
    }
    for key in NAMING {
        let identity = |value: &Value<'static>| {
            let judge = value.as_str().and_then(|name| judges?.get(name));
            judge.map_or_else(|| value.clone(), |judge| Value::from(judge.clone()))
        };
        let identified = match map.get(key) {
            None => continue,
            Some(Value::List(list)) => Value::List(list.iter().map(identity).collect()),
            Some(value) => identity(value),
        };
        map.insert(key, identified);
    }
    map.insert("prompt_version", Value::from(u64::from(PROMPT_VERSION)));
}
