//! Who sends: one connection, with what it holds of the limits that all share.
//!
//! Behind a proxy, or on one machine, all senders have one address: a connection is the least that
//! tells them apart.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::receive::metrics::Closed;

/// One connection.
#[derive(Debug, Default)]
pub struct Sender {
    /// Bodies that are on their way.
    pub(in crate::receive) bodies: AtomicUsize,
    /// Bytes of bodies, and of what has not become one.
    pub(in crate::receive) bytes: AtomicUsize,
    /// Requests that are worked on.
    pub(in crate::receive) turns: AtomicUsize,
    /// A request, or a part of its body, was taken since the last look.
    pub(in crate::receive) progressed: AtomicBool,
    queued: AtomicUsize,
    closed: OnceLock<Closed>,
}

impl Sender {
    /// What the intake holds of it, in whatever the intake counts.
    pub fn queued(&self) -> &AtomicUsize {
        &self.queued
    }

    /// A request, or a part of its body, was taken.
    pub(in crate::receive) fn progress(&self) {
        self.progressed.store(true, Ordering::Relaxed);
    }

    /// Says why this side closes it.
    pub(in crate::receive) fn close(&self, why: Closed) {
        // The first reason counts.
        let _ = self.closed.set(why);
    }

    /// Why this side closed it, if it did for one of the limits that are shared.
    pub(in crate::receive) fn closed(&self) -> Option<Closed> {
        self.closed.get().copied()
    }
}
