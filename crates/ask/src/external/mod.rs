//! External evaluators: programs and servers that receive trajectories and answer with scores,
//! beside the shards and without slowing them.
//!
//! ```text
//! inquiry ─► scheduler ─► channel of its evaluator: described, concurrency ─► transport
//!              ▲                                                                │
//!              └──────────── a retry, another channel ◄─────────────────────────┴─► evaluations
//! ```
//!
//! The scheduler holds waiting tasks. `backend` chooses the next request without a clock;
//! `transport` sends it to a process, over gRPC or over HTTP.
//! [`evaluate`](spanscore_evaluate::external) defines the messages and interprets answers.
//!
//! **Invariants:** every inquiry ends once, as evaluations, replaced by a later one, or left to the
//! next process. A missing, late or wrong answer never becomes a score. No started process outlives
//! its evaluation, or the dispatcher.

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
