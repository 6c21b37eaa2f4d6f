//! Evaluation of trajectories: scores, or reasons for their absence.
//!
//! An evaluator is built once from its settings and criteria, then judges trajectories. Evaluators
//! do no I/O and read no clock. A new kind is a file `evaluate/kinds/<family>/<kind>.rs` with a
//! [`Kind`], its name in [`KINDS`], and fixtures under `tests/fixtures/evaluators/<kind>/`.

pub mod compat;
pub mod engine;
pub mod evaluator;
pub mod external;
pub mod inquiry;
pub mod judged;
pub mod kinds;
pub mod requests;
pub mod shared;

pub use evaluator::{ClassifierClasses, CodeEvaluator, Early, Evaluator, JudgedEvaluator, Kind};
pub use kinds::{KINDS, kind};
pub use requests::{AskedTarget, ExternalRequest, JudgeRequest};
pub use shared::failure::{FailureJudge, FailureSettings};

pub use spanscore_base::model::Want;
