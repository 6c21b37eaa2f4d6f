//! Receiver: a member of a consumer group that hands requests to a sink and commits positions
//! behind all unfinished work.
//!
//! ```text
//! brokers ──► poller (a thread) ── chunks ──► lanes (tasks) ── requests with claims ──► sink
//!                │ ▲ committed: the lowest claimed offset of a partition, else its next
//!                │ └────────── claims of traces and of undelivered evaluations ◄───────┘
//!                └─ revoked: commit, retire the source; its traces are dropped unjudged
//! ```
//!
//! The topic is the log: records are written nowhere else. A partition is a [`Source`] from its
//! assignment to its revocation, so a claim of an earlier ownership never moves the position of a
//! later one. While lanes hold too much, partitions are paused and polling continues.
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

/// Running receiver; none by default.
#[derive(Default)]
pub struct KafkaReceiver {
    #[cfg(feature = "client")]
    running: Option<running::RunningReceiver>,
}

/// Request of one or more adjacent records of a partition.
#[derive(Clone, Debug)]
pub struct FetchedRequest {
    /// Kind of its items.
    pub signal: Signal,
    /// Client group of its sender.
    pub group: ClientGroup,
    /// OTLP in protobuf.
    pub request: Bytes,
    /// Claims on the offsets of its records.
    pub claims: RecordClaims,
}

/// Claims on the records of a request.
#[derive(Clone, Debug)]
pub enum RecordClaims {
    /// A single record, with any traces.
    One(Claim),
    /// Each record is of one trace.
    ByTrace(Arc<ClaimsByTrace>),
}

/// Reason that a request was not accepted.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Untaken {
    /// It is permanently undecodable.
    #[error("malformed request: {0}")]
    Malformed(String),
    /// There is no room now.
    #[error("no room now")]
    NoRoom,
    /// The process is shutting down.
    #[error("shutting down")]
    Ending,
}

/// Destination of the records: the pipeline, or a test.
pub trait RecordSink: Send + Sync + 'static {
    /// Accepts a request completely or not at all, and holds its claims until all work from it is
    /// finished. May wait for room, up to a second.
    fn take(&self, fetched: FetchedRequest) -> impl Future<Output = Result<(), Untaken>> + Send;

    /// Drops all work with retired claims, unjudged and uncounted: other processes do it.
    fn drop_revoked(&self) -> impl Future<Output = ()> + Send;
}

/// Start-up error of the receiver.
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
    /// Topics of spans and of log records have incompatible partitions.
    #[error(
        "`receivers.kafka`: topics of spans and of log records must have equally many \
             partitions, so that one process gets both parts of a trace: {0}; or write both \
             signals to one topic"
    )]
    UnequalPartitions(String),
    /// Sessions would span processes.
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
    /// The system refused a thread.
    #[error("`receivers.kafka`: no thread for the client: {0}")]
    Thread(#[from] std::io::Error),
}
