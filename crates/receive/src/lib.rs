//! Receivers: OTLP over gRPC and HTTP, and files; bytes in, acknowledged once they were accepted.

mod follow;
pub mod settings;

mod admission;
mod answer;
mod auth;
mod body;
mod compression;
mod deadline;
mod grpc;
mod head;
mod http;
mod ingest;
mod listen;
mod meter;
mod metrics;
mod refused_paths;
mod server;
mod shutdown_phases;
mod status;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use spanscore_base::model::Sender;
use spanscore_base::otlp::{RawBody, Signal};

pub use admission::{AskedRoom, Waiters};
pub use compression::unpack;
pub use follow::FileReceiver;
pub use listen::ReceiverStartError;
pub use meter::ConnectionAccount;
pub use metrics::AcceptedItems;
pub use server::Receivers;

/// Longest wait of a sender for room before it is refused.
pub const ROOM_WAIT: Duration = Duration::from_secs(1);

/// Outcome of a request, by its items.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Accepted {
    /// Number of spans, log records or data points that were accepted.
    pub accepted: u64,
    /// Number of those that were rejected: the sender is told of them as partial success.
    pub rejected: u64,
    /// Reason for the sender; empty when nothing was rejected.
    pub message: String,
}

/// Reason for which a request was refused as a whole.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refused {
    /// It cannot be decoded: the sender must not send it again.
    #[error("malformed request: {0}")]
    Malformed(String),
    /// There is no room now: the sender should send it again after this time.
    #[error("overloaded, retry after {retry_after:?}")]
    Overloaded {
        /// Time after which to retry.
        retry_after: Duration,
    },
    /// The store has no room for its evaluations now: the sender should send it again after this
    /// time.
    #[error("the store has no room for its evaluations, retry after {retry_after:?}")]
    StoreFull {
        /// Time after which to retry.
        retry_after: Duration,
    },
    /// The log cannot store it now: the sender should send it again after this time.
    #[error("overloaded: {why}, retry after {retry_after:?}")]
    NotKept {
        /// Time after which to retry.
        retry_after: Duration,
        /// Fault of the log.
        why: &'static str,
    },
    /// Nobody takes it behind this process now, and waiting would not help: the sender should send
    /// it again after this time. It is told so at once.
    #[error("{why}, retry after {retry_after:?}")]
    Away {
        /// Time after which to retry.
        retry_after: Duration,
        /// Reason.
        why: &'static str,
    },
    /// The process is shutting down: the sender should try again elsewhere or later.
    #[error("shutting down")]
    ShuttingDown,
}

/// One request as it came, and as it is read.
#[derive(Clone, Debug)]
pub struct Received {
    /// Kind of its items.
    pub signal: Signal,
    /// Protobuf, not compressed, whatever form it came in.
    pub request: Bytes,
    /// Bytes in the form they came in.
    pub raw: RawBody,
    /// Its sender.
    pub sender: Sender,
    /// Name of the client that sent it, where clients are known.
    pub client: Option<Arc<str>>,
}

impl Received {
    /// Returns the bytes that the log copies to write its group before it.
    pub fn copied_bytes(&self) -> usize {
        if self.sender.group.is_everybody() { 0 } else { self.raw.bytes.len() }
    }

    /// Makes a request that came as protobuf, not compressed.
    pub fn protobuf(signal: Signal, request: Bytes) -> Self {
        let raw = RawBody { bytes: request.clone(), compression: None, is_json: false };
        Self { signal, request, raw, sender: Sender::default(), client: None }
    }
}

/// Destination of the receivers' requests: the pipeline, or a test.
pub trait Intake: Send + Sync + 'static {
    /// Takes one request, and waits for room no longer than [`ROOM_WAIT`].
    fn accept(
        &self,
        received: Received,
        sender: &Arc<ConnectionAccount>,
    ) -> impl Future<Output = Result<Accepted, Refused>> + Send {
        self.accept_by(received, sender, Instant::now() + ROOM_WAIT)
    }

    /// Takes a request that may have waited already, and waits for room no longer than until then;
    /// must be cheap to refuse.
    fn accept_by(
        &self,
        received: Received,
        sender: &Arc<ConnectionAccount>,
        deadline: Instant,
    ) -> impl Future<Output = Result<Accepted, Refused>> + Send;
}

impl<T: Intake> Intake for Arc<T> {
    async fn accept_by(
        &self,
        received: Received,
        sender: &Arc<ConnectionAccount>,
        deadline: Instant,
    ) -> Result<Accepted, Refused> {
        (**self).accept_by(received, sender, deadline).await
    }
}
