//! Reload of certificates and tokens from their files at run time.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::metrics::{KeyValue, Meter};

/// Interval of checks for due reloads.
const LOOK: Duration = Duration::from_secs(1);

/// Result of a reload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Changed {
    /// The content changed, and is in use now.
    Yes,
    /// The content is the same.
    No,
}

/// Reloadable content of files.
pub trait Reread: Send + Sync {
    /// Returns its name, for logs and counters.
    fn name(&self) -> &'static str;

    /// Returns the reload interval; at zero only [`Rereader::read_all`] reloads it.
    fn interval(&self) -> Duration;

    /// Reloads it. Unusable content leaves the previous one in use. May block on the disk.
    ///
    /// # Errors
    /// The fault, without any secret.
    fn reread(&self) -> Result<Changed, String>;
}

crate::metrics! {
    /// Reloads that changed something or failed.
    struct RereadMetrics {
        rereads: CounterBy("spanscore.files.rereads", "{reread}",
            "Certificates and tokens that were read again and had changed",
            "outcome", ["changed", "failed"]);
    }
}

/// Task that reloads items, each at its interval.
#[derive(Clone)]
pub struct Rereader {
    items: Arc<Mutex<Vec<RereadItem>>>,
    metrics: RereadMetrics,
}

struct RereadItem {
    what: Arc<dyn Reread>,
    due: Instant,
}

impl Rereader {
    /// Returns a reloader without items. `meter` counts reloads that changed something or failed.
    pub fn new(meter: &Meter) -> Self {
        Self { items: Arc::default(), metrics: RereadMetrics::new(meter) }
    }

    /// Starts the reloads of items on the current runtime, until the guard is dropped.
    pub fn start<'i>(
        items: impl Iterator<Item = &'i Arc<dyn Reread>>,
        meter: &Meter,
    ) -> (Self, DropGuard) {
        let rereader = Self::new(meter);
        items.for_each(|item| rereader.add(Arc::clone(item)));
        let stop = CancellationToken::new();
        tokio::spawn(rereader.clone().run(stop.clone()));
        (rereader, stop.drop_guard())
    }

    /// Adds an item.
    pub fn add(&self, what: Arc<dyn Reread>) {
        self.metrics.of(&labels(&*what));
        let due = Instant::now() + what.interval();
        self.items.lock().push(RereadItem { what, due });
    }

    /// Reloads due items until `stop` is cancelled.
    pub async fn run(self, stop: CancellationToken) {
        let mut looks = tokio::time::interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                _ = looks.tick() => {}
            }
            let due = self.take_due(Instant::now());
            if !due.is_empty() {
                self.read(due).await;
            }
        }
    }

    /// Reloads all items now; returns the number of failures.
    pub async fn read_all(&self) -> usize {
        let all = self.items.lock().iter().map(|item| Arc::clone(&item.what)).collect();
        self.read(all).await
    }

    fn take_due(&self, now: Instant) -> Vec<Arc<dyn Reread>> {
        let mut due = Vec::new();
        for item in self.items.lock().iter_mut() {
            let interval = item.what.interval();
            if interval > Duration::ZERO && item.due <= now {
                item.due = now + interval;
                due.push(Arc::clone(&item.what));
            }
        }
        due
    }

    async fn read(&self, what: Vec<Arc<dyn Reread>>) -> usize {
        let own = self.clone();
        let reading = move || what.iter().filter(|what| !own.read_one(&***what)).count();
        // A hanging disk would block a thread of the runtime.
        tokio::task::spawn_blocking(reading).await.unwrap_or(0)
    }

    /// Reloads one item; returns false if it is unusable.
    fn read_one(&self, what: &dyn Reread) -> bool {
        match what.reread() {
            Ok(Changed::No) => true,
            Ok(Changed::Yes) => {
                self.metrics.rereads.under(&labels(what)).add("changed", 1);
                tracing::info!(what = what.name(), "read again, and changed");
                true
            }
            Err(error) => {
                self.metrics.rereads.under(&labels(what)).add("failed", 1);
                let error = spanscore_base::visible::line(error).to_string();
                tracing::error!(what = what.name(), %error, "cannot be read again: all stays");
                false
            }
        }
    }
}

fn labels(what: &dyn Reread) -> [KeyValue; 1] {
    [KeyValue::new("what", what.name())]
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use opentelemetry::metrics::MeterProvider;
    use opentelemetry_sdk::metrics::SdkMeterProvider;

    use super::*;

    struct Counted(AtomicUsize, Duration);

    impl Reread for Counted {
        fn name(&self) -> &'static str {
            "counted"
        }

        fn interval(&self) -> Duration {
            self.1
        }

        fn reread(&self) -> Result<Changed, String> {
            match self.0.fetch_add(1, Ordering::Relaxed) {
                0 => Ok(Changed::Yes),
                _ => Err("broken".to_owned()),
            }
        }
    }

    #[tokio::test]
    async fn files_are_reloaded_at_their_interval_and_on_request() {
        let provider = SdkMeterProvider::default();
        let rereader = Rereader::new(&provider.meter("test"));
        let counted = |secs| Arc::new(Counted(AtomicUsize::new(0), Duration::from_secs(secs)));
        let often = counted(2);
        let seldom = counted(100);
        let never = counted(0);
        for what in [&often, &seldom, &never] {
            rereader.add(Arc::clone(what) as Arc<dyn Reread>);
        }
        let now = Instant::now();
        assert_eq!(rereader.take_due(now).len(), 0);
        assert_eq!(rereader.take_due(now + Duration::from_secs(3)).len(), 1);
        assert_eq!(rereader.take_due(now + Duration::from_secs(4)).len(), 0);
        assert_eq!(rereader.read_all().await, 0, "all are read, and can be used");
        assert_eq!(rereader.read_all().await, 3, "none can be used the second time");
    }
}
