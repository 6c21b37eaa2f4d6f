//! Pydantic AI's messages as its types are serialised: parts marked by a `part_kind`.

use super::ApiShape;
use spanscore_base::value::{Map, Value};

pub(super) const SHAPE: ApiShape = ApiShape {
    name: "pydantic",
    is_call: |map, _| part_kind(map) == Some("tool-call"),
    is_result: |map, _| {
        part_kind(map) == Some("tool-return")
            || part_kind(map) == Some("retry-prompt") && map.get("tool_name").is_some()
    },
    ..ApiShape::NONE
};

/// Returns the `part_kind` of a part.
pub(in super::super) fn part_kind<'m>(map: &'m Map<'_>) -> Option<&'m str> {
    map.get("part_kind").and_then(Value::as_str)
}
