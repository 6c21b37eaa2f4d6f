//! Who may come in: limits on requests and bytes at the same time, over all protocols.
//!
//! While its body comes, a request holds what has come of it and one of [`READING_MAX`] places, so
//! whoever sends slowly keeps nobody else out. Once the body is whole it needs a turn. Without one
//! it waits a moment, since some senders never try again, and is then refused as overload. What it
//! holds is given back when its [`Ticket`] is dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::Sender;
use super::settings::OtlpReceiverSettings;
use super::status::{RefusalReason, RefusedRequest};
use crate::model::Share;

/// Requests whose bodies are on their way, over all protocols. Each takes some kilobytes beside the
/// bytes that have come.
const READING_MAX: usize = 16_384;
/// How often a request without a turn looks again.
const LOOK: Duration = Duration::from_millis(5);
/// The setting of the bytes.
const BYTES_SETTING: &str = "receivers.otlp.max_in_flight_mib";

/// The limits that all connections share. None of them has nearly all of one.
pub(super) struct Admission {
    limits: Arc<AdmissionLimits>,
    wait: Duration,
}

struct AdmissionLimits {
    bodies: Arc<Share>,
    turns: Arc<Share>,
    bytes: Arc<Share>,
}

impl Admission {
    pub(super) fn new(settings: &OtlpReceiverSettings, bytes: Arc<Share>) -> Self {
        let limits = AdmissionLimits {
            bodies: Share::new("bodies", READING_MAX),
            turns: Share::new("turns", settings.max_concurrent_requests.max(1)),
            bytes,
        };
        Self { limits: Arc::new(limits), wait: settings.wait_for_room.0 }
    }

    /// Lets the body of a request come; does not wait.
    pub(super) fn enter(&self, sender: &Arc<Sender>) -> Result<Ticket, RefusedRequest> {
        if !self.limits.bodies.try_take_for(&sender.bodies, 1) {
            let what = "too many requests are being read";
            return Err(RefusedRequest::overloaded(RefusalReason::BodiesFull, what));
        }
        let (sender, limits) = (Arc::clone(sender), Arc::clone(&self.limits));
        Ok(Ticket { sender, limits, has_turn: false, held: 0 })
    }

    /// Gives a request its turn once its body is whole, after waiting for one if there is none;
    /// then `waits` is called.
    pub(super) async fn turn(
        &self,
        mut ticket: Ticket,
        waits: impl FnOnce(),
    ) -> Result<Ticket, RefusedRequest> {
        if ticket.try_turn() {
            return Ok(ticket);
        }
        if let Some(_waiting) = ticket.sender.wait() {
            waits();
            let deadline = Instant::now() + self.wait;
            while Instant::now() < deadline {
                tokio::time::sleep_until(deadline.min(Instant::now() + LOOK)).await;
                if ticket.try_turn() {
                    return Ok(ticket);
                }
            }
        }
        let what = "too many concurrent requests";
        Err(RefusedRequest::overloaded(RefusalReason::TurnsFull, what))
    }
}

/// One request's share of the limits.
pub(super) struct Ticket {
    sender: Arc<Sender>,
    limits: Arc<AdmissionLimits>,
    /// It is worked on; else it is read.
    has_turn: bool,
    held: usize,
}

impl Ticket {
    /// Who sent it.
    pub(super) fn sender(&self) -> &Arc<Sender> {
        &self.sender
    }

    /// Takes a share of the bytes in flight; does not wait. What nobody could ever hold is refused
    /// for good.
    pub(super) fn hold(&mut self, bytes: usize) -> Result<(), RefusedRequest> {
        self.sender.progress();
        let share = &self.limits.bytes;
        if self.held.saturating_add(bytes) > share.largest() {
            return Err(RefusedRequest::too_large(share.largest(), BYTES_SETTING));
        }
        if share.try_take_for(&self.sender.bytes, bytes) {
            self.held += bytes;
            return Ok(());
        }
        if self.is_alone() {
            return Err(RefusedRequest::too_large(share.largest(), BYTES_SETTING));
        }
        let what = "too many bytes in flight";
        Err(RefusedRequest::overloaded(RefusalReason::BytesFull, what))
    }

    /// Whether nobody else holds anything, neither on this connection nor on another: what this
    /// request has no room for now, it would never have.
    fn is_alone(&self) -> bool {
        let own = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        let Sender { bodies, turns, bytes, .. } = &*self.sender;
        own(bodies) + own(turns) <= 1 && self.limits.bytes.held() <= own(bytes)
    }

    /// Gives back some of the bytes that it holds.
    pub(super) fn release(&mut self, bytes: usize) {
        let bytes = bytes.min(self.held);
        self.held -= bytes;
        self.limits.bytes.give_back_for(&self.sender.bytes, bytes);
    }

    fn try_turn(&mut self) -> bool {
        self.has_turn = self.limits.turns.try_take_for(&self.sender.turns, 1);
        if self.has_turn {
            self.limits.bodies.give_back_for(&self.sender.bodies, 1);
        }
        self.has_turn
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let AdmissionLimits { bodies, turns, bytes } = &*self.limits;
        bytes.give_back_for(&self.sender.bytes, self.held);
        if self.has_turn {
            turns.give_back_for(&self.sender.turns, 1);
        } else {
            bodies.give_back_for(&self.sender.bodies, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::HumanDuration;

    fn admission(turns: usize) -> Admission {
        let settings = OtlpReceiverSettings {
            max_concurrent_requests: turns,
            wait_for_room: HumanDuration::from_millis(1),
            ..OtlpReceiverSettings::default()
        };
        Admission::new(&settings, Share::new("requests", 1 << 20))
    }

    fn reason<T>(refused: Result<T, RefusedRequest>) -> Option<RefusalReason> {
        refused.err().map(|refused| refused.reason)
    }

    #[tokio::test]
    async fn one_request_past_the_limit_is_overload_until_room_is_given_back() {
        let (admission, waits) = (admission(1), std::cell::Cell::new(0));
        let turn = async || {
            let ticket = admission.enter(&Arc::default()).unwrap();
            admission.turn(ticket, || waits.set(waits.get() + 1)).await
        };
        let ticket = turn().await.ok();
        assert_eq!((reason(turn().await), waits.get()), (Some(RefusalReason::TurnsFull), 1));
        drop(ticket);
        assert!(turn().await.is_ok() && waits.get() == 1);
    }

    #[tokio::test]
    async fn bodies_on_their_way_keep_no_turn_from_others() {
        let (admission, slow) = (admission(1), Arc::default());
        let slow: Vec<_> = (0..READING_MAX).map_while(|_| admission.enter(&slow).ok()).collect();
        assert_eq!(slow.len(), READING_MAX / 5 * 4 + 3, "no more than four times what is left");
        assert!(admission.turn(admission.enter(&Arc::default()).unwrap(), || {}).await.is_ok());
        let rest = (0..READING_MAX).map_while(|_| admission.enter(&Arc::default()).ok());
        let rest: Vec<_> = rest.collect();
        assert_eq!(slow.len() + rest.len(), READING_MAX);
    }

    #[tokio::test]
    async fn connection_that_has_nearly_all_turns_leaves_some_to_others() {
        let (admission, flood) = (admission(100), Arc::default());
        let turn = async |sender| admission.turn(admission.enter(sender).unwrap(), || {}).await;
        let mut turns = Vec::new();
        while let Ok(ticket) = turn(&flood).await {
            turns.push(ticket);
        }
        assert_eq!(turns.len(), 80);
        assert!(turn(&Arc::default()).await.is_ok());
    }

    #[tokio::test]
    async fn request_that_has_no_room_though_nobody_else_holds_any_is_refused_for_good() {
        let (admission, sender) = (admission(1), Arc::<Sender>::default());
        let mut ticket = admission.enter(&sender).unwrap();
        // What is read ahead of the body.
        assert!(admission.limits.bytes.try_take_for(&sender.bytes, 400_000));
        assert!(ticket.hold(400_000).is_ok());
        assert_eq!(reason(ticket.hold(100_000)), Some(RefusalReason::TooLarge));
        let mut other = admission.enter(&Arc::default()).unwrap();
        assert!(other.hold(1).is_ok());
        assert_eq!(reason(ticket.hold(100_000)), Some(RefusalReason::BytesFull));
    }

    #[tokio::test]
    async fn one_byte_past_the_limit_is_overload_until_room_is_given_back() {
        let (admission, sender) = (admission(1), Arc::default());
        let mut ticket = admission.enter(&sender).unwrap();
        let most = (1 << 20) / 5 * 4;
        assert!(ticket.hold(most).is_ok());
        let mut other = admission.enter(&sender).unwrap();
        assert_eq!(reason(other.hold(10)), Some(RefusalReason::BytesFull));
        assert_eq!(reason(ticket.hold(1)), Some(RefusalReason::TooLarge), "no use to come again");
        ticket.release(most / 2);
        assert!(other.hold(most / 2).is_ok());
        drop(ticket);
        drop(other);
        assert!(admission.enter(&sender).unwrap().hold(most).is_ok());
    }
}
