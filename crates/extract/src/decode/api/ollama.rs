//! Ollama's Chat: calls as OpenAI's without ids and types, arguments as objects; results name the
//! tool.

use super::{ApiShape, has};

pub(super) const SHAPE: ApiShape = ApiShape {
    name: "ollama",
    is_call: |map, _| has(map, &["name"]) && (has(map, &["arguments"]) || has(map, &["args"])),
    ..ApiShape::NONE
};
