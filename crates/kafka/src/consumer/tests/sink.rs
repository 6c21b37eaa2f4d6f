//! Sink that holds received requests, and wakes waiting tests.

use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::watch;

use super::{LARGE_BYTES, PATIENCE, SMALL_BYTES};
use crate::{FetchedRequest, RecordSink, Untaken};

/// Awaited state.
#[derive(Clone, Copy, Default, Debug)]
struct Seen {
    records: usize,
    refusals: usize,
    drops: usize,
}

pub(super) struct TestSink {
    taken: Mutex<Vec<FetchedRequest>>,
    has_room: watch::Sender<bool>,
    seen: watch::Sender<Seen>,
}

impl TestSink {
    fn new(has_room: bool) -> Arc<Self> {
        let seen = watch::Sender::new(Seen::default());
        Arc::new(Self { taken: Mutex::default(), has_room: watch::Sender::new(has_room), seen })
    }

    pub(super) fn open() -> Arc<Self> {
        Self::new(true)
    }

    pub(super) fn closed() -> Arc<Self> {
        Self::new(false)
    }

    pub(super) fn make_room(&self) {
        self.has_room.send_replace(true);
    }

    pub(super) fn taken(&self) -> MutexGuard<'_, Vec<FetchedRequest>> {
        self.taken.lock().unwrap()
    }

    /// Drops all claims, as if everything was judged and delivered.
    pub(super) fn forget(&self) {
        self.taken().clear();
    }

    pub(super) fn records(&self) -> usize {
        self.seen.borrow().records
    }

    async fn wait_until(&self, holds: impl Fn(&Seen) -> bool) {
        let mut seen = self.seen.subscribe();
        let waiting = tokio::time::timeout(PATIENCE, seen.wait_for(|seen| holds(seen)));
        let waited = waiting.await.map(|seen| seen.is_ok());
        assert_eq!(waited.ok(), Some(true), "{:?}", *self.seen.borrow());
    }

    pub(super) async fn wait_for(&self, records: usize) {
        self.wait_until(|seen| seen.records >= records).await;
    }

    /// Waits for a request that ends in these bytes.
    pub(super) async fn wait_for_end(&self, end: &[u8]) {
        self.wait_until(|_| self.taken().iter().any(|it| it.request.ends_with(end))).await;
    }

    pub(super) async fn wait_for_refusals(&self, refusals: usize) {
        self.wait_until(|seen| seen.refusals >= refusals).await;
    }

    pub(super) async fn wait_for_drop(&self) {
        self.wait_until(|seen| seen.drops > 0).await;
    }
}

/// Counts the records of a request: those of a test are small or large, with equal lengths.
pub(super) fn records_of(request: &[u8]) -> usize {
    let bytes = if request.len() < LARGE_BYTES { SMALL_BYTES } else { LARGE_BYTES };
    (request.len() / bytes).max(1)
}

impl RecordSink for TestSink {
    async fn take(&self, fetched: FetchedRequest) -> Result<(), Untaken> {
        if !*self.has_room.borrow() {
            self.seen.send_modify(|seen| seen.refusals += 1);
            return Err(Untaken::NoRoom);
        }
        let records = records_of(&fetched.request);
        self.taken().push(fetched);
        self.seen.send_modify(|seen| seen.records += records);
        Ok(())
    }

    async fn drop_revoked(&self) {
        self.seen.send_modify(|seen| seen.drops += 1);
    }
}
