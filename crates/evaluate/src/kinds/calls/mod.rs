//! Kinds that judge the tool calls of a trajectory.

pub mod argument_correctness;
pub mod argument_grounding;
pub mod tool_budget;
pub mod tool_call_args;
pub mod tool_call_count;
pub mod tool_call_order;
pub mod tool_call_output;
pub mod tool_correctness;
pub mod tool_efficiency;
pub mod tool_error;
pub mod tool_loop;
pub mod tool_policy;
pub mod tool_recovery;
pub mod tool_trajectory;
