//! Memory of evaluations.

use std::sync::Arc;

use spanscore_base::model::{Evaluation, Outcome};
use spanscore_base::value::{Number, Value};

/// Returns the memory of some traces' evaluations in bytes, each resource counted once.
pub(crate) fn size_of_evaluations(evaluations: &[Evaluation]) -> usize {
    let own: usize = evaluations.iter().map(size_of_evaluation).sum();
    let resources =
        evaluations.chunk_by(|a, b| Arc::ptr_eq(&a.target.resource, &b.target.resource));
    let first = resources.filter_map(|run| run.first());
    own + first.map(|evaluation| evaluation.target.resource.bytes()).sum::<usize>()
}

/// Returns the approximate memory of an evaluation in bytes, without shared data.
pub(crate) fn size_of_evaluation(evaluation: &Evaluation) -> usize {
    let texts = match &evaluation.outcome {
        Outcome::Scored(score) => score.explanation.bytes() + size_of_value(&score.details),
        Outcome::NotEvaluable { explanation, .. } => explanation.len(),
        Outcome::Failed { error, .. } => error.len(),
    };
    let target = &*evaluation.target;
    size_of::<Evaluation>()
        + texts
        + size_of_val(target)
        + target.session_id.as_ref().map_or(0, |id| id.len())
        + target.agent_name.as_ref().map_or(0, |name| name.len())
}

fn size_of_value(value: &Value<'_>) -> usize {
    size_of::<Value<'_>>()
        + match value {
            Value::String(text) => text.len(),
            Value::Number(Number::Big(digits)) => digits.len(),
            Value::List(items) => items.iter().map(size_of_value).sum(),
            Value::Map(map) => {
                map.iter().map(|(key, item)| 24 + key.len() + size_of_value(item)).sum()
            }
            _ => 0,
        }
}
