//! Connection account: one connection, with its part of the limits that all share.
//!
//! Behind a proxy, or on one machine, all senders have one address: a connection is the least that
//! tells them apart.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::metrics::Closed;
use spanscore_base::model::{ClientGroup, Sender};

/// Requests of one connection that may wait for room; further ones are refused at once. Waiting is
/// for shortages of a moment: a sender with so many waiting sends more than can be done.
const WAITING_MAX: usize = 8;

/// Account of one connection.
#[derive(Debug, Default)]
pub struct ConnectionAccount {
    /// Bodies that are on their way.
    pub(crate) bodies: AtomicUsize,
    /// Bytes of bodies, and of data that has not become one.
    pub(crate) bytes: AtomicUsize,
    /// Requests that are worked on.
    pub(crate) turns: AtomicUsize,
    /// True if a request, or a part of its body, was read since the last check.
    pub(crate) progressed: AtomicBool,
    /// Bodies that are being read or drained.
    taking: AtomicUsize,
    /// Refusals that are held back.
    pub(crate) held_back: AtomicUsize,
    /// Requests that wait for room.
    waiting: AtomicUsize,
    queued: AtomicUsize,
    closed: OnceLock<Closed>,
    /// Names in the certificate of the peer.
    names: Vec<String>,
    id: Sender,
}

impl ConnectionAccount {
    /// Opens the account of a connection whose certificate has these names.
    pub(crate) fn named(names: Vec<String>) -> Self {
        Self { names, ..Self::default() }
    }

    /// Opens the account of a connection from an address.
    pub(crate) fn from(self, address: Option<IpAddr>) -> Self {
        /// Number of the next connection: those at hand differ, and none is 0.
        static NEXT: AtomicU16 = AtomicU16::new(0);
        let connection = NEXT.fetch_add(1, Ordering::Relaxed) % u16::MAX + 1;
        Self { id: Sender { connection, ..Sender::of_address(address) }, ..self }
    }

    /// Returns it as a sender.
    pub(crate) fn id(&self) -> Sender {
        self.id
    }

    /// Returns it as a connection of a group, which is one peer.
    pub(crate) fn id_of(&self, group: ClientGroup) -> Sender {
        Sender { connection: self.id.connection, ..Sender::of_group(group) }
    }

    /// Returns the names in the certificate of the peer; none without one.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the amount that the intake holds of it, in whatever the intake counts.
    pub fn queued(&self) -> &AtomicUsize {
        &self.queued
    }

    /// Marks that a request, or a part of its body, was read.
    pub(crate) fn progress(&self) {
        self.progressed.store(true, Ordering::Relaxed);
    }

    /// Returns true while a body is read or drained: bytes that come of it are read at once.
    pub(crate) fn is_taken_from(&self) -> bool {
        self.taking.load(Ordering::Relaxed) > 0
    }

    /// Lets a request of it wait for room until dropped; `None` if enough of them do.
    pub fn wait(self: &Arc<Self>) -> Option<WaitingRequest> {
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        // Made before the check: dropped, it no longer waits.
        let waiting = WaitingRequest(Arc::clone(self));
        (before < WAITING_MAX).then_some(waiting)
    }

    /// Sets the reason for which this side closes it.
    pub(crate) fn close(&self, why: Closed) {
        // The first reason counts.
        let _ = self.closed.set(why);
    }

    /// Returns the reason for which this side closed it, if for one of the limits that are shared.
    pub(crate) fn closed(&self) -> Option<Closed> {
        self.closed.get().copied()
    }
}

/// A request that waits for room, until dropped.
pub struct WaitingRequest(Arc<ConnectionAccount>);

impl Drop for WaitingRequest {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A body that is being read or drained, until dropped.
pub(crate) struct BodyTaking(Arc<ConnectionAccount>);

impl BodyTaking {
    pub(crate) fn start(sender: &Arc<ConnectionAccount>) -> Self {
        sender.taking.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(sender))
    }
}

impl Drop for BodyTaking {
    fn drop(&mut self) {
        self.0.taking.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_requests_of_a_connection_wait_at_once() {
        let sender = Arc::<ConnectionAccount>::default();
        let mut waiting: Vec<_> = (0..2 * WAITING_MAX).map_while(|_| sender.wait()).collect();
        assert_eq!(waiting.len(), WAITING_MAX);
        waiting.pop();
        assert!(sender.wait().is_some());
    }
}
