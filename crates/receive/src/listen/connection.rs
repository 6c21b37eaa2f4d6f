//! One connection, served until its peer closes it, it idles too long, or the process ends.

use std::convert::Infallible;
use std::error::Error;
use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use http::{Request, Response, Version};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use smart_default::SmartDefault;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_util::either::Either;
use tokio_util::sync::CancellationToken;
use webpki::EndEntityCert;

use crate::ConnectionAccount;
use crate::answer::Answer;
use crate::meter::Metered;
use crate::metrics::Closed;
use crate::settings::EnforcementPolicy;
use crate::shutdown_phases::ShutdownPhases;
use spanscore_net::tls::TlsStream;

/// Longest time for a connection to close after being told to.
const CLOSE_TIME: Duration = Duration::from_secs(5);

/// A request to serve, or its answer.
pub(crate) type Admitted = ControlFlow<Response<Answer>, Request<Incoming>>;

/// Future of an answer.
pub(crate) trait Answering: Future<Output = Response<Answer>> + Send {}

impl<T: Future<Output = Response<Answer>> + Send> Answering for T {}

/// Service of a port.
pub(crate) trait Serve: Send + Sync + 'static {
    /// Answers a request by its head, if possible; otherwise returns it.
    fn admit(&self, request: Request<Incoming>) -> Admitted;

    /// Answers one request.
    fn serve(&self, request: Request<Incoming>, sender: &Arc<ConnectionAccount>) -> impl Answering;
}

/// Limits of the connections of a port.
pub(crate) struct ConnectionLimits {
    pub(crate) builder: Builder<TokioExecutor>,
    /// Longest time from the connection to its first request.
    pub(crate) first_request: Duration,
    /// Longest time without a request.
    pub(crate) idle: Duration,
    /// Limit on the peer's pings, if any.
    pub(crate) pings: Option<EnforcementPolicy>,
}

/// Stream of a connection that carries HTTP, in plain text or over TLS.
pub(super) type Transported = Either<TcpStream, Box<TlsStream>>;

/// Returns the host names and URIs in the peer's certificate.
pub(super) fn names_of_peer(stream: &Transported) -> Vec<String> {
    let Either::Right(stream) = stream else { return Vec::new() };
    let certificates = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let certificate = certificates.first().and_then(|it| EndEntityCert::try_from(it).ok());
    let Some(certificate) = certificate else { return Vec::new() };
    let names = certificate.valid_dns_names().chain(certificate.valid_uri_names());
    names.map(str::to_owned).collect()
}

/// Serves one connection to its end; returns the reason if this side closed it.
pub(super) async fn serve_connection<S: Serve>(
    stream: Metered<Transported>,
    (sender, activity): (Arc<ConnectionAccount>, Arc<Activity>),
    service: Arc<S>,
    limits: &ConnectionLimits,
    end: &ShutdownPhases,
) -> Option<Closed> {
    let counted = Arc::clone(&activity);
    let own = Arc::clone(&sender);
    let service = service_fn(move |request| answer(request, &service, &own, &counted));
    let mut connection = pin!(limits.builder.serve_connection(TokioIo::new(stream), service));
    let mut refused = pin!(end.refuse.cancelled());
    let mut stopped = pin!(end.stop.cancelled());
    let mut displaced = pin!(activity.displaced.cancelled());
    let mut check = pin!(tokio::time::sleep(limits.first_request));
    let mut refusing = false;
    let mut stopping = false;
    let mut closing = None;
    let mut requests_before = 0;
    loop {
        tokio::select! {
            biased;
            ended = connection.as_mut() => {
                return sender.closed().or(closing).or(ended.err().and_then(why));
            }
            () = refused.as_mut(), if !refusing => {
                refusing = true;
                // HTTP/2 can send its peer elsewhere (GOAWAY); HTTP/1.1 can only answer so.
                if activity.is_http2.load(Ordering::Relaxed) {
                    connection.as_mut().graceful_shutdown();
                }
            }
            () = stopped.as_mut(), if !stopping => {
                stopping = true;
                connection.as_mut().graceful_shutdown();
            }
            () = displaced.as_mut(), if closing.is_none() => {
                closing = Some(Closed::Displaced);
                connection.as_mut().graceful_shutdown();
                check.as_mut().reset(Instant::now() + CLOSE_TIME);
            }
            () = check.as_mut() => {
                if closing.is_some() {
                    return closing;
                }
                closing = activity.verdict(&mut requests_before);
                let next = match closing {
                    None => limits.idle,
                    Some(Closed::HeaderTimeout) => return closing,
                    Some(_) => {
                        connection.as_mut().graceful_shutdown();
                        CLOSE_TIME
                    }
                };
                check.as_mut().reset(Instant::now() + next);
            }
        }
    }
}

/// Answers a request, which counts as running until then.
fn answer<S: Serve>(
    request: Request<Incoming>,
    service: &Arc<S>,
    sender: &Arc<ConnectionAccount>,
    activity: &Arc<Activity>,
) -> impl Future<Output = Result<Response<Answer>, Infallible>> + use<S> {
    sender.progress();
    activity.is_http2.fetch_or(request.version() == Version::HTTP_2, Ordering::Relaxed);
    let running = RunningRequest::start(activity);
    // Here and not in the request's own task, where large headers would wait for their turn.
    let admitted = service.admit(request);
    let service = Arc::clone(service);
    let sender = Arc::clone(sender);
    async move {
        let response = match admitted {
            ControlFlow::Continue(request) => service.serve(request, &sender).await,
            ControlFlow::Break(response) => response,
        };
        drop(running);
        Ok(response)
    }
}

/// Returns the reason for an error of this side; `None` if the peer ended the connection.
fn why(error: Box<dyn Error + Send + Sync>) -> Option<Closed> {
    let error = error.downcast::<hyper::Error>().ok()?;
    let breach = error.source().and_then(|source| source.downcast_ref::<h2::Error>());
    if error.is_timeout() {
        // Only the timeout of an HTTP/2 ping has a cause.
        let is_ping = error.source().is_some();
        Some(if is_ping { Closed::PingTimeout } else { Closed::HeaderTimeout })
    } else if error.is_parse() {
        Some(Closed::Protocol)
    } else {
        breach.filter(|breach| breach.is_library()).map(|_| Closed::Protocol)
    }
}

/// Requests of one connection.
#[derive(SmartDefault)]
pub(super) struct Activity {
    #[default(Instant::now())]
    opened: Instant,
    started: AtomicU64,
    running: AtomicU64,
    /// End of the last request, milliseconds from the opening.
    ended_ms: AtomicU64,
    is_http2: AtomicBool,
    /// Cancelled when another connection takes its place.
    pub(super) displaced: CancellationToken,
}

impl Activity {
    /// Returns true if it never had a request.
    pub(super) fn is_unused(&self) -> bool {
        self.started.load(Ordering::Relaxed) == 0
    }

    /// Waits until an unused connection loses its place; in other cases the protocol ends it in
    /// order.
    pub(super) async fn displaced_unused(&self) {
        self.displaced.cancelled().await;
        if !self.is_unused() {
            std::future::pending::<()>().await;
        }
    }

    /// Returns the time since the last request or the opening; `None` during a request.
    pub(super) fn quiet(&self) -> Option<Duration> {
        let ended = Duration::from_millis(self.ended_ms.load(Ordering::Relaxed));
        let is_running = self.running.load(Ordering::Relaxed) > 0;
        (!is_running).then(|| self.opened.elapsed().saturating_sub(ended))
    }

    /// Returns the reason to close the connection, if any: no request at all, or none since the
    /// last check.
    fn verdict(&self, requests_before: &mut u64) -> Option<Closed> {
        let started = self.started.load(Ordering::Relaxed);
        let before = std::mem::replace(requests_before, started);
        if self.running.load(Ordering::Relaxed) > 0 {
            return None;
        }
        match (started, started == before) {
            (0, _) => Some(Closed::HeaderTimeout),
            (_, true) => Some(Closed::Idle),
            (_, false) => None,
        }
    }
}

/// A running request, until dropped.
pub(super) struct RunningRequest(Arc<Activity>);

impl RunningRequest {
    pub(super) fn start(activity: &Arc<Activity>) -> Self {
        activity.started.fetch_add(1, Ordering::Relaxed);
        activity.running.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(activity))
    }
}

impl Drop for RunningRequest {
    fn drop(&mut self) {
        self.0.ended_ms.store(self.0.opened.elapsed().as_millis() as u64, Ordering::Relaxed);
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_closes_for_want_of_requests_only() {
        let activity = Arc::new(Activity::default());
        let mut before = 0;
        assert_eq!(activity.verdict(&mut before), Some(Closed::HeaderTimeout));
        let running = RunningRequest::start(&activity);
        assert_eq!(activity.verdict(&mut before), None);
        assert_eq!(activity.verdict(&mut before), None);
        drop(running);
        drop(RunningRequest::start(&activity));
        assert_eq!(activity.verdict(&mut before), None);
        assert_eq!(activity.verdict(&mut before), Some(Closed::Idle));
    }
}
