//! The engine: which evaluators see a trajectory, what they judge it against, and the identity of
//! their answers.

mod counted;
pub mod expect;
pub mod identity;
pub mod run;
pub mod select;
pub mod tool_choice;
mod truth;
