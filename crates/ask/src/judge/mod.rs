//! Judges: language models that evaluators ask, within limits of time, rate and money.
//!
//! ```text
//! inquiry ─► scheduler: settle ─► gate: circuit, rate, budget ─► question ─► judge
//!              ▲                                                   │
//!              └──── another sample, a repair, another judge ◄─────┴─► evaluations
//! ```
//!
//! The scheduler holds the inquiries that wait; `backend` decides, without a clock, which request
//! is next. `gate` admits a request or says why not: circuit breaker, concurrency, rates, budget.
//! `wire` speaks the protocols; `executor` and `client` send, signed by `aws` where asked. Prompts
//! and the reading of replies belong to [`evaluate`](spanscore_evaluate::inquiry).
//!
//! **Invariants:** money is reserved before a request and settled after it; every inquiry comes out
//! once, as an evaluation, replaced by a later one, or left to the next process; an answer is
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
