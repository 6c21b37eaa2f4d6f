//! Interpretation of a backend's answer: accepted, partly accepted, retryable, refused.
//!
//! Rules: OTLP specification 1.x, `docs/specification.md`, sections on failures and throttling.

use std::borrow::Cow;
use std::time::Duration;

use prost::Message;
use tonic::{Code, Status};

use super::grpc::chain;
use super::withheld::Withheld;
use crate::clock::since_1970;
use crate::tls;
use spanscore_base::otlp::Signal;
use spanscore_base::otlp::status::{ExportResponse, RETRY_INFO_TRAILER, RetryInfo, RpcStatus};
use spanscore_base::visible;

/// Longest shown text of a backend, in characters.
const TEXT_CHARS_MAX: usize = 300;

/// Outcome of an accepted request; by default nothing of it was rejected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportOutcome {
    /// Rejected spans, log records or data points.
    pub rejected: u64,
    /// Reason for the rejection, or a warning; truncated, with control and hidden characters
    /// escaped.
    pub message: String,
}

impl ExportOutcome {
    fn new(rejected: i64, message: &str, withheld: &Withheld) -> Self {
        let message = short(&withheld.without(message));
        Self { rejected: u64::try_from(rejected).unwrap_or(0), message }
    }

    /// Reads `Export*ServiceResponse`, which has one form for all signals.
    pub(super) fn from_protobuf(response: &[u8], withheld: &Withheld) -> Result<Self, SendError> {
        let response = ExportResponse::decode(response).map_err(unreadable)?;
        let partial = response.partial_success.unwrap_or_default();
        Ok(Self::new(partial.rejected, &partial.error_message, withheld))
    }

    /// Reads the JSON form. Protobuf's JSON writes 64-bit numbers as strings; some collectors write
    /// them as numbers.
    pub(super) fn from_json(
        signal: Signal,
        response: &[u8],
        withheld: &Withheld,
    ) -> Result<Self, SendError> {
        let response: serde_json::Value = serde_json::from_slice(response).map_err(unreadable)?;
        let partial = &response["partialSuccess"];
        let rejected = &partial[signal.rejected_key()];
        let rejected = rejected.as_i64().or_else(|| rejected.as_str()?.parse().ok());
        let message = partial["errorMessage"].as_str().unwrap_or_default();
        Ok(Self::new(rejected.unwrap_or(0), message, withheld))
    }
}

/// Failure of a request. Texts are truncated, with control and hidden characters escaped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SendError {
    /// No connection was made, so nothing was sent.
    Unreachable(String),
    /// A retry may succeed.
    Retryable {
        /// The wait requested by the backend.
        after: Option<Duration>,
        /// Text of the failure.
        error: String,
    },
    /// No retry can succeed.
    Refused(String),
    /// The request was accepted, but the answer is unreadable.
    Unreadable(String),
}

impl SendError {
    /// Returns the text of the failure.
    pub fn text(&self) -> &str {
        match self {
            Self::Unreachable(error)
            | Self::Retryable { error, .. }
            | Self::Refused(error)
            | Self::Unreadable(error) => error,
        }
    }

    /// Returns true if no retry can succeed: the backend is reachable and refuses the request.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused(_))
    }

    /// Returns the wait requested by the backend.
    pub fn requested_wait(&self) -> Option<Duration> {
        if let Self::Retryable { after, .. } = self { *after } else { None }
    }

    /// Treats an unreadable answer as a full acceptance.
    ///
    /// # Errors
    /// All others.
    pub fn unless_unreadable<T: Default>(sent: Result<T, Self>) -> Result<T, Self> {
        match sent {
            Err(Self::Unreadable(_)) => Ok(T::default()),
            sent => sent,
        }
    }

    /// Reads a gRPC status. Connection failures are retryable; `RESOURCE_EXHAUSTED` only with a
    /// retry delay.
    pub(super) fn from_grpc(status: &Status) -> Self {
        let after = retry_info(status);
        let cause = std::error::Error::source(status);
        let in_transport = cause.is_some();
        let retryable = match status.code() {
            Code::Cancelled
            | Code::DeadlineExceeded
            | Code::Aborted
            | Code::OutOfRange
            | Code::Unavailable
            | Code::DataLoss => true,
            Code::ResourceExhausted => after.is_some(),
            Code::Unknown => in_transport,
            _ => false,
        };
        let error = format!("{:?}: {}", status.code(), short(status.message()));
        let error = if is_no_grpc(status) { format!("{error}; {NO_GRPC}") } else { error };
        let error = match cause.map(chain).as_deref().and_then(tls::remedy) {
            Some(remedy) => format!("{error}; {remedy}"),
            None => error,
        };
        if retryable { Self::Retryable { after, error } } else { Self::Refused(error) }
    }

    /// Reads an HTTP status; `after` is its `Retry-After`, `body` its first bytes, `is_json` true
    /// if they are JSON.
    pub(super) fn from_http(
        status: u16,
        after: Option<Duration>,
        (body, is_json): (&[u8], bool),
        withheld: &Withheld,
    ) -> Self {
        let message = withheld.without(message_of(body, is_json));
        let error = format!("HTTP {status}: {}", short(&message));
        match status {
            429 | 502 | 503 | 504 => Self::Retryable { after, error },
            _ => Self::Refused(error),
        }
    }
}

/// Advice for an endpoint of another protocol.
const NO_GRPC: &str = "the endpoint does not seem to speak OTLP/gRPC: it is usually at port 4317; \
     for OTLP/HTTP (port 4318) use `otlp_http` or --protocol http/protobuf";

/// Returns true if no gRPC server answered: HTTP/2 failed, or a web server's status came without
/// gRPC's.
fn is_no_grpc(status: &Status) -> bool {
    let is_mapped = matches!(
        status.code(),
        Code::Internal | Code::Unknown | Code::Unimplemented | Code::Unavailable
    );
    let text = status.message();
    is_mapped
        && ["h2 protocol error", "grpc-status header missing", "invalid compression flag"]
            .iter()
            .any(|sign| text.contains(sign))
}

/// Returns advice for a status that concerns the address or the sender, not the request.
pub(super) fn remedy(status: u16) -> Option<&'static str> {
    match status {
        301..=308 | 404 | 405 | 501 => Some(
            "no OTLP/HTTP receiver is at this address: check host, port and path (mostly port \
             4318; the path of the signal is appended to `endpoint`)",
        ),
        401 | 403 => Some("the backend wants other credentials: check `headers`, `auth` or `tls`"),
        413 => Some("the backend takes smaller requests only: raise its limit"),
        415 => Some(
            "the backend does not take this protocol or encoding: check the port, or try another \
             `compression`",
        ),
        _ => None,
    }
}

fn unreadable(error: impl std::error::Error) -> SendError {
    SendError::Unreadable(error.to_string())
}

/// Returns the message of an error's body: `google.rpc.Status` in JSON or protobuf, or plain text.
/// Plain text never decodes as protobuf, which has a control character before the message.
fn message_of(body: &[u8], is_json: bool) -> Cow<'_, str> {
    let message = if is_json {
        serde_json::from_slice(body)
            .ok()
            .and_then(|status: serde_json::Value| Some(status.get("message")?.as_str()?.to_owned()))
    } else {
        RpcStatus::decode(body).ok().map(|status| status.message)
    };
    match message.filter(|message| !message.is_empty()) {
        Some(message) => message.into(),
        None => String::from_utf8_lossy(body.trim_ascii_end()),
    }
}

/// Returns the delay of `google.rpc.RetryInfo` in the status details or in its trailer.
fn retry_info(status: &Status) -> Option<Duration> {
    let details = RpcStatus::decode(status.details()).unwrap_or_default();
    details.retry_delay().or_else(|| {
        let trailer = status.metadata().get_bin(RETRY_INFO_TRAILER)?.to_bytes().ok()?;
        RetryInfo::decode(trailer).ok()?.delay()
    })
}

/// Reads `Retry-After`: seconds with an optional fraction, or an HTTP or RFC 3339 date.
pub fn retry_after(value: &str) -> Option<Duration> {
    retry_after_at(value, i64::try_from(since_1970().as_secs()).unwrap_or(i64::MAX))
}

fn retry_after_at(value: &str, now_s: i64) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = jiff::fmt::rfc2822::parse(value).map(|date| date.timestamp());
    let date = date.or_else(|_| value.parse::<jiff::Timestamp>()).ok()?;
    let seconds = date.as_second().saturating_sub(now_s);
    Some(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
}

/// Truncates an untrusted text, and puts it in one line.
pub fn short(text: &str) -> String {
    visible::line(text.chars().take(TEXT_CHARS_MAX).collect::<String>()).to_string()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use tonic::metadata::{MetadataMap, MetadataValue};

    use super::*;

    const RETRY_INFO: &[u8] = &[10, 6, 8, 2, 16, 0x80, 0xca, 0xb5, 0xee, 1];

    fn retryable(error: &SendError) -> Option<Option<Duration>> {
        match error {
            SendError::Retryable { after, .. } => Some(*after),
            _ => None,
        }
    }

    fn from_http(status: u16, body: &[u8], is_json: bool) -> SendError {
        SendError::from_http(status, None, (body, is_json), &Withheld::default())
    }

    fn from_protobuf(response: &[u8]) -> Result<ExportOutcome, SendError> {
        ExportOutcome::from_protobuf(response, &Withheld::default())
    }

    #[test]
    fn grpc_codes_are_retried_as_the_specification_says() {
        let retried: Vec<_> = (0..=16)
            .filter(|code| {
                let status = Status::new(Code::from_i32(*code), "");
                retryable(&SendError::from_grpc(&status)).is_some()
            })
            .collect();
        assert_eq!(retried, [1, 4, 10, 11, 14, 15]);
    }

    #[test]
    fn retry_info_is_read_from_details_and_trailer() {
        let mut any = vec![10, 40];
        any.extend_from_slice(b"type.googleapis.com/google.rpc.RetryInfo");
        any.extend_from_slice(&[18, RETRY_INFO.len() as u8 - 2]);
        any.extend_from_slice(&[10, 2, 8, 3, 0, 0, 0, 0]);
        any.truncate(any.len() - 4);
        let len = any.len();
        any[43] = 4;
        let mut details = vec![8, 8, 26, len as u8];
        details.extend_from_slice(&any);
        let status = Status::with_details(Code::ResourceExhausted, "", Bytes::from(details));
        assert_eq!(retryable(&SendError::from_grpc(&status)), Some(Some(Duration::from_secs(3))));

        let mut trailers = MetadataMap::new();
        trailers.insert_bin("google.rpc.retryinfo-bin", MetadataValue::from_bytes(&[10, 2, 8, 2]));
        let status = Status::with_metadata(Code::Unavailable, "", trailers);
        assert_eq!(retryable(&SendError::from_grpc(&status)), Some(Some(Duration::from_secs(2))));
    }

    #[test]
    fn http_codes_are_retried_as_the_specification_says() {
        let retried: Vec<_> =
            (400..600).filter(|s| retryable(&from_http(*s, b"", false)).is_some()).collect();
        assert_eq!(retried, [429, 502, 503, 504]);
    }

    #[test]
    fn the_message_of_an_error_is_found_in_each_form() {
        let check = |body: &[u8], is_json, expected: &str| {
            let expected = SendError::Refused(format!("HTTP 400: {expected}"));
            assert_eq!(from_http(400, body, is_json), expected);
        };
        check(b"\x08\x03\x12\x08bad span", false, "bad span");
        check(br#"{"code": 3, "message": "bad span"}"#, true, "bad span");
        check(b"bad span", true, "bad span");
        check(b"bad span", false, "bad span");
        check(b"bad\x1b[2J", false, r"bad\u{1b}[2J");
    }

    #[test]
    fn retry_after_takes_seconds_and_dates() {
        assert_eq!(retry_after_at("7", 0), Some(Duration::from_secs(7)));
        assert_eq!(retry_after_at("1.5", 0), Some(Duration::from_millis(1_500)));
        assert_eq!((retry_after_at("-1", 0), retry_after_at("1e300", 0)), (None, None));
        let date = "2025-01-01T00:00:09Z";
        assert_eq!(retry_after_at(date, 1_735_689_600), Some(Duration::from_secs(9)));
        let date = "Wed, 01 Jan 2025 00:00:09 GMT";
        assert_eq!(retry_after_at(date, 1_735_689_600), Some(Duration::from_secs(9)));
        assert_eq!(retry_after_at(date, 1_735_689_700), Some(Duration::ZERO));
        assert_eq!(retry_after_at("soon", 0), None);
    }

    #[test]
    fn partial_success_is_read_and_its_absence_is_none() {
        let some = ExportOutcome { rejected: 3, message: "bad".into() };
        let response = [10, 7, 8, 3, 18, 3, b'b', b'a', b'd'];
        assert_eq!(from_protobuf(&response), Ok(some));
        for nothing in [&[][..], &[10, 0]] {
            assert_eq!(from_protobuf(nothing), Ok(ExportOutcome::default()));
        }
        let unreadable = from_protobuf(&[0xff, 0xff]);
        assert!(matches!(unreadable, Err(SendError::Unreadable(_))), "{unreadable:?}");
    }

    #[test]
    fn what_was_rejected_is_read_as_a_text_and_as_a_number() {
        let none = Withheld::default();
        let read = |body: &str| ExportOutcome::from_json(Signal::Traces, body.as_bytes(), &none);
        for (rejected, expected) in [(r#""3""#, 3), ("3", 3), ("-1", 0), ("null", 0)] {
            let body = format!(
                r#"{{"partialSuccess": {{"rejectedSpans": {rejected}, "errorMessage": "x"}}}}"#
            );
            assert_eq!(read(&body), Ok(ExportOutcome { rejected: expected, message: "x".into() }));
        }
        assert_eq!(read("{}"), Ok(ExportOutcome::default()));
        assert!(matches!(read("}"), Err(SendError::Unreadable(_))));
    }
}
