//! Kinds that judge an agent's tool definitions, or its calls against them.

mod reliability;
pub mod tool_call_validity;
pub mod tool_description_reliability;
pub mod tool_name_reliability;
