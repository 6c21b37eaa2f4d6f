//! Judges: language models that evaluators ask, within limits of time, rate and money.
//!
//! ```text
//! inquiry ─► lane: settle ─► gate: circuit, rate, budget ─► question ─► judge
//!              ▲                                              │
//!              └── another sample, a repair, another judge ◄──┴─► evaluations
//! ```
//!
//! [`lane`] schedules: it holds the inquiries that wait and decides, without a clock, which request
//! is next. `gate` admits a request or says why not: circuit breaker, concurrency, rates, budget.
//! `wire` speaks the protocols; `client` sends. Prompts and the reading of replies belong to
//! [`evaluate`](spanscore_evaluate::inquiry).
//!
//! **Invariants:** money is reserved before a request and settled after it; every inquiry comes out
//! once, as an evaluation, replaced by a later one, or left to the next process; an answer is
//! logged before any consumer sees it.

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
    JudgeSettings, JudgingSettings, StructuredOutput, check_judges,
};
