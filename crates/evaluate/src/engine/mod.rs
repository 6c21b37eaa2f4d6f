//! Engine: selects the evaluators of a trajectory, supplies their criteria, runs them, and assigns
//! identities to their outcomes.

mod counted;
pub mod expect;
pub mod identity;
pub mod run;
pub mod select;
pub mod tool_choice;
mod truth;
