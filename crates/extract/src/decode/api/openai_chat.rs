//! OpenAI's Chat Completions: `tool_calls` with a `function` each, answered by messages of the role
//! `tool`.

use super::ApiShape;

pub(super) const SHAPE: ApiShape = ApiShape {
    name: "openai_chat",
    is_call: |map, _| map.get("function").is_some_and(|inner| inner.get("name").is_some()),
    ..ApiShape::NONE
};
