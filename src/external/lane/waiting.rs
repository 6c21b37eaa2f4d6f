//! How much waits on the lane: a count and bytes, with a limit each.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What waits now.
#[derive(Debug)]
pub(in crate::external) struct WaitingRoom {
    tasks: AtomicUsize,
    bytes: AtomicUsize,
    tasks_max: AtomicUsize,
    bytes_max: AtomicUsize,
}

impl WaitingRoom {
    /// Nothing waits, and no more than this may.
    pub(in crate::external) fn new(tasks_max: usize, bytes_max: usize) -> Arc<Self> {
        let (tasks, bytes) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Arc::new(Self { tasks, bytes, tasks_max: tasks_max.into(), bytes_max: bytes_max.into() })
    }

    /// No more than this may wait from now on; what waits already stays.
    pub(in crate::external) fn resize(&self, tasks_max: usize, bytes_max: usize) {
        self.tasks_max.store(tasks_max, Ordering::Relaxed);
        self.bytes_max.store(bytes_max, Ordering::Relaxed);
    }

    /// A place for one more; `None` where there is no room.
    pub(in crate::external) fn enter(self: &Arc<Self>, bytes: usize) -> Option<WaitingPlace> {
        let before = self.tasks.fetch_add(1, Ordering::Relaxed);
        let held = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let place = WaitingPlace { room: Arc::clone(self), bytes };
        let fits = before < self.tasks_max.load(Ordering::Relaxed)
            && held.saturating_add(bytes) <= self.bytes_max.load(Ordering::Relaxed);
        fits.then_some(place)
    }

    /// Tasks that wait, and their bytes.
    pub(in crate::external) fn now(&self) -> (usize, usize) {
        (self.tasks.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }
}

/// A place on the lane, free again when this is dropped.
#[derive(Debug)]
pub(in crate::external) struct WaitingPlace {
    room: Arc<WaitingRoom>,
    bytes: usize,
}

impl Drop for WaitingPlace {
    fn drop(&mut self) {
        self.room.tasks.fetch_sub(1, Ordering::Relaxed);
        self.room.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
