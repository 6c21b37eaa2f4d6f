//! Waiting for a limit in the order of a fair queue ([`super::fair_queue`]).
//!
//! A released grant wakes the first waiter, and a waiter that leaves, served or not, wakes the
//! next. So the first always checks again after the last change, and no waiter with larger holdings
//! overtakes it. A woken waiter takes its share itself, so nothing is granted to one that has left.
//!
//! A first waiter without room blocks those behind it, even if some room is free: otherwise small
//! requests could block a large one for ever. It stays first only while all others would hold more.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering, fence};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::fair_queue::{WaitPlace, WaitQueue};
use crate::ConnectionAccount;

/// Queue of waiters for one limit.
#[derive(Debug, Default)]
pub struct Waiters {
    queue: Mutex<WaitQueue<Arc<Notify>>>,
    /// Number of waiters, readable without the lock.
    count: AtomicUsize,
}

/// Request for a share of a limit.
#[derive(Clone, Copy, Debug)]
pub struct RoomRequest<'a> {
    /// Requesting connection.
    pub sender: &'a Arc<ConnectionAccount>,
    /// Amount that it holds.
    pub held: usize,
    /// Requested amount.
    pub amount: usize,
}

impl Waiters {
    /// Returns true if there are no waiters, so that a request may take free room.
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Wakes the first waiter after a release.
    pub fn wake(&self) {
        // Pairs with the fence in `join`: either the count is seen here, or the new waiter sees the
        // released amount.
        fence(Ordering::SeqCst);
        if !self.is_empty()
            && let Some((_, first)) = self.queue.lock().first()
        {
            first.notify_one();
        }
    }

    /// Waits in the queue until `is_taken`; false at the deadline. Calls `waits` if it must wait.
    /// Dropping it leaves the queue.
    pub async fn wait(
        &self,
        request: RoomRequest<'_>,
        deadline: Instant,
        waits: impl FnOnce(),
        mut is_taken: impl FnMut() -> bool,
    ) -> bool {
        let waiter = self.join(request);
        let mut waits = Some(waits);
        loop {
            if waiter.is_first() && is_taken() {
                return true;
            }
            if let Some(waits) = waits.take() {
                waits();
            }
            if timeout_at(deadline, waiter.woken.notified()).await.is_err() {
                return false;
            }
        }
    }

    fn join(&self, RoomRequest { sender, held, amount }: RoomRequest<'_>) -> Waiter<'_> {
        let woken = Arc::new(Notify::new());
        let mut queue = self.queue.lock();
        let place = queue.join(Arc::as_ptr(sender).addr(), held, amount, Arc::clone(&woken));
        self.count.store(queue.len(), Ordering::Relaxed);
        drop(queue);
        // Pairs with the fence in `wake`: the count is raised before the check for room.
        fence(Ordering::SeqCst);
        Waiter { waiters: self, place, woken }
    }
}

/// One waiter in the queue, until dropped.
struct Waiter<'a> {
    waiters: &'a Waiters,
    place: WaitPlace,
    woken: Arc<Notify>,
}

impl Waiter<'_> {
    fn is_first(&self) -> bool {
        self.waiters.queue.lock().first().is_some_and(|(place, _)| place == self.place)
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut queue = self.waiters.queue.lock();
        queue.leave(self.place);
        self.waiters.count.store(queue.len(), Ordering::Relaxed);
        if let Some((_, next)) = queue.first() {
            next.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use spanscore_base::model::MemoryQuota;

    /// A limit of some places, with its waiters.
    struct Places {
        share: Arc<MemoryQuota>,
        waiters: Waiters,
    }

    /// One place, until dropped.
    struct PlaceGuard(Arc<Places>);

    impl Drop for PlaceGuard {
        fn drop(&mut self) {
            self.0.share.give_back(1);
            self.0.waiters.wake();
        }
    }

    impl Places {
        fn new(count: usize) -> Arc<Self> {
            Arc::new(Self { share: MemoryQuota::new("places", count), waiters: Waiters::default() })
        }

        async fn take(
            self: &Arc<Self>,
            sender: &Arc<ConnectionAccount>,
            wait: Duration,
        ) -> Option<PlaceGuard> {
            let is_taken = || self.share.try_take(1);
            if self.waiters.is_empty() && is_taken() {
                return Some(PlaceGuard(Arc::clone(self)));
            }
            let request = RoomRequest { sender, held: 0, amount: 1 };
            let deadline = Instant::now() + wait;
            let taken = self.waiters.wait(request, deadline, || {}, is_taken).await;
            taken.then(|| PlaceGuard(Arc::clone(self)))
        }
    }

    const LONG: Duration = Duration::from_secs(3600);

    #[tokio::test(start_paused = true)]
    async fn waiting_request_is_woken_first() {
        let places = Places::new(1);
        let sender = Arc::default();
        let held = places.take(&sender, LONG).await;
        let own = Arc::clone(&places);
        let its = Arc::clone(&sender);
        let started = Instant::now();
        let waiting = tokio::spawn(async move { own.take(&its, LONG).await });
        tokio::task::yield_now().await;
        assert_eq!(places.waiters.count.load(Ordering::Relaxed), 1);
        drop(held);
        // It was woken and has not run: the free room is reserved for it.
        assert!(places.take(&sender, Duration::ZERO).await.is_none());
        let taken = waiting.await.expect("no panic");
        assert!(taken.is_some() && places.waiters.is_empty());
        assert_eq!(started.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn cancelled_wait_passes_its_wake_up_on() {
        let places = Places::new(1);
        let sender = Arc::default();
        let held = places.take(&sender, LONG).await;
        let wait = |wait| {
            let own = Arc::clone(&places);
            let its = Arc::clone(&sender);
            tokio::spawn(async move { own.take(&its, wait).await.is_some() })
        };
        let first = wait(LONG);
        let second = wait(LONG);
        tokio::task::yield_now().await;
        drop(held);
        first.abort();
        assert!(first.await.is_err() && second.await.expect("no panic"));
        assert!(places.waiters.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn wait_beyond_the_limit_leaves_the_queue() {
        let places = Places::new(1);
        let sender = Arc::default();
        let _held = places.take(&sender, LONG).await;
        let started = Instant::now();
        assert!(places.take(&sender, Duration::from_secs(1)).await.is_none());
        assert_eq!((started.elapsed(), places.waiters.is_empty()), (Duration::from_secs(1), true));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn no_waking_is_lost_between_threads() {
        let places = Places::new(2);
        let tasks: Vec<_> = (0..16)
            .map(|number| {
                let own = Arc::clone(&places);
                let sender = Arc::<ConnectionAccount>::default();
                tokio::spawn(async move {
                    for round in 0..500 {
                        let wait = if (number + round) % 7 == 0 { Duration::ZERO } else { LONG };
                        let taken = own.take(&sender, wait).await;
                        assert!(own.share.held() <= 2 && (taken.is_some() || wait.is_zero()));
                        if round % 3 == 0 {
                            tokio::task::yield_now().await;
                        }
                    }
                })
            })
            .collect();
        for task in tasks {
            let ended = tokio::time::timeout(Duration::from_secs(60), task).await;
            ended.expect("nobody is forgotten").expect("no panic");
        }
        assert_eq!((places.share.held(), places.waiters.is_empty()), (0, true));
    }
}
