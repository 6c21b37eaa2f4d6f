//! Shapes of tool calls and results in the request and response bodies of model APIs, each an entry
//! of [`SHAPES`].
//!
//! A body is parsed by these shapes whatever its instrumentation and key. The marks of a call or a
//! result differ between shapes, so that they are unambiguous.

mod shapes;

use self::shapes::SHAPES;
pub(super) use self::shapes::part_kind;
use spanscore_base::value::{Map, Value};

/// Marks of calls and results in one API.
pub(super) struct ApiShape {
    /// Name of the shape and its fixture.
    #[cfg_attr(not(test), expect(dead_code, reason = "names the fixture"))]
    pub(super) name: &'static str,
    /// Members of an object that only contain a call.
    pub(super) call_in: &'static [&'static str],
    /// Members of an object that only contain a result.
    pub(super) result_in: &'static [&'static str],
    /// Returns true for a call; the second argument is the object's `type`.
    pub(super) is_call: fn(&Map<'_>, Option<&str>) -> bool,
    /// Returns true for a result; the second argument is the object's `type`.
    pub(super) is_result: fn(&Map<'_>, Option<&str>) -> bool,
}

impl ApiShape {
    /// Shape without marks.
    pub(super) const NONE: Self = Self {
        name: "",
        call_in: &[],
        result_in: &[],
        is_call: |_, _| false,
        is_result: |_, _| false,
    };
}

/// Returns the `type` of an object.
pub(super) fn kind<'m>(map: &'m Map<'_>) -> Option<&'m str> {
    map.get("type").and_then(Value::as_str)
}

/// Returns true if an object has any member that marks a call or result in some shape. A prefilter:
/// most objects are texts, and need no comparison with all shapes.
pub(super) fn may_be_marked(map: &Map<'_>) -> bool {
    map.iter().any(|(key, value)| match key {
        "type" => value.as_str().is_some_and(|kind| kind.contains("tool") || kind.contains("call")),
        "tool_call" | "toolUse" | "toolRequest" | "functionCall" | "function_call" => true,
        "tool_call_result" | "toolResult" | "toolResponse" => true,
        "functionResponse" | "function_response" => true,
        "function" | "name" | "tool_name" | "toolCallId" | "tool_use_id" => true,
        "call" | "origin" => true,
        _ => false,
    })
}

/// Returns the member that only contains a call.
pub(super) fn call_in(map: &Map<'_>) -> Option<&'static str> {
    member(map, |shape| shape.call_in)
}

/// Returns the member that only contains a result.
pub(super) fn result_in(map: &Map<'_>) -> Option<&'static str> {
    member(map, |shape| shape.result_in)
}

fn member(
    map: &Map<'_>,
    of: impl Fn(&ApiShape) -> &'static [&'static str],
) -> Option<&'static str> {
    let holds = |key: &&&str| map.get(key).is_some_and(|inner| inner.as_map().is_some());
    SHAPES.iter().find_map(|shape| of(shape).iter().find(holds)).copied()
}

/// Returns true for a call in any shape.
pub(super) fn is_call(map: &Map<'_>) -> bool {
    let kind = kind(map);
    SHAPES.iter().any(|shape| (shape.is_call)(map, kind))
}

/// Returns true for a result in any shape.
pub(super) fn is_result(map: &Map<'_>) -> bool {
    let kind = kind(map);
    SHAPES.iter().any(|shape| (shape.is_result)(map, kind))
}

/// Returns true if all of these members are present.
fn has(map: &Map<'_>, keys: &[&str]) -> bool {
    keys.iter().all(|key| map.get(key).is_some())
}

#[cfg(test)]
mod tests;
