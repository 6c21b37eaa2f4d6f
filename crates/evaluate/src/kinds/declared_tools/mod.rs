//! Kinds that judge the declared tools of an agent, or its calls against their declarations.

mod reliability;
pub mod tool_call_validity;
pub mod tool_description_reliability;
pub mod tool_name_reliability;
