//! Reload of the forwards while the process runs.
//!
//! ```text
//! prepare: builds clients of new or changed backends   (an error changes nothing)
//! take:    switches accepted requests to the new ones between two requests
//!          changed: queued requests stay and use the new client
//!          removed: sends for some time, then gives up and counts the rest
//! ```
//!
//! Forwards with unchanged settings keep running.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::running::RunningForward;
use super::send::ForwardRoute;
use super::settings::ForwardedTraces;
use super::{ForwardSettings, ForwardStartError, Forwards, HoldTimes};
use crate::time_left::TimeLeft;

/// Time for a removed forward to send its queue.
const REMOVAL_WAIT: Duration = Duration::from_secs(10);
/// Limit on earlier samplers of one forward that still hold requests.
const FINISHING_MAX: usize = 16;

/// Prepared change: forwards of another config, unused. Dropping it changes nothing.
pub struct ForwardsChange {
    next: Vec<(ForwardSettings, Option<ForwardRoute>)>,
    times: HoldTimes,
}

impl ForwardsChange {
    /// Returns true if any forward needs the verdicts on traces.
    pub fn wants_judgements(&self) -> bool {
        self.next.iter().any(|(settings, _)| settings.backend.traces != ForwardedTraces::All)
    }
}

/// Removed forward that still sends its queue.
#[derive(Clone)]
pub(super) struct RetiredForward {
    name: String,
    given_up: CancellationToken,
    /// Cancelled at the end of all its tasks.
    ended: CancellationToken,
}

impl RetiredForward {
    /// Waits for its end while there is time, then makes it give up.
    pub(super) async fn end_within(self, time: &mut TimeLeft<impl Future<Output = ()>>) {
        if !time.allows(self.ended.cancelled()).await {
            self.given_up.cancel();
            self.ended.cancelled().await;
        }
    }
}

impl Forwards {
    /// Waits for removed forwards with the name of a new one: both would share counters.
    pub async fn wait_for_names(&self, settings: &[ForwardSettings]) {
        let ends: Vec<_> = {
            let retired = self.retired.lock();
            let waits =
                |it: &&RetiredForward| settings.iter().any(|settings| settings.name == it.name);
            retired.iter().filter(waits).map(|it| it.ended.clone()).collect()
        };
        for end in ends {
            end.cancelled().await;
        }
        self.retired.lock().retain(|it| !it.ended.is_cancelled());
    }

    /// Builds the clients of new or changed backends, without sending. `times` are those of the new
    /// config.
    ///
    /// # Errors
    /// A fault in a backend's settings, or in a file that they name.
    pub fn prepare(
        &self,
        settings: &[ForwardSettings],
        times: HoldTimes,
    ) -> Result<ForwardsChange, ForwardStartError> {
        let has_log = self.has_log();
        let running = self.running.read();
        let mut next = Vec::with_capacity(settings.len());
        for settings in settings {
            let before = running.iter().find(|forward| forward.settings.name == settings.name);
            if before.is_some_and(|forward| forward.finishing() >= FINISHING_MAX) {
                let error = format!(
                    "`traces` was changed {FINISHING_MAX} times, and what was held before is not \
                     judged yet: wait for `traces.age_max`"
                );
                return Err(ForwardStartError { forward: settings.name.clone(), error });
            }
            let is_same = before.is_some_and(|forward| forward.settings == *settings);
            let route = if is_same { None } else { Some(settings.route(has_log)?) };
            next.push((settings.clone(), route));
        }
        Ok(ForwardsChange { next, times })
    }

    /// Applies a prepared change: later offers go to the new forwards. Must be called in a Tokio
    /// runtime. Changes must be applied in the order of their preparation.
    pub fn take(&self, change: ForwardsChange) {
        let Some(common) = &self.common else { return };
        let ForwardsChange { next, times } = change;
        let mut running = self.running.write();
        let mut before = std::mem::take(&mut *running);
        for (settings, route) in next {
            let place = before.iter().position(|forward| forward.settings.name == settings.name);
            let old = place.map(|place| before.remove(place));
            let forward = match (old, route) {
                (Some(old), Some(route)) => old.changed(common, settings, route, times),
                (Some(old), None) => old,
                (None, Some(route)) => {
                    let forward = RunningForward::start(common, settings, route, times);
                    if self.is_replayed.load(Ordering::Acquire) {
                        forward.replayed();
                    }
                    forward
                }
                (None, None) => continue,
            };
            forward.limit(times);
            running.push(forward);
        }
        drop(running);
        before.into_iter().for_each(|gone| self.retire(&gone));
    }

    /// Ends a forward that receives no more offers.
    fn retire(&self, forward: &RunningForward) {
        let name = forward.settings.name.clone();
        let given_up = CancellationToken::new();
        let ended = CancellationToken::new();
        let retired = RetiredForward { name, given_up, ended };
        self.retired.lock().push(retired.clone());
        let mut ending = forward.begin_removal();
        tokio::spawn(async move {
            // Also runs if the task is aborted.
            let _ended = retired.ended.drop_guard();
            let queue = Arc::clone(&ending.queue);
            let lost_before = queue.counters().lost_items();
            ending.end_holding().await;
            let no_more_time = async {
                let _ = tokio::time::timeout(REMOVAL_WAIT, retired.given_up.cancelled()).await;
            };
            ending.end_within(&mut TimeLeft::until(no_more_time)).await;
            queue.counters().end();
            let lost = queue.counters().lost_items() - lost_before;
            if lost > 0 {
                tracing::warn!(forward = %queue.counters().name, lost,
                    "the forward was removed before all that was received was passed on");
            }
        });
    }
}
