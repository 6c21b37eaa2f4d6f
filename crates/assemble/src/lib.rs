//! Assembly of span records to complete traces, and of traces to sessions.
//!
//! [`SpanBatch`](spanscore_base::model::SpanBatch)es come in; traces due for judgement go out, with
//! their [`Completion`](spanscore_base::model::Completion). A trace is complete after
//! `quiet_period` without a record since its root ended, after `idle_timeout` without any record,
//! or at `age_max`; at shutdown; or when a limit evicts it. Rules use arrival time and apply after
//! a request, never within, since spans of one request have no order. By default the quiet period
//! adapts to the gaps of a trace ([`completion_policy`]).
//!
//! A judged trace is remembered for `remember_period`. A late span reopens it, and it is judged
//! again with all its spans. Exact duplicates of its spans change nothing.
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
    CutTrace, Due, Handle, OldestTrace, PriorTrace, PriorVerdict, RunningTrace, Shard, ShardCounts,
    SpanCounts,
};
pub use trace::{ChargedSteps, TraceLimit};
