//! Assembly of span records to complete traces, and of traces to sessions.
//!
//! [`SpanBatch`](spanscore_base::model::SpanBatch)es come in; traces that are due for judgement go
//! out, with the cause that completed them: [`Completion`](spanscore_base::model::Completion). A
//! trace is complete when its root ended and nothing came for `quiet_period`; or nothing came for
//! `idle_timeout`; or it is older than `age_max`; or the process shuts down; or a limit evicts it.
//! Rules use arrival time and are applied after a request, never within: spans of one request stand
//! in any order. By default the quiet period adapts to what a trace lacks ([`completion_policy`]).
//!
//! A judged trace is remembered for `remember_period`; a late span reopens it, and it is judged
//! again on all its spans. Exact duplicates of its spans change nothing.
//!
//! **Invariant:** no I/O and no clock: `(state, input, now) -> outputs`.

mod completion_policy;
mod memory_setting;
pub mod sessions;
pub mod settings;
pub mod shard;
mod shares;
mod tally;
mod trace;
mod wheel;

pub use memory_setting::MemorySetting;
pub use sessions::{DueSession, Sessions};
pub use settings::{
    LimitsSettings, QuietPeriod, SessionKeyFields, SessionsSettings, TracesSettings,
};
pub use shard::{
    CutTrace, Due, Handle, HoldingTrace, PriorTrace, PriorVerdict, RunningTrace, Shard,
    ShardCounts, SpanCounts,
};
pub use trace::{TakenSteps, TraceLimit};
