//! Cohere's Chat: its second version writes as OpenAI's does, with documents as the content of
//! results; its first one names `parameters`, and repeats the call beside the `outputs`.

use super::{ApiShape, has};
use spanscore_base::value::{Map, Value};

pub(super) const SHAPE: ApiShape = ApiShape {
    name: "cohere",
    is_call: |map, kind| kind.is_none() && has(map, &["name", "parameters"]) && !is_definition(map),
    is_result: |map, kind| kind.is_none() && has(map, &["call", "outputs"]),
    ..ApiShape::NONE
};

/// Returns true for a tool definition, which has the same members as a call.
fn is_definition(map: &Map<'_>) -> bool {
    let schema = |value: &Value<'_>| {
        ["type", "properties", "$schema"].iter().any(|key| value.get(key).is_some())
    };
    map.get("description").is_some() || map.get("parameters").is_some_and(schema)
}
