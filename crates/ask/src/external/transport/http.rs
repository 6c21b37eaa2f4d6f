//! HTTP transport to evaluator servers: the same messages as proto3 JSON.
//!
//! Requests may be signed as in Standard Webhooks
//! (<https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md>).

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use sha2::Sha256;

use super::ExternalFault;
use spanscore_evaluate::external::RemotePlan;
use spanscore_evaluate::external::answer::shown;
use spanscore_evaluate::external::json;
use spanscore_evaluate::external::proto::{
    DescribeRequest, DescribeResponse, EvaluateRequest, EvaluateResponse,
};
use spanscore_net::client::{self, Withheld};
use spanscore_net::clock::since_1970;

/// Longest answer, bytes; a longer one is an error.
const ANSWER_BYTES_MAX: usize = 4 << 20;
/// Longest retry delay accepted from a server.
const WAIT_MAX: Duration = Duration::from_secs(300);
/// Prefix of a Standard Webhooks key.
const KEY_PREFIX: &str = "whsec_";

/// HTTP client of one server.
pub(in crate::external) struct HttpEvaluator {
    http: reqwest::Client,
    endpoint: String,
    withheld: Withheld,
    key: Option<Vec<u8>>,
    requests: AtomicU64,
}

/// Status and body of a reply.
struct HttpReply {
    status: u16,
    after: Option<Duration>,
    body: Vec<u8>,
}

impl HttpEvaluator {
    /// Returns a client without connecting.
    pub(super) fn new(remote: &RemotePlan, timeout: Duration) -> Result<Self, String> {
        client::use_cryptography();
        let headers = client::headers(
            remote.headers.iter().map(|(name, value)| (name.as_str(), value.reveal())),
        );
        let headers = headers.map_err(|error| error.to_string())?;
        let withheld = Withheld::of(&headers, &remote.endpoint);
        let endpoint = remote.endpoint.reveal().to_owned();
        Ok(Self {
            http: client::http_client(&endpoint, &remote.tls, headers, timeout)?,
            endpoint,
            withheld,
            key: remote.signing_key_env.as_deref().map(read_key).transpose()?,
            requests: AtomicU64::new(0),
        })
    }

    /// Queries the server's description; `None` if it has none.
    pub(super) async fn describe(
        &self,
        request: &DescribeRequest,
    ) -> Result<Option<DescribeResponse>, ExternalFault> {
        let reply = self.post("/describe", json::request(request)).await;
        let reply = reply.map_err(|fault| ExternalFault::Unavailable(fault.told().1.to_owned()))?;
        match reply.status {
            200..=299 => json::describe_response(&reply.body).map(Some).map_err(invalid),
            404 | 405 | 501 => Ok(None),
            _ => Err(fault(&reply).of_describing()),
        }
    }

    /// Sends tasks once.
    pub(super) async fn evaluate(
        &self,
        request: &EvaluateRequest,
    ) -> Result<EvaluateResponse, ExternalFault> {
        let reply = self.post("/evaluate", json::request(request)).await?;
        match reply.status {
            200..=299 => json::evaluate_response(&reply.body).map_err(invalid),
            _ => Err(fault(&reply)),
        }
    }

    async fn post(&self, path: &str, body: String) -> Result<HttpReply, ExternalFault> {
        let url = format!("{}{path}", self.endpoint);
        let mut request = self.http.post(url).header("content-type", "application/json");
        if let Some(key) = &self.key {
            let now = since_1970();
            let number = self.requests.fetch_add(1, Ordering::Relaxed);
            let id = format!("msg_{:x}_{number:x}", now.as_nanos());
            let time = now.as_secs().to_string();
            let signature = sign(key, &id, &time, &body);
            request = request.header("webhook-id", id).header("webhook-timestamp", time);
            request = request.header("webhook-signature", signature);
        }
        let response = request.body(body).send().await.map_err(broken)?;
        let header = response.headers().get("retry-after").and_then(|value| value.to_str().ok());
        let after = header.and_then(client::retry_after);
        let status = response.status().as_u16();
        let body = client::read_body(response, ANSWER_BYTES_MAX).await.map_err(broken)?;
        let too_long = || invalid(format!("is longer than {ANSWER_BYTES_MAX} bytes"));
        let body = self.withheld.without_bytes(body.ok_or_else(too_long)?);
        Ok(HttpReply { status, after: after.map(|after| after.min(WAIT_MAX)), body })
    }
}

/// Returns the key in an environment variable.
fn read_key(variable: &str) -> Result<Vec<u8>, String> {
    let key = std::env::var(variable).ok().filter(|key| !key.trim().is_empty());
    let key = key.ok_or_else(|| {
        format!("the environment variable {variable}, which `signing_key_env` names, is not set")
    })?;
    match key.trim().strip_prefix(KEY_PREFIX) {
        Some(encoded) => STANDARD
            .decode(encoded)
            .map_err(|_| format!("{variable} begins with `{KEY_PREFIX}` and is not base64 then")),
        None => Ok(key.trim().as_bytes().to_vec()),
    }
}

/// Returns the value of `webhook-signature`.
fn sign(key: &[u8], id: &str, time: &str, body: &str) -> String {
    // Keys of any length are valid.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return String::new() };
    mac.update(format!("{id}.{time}.{body}").as_bytes());
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

/// Converts an error status to a fault.
fn fault(reply: &HttpReply) -> ExternalFault {
    let text = String::from_utf8_lossy(&reply.body);
    let status = reply.status;
    let error = shown(&format!("HTTP {status}: {}", client::short(&text)));
    let after = reply.after;
    let error_type = match status {
        408 | 504 => "external_timeout",
        409 | 429 => "external_overloaded",
        503 if after.is_some() => "external_overloaded",
        502 | 503 => return ExternalFault::Unavailable(error),
        _ => return ExternalFault::Final("external_rejected", error),
    };
    ExternalFault::Retryable { after, error_type, error }
}

fn invalid(error: impl std::fmt::Display) -> ExternalFault {
    ExternalFault::Final("external_output_invalid", shown(&error.to_string()))
}

/// Converts a connection failure to a fault, without the address, which may hold a secret.
fn broken(error: reqwest::Error) -> ExternalFault {
    let is_late = error.is_timeout() && !error.is_connect();
    let error = client::chain(error.without_url());
    if is_late {
        let error_type = "external_timeout";
        return ExternalFault::Retryable { after: None, error_type, error };
    }
    ExternalFault::Unavailable(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_that_of_standard_webhooks() {
        // The example of the reference implementations.
        let key = STANDARD.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").expect("a key");
        let body = r#"{"test": 2432232314}"#;
        let signature = sign(&key, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", body);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }
}
