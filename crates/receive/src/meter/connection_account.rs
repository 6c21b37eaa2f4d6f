//! Account of one connection, with its share of the common limits.
//!
//! Behind a proxy or on one machine all senders have one address; only connections distinguish
//! them.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::metrics::Closed;
use spanscore_base::model::{ClientGroup, Sender};

/// Limit on a connection's requests that wait for room; others are refused at once. Waiting bridges
/// short shortages, and a sender with this many waiting requests exceeds the capacity.
const WAITING_MAX: usize = 8;

/// Account of one connection.
#[derive(Debug, Default)]
pub struct ConnectionAccount {
    /// Number of arriving bodies.
    pub(crate) bodies: AtomicUsize,
    /// Bytes of bodies, and of data not yet part of one.
    pub(crate) bytes: AtomicUsize,
    /// Requests being processed.
    pub(crate) turns: AtomicUsize,
    /// True if a request, or part of its body, was read since the last check.
    pub(crate) progressed: AtomicBool,
    /// Bodies being read or drained.
    taking: AtomicUsize,
    /// Delayed refusals.
    pub(crate) held_back: AtomicUsize,
    /// Requests waiting for room.
    waiting: AtomicUsize,
    queued: AtomicUsize,
    closed: OnceLock<Closed>,
    /// Names in the peer's certificate.
    names: Vec<String>,
    id: Sender,
}

impl ConnectionAccount {
    /// Opens the account of a connection with these certificate names.
    pub(crate) fn named(names: Vec<String>) -> Self {
        Self { names, ..Self::default() }
    }

    /// Opens the account of a connection from an address.
    pub(crate) fn from(self, address: Option<IpAddr>) -> Self {
        /// Number of the next connection: open ones have distinct numbers, none of them 0.
        static NEXT: AtomicU16 = AtomicU16::new(0);
        let connection = NEXT.fetch_add(1, Ordering::Relaxed) % u16::MAX + 1;
        Self { id: Sender { connection, ..Sender::of_address(address) }, ..self }
    }

    /// Returns it as a sender.
    pub(crate) fn id(&self) -> Sender {
        self.id
    }

    /// Returns it as a connection of a group, which counts as one peer.
    pub(crate) fn id_of(&self, group: ClientGroup) -> Sender {
        Sender { connection: self.id.connection, ..Sender::of_group(group) }
    }

    /// Returns the names in the peer's certificate; empty without one.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the amount held by the intake, in the intake's unit.
    pub fn queued(&self) -> &AtomicUsize {
        &self.queued
    }

    /// Records that a request, or part of its body, was read.
    pub(crate) fn progress(&self) {
        self.progressed.store(true, Ordering::Relaxed);
    }

    /// Returns true while a body is read or drained, so that its bytes are read at once.
    pub(crate) fn is_taken_from(&self) -> bool {
        self.taking.load(Ordering::Relaxed) > 0
    }

    /// Returns a guard for a request that waits for room; `None` if enough of them wait.
    pub fn wait(self: &Arc<Self>) -> Option<WaitingRequest> {
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        // Created before the check: on drop it no longer waits.
        let waiting = WaitingRequest(Arc::clone(self));
        (before < WAITING_MAX).then_some(waiting)
    }

    /// Sets the reason for closing it.
    pub(crate) fn close(&self, why: Closed) {
        // The first reason counts.
        let _ = self.closed.set(why);
    }

    /// Returns the reason for closing it, if due to a shared limit.
    pub(crate) fn closed(&self) -> Option<Closed> {
        self.closed.get().copied()
    }
}

/// A request waiting for room, until dropped.
pub struct WaitingRequest(Arc<ConnectionAccount>);

impl Drop for WaitingRequest {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A body being read or drained, until dropped.
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
