//! Who may come in: limits on requests and bytes at the same time, over all protocols.
//!
//! While its body comes, a request holds what has come of it and one of [`READING_MAX`] places, so
//! whoever sends slowly keeps nobody else out. Once the body is whole it needs a turn. Without one
//! it waits a moment, since some senders never try again, and is then refused as overload. What it
//! holds is given back when its [`Ticket`] is dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::settings::OtlpReceiverSettings;
use super::status::RefusedRequest;

/// Requests whose bodies are on their way, over all protocols. Each takes some kilobytes beside the
/// bytes that have come.
const READING_MAX: usize = 16_384;

/// The limits that all connections share.
pub(super) struct Admission {
    reading: Arc<Semaphore>,
    requests: Arc<Semaphore>,
    wait: Duration,
    bytes: Arc<AtomicUsize>,
    bytes_max: usize,
}

impl Admission {
    pub(super) fn new(settings: &OtlpReceiverSettings) -> Self {
        let requests = settings.max_concurrent_requests.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            reading: Arc::new(Semaphore::new(READING_MAX)),
            requests: Arc::new(Semaphore::new(requests)),
            wait: settings.wait_for_room.0,
            bytes: Arc::default(),
            bytes_max: settings.in_flight_bytes_max(),
        }
    }

    /// Lets the body of a request come; does not wait.
    pub(super) fn enter(&self) -> Result<Ticket, RefusedRequest> {
        let Ok(place) = Arc::clone(&self.reading).try_acquire_owned() else {
            return Err(RefusedRequest::overloaded("too many requests are being read"));
        };
        Ok(Ticket {
            _place: place,
            bytes: Arc::clone(&self.bytes),
            bytes_max: self.bytes_max,
            held: 0,
        })
    }

    /// Gives a request its turn once its body is whole, after waiting for one if there is none.
    pub(super) async fn turn(&self, mut ticket: Ticket) -> Result<Ticket, RefusedRequest> {
        ticket._place = match Arc::clone(&self.requests).try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => {
                let waiting = Arc::clone(&self.requests).acquire_owned();
                match tokio::time::timeout(self.wait, waiting).await {
                    Ok(Ok(permit)) => permit,
                    _ => return Err(RefusedRequest::overloaded("too many concurrent requests")),
                }
            }
        };
        Ok(ticket)
    }
}

/// One request's share of the limits.
pub(super) struct Ticket {
    /// Among those that are read, then among those that are worked on.
    _place: OwnedSemaphorePermit,
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
        let turn = async || admission.turn(admission.enter().unwrap()).await;
        let ticket = turn().await.ok();
        assert_eq!(turn().await.err().map(|f| f.reason), Some(RefusalReason::Overloaded));
        drop(ticket);
        assert!(turn().await.is_ok());
    }

    #[tokio::test]
    async fn bodies_on_their_way_keep_no_turn_from_others() {
        let admission = admission();
        let slow: Vec<_> = (0..1000).map(|_| admission.enter().ok()).collect();
        assert!(admission.turn(admission.enter().unwrap()).await.is_ok());
        assert!(slow.iter().all(Option::is_some));
        let rest: Vec<_> = (0..READING_MAX).map_while(|_| admission.enter().ok()).collect();
        assert_eq!(slow.len() + rest.len(), READING_MAX);
    }

    #[tokio::test]
    async fn one_byte_past_the_limit_is_overload_until_room_is_given_back() {
        let admission = admission();
        let mut ticket = admission.enter().unwrap();
        assert!(ticket.hold(1 << 20).is_ok());
        assert_eq!(ticket.hold(1).err().map(|f| f.reason), Some(RefusalReason::Overloaded));
        drop(ticket);
        assert!(admission.enter().unwrap().hold(1 << 20).is_ok());
    }
}
