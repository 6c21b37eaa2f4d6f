//! Readiness and liveness of the process.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

/// Interval of the network runtime's heartbeat.
const NETWORK_BEAT: Duration = Duration::from_secs(1);

/// State shown by the health endpoint; initially not ready.
#[derive(Clone, Default)]
pub struct Readiness(Arc<ReadinessState>);

#[derive(Default)]
struct ReadinessState {
    is_ready: AtomicBool,
    heartbeats: OnceLock<Arc<Heartbeats>>,
    /// Heartbeat of the network's runtime, which serves no probe itself.
    network: OnceLock<Heartbeats>,
    /// Check of a dependency.
    need: OnceLock<Box<dyn Fn() -> bool + Send + Sync>>,
}

impl Readiness {
    /// Sets if requests are accepted.
    pub fn set(&self, is_ready: bool) {
        self.0.is_ready.store(is_ready, Ordering::Release);
    }

    /// Returns true if requests are accepted.
    pub fn is_ready(&self) -> bool {
        let works = self.0.need.get().is_none_or(|works| works());
        works && self.0.is_ready.load(Ordering::Acquire)
    }

    /// Sets a dependency, once: while it fails, the process is not ready.
    pub fn need(&self, works: impl Fn() -> bool + Send + Sync + 'static) {
        // The first dependency stays.
        let _ = self.0.need.set(Box::new(works));
    }

    /// Sets the heartbeats to watch, once.
    pub fn watch(&self, heartbeats: Arc<Heartbeats>) {
        // The first heartbeats stay.
        let _ = self.0.heartbeats.set(heartbeats);
    }

    /// Watches the current runtime until `stop` is cancelled.
    pub(super) fn watch_network(
        &self,
        stop: CancellationToken,
    ) -> impl Future<Output = ()> + Send + 'static {
        let state = Arc::clone(&self.0);
        async move {
            let network = state.network.get_or_init(|| Heartbeats::new(1));
            let beat = async {
                loop {
                    network.beat(0);
                    tokio::time::sleep(NETWORK_BEAT).await;
                }
            };
            let _ = stop.run_until_cancelled(beat).await;
            network.end(0);
        }
    }

    /// Returns the component that has failed for good, if any.
    pub fn failure(&self) -> Option<&'static str> {
        self.0.heartbeats.get().and_then(|heartbeats| heartbeats.failure.get().copied())
    }

    /// Returns the longest silence of a watched component; zero if nothing is watched.
    pub fn silence(&self) -> Duration {
        let watched = self.0.heartbeats.get().map(Arc::as_ref);
        let silences = watched.into_iter().chain(self.0.network.get()).map(Heartbeats::silence);
        silences.max().unwrap_or_default()
    }
}

/// Mark of an ended component, which sends no more heartbeats.
const ENDED: u64 = u64::MAX;

/// Heartbeats of components, by index.
#[derive(Debug)]
pub struct Heartbeats {
    started: Instant,
    /// Milliseconds after `started`.
    last: Vec<AtomicU64>,
    /// The component that has failed for good.
    failure: OnceLock<&'static str>,
}

impl Heartbeats {
    /// Returns heartbeats of this many components, all at the present time.
    pub fn new(count: usize) -> Self {
        let last = std::iter::repeat_with(AtomicU64::default).take(count).collect();
        Self { started: Instant::now(), last, failure: OnceLock::new() }
    }

    /// Records a heartbeat of a component.
    pub fn beat(&self, place: usize) {
        self.set(place, self.after_start(Instant::now()));
    }

    /// Marks a component as ended.
    pub fn end(&self, place: usize) {
        self.set(place, ENDED);
    }

    /// Marks a component as failed for good; `what` follows `not alive:`.
    pub fn fail(&self, what: &'static str) {
        // The first failure stays: it is nearest to the cause.
        let _ = self.failure.set(what);
    }

    /// Returns the longest silence of a component that has not ended.
    pub fn silence(&self) -> Duration {
        self.silence_at(Instant::now())
    }

    fn set(&self, place: usize, to: u64) {
        if let Some(last) = self.last.get(place) {
            last.store(to, Ordering::Relaxed);
        }
    }

    fn after_start(&self, now: Instant) -> u64 {
        let since = now.saturating_duration_since(self.started);
        u64::try_from(since.as_millis()).unwrap_or(ENDED - 1)
    }

    fn silence_at(&self, now: Instant) -> Duration {
        let now = self.after_start(now);
        let last = self.last.iter().map(|last| last.load(Ordering::Relaxed));
        let silences = last.filter(|last| *last != ENDED).map(|last| now.saturating_sub(last));
        Duration::from_millis(silences.max().unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readiness_fails_while_a_required_part_fails() {
        let readiness = Readiness::default();
        let works = Arc::new(AtomicBool::new(true));
        let asked = Arc::clone(&works);
        readiness.need(move || asked.load(Ordering::Relaxed));
        assert!(!readiness.is_ready());
        readiness.set(true);
        assert!(readiness.is_ready());
        works.store(false, Ordering::Relaxed);
        assert!(!readiness.is_ready());
    }

    #[test]
    fn silence_is_that_of_the_one_that_has_not_moved_longest() {
        let heartbeats = Heartbeats::new(2);
        let at = |seconds: u64| heartbeats.started + Duration::from_secs(seconds);
        assert_eq!(heartbeats.silence_at(at(7)), Duration::from_secs(7));
        heartbeats.set(0, 6_000);
        assert_eq!(heartbeats.silence_at(at(7)), Duration::from_secs(7));
        heartbeats.set(1, 5_000);
        assert_eq!(heartbeats.silence_at(at(7)), Duration::from_secs(2));
    }

    #[test]
    fn what_failed_first_is_told() {
        let readiness = Readiness::default();
        let heartbeats = Arc::new(Heartbeats::new(1));
        readiness.watch(Arc::clone(&heartbeats));
        assert_eq!(readiness.failure(), None);
        heartbeats.fail("the first");
        heartbeats.fail("the second");
        assert_eq!(readiness.failure(), Some("the first"));
    }

    #[test]
    fn one_that_has_ended_need_not_move() {
        let heartbeats = Heartbeats::new(1);
        heartbeats.end(0);
        let later = heartbeats.started + Duration::from_secs(100);
        assert_eq!(heartbeats.silence_at(later), Duration::ZERO);
    }
}
