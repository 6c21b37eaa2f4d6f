//! Haystack's chat messages, as JSON and as Python prints them: `tool_call` with `tool_name`, and
//! `tool_call_result` with the call as its `origin` and whether it was an `error`.

use super::{ApiShape, has};

pub(super) const SHAPE: ApiShape = ApiShape {
    name: "haystack",
    result_in: &["tool_call_result"],
    is_call: |map, kind| kind.is_none() && has(map, &["tool_name", "arguments"]),
    is_result: |map, kind| kind.is_none() && has(map, &["result", "origin"]),
    ..ApiShape::NONE
};
