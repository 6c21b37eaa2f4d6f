//! `LlamaIndex`'s chat messages: blocks of the type `tool_call` with `tool_kwargs`; the id of a
//! result's call stands in `additional_kwargs`.

use super::{ApiShape, has};

pub(super) const SHAPE: ApiShape = ApiShape {
    name: "llamaindex",
    is_call: |map, kind| kind.is_none() && has(map, &["tool_name", "tool_kwargs"]),
    ..ApiShape::NONE
};
