//! Authentication: a bearer token or a client certificate identifies a client.
//!
//! Without settings all senders are accepted, without a name. Otherwise a request needs the
//! unexpired token of a client, or a connection whose certificate holds the name of one. A token is
//! checked even with a valid certificate, so a wrong token is always refused.

mod counters;
mod rate;
pub(crate) mod settings;
mod tokens;

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use jiff::Timestamp;
use parking_lot::{Mutex, RwLock};
use tokio::time::Instant;

use self::counters::ClientMetrics;
pub(crate) use self::counters::ClientOutcome;
use self::rate::{LimitMet, SenderRate};
use self::settings::AuthSettings;
use self::tokens::TokenHash;
use super::ConnectionAccount;
use super::status::{RefusalReason, RefusedRequest};
use spanscore_base::model::ClientGroup;
use spanscore_base::otlp::Signal;
use spanscore_net::metrics::{Meter, label};
use spanscore_net::tls::{Changed, Reread};

/// Scheme of the header, with its space.
const SCHEME: &[u8] = b"bearer ";

/// Accepted clients, as currently listed by config and files.
pub(crate) struct Authenticator {
    known: RwLock<Arc<KnownClients>>,
    metrics: ClientMetrics,
}

/// Accepted clients; all senders without settings.
struct KnownClients {
    settings: Option<AuthSettings>,
    clients: Vec<Arc<KnownClient>>,
}

/// Accepted client.
pub(crate) struct KnownClient {
    /// Its name in the config.
    pub(crate) name: Arc<str>,
    tokens: Vec<TokenHash>,
    expires: Option<Timestamp>,
    certificate: Option<String>,
    /// True to tag its resources with its name.
    pub(crate) is_tagged: bool,
    pub(crate) group: ClientGroup,
    rate: Arc<Mutex<SenderRate>>,
    metrics: ClientMetrics,
}

impl Authenticator {
    /// Reads the tokens.
    ///
    /// # Errors
    /// The unusable file and the reason.
    pub(crate) fn new(settings: Option<AuthSettings>, meter: &Meter) -> Result<Self, String> {
        let metrics = ClientMetrics::new(meter);
        let nobody = KnownClients { settings: None, clients: Vec::new() };
        let known = KnownClients::read(settings, &nobody, &metrics)?;
        Ok(Self { known: RwLock::new(Arc::new(known)), metrics })
    }

    /// Replaces the settings; on an error the previous ones stay in use.
    ///
    /// # Errors
    /// The unusable file and the reason.
    pub(crate) fn replace(&self, settings: Option<AuthSettings>) -> Result<(), String> {
        let known = KnownClients::read(settings, &self.known(), &self.metrics)?;
        *self.known.write() = Arc::new(known);
        Ok(())
    }

    /// Authenticates a request and charges it to its client; `None` without settings.
    pub(crate) fn admit(
        &self,
        headers: &HeaderMap,
        sender: &ConnectionAccount,
    ) -> Result<Option<Arc<KnownClient>>, RefusedRequest> {
        let known = self.known();
        if known.settings.is_none() {
            return Ok(None);
        }
        let client = known.find(headers, sender.names(), Timestamp::now())?;
        let taken = {
            let mut rate = client.rate.lock();
            rate.take_request(Instant::now())
        };
        taken.map_err(|(met, delay)| {
            client.count(ClientOutcome::Limited);
            limited(met, delay)
        })?;
        Ok(Some(Arc::clone(client)))
    }

    fn known(&self) -> Arc<KnownClients> {
        Arc::clone(&self.known.read())
    }
}

impl Reread for Authenticator {
    fn name(&self) -> &'static str {
        "tokens"
    }

    fn interval(&self) -> Duration {
        let known = self.known();
        known.settings.as_ref().map_or(Duration::ZERO, |settings| settings.reload_interval.0)
    }

    fn reread(&self) -> Result<Changed, String> {
        let before = self.known();
        let now = KnownClients::read(before.settings.clone(), &before, &self.metrics)?;
        let tokens = |known: &KnownClients| -> Vec<_> {
            known.clients.iter().map(|client| client.tokens.clone()).collect()
        };
        if tokens(&before) == tokens(&now) {
            return Ok(Changed::No);
        }
        let mut known = self.known.write();
        // Settings that were replaced meanwhile have read the files themselves.
        if Arc::ptr_eq(&known, &before) {
            *known = Arc::new(now);
        }
        Ok(Changed::Yes)
    }
}

impl KnownClients {
    /// Reads the tokens. A client known before keeps its buckets.
    fn read(
        settings: Option<AuthSettings>,
        before: &Self,
        metrics: &ClientMetrics,
    ) -> Result<Self, String> {
        let Some(settings) = settings else {
            return Ok(Self { settings: None, clients: Vec::new() });
        };
        let mut clients = Vec::with_capacity(settings.clients.len());
        for (name, client) in &settings.clients {
            let limits = client.limits.unwrap_or(settings.limits);
            let known = before.clients.iter().find(|known| *known.name == **name);
            let rate = known
                .map(|known| Arc::clone(&known.rate))
                .filter(|rate| rate.lock().limits() == limits);
            let rate = rate
                .unwrap_or_else(|| Arc::new(Mutex::new(SenderRate::new(limits, Instant::now()))));
            clients.push(Arc::new(KnownClient {
                name: name.as_str().into(),
                tokens: tokens::read(client).map_err(|error| format!("`{name}`: {error}"))?,
                expires: client.expires,
                certificate: client.certificate.clone(),
                is_tagged: settings.tag_resources,
                group: ClientGroup::named(client.group.as_deref().unwrap_or(name)),
                rate,
                metrics: metrics.of(&[label("client", name)]),
            }));
        }
        Ok(Self { settings: Some(settings), clients })
    }

    fn find(
        &self,
        headers: &HeaderMap,
        names: &[String],
        now: Timestamp,
    ) -> Result<&Arc<KnownClient>, RefusedRequest> {
        let refused = |reason, message: &str| RefusedRequest::new(reason, message);
        if let Some(token) = bearer(headers) {
            let hash = TokenHash::of(token);
            // All are compared, so the time does not reveal the match.
            let mut found = None;
            for client in &self.clients {
                if hash.is_among(&client.tokens) {
                    found = Some(client);
                }
            }
            let Some(client) = found else {
                return Err(refused(RefusalReason::TokenUnknown, "the bearer token is not known"));
            };
            if client.expires.is_some_and(|expires| expires <= now) {
                return Err(refused(RefusalReason::TokenExpired, "the bearer token has expired"));
            }
            return Ok(client);
        }
        let certified = self
            .clients
            .iter()
            .find(|client| client.certificate.as_ref().is_some_and(|own| names.contains(own)));
        match certified {
            Some(client) => Ok(client),
            None if !names.is_empty() && self.clients.iter().any(|it| it.certificate.is_some()) => {
                let message = "no client has a name of this certificate, and there is no token";
                Err(refused(RefusalReason::CertificateUnknown, message))
            }
            None => {
                let message = "a bearer token is needed: authorization: Bearer TOKEN";
                Err(refused(RefusalReason::TokenMissing, message))
            }
        }
    }
}

impl KnownClient {
    /// Charges the bytes of a received body.
    pub(crate) fn charge(&self, bytes: usize) {
        self.rate.lock().charge(bytes);
        self.metrics.received.add(bytes as u64);
    }

    /// Counts the outcome of a request.
    pub(crate) fn count(&self, outcome: ClientOutcome) {
        self.metrics.requests.add(outcome.into_str(), 1);
    }

    /// Counts accepted items.
    pub(crate) fn count_items(&self, signal: Signal, items: u64) {
        self.metrics.items.add(signal.as_str(), items);
    }
}

/// Returns the bearer token of a request. A header of another scheme is ignored; of several the
/// first counts.
fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(AUTHORIZATION)?.as_bytes();
    let (scheme, token) = value.split_at_checked(SCHEME.len())?;
    scheme.eq_ignore_ascii_case(SCHEME).then(|| token.trim_ascii())
}

fn limited(met: LimitMet, delay: Duration) -> RefusedRequest {
    let (reason, what) = match met {
        LimitMet::Requests => (RefusalReason::ClientRequests, "requests_per_second"),
        LimitMet::Bytes => (RefusalReason::ClientBytes, "bytes_per_second"),
    };
    let message = format!("more than this client may send, see its {what}; try again later");
    RefusedRequest::new(reason, message).after(delay)
}

#[cfg(test)]
mod tests;
