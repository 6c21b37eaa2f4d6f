//! Kinds that ask a judge, each defined by facts, statements and guidance.

pub mod task_completion;
pub mod tool_argument_hallucination;

pub mod goal_accuracy;
pub mod tool_response_handling;
pub mod tool_selection;

mod plan;
pub mod plan_adherence;
pub mod plan_quality;

pub mod citations;
pub mod faithfulness;
pub mod helpfulness;
pub mod pairwise;
pub mod refusal;
pub mod retrieval;
pub mod rubric;
pub mod topic_adherence;
