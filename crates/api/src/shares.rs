//! Shared quotas of bytes and places.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use http::request::Parts;
use parking_lot::Mutex;

use spanscore_base::model::{MemoryQuota, Sender, SenderShares};

/// Quota, or a part of one, of which each peer and each connection has a share.
#[derive(Debug)]
pub(crate) struct SharedQuota {
    quota: Arc<MemoryQuota>,
    /// Inverse of the usable part of the quota.
    parts: usize,
    by_sender: Mutex<HeldShares>,
}

#[derive(Debug, Default)]
struct HeldShares {
    held: usize,
    shares: SenderShares,
}

impl SharedQuota {
    /// Shares one `parts`-th of a quota.
    pub(crate) fn new(quota: Arc<MemoryQuota>, parts: usize) -> Arc<Self> {
        Arc::new(Self { quota, parts, by_sender: Mutex::default() })
    }

    /// Shares this many places.
    pub(crate) fn of_places(name: &'static str, count: usize) -> Arc<Self> {
        Self::new(MemoryQuota::new(name, count), 1)
    }

    /// Returns the usable amount.
    pub(crate) fn limit(&self) -> usize {
        self.quota.limit() / self.parts
    }

    /// Returns an empty holding of a sender, which can grow.
    pub(crate) fn hold(self: &Arc<Self>, sender: Sender) -> SharedHold {
        SharedHold { quota: Arc::clone(self), sender, amount: 0 }
    }

    /// Takes an amount for a sender, within its share and the quota.
    pub(crate) fn take(self: &Arc<Self>, sender: Sender, amount: usize) -> Option<SharedHold> {
        let mut held = self.hold(sender);
        held.grow(amount).then_some(held)
    }
}

/// Amount of a quota held by a sender, released on drop.
#[derive(Debug)]
pub(crate) struct SharedHold {
    quota: Arc<SharedQuota>,
    sender: Sender,
    amount: usize,
}

impl SharedHold {
    /// Takes more, if there is room.
    pub(crate) fn grow(&mut self, more: usize) -> bool {
        let limit = self.quota.limit();
        let mut own = self.quota.by_sender.lock();
        let left = self.quota.quota.left().min(limit.saturating_sub(own.held));
        let is_taken = own.shares.fits(left, self.sender, more) && self.quota.quota.try_take(more);
        if is_taken {
            own.held += more;
            own.shares.add(self.sender, more);
            self.amount += more;
        }
        is_taken
    }
}

impl Drop for SharedHold {
    fn drop(&mut self) {
        let mut own = self.quota.by_sender.lock();
        own.held = own.held.saturating_sub(self.amount);
        own.shares.give_back(&self.quota.quota, self.sender, self.amount);
    }
}

/// Bytes of an answer, which hold their part of a quota until dropped.
#[derive(Debug)]
pub(crate) struct HeldAnswer {
    pub(crate) bytes: Box<[u8]>,
    pub(crate) _held: SharedHold,
}

impl AsRef<[u8]> for HeldAnswer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Sender of a request, an extension of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AskedBy(pub(crate) Sender);

impl<S: Sync> FromRequestParts<S> for AskedBy {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(parts.extensions.get::<Sender>().copied().unwrap_or_default()))
    }
}
