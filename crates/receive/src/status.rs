//! Answer to a request: its outcome as gRPC status, HTTP status and OTLP body.
//!
//! Codes and retry hints are those of the OTLP specification (1.11.0, "Failures", "OTLP/HTTP
//! Response"); each reason below documents a choice that it leaves open. Texts are limited to
//! [`MESSAGE_BYTES_MAX`], so that an answer stays far below the 4 MiB that clients accept.

use std::fmt::Write;
use std::time::Duration;
use strum::{IntoStaticStr, VariantArray};

use bytes::Bytes;
use http::StatusCode;
use prost::Message;
use tonic::Code;
use tonic::metadata::{MetadataMap, MetadataValue};

use super::{Accepted, Lack, Refused};
use spanscore_base::otlp::Signal;
use spanscore_base::otlp::status::{
    Any, ExportResponse, PartialSuccess, RETRY_INFO_TRAILER, RetryInfo, RpcStatus,
};
use spanscore_base::value::json;

/// Longest text in an answer, in bytes.
pub(super) const MESSAGE_BYTES_MAX: usize = 1024;

/// Default retry hint. Senders give up after some seconds in all, so a longer pause loses data.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Reason for refusing a request; the `reason` of the counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub(super) enum RefusalReason {
    /// Larger than the limit, before or after decompression.
    TooLarge,
    /// Its headers are larger than their limit.
    HeadersTooLarge,
    /// It cannot be decoded or decompressed.
    Malformed,
    /// Not framed as one message (gRPC).
    Framing,
    /// Not a content type of OTLP.
    ContentType,
    /// An unsupported compression.
    Encoding,
    /// Compressed without a stated encoding (gRPC).
    EncodingMissing,
    /// No such path or method.
    NotFound,
    /// Not POST.
    Method,
    /// No room in later stages.
    Overloaded,
    /// The store has no room for the verdicts of another process.
    StoreFull,
    /// Too many arriving bodies.
    BodiesFull,
    /// Too many requests being processed.
    TurnsFull,
    /// Too many bytes of bodies.
    BytesFull,
    /// The destination is unavailable.
    Away,
    /// The process is shutting down.
    ShuttingDown,
    /// The body did not arrive in time.
    Timeout,
    /// The body arrived below the minimum rate.
    TooSlow,
    /// The sender's deadline has passed (gRPC).
    Deadline,
    /// The sender disconnected within the body.
    Disconnected,
    /// An internal error, which a retry would repeat.
    Fault,
    /// It has no token.
    TokenMissing,
    /// No client has its token.
    TokenUnknown,
    /// Its token has expired.
    TokenExpired,
    /// Its certificate names no client.
    CertificateUnknown,
    /// Its client exceeds the request rate.
    ClientRequests,
    /// Its client exceeds the byte rate.
    ClientBytes,
    /// Some items of an accepted request.
    Rejected,
}

impl RefusalReason {
    /// Returns true if room is short now, but may be available soon.
    pub(super) fn is_for_want_of_room(self) -> bool {
        matches!(
            self,
            Self::Overloaded
                | Self::StoreFull
                | Self::BodiesFull
                | Self::TurnsFull
                | Self::BytesFull
        )
    }

    /// Returns the gRPC code; senders retry only after UNAVAILABLE and DEADLINE_EXCEEDED.
    pub(super) fn grpc_code(self) -> Code {
        self.codes().0
    }

    /// Returns the HTTP status; senders retry only after 429, 502, 503 and 504. A slow body
    /// deserves a retry: the cause may have passed, and 408 would lose it.
    pub(super) fn http_status(self) -> StatusCode {
        self.codes().1
    }

    fn codes(self) -> (Code, StatusCode) {
        match self {
            Self::TooLarge => (Code::ResourceExhausted, StatusCode::PAYLOAD_TOO_LARGE),
            Self::HeadersTooLarge => {
                (Code::ResourceExhausted, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE)
            }
            Self::ClientRequests | Self::ClientBytes => {
                (Code::ResourceExhausted, StatusCode::TOO_MANY_REQUESTS)
            }
            Self::TokenMissing
            | Self::TokenUnknown
            | Self::TokenExpired
            | Self::CertificateUnknown => (Code::Unauthenticated, StatusCode::UNAUTHORIZED),
            Self::Malformed | Self::Rejected => (Code::InvalidArgument, StatusCode::BAD_REQUEST),
            Self::ContentType => (Code::InvalidArgument, StatusCode::UNSUPPORTED_MEDIA_TYPE),
            Self::Encoding => (Code::Unimplemented, StatusCode::UNSUPPORTED_MEDIA_TYPE),
            Self::NotFound => (Code::Unimplemented, StatusCode::NOT_FOUND),
            Self::Method => (Code::Unimplemented, StatusCode::METHOD_NOT_ALLOWED),
            Self::Framing | Self::EncodingMissing => (Code::Internal, StatusCode::BAD_REQUEST),
            Self::Fault => (Code::Internal, StatusCode::INTERNAL_SERVER_ERROR),
            Self::Overloaded
            | Self::StoreFull
            | Self::BodiesFull
            | Self::TurnsFull
            | Self::BytesFull
            | Self::Away
            | Self::ShuttingDown => (Code::Unavailable, StatusCode::SERVICE_UNAVAILABLE),
            Self::Timeout | Self::TooSlow => {
                (Code::DeadlineExceeded, StatusCode::SERVICE_UNAVAILABLE)
            }
            Self::Deadline => (Code::DeadlineExceeded, StatusCode::GATEWAY_TIMEOUT),
            Self::Disconnected => (Code::Cancelled, StatusCode::BAD_REQUEST),
        }
    }
}

/// A refused request, with the message for its sender.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct RefusedRequest {
    pub(super) reason: RefusalReason,
    pub(super) message: String,
    retry_after: Duration,
}

impl RefusedRequest {
    pub(super) fn new(reason: RefusalReason, message: impl Into<String>) -> Self {
        let message = cut(message.into());
        Self { reason, message, retry_after: RETRY_AFTER }
    }

    pub(super) fn overloaded(reason: RefusalReason, what: &str) -> Self {
        Self::new(reason, format!("overloaded: {what}, try again later"))
    }

    pub(super) fn too_large(bytes_max: usize, setting: &str) -> Self {
        let message = format!("the request is larger than {bytes_max} bytes, see {setting}");
        Self::new(RefusalReason::TooLarge, message)
    }

    /// Returns the retry delay, if the sender should retry.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        let status = self.reason.http_status();
        let is_worth =
            status == StatusCode::SERVICE_UNAVAILABLE || status == StatusCode::TOO_MANY_REQUESTS;
        is_worth.then_some(self.retry_after)
    }

    /// Sets the retry delay.
    pub(super) fn after(self, retry_after: Duration) -> Self {
        Self { retry_after, ..self }
    }

    /// Returns the gRPC status. The retry hint is in `grpc-status-details-bin`, as OTLP requires,
    /// and in [`RETRY_INFO_TRAILER`], the only place that the Python SDK reads.
    pub(super) fn to_grpc(&self) -> tonic::Status {
        let code = self.reason.grpc_code();
        let mut metadata = MetadataMap::new();
        let mut details = Vec::new();
        if let Some(delay) = self.retry_after() {
            let retry = RetryInfo::new(delay);
            let trailer = MetadataValue::from_bytes(&retry.encode_to_vec());
            metadata.insert_bin(RETRY_INFO_TRAILER, trailer);
            details.push(retry.to_any());
        }
        if self.reason == RefusalReason::Encoding {
            let known = MetadataValue::from_static("identity,gzip,zstd,deflate");
            metadata.insert("grpc-accept-encoding", known);
        }
        let details = if details.is_empty() {
            Bytes::new()
        } else {
            self.rpc_status(details).encode_to_vec().into()
        };
        tonic::Status::with_details_and_metadata(code, self.message.clone(), details, metadata)
    }

    /// Encodes it as a `google.rpc.Status` message.
    pub(super) fn to_protobuf(&self) -> Bytes {
        self.rpc_status(Vec::new()).encode_to_vec().into()
    }

    /// Encodes it as a `google.rpc.Status` in JSON.
    pub(super) fn to_json(&self) -> Bytes {
        let mut text = format!("{{\"code\":{},\"message\":", self.reason.grpc_code() as i32);
        // Writing to a string cannot fail.
        let _ = json::write_string(&self.message, &mut text);
        text.push('}');
        text.into()
    }

    fn rpc_status(&self, details: Vec<Any>) -> RpcStatus {
        let code = self.reason.grpc_code() as i32;
        RpcStatus { code, message: self.message.clone(), details }
    }
}

impl From<Refused> for RefusedRequest {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Malformed(message) => Self::new(RefusalReason::Malformed, message),
            Refused::Later { lack, retry_after } => {
                let refused = match lack {
                    Lack::Room => Self::overloaded(RefusalReason::Overloaded, "no room"),
                    Lack::StoreRoom => {
                        let what = "the store has no room for evaluations of other processes";
                        Self::overloaded(RefusalReason::StoreFull, what)
                    }
                    Lack::Log(why) => Self::overloaded(RefusalReason::Overloaded, why),
                    Lack::Destination(why) => {
                        Self::new(RefusalReason::Away, format!("{why}, try again later"))
                    }
                };
                refused.after(retry_after)
            }
            Refused::ShuttingDown => {
                Self::new(RefusalReason::ShuttingDown, "shutting down, try again later")
            }
        }
    }
}

/// Encodes the response message of an export. Partial success is unset if everything was accepted,
/// as OTLP requires.
pub(super) fn response_protobuf(accepted: &Accepted) -> Bytes {
    if accepted.rejected == 0 {
        return Bytes::new();
    }
    let partial_success = Some(PartialSuccess {
        rejected: i64::try_from(accepted.rejected).unwrap_or(i64::MAX),
        error_message: cut(accepted.message.clone()),
    });
    ExportResponse { partial_success }.encode_to_vec().into()
}

/// Encodes the response message of an export in JSON.
pub(super) fn response_json(signal: Signal, accepted: &Accepted) -> Bytes {
    if accepted.rejected == 0 {
        return Bytes::from_static(b"{}");
    }
    let count = signal.rejected_key();
    let rejected = accepted.rejected;
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write!(text, r#"{{"partialSuccess":{{"{count}":"{rejected}","errorMessage":"#);
    let _ = json::write_string(&cut(accepted.message.clone()), &mut text);
    text.push_str("}}");
    text.into()
}

fn cut(mut message: String) -> String {
    if message.len() > MESSAGE_BYTES_MAX {
        message.truncate(message.floor_char_boundary(MESSAGE_BYTES_MAX));
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overload_shutdown_and_slowness_ask_for_another_try() {
        for &reason in RefusalReason::VARIANTS {
            let name = reason.into_str();
            let passing = ["overloaded", "away", "shutting_down", "timeout", "too_slow"];
            let passing = [&passing[..], &["client_requests", "client_bytes"]].concat();
            let retried = name.ends_with("_full") || passing.contains(&name);
            let failure = RefusedRequest::new(reason, "text");
            assert_eq!(failure.retry_after().is_some(), retried, "{reason:?}");
            let status = failure.to_grpc();
            assert_eq!(status.details().is_empty(), !retried, "{reason:?}");
            let hint = status.metadata().contains_key("google.rpc.retryinfo-bin");
            assert_eq!(hint, retried, "{reason:?}");
        }
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let failure =
            RefusedRequest::new(RefusalReason::Malformed, "ä".repeat(MESSAGE_BYTES_MAX) + "b");
        assert_eq!(failure.message.len(), MESSAGE_BYTES_MAX);
        let odd = RefusedRequest::new(
            RefusalReason::Malformed,
            "b".to_owned() + &"ä".repeat(MESSAGE_BYTES_MAX),
        );
        assert_eq!(odd.message.len(), MESSAGE_BYTES_MAX - 1);
    }

    #[test]
    fn partial_success_is_unset_when_all_was_taken() {
        let all = Accepted { accepted: 3, ..Accepted::default() };
        assert!(response_protobuf(&all).is_empty());
        assert_eq!(response_json(Signal::Traces, &all), "{}");
        let some = Accepted { accepted: 1, rejected: 2, message: "bad \"id\"".to_owned() };
        assert_eq!(
            response_json(Signal::Logs, &some),
            r#"{"partialSuccess":{"rejectedLogRecords":"2","errorMessage":"bad \"id\""}}"#
        );
        let decoded = ExportResponse::decode(response_protobuf(&some)).unwrap();
        assert_eq!(decoded.partial_success.unwrap().rejected, 2);
    }
}
