//! Largest holders of a filling log: the trace, session or backlog that claims most of it.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use parking_lot::Mutex;
use strum::{IntoStaticStr, VariantArray};

use spanscore_net::metrics::{KeyValue, Meter, Scraped};
use spanscore_net::readings;

/// Interval of searches for the largest holder while the log fills.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);
/// Inverse of the share of the log above which a holder is named.
const NAMED_PARTS: u64 = 16;

/// Kind of work with claims on records.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, VariantArray, IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub(crate) enum LogHolder {
    /// Open or remembered trace.
    Trace,
    /// Open or remembered session.
    Session,
    /// Forwards with requests waiting in the log.
    Forward,
}

readings! {
    const HELD: u64 {
        gauge("spanscore.log.held", "By",
            "Bytes of the log that the largest holder needs, while it fills.", |bytes| *bytes);
    }
}

/// Largest holders at the last searches.
#[derive(Clone, Default)]
pub(super) struct Holders(Arc<Mutex<HashMap<(LogHolder, usize), Look>>>);

#[derive(Clone, Copy)]
struct Look {
    at: Instant,
    bytes: u64,
}

impl Holders {
    /// Returns true if a place is due to search for its holders.
    pub(super) fn is_due(&self, holder: LogHolder, place: usize) -> bool {
        let looks = self.0.lock();
        looks.get(&(holder, place)).is_none_or(|look| look.at.elapsed() >= LOOK_INTERVAL)
    }

    /// Records the largest holder of a place, and names it if it has a large share of the log.
    pub(super) fn found(
        &self,
        (holder, place): (LogHolder, usize),
        name: &dyn fmt::Display,
        bytes: u64,
        bytes_max: u64,
    ) {
        self.0.lock().insert((holder, place), Look { at: Instant::now(), bytes });
        if bytes > bytes_max / NAMED_PARTS {
            let holder = holder.into_str();
            tracing::warn!(holder, %name, bytes, bytes_max,
                "the log fills, and this holds much of it");
        }
    }

    /// Registers the gauge of the largest holder of each kind.
    pub(super) fn show(&self, meter: &Meter) {
        let own = self.clone();
        Scraped::show_all(HELD, meter, move |see| {
            for &holder in LogHolder::VARIANTS {
                see(&own.largest(holder), &[KeyValue::new("holder", holder.into_str())]);
            }
        });
    }

    fn largest(&self, holder: LogHolder) -> u64 {
        let looks = self.0.lock();
        let of_kind = looks.iter().filter(|((kind, _), _)| *kind == holder);
        let recent = of_kind.filter(|(_, look)| look.at.elapsed() < 2 * LOOK_INTERVAL);
        recent.map(|(_, look)| look.bytes).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn largest_of_each_kind_is_shown_and_each_place_looks_now_and_then() {
        let holders = Holders::default();
        assert!(holders.is_due(LogHolder::Trace, 0));
        holders.found((LogHolder::Trace, 0), &"a", 5, 100);
        holders.found((LogHolder::Trace, 1), &"b", 50, 100);
        assert!(!holders.is_due(LogHolder::Trace, 0) && holders.is_due(LogHolder::Session, 0));
        assert_eq!(
            (holders.largest(LogHolder::Trace), holders.largest(LogHolder::Session)),
            (50, 0)
        );
    }
}
