//! Judges: language models used by evaluators, within limits of time, rate and money.
//!
//! ```text
//! inquiry ─► scheduler: settle ─► gate: circuit, rate, budget ─► question ─► judge
//!              ▲                                                   │
//!              └──── another sample, a repair, another judge ◄─────┴─► evaluations
//! ```
//!
//! The scheduler holds waiting inquiries. `backend` chooses the next request without a clock.
//! `gate` admits a request or returns the blocking limit: circuit breaker, concurrency, rates,
//! budget. `wire` implements the protocols. `executor` and `client` send, with `aws` signatures if
//! configured. [`evaluate`](spanscore_evaluate::inquiry) renders prompts and reads replies.
//!
//! **Invariants:** money is reserved before a request and settled after it. Every inquiry ends
//! once, as an evaluation, replaced by a later one, or left to the next process. An answer is
//! logged before any consumer sees it.

mod aws;
mod backend;
mod cache;
mod call;
mod client;
mod dispatcher;
mod executor;
mod gate;
mod metrics;
mod settings;
mod wire;

pub use aws::AwsSettings;
pub use backend::{CostForecast, CostForecaster};
pub use cache::ANSWERS_BYTES_MAX;
pub use call::{CallTexts, CallWatch, JudgeCall};
pub use client::{JudgeStartError, ReplyRecording, missing_key};
pub use dispatcher::{
    AnswerLog, JudgeDispatcher, JudgeHandle, JudgeOutlet, JudgeParts, JudgesChange, ask_all,
};
pub use settings::{
    AzureSettings, BudgetPace, DeadLetterChoice, JudgeApi, JudgeBudget, JudgeLimits, JudgePrice,
    JudgeSettings, JudgingSettings, StructuredOutput, check_judges,
};
