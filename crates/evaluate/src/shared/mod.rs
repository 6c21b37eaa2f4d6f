//! Parts shared by several kinds, independent of each.

pub mod arguments;
pub mod definitions;
pub mod difference;
pub mod digest;
pub mod expected_calls;
pub mod failure;
pub(crate) mod glob;
pub mod matcher;
pub mod names;
pub mod order;
pub mod pairing;
pub mod report;
pub(crate) mod roles;
pub(crate) mod sentences;
pub mod step_limit;
pub mod text;
pub mod turns;
pub mod within_group;
