//! Evaluators outside of this process: programs and servers that are sent trajectories and answer
//! with scores, beside the shards and never slowing them.
//!
//! ```text
//! inquiry ─► lane: waits ─► channel of its evaluator: described, concurrency ─► transport
//!              ▲                                                                  │
//!              └──────────── another try, another channel ◄───────────────────────┴─► evaluations
//! ```
//!
//! [`lane`] holds what waits and decides, without a clock, what is sent next; `transport` sends it:
//! to a process, over gRPC, over HTTP. What is sent and what an answer means is the affair of
//! [`evaluate`](spanscore_evaluate::external).
//!
//! **Invariants:** every inquiry comes out once, as evaluations, replaced by a later one, or left
//! to the next process; no answer, a late one or a wrong one never becomes a score; no process that
//! was started outlives its evaluation, or the lane.

pub mod lane;
mod metrics;
mod probe;
mod transport;

pub use lane::{ExternalHandle, ExternalLane, ExternalSettings, ExternalStartError, ask_all};
pub use probe::{ExternalProbe, ProbeAnswer, probe};
