//! Receivers: OTLP over gRPC and HTTP, and from files; requests are acknowledged once accepted.

mod follow;
pub mod settings;

mod admission;
mod answer;
mod auth;
mod body;
mod compression;
mod deadline;
mod grpc;
mod header_limit;
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

pub use admission::{RoomRequest, Waiters};
pub use compression::unpack;
pub use follow::FileReceiver;
pub use listen::ReceiverStartError;
pub use meter::ConnectionAccount;
pub use metrics::AcceptedItems;
pub use server::Receivers;

/// Longest wait of a sender for room.
pub const ROOM_WAIT: Duration = Duration::from_secs(1);

/// Outcome of a request, in items.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Accepted {
    /// Number of accepted spans, log records or data points.
    pub accepted: u64,
    /// Number of rejected ones, reported to the sender as partial success.
    pub rejected: u64,
    /// Reason for the sender; empty if nothing was rejected.
    pub message: String,
}

/// Reason for refusing a whole request.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refused {
    /// It cannot be decoded; the sender must not retry it.
    #[error("malformed request: {0}")]
    Malformed(String),
    /// Something is lacking now; the sender should retry.
    #[error("{lack}, retry after {retry_after:?}")]
    Later {
        /// Cause.
        lack: Lack,
        /// Retry delay.
        retry_after: Duration,
    },
    /// The process is shutting down; the sender should retry elsewhere or later.
    #[error("shutting down")]
    ShuttingDown,
}

/// Temporary cause of refusing a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Lack {
    /// Room in later stages.
    #[error("overloaded")]
    Room,
    /// Room in the store for its evaluations.
    #[error("the store has no room for its evaluations")]
    StoreRoom,
    /// A place in the log, by this fault.
    #[error("overloaded: {0}")]
    Log(&'static str),
    /// Its destination, so that waiting would not help: answered at once.
    #[error("{0}")]
    Destination(&'static str),
}

/// One request, as received and as decoded.
#[derive(Clone, Debug)]
pub struct Received {
    /// Kind of its items.
    pub signal: Signal,
    /// Uncompressed protobuf.
    pub request: Bytes,
    /// Body as received.
    pub raw: RawBody,
    /// Its sender.
    pub sender: Sender,
    /// Name of its client, if clients are configured.
    pub client: Option<Arc<str>>,
}

impl Received {
    /// Returns the bytes that the log copies to write the group before the body.
    pub fn copied_bytes(&self) -> usize {
        if self.sender.group.is_everybody() { 0 } else { self.raw.bytes.len() }
    }

    /// Returns a request received as uncompressed protobuf.
    pub fn protobuf(signal: Signal, request: Bytes) -> Self {
        let raw = RawBody { bytes: request.clone(), compression: None, is_json: false };
        Self { signal, request, raw, sender: Sender::default(), client: None }
    }
}

/// Destination of requests: the pipeline, or a test.
pub trait Intake: Send + Sync + 'static {
    /// Accepts one request, and waits for room up to [`ROOM_WAIT`].
    fn accept(
        &self,
        received: Received,
        sender: &Arc<ConnectionAccount>,
    ) -> impl Future<Output = Result<Accepted, Refused>> + Send {
        self.accept_by(received, sender, Instant::now() + ROOM_WAIT)
    }

    /// Accepts a request that may have waited already, and waits for room until the deadline;
    /// refusals must be cheap.
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
