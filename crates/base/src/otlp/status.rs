//! Export responses: `google.rpc.Status` with its retry delay, and the partial success.
//!
//! The fields that OTLP uses, written by hand, since the generating crates bring more code than
//! these lines. Field numbers are those of `google/rpc/status.proto`,
//! `google/rpc/error_details.proto` and `opentelemetry/proto/collector/*/v1`.

use std::time::Duration;

use prost::Message;

/// Metadata key of an encoded [`RetryInfo`], which some clients read instead of the status details.
pub const RETRY_INFO_TRAILER: &str = "google.rpc.retryinfo-bin";

/// Type suffix of a [`RetryInfo`] in an [`Any`].
const RETRY_INFO_NAME: &str = "google.rpc.RetryInfo";

/// `google.rpc.Status`.
#[derive(Clone, PartialEq, Message)]
pub struct RpcStatus {
    /// gRPC status code.
    #[prost(int32, tag = "1")]
    pub code: i32,
    /// Error message for people.
    #[prost(string, tag = "2")]
    pub message: String,
    /// Additional messages, such as a [`RetryInfo`].
    #[prost(message, repeated, tag = "3")]
    pub details: Vec<Any>,
}

impl RpcStatus {
    /// Returns the first retry delay among the details.
    pub fn retry_delay(&self) -> Option<Duration> {
        let mut infos = self.details.iter().filter(|any| any.type_url.ends_with(RETRY_INFO_NAME));
        RetryInfo::decode(infos.next()?.value.as_slice()).ok()?.delay()
    }
}

/// `google.protobuf.Any`.
#[derive(Clone, PartialEq, Message)]
pub struct Any {
    /// Type URL of `value`, such as `type.googleapis.com/google.rpc.RetryInfo`.
    #[prost(string, tag = "1")]
    pub type_url: String,
    /// The encoded message.
    #[prost(bytes = "vec", tag = "2")]
    pub value: Vec<u8>,
}

/// `google.rpc.RetryInfo`.
#[derive(Clone, PartialEq, Message)]
pub struct RetryInfo {
    #[prost(message, optional, tag = "1")]
    retry_delay: Option<ProtoDuration>,
}

impl RetryInfo {
    /// Returns a request to retry after this time.
    pub fn new(delay: Duration) -> Self {
        let seconds = i64::try_from(delay.as_secs()).unwrap_or(i64::MAX);
        let nanos = i32::try_from(delay.subsec_nanos()).unwrap_or_default();
        Self { retry_delay: Some(ProtoDuration { seconds, nanos }) }
    }

    /// Wraps it for the details of a status.
    pub fn to_any(&self) -> Any {
        let type_url = format!("type.googleapis.com/{RETRY_INFO_NAME}");
        Any { type_url, value: self.encode_to_vec() }
    }

    /// Returns the retry delay; `None` if it is absent, negative, or no duration.
    pub fn delay(&self) -> Option<Duration> {
        let delay = self.retry_delay?;
        let nanos = u32::try_from(delay.nanos).ok().filter(|nanos| *nanos < 1_000_000_000)?;
        Some(Duration::new(u64::try_from(delay.seconds).ok()?, nanos))
    }
}

/// `google.protobuf.Duration`.
#[derive(Clone, Copy, PartialEq, Message)]
struct ProtoDuration {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
}

/// `Export{Trace,Logs,Metrics}ServiceResponse`, equal on the wire.
#[derive(Clone, PartialEq, Message)]
pub struct ExportResponse {
    /// Unset if all items were accepted.
    #[prost(message, optional, tag = "1")]
    pub partial_success: Option<PartialSuccess>,
}

/// `Export{Trace,Logs,Metrics}PartialSuccess`, equal on the wire.
#[derive(Clone, PartialEq, Message)]
pub struct PartialSuccess {
    /// Rejected spans, log records or data points.
    #[prost(int64, tag = "1")]
    pub rejected: i64,
    /// Cause, or a warning if nothing was rejected.
    #[prost(string, tag = "2")]
    pub error_message: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_of_a_status_is_read_as_it_was_written() {
        let with = |details| RpcStatus { code: 14, message: String::new(), details };
        let delay = Duration::from_millis(2500);
        let other = Any { type_url: "type.googleapis.com/x".to_owned(), value: vec![0xff] };
        assert_eq!(with(vec![other.clone()]).retry_delay(), None);
        let info = RetryInfo::new(delay);
        assert_eq!(with(vec![other, info.to_any()]).retry_delay(), Some(delay));
        let negative = ProtoDuration { seconds: -1, nanos: 0 };
        assert_eq!(RetryInfo { retry_delay: Some(negative) }.delay(), None);
    }
}
