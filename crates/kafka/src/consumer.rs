//! The receiver: one member of a consumer group, which hands requests to a sink and commits
//! positions behind everything that is unfinished.
//!
//! ```text
//! brokers ──► poller (a thread) ── chunks ──► lanes (tasks) ── requests with claims ──► sink
//!                │ ▲ committed: the lowest claimed offset of a partition, else its next
//!                │ └────────── claims of traces and of evaluations on their way ◄──────┘
//!                └─ revoked: commit, retire the source; its traces are dropped unjudged
//! ```
//!
//! The topic is the log: records are written nowhere else. A partition is a [`Source`] from its
//! assignment to its revocation, so a claim of an earlier ownership never moves the position of a
//! later one. While lanes hold too much, partitions are paused and polling goes on.
//!
//! [`Source`]: spanscore_base::model::Source

pub(super) mod settings;

#[cfg(not(feature = "client"))]
mod absent;
#[cfg(feature = "client")]
mod chunk;
#[cfg(feature = "client")]
mod commit;
#[cfg(feature = "client")]
mod done;
#[cfg(feature = "client")]
mod group;
#[cfg(feature = "client")]
mod headers;
#[cfg(feature = "client")]
mod lane;
#[cfg(feature = "client")]
mod metrics;
#[cfg(feature = "client")]
mod ownership;
#[cfg(feature = "client")]
mod poller;
#[cfg(feature = "client")]
mod running;
#[cfg(test)]
#[cfg(feature = "client")]
mod tests;
#[cfg(feature = "client")]
mod topics;

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;

use spanscore_base::model::{Claim, ClaimsByTrace, ClientGroup};
use spanscore_base::otlp::Signal;

/// A running receiver; by default none.
#[derive(Default)]
pub struct KafkaReceiver {
    #[cfg(feature = "client")]
    running: Option<running::RunningReceiver>,
}

/// Request of one or more records of a partition, one behind the other.
#[derive(Clone, Debug)]
pub struct FetchedRequest {
    /// Kind of its items.
    pub signal: Signal,
    /// Group of the clients that sent all of it.
    pub group: ClientGroup,
    /// OTLP in protobuf.
    pub request: Bytes,
    /// Claims on the offsets of its records.
    pub claims: RecordClaims,
}

/// Claims on the records of a request.
#[derive(Clone, Debug)]
pub enum RecordClaims {
    /// It is one record, of whatever traces.
    One(Claim),
    /// Each record is of one trace.
    ByTrace(Arc<ClaimsByTrace>),
}

/// Reason for which a request was not taken.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Untaken {
    /// It cannot be decoded, and never will be.
    #[error("malformed request: {0}")]
    Malformed(String),
    /// There is no room now.
    #[error("no room now")]
    NoRoom,
    /// The process ends.
    #[error("shutting down")]
    Ending,
}

/// Destination of the records: the pipeline, or a test.
pub trait RecordSink: Send + Sync + 'static {
    /// Takes a request, or none of it; holds its claims for as long as anything made of it is
    /// unfinished. May wait for room, up to a second.
    fn take(&self, fetched: FetchedRequest) -> impl Future<Output = Result<(), Untaken>> + Send;

    /// Drops all work whose claims are retired, unjudged and uncounted: others do it.
    fn drop_revoked(&self) -> impl Future<Output = ()> + Send;
}

/// Errors of starting the receiver.
#[derive(Debug, thiserror::Error)]
pub enum KafkaStartError {
    /// The build has no client.
    #[error("`receivers.kafka`: {}", crate::NOT_BUILT_IN)]
    NotBuiltIn,
    /// The client refuses its settings.
    #[error("`receivers.kafka`: {0}")]
    Client(String),
    /// No broker answers.
    #[error(
        "`receivers.kafka`: no broker of {brokers} answers: {error}; check their addresses, \
             `tls` and `auth`"
    )]
    Unreachable {
        /// Addresses.
        brokers: String,
        /// Cause.
        error: String,
    },
    /// A topic does not exist.
    #[error(
        "`receivers.kafka`: there is no topic `{0}`; create it, or leave it out, as in \
             `logs: {{topics: []}}`"
    )]
    NoTopic(String),
    /// Topics of spans and of log records cannot be assigned side by side.
    #[error(
        "`receivers.kafka`: topics of spans and of log records must have equally many \
             partitions, so that one process gets both parts of a trace: {0}; or write both \
             signals to one topic"
    )]
    UnequalPartitions(String),
    /// Sessions cannot be put together.
    #[error(
        "`receivers.kafka`: evaluators of `level: session` need all traces of a session in one \
             process, and `{topic}` has {count} partitions; use a topic of one"
    )]
    Sessions {
        /// Topic.
        topic: String,
        /// Number of its partitions.
        count: usize,
    },
    /// The system has no thread to give.
    #[error("`receivers.kafka`: no thread for the client: {0}")]
    Thread(#[from] std::io::Error),
}
