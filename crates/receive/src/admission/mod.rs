//! Admission control: quotas on concurrent requests and bytes, over all protocols.
//!
//! While its body arrives, a request holds the received bytes and one of [`READING_MAX`] places, so
//! a slow sender blocks no other. A complete request needs a turn. Without one it waits briefly in
//! a fair queue ([`waiters`]), since some senders never retry, and is then refused as overload. Its
//! [`Ticket`] releases everything on drop.
//!
//! Quotas are shared by a dynamic threshold ([`MemoryQuota`]): a connection may hold at most four
//! times the free rest. So a flood leaves room for others, without a configured quota for each
//! connection.
//!
//! An immediate refusal is delayed by the time that waiting would have taken, without holding a
//! body or turn. A flood with a limited number of streams is thereby slowed down, and refusing it
//! takes little work from others.

mod fair_queue;
mod waiters;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::Instant;

pub use waiters::{RoomRequest, Waiters};

use super::ConnectionAccount;
use super::settings::OtlpReceiverSettings;
use super::status::{RefusalReason, RefusedRequest};
use spanscore_base::model::MemoryQuota;

/// Limit on requests whose bodies are arriving, over all protocols. Each takes some kilobytes
/// beside the received bytes.
const READING_MAX: usize = 16_384;
/// Limit on concurrently delayed refusals; others are sent at once. Each takes some kilobytes.
const HELD_BACK_MAX: usize = 4096;
/// Setting for the bytes in flight.
const BYTES_SETTING: &str = "receivers.otlp.max_in_flight_mib";

/// Quotas shared by all connections. No connection can take nearly all of one.
pub(super) struct Admission {
    limits: Arc<AdmissionLimits>,
    wait: Duration,
}

struct AdmissionLimits {
    bodies: Arc<MemoryQuota>,
    turns: Arc<MemoryQuota>,
    waiters: Waiters,
    bytes: Arc<MemoryQuota>,
    held_back: Arc<MemoryQuota>,
}

impl Admission {
    pub(super) fn new(settings: &OtlpReceiverSettings, bytes: Arc<MemoryQuota>) -> Self {
        let limits = AdmissionLimits {
            bodies: MemoryQuota::new("bodies", READING_MAX),
            turns: MemoryQuota::new("turns", settings.max_concurrent_requests.max(1)),
            waiters: Waiters::default(),
            bytes,
            held_back: MemoryQuota::new("held_back", HELD_BACK_MAX),
        };
        Self { limits: Arc::new(limits), wait: settings.wait_for_room.0 }
    }

    /// Admits the body of a request without waiting.
    pub(super) fn enter(&self, sender: &Arc<ConnectionAccount>) -> Result<Ticket, RefusedRequest> {
        if !self.limits.bodies.try_take_for(&sender.bodies, 1) {
            let what = "too many requests are being read";
            return Err(RefusedRequest::overloaded(RefusalReason::BodiesFull, what));
        }
        let sender = Arc::clone(sender);
        let limits = Arc::clone(&self.limits);
        Ok(Ticket { sender, limits, has_turn: false, held: 0 })
    }

    /// Returns the time until which a request completed now may wait, for its turn and for later
    /// stages.
    pub(super) fn deadline(&self) -> Instant {
        Instant::now() + self.wait
    }

    /// Gives a complete request its turn, and waits for one if needed; calls `waits` in that case.
    pub(super) async fn turn(
        &self,
        mut ticket: Ticket,
        deadline: Instant,
        waits: impl FnOnce(),
    ) -> Result<Ticket, RefusedRequest> {
        let limits = Arc::clone(&self.limits);
        if limits.waiters.is_empty() && ticket.try_turn() {
            return Ok(ticket);
        }
        let sender = Arc::clone(&ticket.sender);
        if let Some(_waiting) = sender.wait() {
            let held = sender.turns.load(Ordering::Relaxed);
            let asked = RoomRequest { sender: &sender, held, amount: 1 };
            let is_taken = || ticket.try_turn();
            if limits.waiters.wait(asked, deadline, waits, is_taken).await {
                return Ok(ticket);
            }
        }
        let what = "too many concurrent requests";
        Err(RefusedRequest::overloaded(RefusalReason::TurnsFull, what))
    }

    /// Returns the end of the delay for refusing a request that began at `began`, with a place to
    /// wait. `None` if the refusal has another cause than lack of room, has waited already, or if
    /// too many are delayed.
    pub(super) fn hold_back(
        &self,
        refused: &RefusedRequest,
        sender: &Arc<ConnectionAccount>,
        began: Instant,
    ) -> Option<(Instant, DelayedRefusal)> {
        let until = began + self.wait;
        let share = &self.limits.held_back;
        let is_early = refused.reason.is_for_want_of_room() && Instant::now() < until;
        if !is_early || !share.try_take_for(&sender.held_back, 1) {
            return None;
        }
        Some((until, DelayedRefusal { sender: Arc::clone(sender), share: Arc::clone(share) }))
    }
}

/// A delayed refusal, until dropped.
pub(super) struct DelayedRefusal {
    sender: Arc<ConnectionAccount>,
    share: Arc<MemoryQuota>,
}

impl Drop for DelayedRefusal {
    fn drop(&mut self) {
        self.share.give_back_for(&self.sender.held_back, 1);
    }
}

/// One request's share of the quotas, released on drop.
pub(super) struct Ticket {
    sender: Arc<ConnectionAccount>,
    limits: Arc<AdmissionLimits>,
    /// True while it is processed; false before it is read.
    has_turn: bool,
    held: usize,
}

impl Ticket {
    /// Returns its connection.
    pub(super) fn sender(&self) -> &Arc<ConnectionAccount> {
        &self.sender
    }

    /// Takes bytes of the quota without waiting. A body that could never fit is refused for good.
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

    /// Returns true if no other request holds anything, on any connection. Bytes without room now
    /// would then never have room.
    fn is_alone(&self) -> bool {
        let own = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        let ConnectionAccount { bodies, turns, bytes, .. } = &*self.sender;
        own(bodies) + own(turns) <= 1 && self.limits.bytes.held() <= own(bytes)
    }

    /// Releases some of its bytes.
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
        let AdmissionLimits { bodies, turns, waiters, bytes, .. } = &*self.limits;
        bytes.give_back_for(&self.sender.bytes, self.held);
        if self.has_turn {
            turns.give_back_for(&self.sender.turns, 1);
            waiters.wake();
        } else {
            bodies.give_back_for(&self.sender.bodies, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanscore_base::settings::HumanDuration;

    fn admission(turns: usize) -> Admission {
        let settings = OtlpReceiverSettings {
            max_concurrent_requests: turns,
            wait_for_room: HumanDuration::from_millis(1),
            ..OtlpReceiverSettings::default()
        };
        Admission::new(&settings, MemoryQuota::new("requests", 1 << 20))
    }

    async fn turn(
        admission: &Admission,
        sender: &Arc<ConnectionAccount>,
    ) -> Result<Ticket, RefusedRequest> {
        admission.turn(admission.enter(sender)?, admission.deadline(), || {}).await
    }

    fn reason<T>(refused: Result<T, RefusedRequest>) -> Option<RefusalReason> {
        refused.err().map(|refused| refused.reason)
    }

    #[tokio::test]
    async fn request_above_the_limit_is_overload_until_one_ends() {
        let admission = admission(1);
        let waits = std::cell::Cell::new(0);
        let turn = async || {
            let ticket = admission.enter(&Arc::default()).unwrap();
            admission.turn(ticket, admission.deadline(), || waits.set(waits.get() + 1)).await
        };
        let ticket = turn().await.ok();
        assert_eq!((reason(turn().await), waits.get()), (Some(RefusalReason::TurnsFull), 1));
        drop(ticket);
        assert!(turn().await.is_ok() && waits.get() == 1);
    }

    #[tokio::test]
    async fn incomplete_bodies_leave_turns_to_other_connections() {
        let admission = admission(1);
        let slow = Arc::default();
        let slow: Vec<_> = (0..READING_MAX).map_while(|_| admission.enter(&slow).ok()).collect();
        assert_eq!(slow.len(), READING_MAX / 5 * 4 + 3, "no more than four times what is left");
        assert!(turn(&admission, &Arc::default()).await.is_ok());
        let rest = (0..READING_MAX).map_while(|_| admission.enter(&Arc::default()).ok());
        let rest: Vec<_> = rest.collect();
        assert_eq!(slow.len() + rest.len(), READING_MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn refusal_without_a_wait_is_held_back_and_no_other() {
        let admission = admission(1);
        let flood = Arc::<ConnectionAccount>::default();
        let overload = RefusedRequest::overloaded(RefusalReason::TurnsFull, "x");
        let began = Instant::now();
        let (until, held) = admission.hold_back(&overload, &flood, began).unwrap();
        assert_eq!((until, flood.held_back.load(Ordering::Relaxed)), (began + admission.wait, 1));
        drop(held);
        assert_eq!(admission.limits.held_back.held(), 0);
        let malformed = RefusedRequest::new(RefusalReason::Malformed, "x");
        assert!(admission.hold_back(&malformed, &flood, began).is_none());
        tokio::time::advance(admission.wait).await;
        assert!(admission.hold_back(&overload, &flood, began).is_none(), "it has waited");
        let now = Instant::now();
        let held: Vec<_> =
            std::iter::from_fn(|| admission.hold_back(&overload, &flood, now)).collect();
        assert!(held.len() < HELD_BACK_MAX);
        assert!(admission.hold_back(&overload, &Arc::default(), now).is_some(), "room for others");
    }

    #[tokio::test]
    async fn connection_that_has_nearly_all_turns_leaves_some_to_others() {
        let admission = admission(100);
        let flood = Arc::default();
        let mut turns = Vec::new();
        while let Ok(ticket) = turn(&admission, &flood).await {
            turns.push(ticket);
        }
        assert_eq!(turns.len(), 80);
        assert!(turn(&admission, &Arc::default()).await.is_ok());
    }

    #[tokio::test]
    async fn request_that_has_no_room_though_nobody_else_holds_any_is_refused_for_good() {
        let admission = admission(1);
        let sender = Arc::<ConnectionAccount>::default();
        let mut ticket = admission.enter(&sender).unwrap();
        // Bytes read ahead of the body.
        assert!(admission.limits.bytes.try_take_for(&sender.bytes, 400_000));
        assert!(ticket.hold(400_000).is_ok());
        assert_eq!(reason(ticket.hold(100_000)), Some(RefusalReason::TooLarge));
        let mut other = admission.enter(&Arc::default()).unwrap();
        assert!(other.hold(1).is_ok());
        assert_eq!(reason(ticket.hold(100_000)), Some(RefusalReason::BytesFull));
    }

    #[tokio::test]
    async fn byte_above_the_limit_is_overload_until_a_body_ends() {
        let admission = admission(1);
        let sender = Arc::default();
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
