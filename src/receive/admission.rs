//! Who may come in: limits on requests and bytes at the same time, over all protocols.
//!
//! A request without room waits a moment, since some senders never try again, and is then refused
//! as overload. What it holds is given back when its [`Ticket`] is dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::settings::OtlpReceiverSettings;
use super::status::RefusedRequest;

/// The limits that all connections share.
pub(super) struct Admission {
    requests: Arc<Semaphore>,
    wait: Duration,
    bytes: Arc<AtomicUsize>,
    bytes_max: usize,
}

impl Admission {
    pub(super) fn new(settings: &OtlpReceiverSettings) -> Self {
        let requests = settings.max_concurrent_requests.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            requests: Arc::new(Semaphore::new(requests)),
            wait: settings.wait_for_room.0,
            bytes: Arc::default(),
            bytes_max: settings.in_flight_bytes_max(),
        }
    }

    /// Lets a request in, after waiting for room if there is none.
    pub(super) async fn enter(&self) -> Result<Ticket, RefusedRequest> {
        let permit = match Arc::clone(&self.requests).try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => {
                let waiting = Arc::clone(&self.requests).acquire_owned();
                match tokio::time::timeout(self.wait, waiting).await {
                    Ok(Ok(permit)) => permit,
                    _ => return Err(RefusedRequest::overloaded("too many concurrent requests")),
                }
            }
        };
        Ok(Ticket {
            _permit: permit,
            bytes: Arc::clone(&self.bytes),
            bytes_max: self.bytes_max,
            held: 0,
        })
    }
}

/// One request's share of the limits.
pub(super) struct Ticket {
    _permit: OwnedSemaphorePermit,
    bytes: Arc<AtomicUsize>,
    bytes_max: usize,
    held: usize,
}

impl Ticket {
    /// Takes a share of the bytes in flight; does not wait.
    pub(super) fn hold(&mut self, bytes: usize) -> Result<(), RefusedRequest> {
        self.held += bytes;
        let held_by_all = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if held_by_all > self.bytes_max {
            return Err(RefusedRequest::overloaded("too many bytes in flight"));
        }
        Ok(())
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.bytes.fetch_sub(self.held, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::receive::status::RefusalReason;
    use crate::settings::HumanDuration;

    fn admission() -> Admission {
        Admission::new(&OtlpReceiverSettings {
            max_concurrent_requests: 1,
            max_in_flight_mib: 1,
            wait_for_room: HumanDuration::from_millis(1),
            ..OtlpReceiverSettings::default()
        })
    }

    #[tokio::test]
    async fn one_request_past_the_limit_is_overload_until_room_is_given_back() {
        let admission = admission();
        let ticket = admission.enter().await.ok();
        assert_eq!(
            admission.enter().await.err().map(|f| f.reason),
            Some(RefusalReason::Overloaded)
        );
        drop(ticket);
        assert!(admission.enter().await.is_ok());
    }

    #[tokio::test]
    async fn one_byte_past_the_limit_is_overload_until_room_is_given_back() {
        let admission = admission();
        let mut ticket = admission.enter().await.unwrap();
        assert!(ticket.hold(1 << 20).is_ok());
        assert_eq!(ticket.hold(1).err().map(|f| f.reason), Some(RefusalReason::Overloaded));
        drop(ticket);
        assert!(admission.enter().await.unwrap().hold(1 << 20).is_ok());
    }
}
