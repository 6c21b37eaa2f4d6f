//! What a backend's answer means: taken, partly taken, try again, never again.
//!
//! Rules: OTLP specification 1.x, `docs/specification.md`, sections on failures and throttling.

use std::time::Duration;

use prost::Message;
use tonic::{Code, Status};

use crate::emit::retry::AttemptError;
use crate::otlp::status::{
    ExportResponse, PartialSuccess, RETRY_INFO_TRAILER, RetryInfo, RpcStatus,
};

/// Longest text of a backend that is logged, in characters.
pub(super) const TEXT_CHARS_MAX: usize = 200;

/// Reads `Export*ServiceResponse`, which has the same form for all signals; what cannot be read
/// says nothing.
pub(super) fn partial_success(response: &[u8]) -> PartialSuccess {
    ExportResponse::decode(response).unwrap_or_default().partial_success.unwrap_or_default()
}

/// What a gRPC status means. Failures of the connection may pass; `RESOURCE_EXHAUSTED` may pass
/// only where the backend says when.
pub(super) fn from_grpc(status: &Status) -> AttemptError {
    let after = retry_info(status);
    let in_transport = std::error::Error::source(status).is_some();
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
    let error = format!("{}: {}", status.code(), short(status.message()));
    if retryable {
        AttemptError::Retryable { after, error }
    } else {
        AttemptError::Permanent(error)
    }
}

/// The delay of `google.rpc.RetryInfo`: in the status details, or in a trailer of its own.
fn retry_info(status: &Status) -> Option<Duration> {
    let details = RpcStatus::decode(status.details()).unwrap_or_default();
    details.retry_delay().or_else(|| {
        let trailer = status.metadata().get_bin(RETRY_INFO_TRAILER)?.to_bytes().ok()?;
        RetryInfo::decode(trailer).ok()?.delay()
    })
}

/// What an HTTP status means; `after` is its `Retry-After`, `body` its first bytes.
pub(super) fn from_http(status: u16, after: Option<Duration>, body: &[u8]) -> AttemptError {
    let encoded = RpcStatus::decode(body).unwrap_or_default();
    let text = match std::str::from_utf8(body) {
        Ok(text) if !text.contains(|c: char| c.is_control() && !c.is_whitespace()) => text,
        _ => &encoded.message,
    };
    let error = format!("HTTP {status}: {}", short(text));
    match status {
        429 | 502 | 503 | 504 => AttemptError::Retryable { after, error },
        _ => AttemptError::Permanent(error),
    }
}

/// Reads `Retry-After`: seconds, or a date, which needs `now_s`, Unix seconds.
pub(super) fn retry_after(value: &str, now_s: i64) -> Option<Duration> {
    if let Ok(seconds) = value.trim().parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = jiff::fmt::rfc2822::parse(value.trim()).ok()?;
    let seconds = date.timestamp().as_second().saturating_sub(now_s);
    Some(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
}

/// A backend's text, cut and in one line.
pub(super) fn short(text: &str) -> String {
    text.chars().take(TEXT_CHARS_MAX).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use tonic::metadata::{MetadataMap, MetadataValue};

    use super::*;

    const RETRY_INFO: &[u8] = &[10, 6, 8, 2, 16, 0x80, 0xca, 0xb5, 0xee, 1];

    fn retryable(error: &AttemptError) -> Option<Option<Duration>> {
        match error {
            AttemptError::Retryable { after, .. } => Some(*after),
            AttemptError::Permanent(_) => None,
        }
    }

    #[test]
    fn grpc_codes_are_retried_as_the_specification_says() {
        let retried: Vec<_> = (0..=16)
            .filter(|code| {
                let status = Status::new(Code::from_i32(*code), "");
                retryable(&from_grpc(&status)).is_some()
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
        assert_eq!(retryable(&from_grpc(&status)), Some(Some(Duration::from_secs(3))));

        let mut trailers = MetadataMap::new();
        trailers.insert_bin("google.rpc.retryinfo-bin", MetadataValue::from_bytes(&[10, 2, 8, 2]));
        let status = Status::with_metadata(Code::Unavailable, "", trailers);
        assert_eq!(retryable(&from_grpc(&status)), Some(Some(Duration::from_secs(2))));
    }

    #[test]
    fn http_codes_are_retried_as_the_specification_says() {
        let retried: Vec<_> =
            (400..600).filter(|s| retryable(&from_http(*s, None, b"")).is_some()).collect();
        assert_eq!(retried, [429, 502, 503, 504]);
        let error = from_http(400, None, b"\x08\x03\x12\x08bad span");
        assert_eq!(error, AttemptError::Permanent("HTTP 400: bad span".into()));
    }

    #[test]
    fn retry_after_takes_seconds_and_dates() {
        assert_eq!(retry_after("7", 0), Some(Duration::from_secs(7)));
        let date = "Wed, 01 Jan 2025 00:00:09 GMT";
        assert_eq!(retry_after(date, 1_735_689_600), Some(Duration::from_secs(9)));
        assert_eq!(retry_after(date, 1_735_689_700), Some(Duration::ZERO));
        assert_eq!(retry_after("soon", 0), None);
    }

    #[test]
    fn partial_success_is_read_and_its_absence_is_none() {
        let response = [10, 7, 8, 3, 18, 3, b'b', b'a', b'd'];
        let expected = PartialSuccess { rejected: 3, error_message: "bad".into() };
        assert_eq!(partial_success(&response), expected);
        for nothing in [&[][..], &[10, 0], &[0xff, 0xff]] {
            assert_eq!(partial_success(nothing), PartialSuccess::default());
        }
    }
}
