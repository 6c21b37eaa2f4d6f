//! Judges: language models that evaluators ask, within limits of time, rate and money.
//!
//! ```text
//! inquiry ─► lane: settle ─► gate: circuit, rate, budget ─► question ─► judge
//!              ▲                                              │
//!              └── another sample, a repair, another judge ◄──┴─► evaluations
//! ```
//!
//! [`lane`] holds what waits and decides, without a clock, what is asked next; `gate` says whether
//! a judge may be asked now; `wire` speaks the protocols; `client` sends. What is asked and what is
//! made of an answer is the affair of [`evaluate`](crate::evaluate::inquiry).
//!
//! **Invariants:** money is set aside before a request and settled after it; every inquiry comes
//! out once, as an evaluation, replaced by a later one, or left to the next process; an answer is
//! logged before anybody hears of it.

mod cache;
mod call;
mod client;
mod gate;
pub mod lane;
mod metrics;
mod settings;
mod wire;

pub use cache::ANSWERS_BYTES_MAX;
pub use call::{CallWatch, JudgeCall};
pub use client::{JudgeStartError, ReplyRecording};
pub use lane::{AnswerLog, JudgeLane, JudgesChange, LaneHandle, LaneOutlet, LaneSettings, ask_all};
pub use settings::{
    AzureSettings, BudgetPace, DeadLetterChoice, JudgeApi, JudgeBudget, JudgeLimits, JudgePrice,
    JudgeSettings, JudgingSettings, StructuredOutput, check_judges, unknown_judge,
};
