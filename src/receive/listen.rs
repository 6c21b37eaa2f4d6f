//! A listening port: binds, accepts within the limit on connections, ends when told.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use crate::model::Share;

use super::Sender;
use super::closing::Closing;
use super::connection::{ConnectionLimits, Serve, serve_connection};
use super::meter::{CONNECTION_BYTES, Metered};
use super::metrics::{Closed, ReceiverMetrics, Transport};

/// A failing `accept` (out of file descriptors, mostly) is tried again after this time.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Why the receivers cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ReceiverStartError {
    /// An address cannot be listened on.
    #[error("cannot listen on {endpoint}: {error}; {remedy} {setting}")]
    Bind {
        /// The address as it stands in the settings.
        endpoint: String,
        /// The setting that holds it.
        setting: &'static str,
        /// What to do with the setting.
        remedy: &'static str,
        /// What the system says.
        error: io::Error,
    },
}

impl ReceiverStartError {
    /// The error of binding an endpoint, with what can be done about it.
    pub fn bind(endpoint: &str, setting: &'static str, error: io::Error) -> Self {
        let remedy = match error.kind() {
            io::ErrorKind::AddrInUse => "is another collector running? stop it or change",
            io::ErrorKind::PermissionDenied => "choose a port above 1023 in",
            io::ErrorKind::AddrNotAvailable => "this machine does not have that address, change",
            _ if endpoint.contains("://") => "write host:port, without a scheme, in",
            _ => "write host:port in",
        };
        Self::Bind { endpoint: endpoint.to_owned(), setting, remedy, error }
    }
}

/// Binds an endpoint of the settings.
pub(super) async fn bind(
    endpoint: &str,
    setting: &'static str,
) -> Result<(TcpListener, SocketAddr), ReceiverStartError> {
    let failed = |error| ReceiverStartError::bind(endpoint, setting, error);
    let listener = TcpListener::bind(endpoint).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}

/// What all ports share.
#[derive(Clone)]
pub(super) struct PortContext {
    pub(super) connections: Arc<Semaphore>,
    /// What connections hold by themselves.
    pub(super) connection_bytes: Arc<Share>,
    /// What requests hold, and what has not become one.
    pub(super) request_bytes: Arc<Share>,
    pub(super) metrics: Arc<ReceiverMetrics>,
    /// Runs the ports and their connections.
    pub(super) tasks: TaskTracker,
    pub(super) closing: Closing,
}

/// A bound port and what it serves.
pub(super) struct Port<S> {
    pub(super) listener: TcpListener,
    pub(super) transport: Transport,
    pub(super) service: Arc<S>,
    pub(super) limits: Arc<ConnectionLimits>,
}

impl<S: Serve> Port<S> {
    /// Accepts connections until told to stop; the port is closed when this returns.
    pub(super) async fn run(self, shared: PortContext) {
        loop {
            let accepted = tokio::select! {
                biased;
                () = shared.closing.stop.cancelled() => return,
                accepted = self.listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, _)) => self.open(stream, &shared),
                Err(_) => {
                    shared.metrics.accept_error(self.transport);
                    tokio::time::sleep(ACCEPT_RETRY).await;
                }
            }
        }
    }

    fn open(&self, stream: TcpStream, shared: &PortContext) {
        let metrics = Arc::clone(&shared.metrics);
        let Ok(permit) = Arc::clone(&shared.connections).try_acquire_owned() else {
            metrics.closed(self.transport, Closed::Limit, 1);
            return;
        };
        let bytes = Arc::clone(&shared.connection_bytes);
        if !bytes.try_take(CONNECTION_BYTES) {
            metrics.closed(self.transport, Closed::Memory, 1);
            return;
        }
        // Only latency depends on it, and a connection that just broke says so when read.
        let _ = stream.set_nodelay(true);
        let (transport, service) = (self.transport, Arc::clone(&self.service));
        let (limits, closing) = (Arc::clone(&self.limits), shared.closing.clone());
        let (sender, requests) = (Arc::<Sender>::default(), Arc::clone(&shared.request_bytes));
        let counted = Arc::clone(&metrics);
        let stream = Metered::new(stream, Arc::clone(&sender), requests, counted, transport);
        shared.tasks.spawn(async move {
            metrics.connection(transport, 1);
            let closed = tokio::select! {
                closed = serve_connection(stream, sender, service, &limits, &closing) => closed,
                () = closing.kill.cancelled() => Some(Closed::Shutdown),
            };
            metrics.connection(transport, -1);
            if let Some(why) = closed {
                metrics.closed(transport, why, 1);
            }
            bytes.give_back(CONNECTION_BYTES);
            drop(permit);
        });
    }
}
