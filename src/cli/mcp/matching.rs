//! Selection of evaluations by the fields of their rows, and by a text in them or their runs.

use hashbrown::HashMap;
use serde_json::Value;

use super::answers::unread;
use super::store::{RunStore, StoredEvaluation};
use super::tools::{OutcomeWord, QueryArgs};
use spanscore_base::model::TraceId;

/// Returns the selected evaluations in the order of the input.
///
/// # Errors
/// Text for the assistant: an id is wrong, or the temporary file cannot be read.
pub(super) fn matching<'s>(
    store: &'s RunStore,
    args: &QueryArgs,
) -> Result<Vec<&'s StoredEvaluation>, String> {
    let trace_id = args.trace_id.as_deref().map(|id| store.known_id(id)).transpose()?;
    let rows = store.evaluations.iter().filter(|it| is_asked_for(it, args, trace_id));
    let Some(text) = args.text.as_deref().filter(|text| !text.is_empty()) else {
        return Ok(rows.collect());
    };
    let mut search = TextSearch { store, text: text.to_lowercase(), runs: HashMap::new() };
    let mut found = Vec::new();
    for row in rows {
        if search.finds(row).map_err(|error| unread(&error))? {
            found.push(row);
        }
    }
    Ok(found)
}

fn is_asked_for(it: &StoredEvaluation, args: &QueryArgs, trace_id: Option<TraceId>) -> bool {
    let same = |requested: &Option<String>, found: Option<&str>| {
        requested.as_deref().is_none_or(|requested| found == Some(requested))
    };
    let begins = |requested: &Option<String>, found: &dyn Fn() -> String| {
        requested
            .as_deref()
            .is_none_or(|requested| found().starts_with(&requested.to_ascii_lowercase()))
    };
    let target = &it.target;
    let evaluator = &it.evaluator;
    it.is_named(args.evaluator.as_deref())
        && trace_id.is_none_or(|id| id == target.trace_id)
        && same(&args.kind, Some(evaluator.kind))
        && args.level.is_none_or(|word| word.into_str() == evaluator.level.as_str())
        && same(&args.session_id, target.session_id.as_deref())
        && same(&args.agent_name, target.agent_name.as_deref())
        && same(&args.service_name, Some(&target.resource.service_name))
        && same(&args.reason, it.reason)
        && begins(&args.evaluator_version, &|| evaluator.version())
        && begins(&args.span_id, &|| it.span_id.to_string())
        && args.outcome.is_none_or(|word| is_outcome(word, it))
        && args.label.is_none_or(|word| word.into_str() == it.outcome())
        && args.score_below.is_none_or(|bound| it.score.is_some_and(|score| score < bound))
}

fn is_outcome(word: OutcomeWord, it: &StoredEvaluation) -> bool {
    match word {
        OutcomeWord::Scored => it.verdict.is_some() && it.score.is_some(),
        word => word.into_str() == it.outcome(),
    }
}

/// Search for a text in evaluations and their runs, each of which is read once.
struct TextSearch<'s> {
    store: &'s RunStore,
    /// Text in lower case.
    text: String,
    runs: HashMap<TraceId, bool>,
}

impl TextSearch<'_> {
    fn finds(&mut self, evaluation: &StoredEvaluation) -> anyhow::Result<bool> {
        let trace_id = evaluation.target.trace_id;
        let in_run = match (self.runs.get(&trace_id), self.store.trace(trace_id)) {
            (Some(known), _) => *known,
            (None, Some(trace)) => holds(&self.store.trajectory(trace)?, &self.text),
            (None, None) => false,
        };
        self.runs.insert(trace_id, in_run);
        Ok(in_run || holds(&self.store.record(evaluation)?, &self.text))
    }
}

/// Returns true if a key or text of a value contains a lower-case text.
fn holds(value: &Value, text: &str) -> bool {
    match value {
        Value::String(own) => own.to_lowercase().contains(text),
        Value::Array(items) => items.iter().any(|item| holds(item, text)),
        Value::Object(map) => {
            map.iter().any(|(key, item)| key.to_lowercase().contains(text) || holds(item, text))
        }
        Value::Null => false,
        scalar => text == scalar.to_string().as_str(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_text_is_found_in_any_part_and_any_letters() {
        let check = |value: Value, text: &str, expected: bool| {
            assert_eq!(holds(&value, text), expected, "{text} in {value}");
        };
        check(json!({"calls": [{"result": "Order A-17 was REFUNDED"}]}), "refunded", true);
        check(json!({"Ärger": 1}), "ärger", true);
        check(json!([17, true]), "17", true);
        check(json!([170, null]), "17", false);
    }
}
