//! Listening port: binds, accepts connections within the limit, performs TLS handshakes, ends when
//! told.

mod connection;
mod handshake;
mod places;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio_util::either::Either;
use tokio_util::task::TaskTracker;

use self::connection::{Activity, names_of_peer, serve_connection};
pub(crate) use self::connection::{Admitted, ConnectionLimits, Serve};
pub(crate) use self::handshake::Handshakes;
pub(crate) use self::places::ConnectionPlaces;
use super::ConnectionAccount;
use super::meter::{CONNECTION_BYTES, Metered, TLS_BYTES};
use super::metrics::{Closed, ReceiverMetrics, Transport};
use super::shutdown_phases::ShutdownPhases;
use spanscore_base::model::{MemoryQuota, Sender};
use spanscore_net::spare::SpareDescriptor;
use spanscore_net::tls::{ServerTls, TlsError};

/// Pause after a failed `accept` (mostly out of file descriptors).
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// Connections refused in one pause.
const REFUSALS_MAX: usize = 128;

/// Start-up error of the receivers.
#[derive(Debug, thiserror::Error)]
pub enum ReceiverStartError {
    /// Cannot listen on an address.
    #[error("cannot listen on {endpoint}: {error}; {remedy} {setting}")]
    Bind {
        /// The address in the settings.
        endpoint: String,
        /// The setting that holds it.
        setting: &'static str,
        /// Remedy by the setting.
        remedy: &'static str,
        /// Error of the system.
        error: io::Error,
    },
    /// The certificates of a port are unusable.
    #[error("cannot set up TLS of {setting}: {error}")]
    Tls {
        /// The setting.
        setting: &'static str,
        /// Error of the file or setting.
        error: Box<TlsError>,
    },
    /// The client tokens cannot be read.
    #[error("cannot read the tokens of receivers.otlp.auth: {0}")]
    Tokens(String),
}

impl ReceiverStartError {
    /// Returns the error of binding an endpoint, with a remedy.
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

/// Limits and services shared by all ports.
#[derive(Clone)]
pub(crate) struct PortContext {
    pub(crate) places: ConnectionPlaces,
    /// Memory of requests, and of bytes not yet part of one.
    pub(crate) request_bytes: Arc<MemoryQuota>,
    pub(crate) metrics: Arc<ReceiverMetrics>,
    /// Tracker of the tasks of ports and their connections.
    pub(crate) tasks: TaskTracker,
    pub(crate) closing: ShutdownPhases,
    pub(crate) handshakes: Handshakes,
}

/// A bound port with its service.
pub(crate) struct Port<S> {
    pub(crate) listener: TcpListener,
    pub(crate) transport: Transport,
    pub(crate) service: Arc<S>,
    pub(crate) limits: Arc<ConnectionLimits>,
    pub(crate) tls: Option<Arc<ServerTls>>,
}

impl<S: Serve> Port<S> {
    /// Binds a configured endpoint, named with its setting.
    pub(crate) async fn bind(
        (endpoint, setting): (&str, &'static str),
        transport: Transport,
        service: S,
        limits: ConnectionLimits,
        tls: Option<Arc<ServerTls>>,
    ) -> Result<(Self, SocketAddr), ReceiverStartError> {
        let failed = |error| ReceiverStartError::bind(endpoint, setting, error);
        let listener = TcpListener::bind(endpoint).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let service = Arc::new(service);
        let limits = Arc::new(limits);
        Ok((Self { listener, transport, service, limits, tls }, address))
    }

    /// Accepts connections until told to stop; the port is closed on return.
    pub(crate) async fn run(self, shared: PortContext) {
        let mut spare = SpareDescriptor::new();
        loop {
            let accepted = tokio::select! {
                biased;
                () = shared.closing.stop.cancelled() => return,
                accepted = self.listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, _)) => self.open(stream, &shared),
                Err(_) => {
                    shared.metrics.of(self.transport).accept_errors.add(1);
                    self.refuse_next(&mut spare, &shared).await;
                    tokio::time::sleep(ACCEPT_RETRY).await;
                }
            }
        }
    }

    /// Closes connections waiting at a port without descriptors, so that their peers go elsewhere
    /// instead of waiting.
    async fn refuse_next(&self, spare: &mut SpareDescriptor, shared: &PortContext) {
        for _ in 0..REFUSALS_MAX {
            spare.release();
            let waiting = tokio::time::timeout(Duration::ZERO, self.listener.accept()).await;
            let Ok(Ok((stream, _))) = waiting else { break };
            drop(stream);
            spare.restore();
            shared.metrics.of(self.transport).closed.add(Closed::Limit.into_str(), 1);
        }
        spare.restore();
    }

    fn open(&self, stream: TcpStream, shared: &PortContext) {
        let metrics = Arc::clone(&shared.metrics);
        let address = stream.peer_addr().ok().map(|peer| peer.ip());
        let activity = Arc::new(Activity::default());
        let peer = Sender::of_address(address).peer;
        let place = match shared.places.take(peer, self.connection_bytes(), &activity) {
            Ok(place) => place,
            Err(full) => return metrics.of(self.transport).closed.add(full.into_str(), 1),
        };
        // Only latency depends on it, and a broken connection fails when read.
        let _ = stream.set_nodelay(true);
        let connected = Connected {
            transport: self.transport,
            service: Arc::clone(&self.service),
            limits: Arc::clone(&self.limits),
            tls: self.tls.clone(),
            shared: shared.clone(),
            address,
            activity,
        };
        shared.tasks.spawn(async move {
            let transport = connected.transport;
            let closing = connected.shared.closing.clone();
            metrics.of(transport).connections.add(1);
            let activity = Arc::clone(&connected.activity);
            let closed = tokio::select! {
                closed = connected.serve(stream) => closed,
                () = activity.displaced_unused() => Some(Closed::Displaced),
                () = closing.kill.cancelled() => Some(Closed::Shutdown),
            };
            metrics.of(transport).connections.add(-1);
            if let Some(why) = closed {
                metrics.of(transport).closed.add(why.into_str(), 1);
            }
            drop(place);
        });
    }

    /// Returns the fixed memory of a connection.
    fn connection_bytes(&self) -> usize {
        CONNECTION_BYTES + if self.tls.is_some() { TLS_BYTES } else { 0 }
    }
}

/// A connection with its context.
struct Connected<S> {
    transport: Transport,
    service: Arc<S>,
    limits: Arc<ConnectionLimits>,
    tls: Option<Arc<ServerTls>>,
    shared: PortContext,
    address: Option<IpAddr>,
    activity: Arc<Activity>,
}

impl<S: Serve> Connected<S> {
    /// Performs the handshake and serves; returns the reason if this side closed the connection.
    async fn serve(self, stream: TcpStream) -> Option<Closed> {
        let Self { transport, service, limits, tls, shared, address, activity } = self;
        let metrics = Arc::clone(&shared.metrics);
        let stream = match tls {
            None => Either::Left(stream),
            Some(tls) => {
                let within = limits.first_request;
                let greeted = tokio::select! {
                    greeted = shared.handshakes.greet(&tls, stream, within) => greeted,
                    () = shared.closing.stop.cancelled() => return Some(Closed::Shutdown),
                };
                match greeted {
                    Ok(stream) => stream,
                    Err(why) => {
                        metrics.of(transport).failed_handshakes.add(why.name(), 1);
                        return Some(Closed::Handshake);
                    }
                }
            }
        };
        let sender = Arc::new(ConnectionAccount::named(names_of_peer(&stream)).from(address));
        let requests = Arc::clone(&shared.request_bytes);
        let stream = Metered::new(stream, Arc::clone(&sender), requests, metrics, transport)
            .enforcing(limits.pings.clone());
        serve_connection(stream, (sender, activity), service, &limits, &shared.closing).await
    }
}
