//! Bedrock's Converse: blocks `{toolUse: ...}` and `{toolResult: ...}`, whose `status` may say
//! `error`.

use super::ApiShape;

pub(super) const SHAPE: ApiShape = ApiShape {
    name: "bedrock",
    call_in: &["toolUse"],
    result_in: &["toolResult"],
    ..ApiShape::NONE
};
