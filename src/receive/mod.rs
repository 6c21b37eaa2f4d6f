//! Bytes in, acknowledged once they were taken.

pub mod file;
mod follow;
pub mod settings;

mod admission;
mod answer;
mod auth;
mod body;
mod closing;
mod compression;
mod deadline;
mod grpc;
mod head;
mod http;
mod ingest;
mod listen;
mod meter;
mod metrics;
mod server;
mod status;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use crate::otlp::{RawBody, Signal};

pub use admission::{AskedRoom, Waiters};
pub use compression::unpack;
pub use follow::FileReceiver;
pub use listen::ReceiverStartError;
pub use meter::Sender;
pub use server::Receivers;

/// What became of a request's items.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Accepted {
    /// Spans, log records or data points that were taken.
    pub accepted: u64,
    /// Those that were not: the sender hears of them as partial success.
    pub rejected: u64,
    /// Why, for the sender; empty when nothing was rejected.
    pub message: String,
}

/// Why a request was not taken at all.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refused {
    /// It cannot be decoded: the sender must not send it again.
    #[error("malformed request: {0}")]
    Malformed(String),
    /// There is no room now: the sender should send it again after this time.
    #[error("overloaded, retry after {retry_after:?}")]
    Overloaded {
        /// When to try again.
        retry_after: Duration,
    },
    /// It cannot be kept in the log now: the sender should send it again after this time.
    #[error("overloaded: {why}, retry after {retry_after:?}")]
    NotKept {
        /// When to try again.
        retry_after: Duration,
        /// What is wrong with the log.
        why: &'static str,
    },
    /// The process is shutting down: the sender should try again elsewhere or later.
    #[error("shutting down")]
    ShuttingDown,
}

/// One request as it came, and as it is read.
#[derive(Clone, Debug)]
pub struct Received {
    /// What it carries.
    pub signal: Signal,
    /// Protobuf, not compressed, whatever form it came in.
    pub request: Bytes,
    /// The form it came in.
    pub raw: RawBody,
}

impl Received {
    /// A request that came as protobuf, not compressed.
    pub fn protobuf(signal: Signal, request: Bytes) -> Self {
        let raw = RawBody { bytes: request.clone(), compression: None, is_json: false };
        Self { signal, request, raw }
    }
}

/// Where receivers hand their requests: the pipeline, or a test.
pub trait Intake: Send + Sync + 'static {
    /// Takes one request. May wait for room up to a second; must be cheap to refuse.
    fn accept(
        &self,
        received: Received,
        sender: &Arc<Sender>,
    ) -> impl Future<Output = Result<Accepted, Refused>> + Send;

    /// The same for a request that has waited already, and waits no longer than until then. What
    /// never waits has no use for the deadline.
    fn accept_by(
        &self,
        received: Received,
        sender: &Arc<Sender>,
        _deadline: Instant,
    ) -> impl Future<Output = Result<Accepted, Refused>> + Send {
        self.accept(received, sender)
    }
}

impl<T: Intake> Intake for Arc<T> {
    async fn accept(&self, received: Received, sender: &Arc<Sender>) -> Result<Accepted, Refused> {
        (**self).accept(received, sender).await
    }

    async fn accept_by(
        &self,
        received: Received,
        sender: &Arc<Sender>,
        deadline: Instant,
    ) -> Result<Accepted, Refused> {
        (**self).accept_by(received, sender, deadline).await
    }
}
