//! Deadline of a gRPC call, from the header `grpc-timeout`.
//!
//! The form is that of "gRPC over HTTP/2": one to eight digits and a unit. A call without the
//! header is limited only by the settings. A malformed one is refused, since the caller's patience
//! is unknown.

use std::time::Duration;

use http::{HeaderMap, HeaderName};

use super::status::{RefusalReason, RefusedRequest};

const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

/// Most digits of a timeout.
const DIGITS_MAX: usize = 8;

/// Reads the caller's timeout, if set.
pub(super) fn timeout_of(headers: &HeaderMap) -> Result<Option<Duration>, RefusedRequest> {
    let Some(value) = headers.get(GRPC_TIMEOUT) else { return Ok(None) };
    let malformed = || {
        let message = format!("grpc-timeout is not one to {DIGITS_MAX} digits and one of HMSmun");
        RefusedRequest::new(RefusalReason::Malformed, message)
    };
    parse(value.as_bytes()).map(Some).ok_or_else(malformed)
}

fn parse(value: &[u8]) -> Option<Duration> {
    let (unit, digits) = value.split_last()?;
    let is_number = digits.iter().all(u8::is_ascii_digit);
    if digits.is_empty() || digits.len() > DIGITS_MAX || !is_number {
        return None;
    }
    let count = digits.iter().fold(0, |count, digit| count * 10 + u64::from(digit - b'0'));
    match unit {
        b'H' => Some(Duration::from_secs(count * 3600)),
        b'M' => Some(Duration::from_secs(count * 60)),
        b'S' => Some(Duration::from_secs(count)),
        b'm' => Some(Duration::from_millis(count)),
        b'u' => Some(Duration::from_micros(count)),
        b'n' => Some(Duration::from_nanos(count)),
        _ => None,
    }
}

/// Gives up when the caller does, while waiting for room, reading or handing over the message. Part
/// of it may have been accepted then; resending the same spans changes nothing.
pub(super) async fn within<T>(
    timeout: Option<Duration>,
    answering: impl Future<Output = Result<T, RefusedRequest>>,
) -> Result<T, RefusedRequest> {
    let passed =
        || RefusedRequest::new(RefusalReason::Deadline, "the call's own deadline has passed");
    match timeout {
        None => answering.await,
        Some(timeout) if timeout.is_zero() => Err(passed()),
        Some(timeout) => {
            tokio::time::timeout(timeout, answering).await.unwrap_or_else(|_| Err(passed()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_is_up_to_eight_digits_and_a_unit() {
        for (text, expected) in [
            ("99999999H", Some(Duration::from_secs(99_999_999 * 3600))),
            ("2M", Some(Duration::from_secs(120))),
            ("00000007S", Some(Duration::from_secs(7))),
            ("10m", Some(Duration::from_millis(10))),
            ("10u", Some(Duration::from_micros(10))),
            ("10n", Some(Duration::from_nanos(10))),
            ("0n", Some(Duration::ZERO)),
            ("", None),
            ("S", None),
            ("10", None),
            ("000000007S", None),
            ("10s", None),
            ("-1S", None),
            ("+1S", None),
            ("1.5S", None),
            (" 1S", None),
        ] {
            assert_eq!(parse(text.as_bytes()), expected, "{text}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_timeout_is_no_shorter_than_any_wait() {
        let year = async {
            tokio::time::sleep(Duration::from_secs(365 * 86_400)).await;
            Ok(())
        };
        assert!(within(parse(b"99999999H"), year).await.is_ok());
    }
}
