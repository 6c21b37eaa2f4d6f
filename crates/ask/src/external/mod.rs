//! Evaluators outside of this process: programs and servers that are sent trajectories and answer
//! with scores, beside the shards and never slowing them.
//!
//! ```text
//! inquiry ─► scheduler ─► channel of its evaluator: described, concurrency ─► transport
//!              ▲                                                                │
//!              └──────────── another try, another channel ◄─────────────────────┴─► evaluations
//! ```
//!
//! The scheduler holds the tasks that wait; `backend` decides, without a clock, which request is
//! next; `transport` sends it: to a process, over gRPC, over HTTP. Messages and the reading of
//! answers belong to [`evaluate`](spanscore_evaluate::external).
//!
//! **Invariants:** every inquiry comes out once, as evaluations, replaced by a later one, or left
//! to the next process; no answer, a late one or a wrong one never becomes a score; no process that
//! was started outlives its evaluation, or the dispatcher.

mod backend;
mod dispatcher;
mod executor;
mod metrics;
mod probe;
mod transport;

pub use dispatcher::{
    ExternalDispatcher, ExternalHandle, ExternalSettings, ExternalStartError, ask_all,
};
pub use probe::{ExternalProbe, ProbeAnswer, probe};
