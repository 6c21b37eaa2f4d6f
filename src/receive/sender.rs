//! Who sends: one connection, with what it holds of the limits that all share.
//!
//! Behind a proxy, or on one machine, all senders have one address: a connection is the least that
//! tells them apart.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::metrics::Closed;

/// One connection.
#[derive(Debug, Default)]
pub struct Sender {
    /// Bodies that are on their way.
    pub(super) bodies: AtomicUsize,
    /// Bytes of bodies, and of what has not become one.
    pub(super) bytes: AtomicUsize,
    /// Requests that are worked on.
    pub(super) turns: AtomicUsize,
    /// A request, or a part of its body, was taken since the last look.
    pub(super) progressed: AtomicBool,
    queued: AtomicUsize,
    closed: OnceLock<Closed>,
}

impl Sender {
    /// What the intake holds of it, in whatever the intake counts.
    pub fn queued(&self) -> &AtomicUsize {
        &self.queued
    }

    /// A request, or a part of its body, was taken.
    pub(super) fn progress(&self) {
        self.progressed.store(true, Ordering::Relaxed);
    }

    /// Says why this side closes it.
    pub(super) fn close(&self, why: Closed) {
        // The first reason counts.
        let _ = self.closed.set(why);
    }

    /// Why this side closed it, if it did for one of the limits that are shared.
    pub(super) fn closed(&self) -> Option<Closed> {
        self.closed.get().copied()
    }
}
