//! Other forwards while the process runs.
//!
//! ```text
//! prepare: the ways to all new and changed backends are made   (an error changes nothing)
//! take:    from one request to the next, what is accepted goes to the new ones
//!          changed: what waits goes on in its queue, by the new way
//!          removed: what waits is sent for some time, then given up and counted
//! ```
//!
//! Forwards that are written as before are left alone.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::running::RunningForward;
use super::send::ForwardWay;
use super::settings::ForwardedTraces;
use super::{ForwardSettings, ForwardStartError, Forwards, HoldTimes};

/// Time that a removed forward has to send the requests that wait.
const REMOVAL_WAIT: Duration = Duration::from_secs(10);
/// Most earlier choices of traces of one forward that still hold something.
const FINISHING_MAX: usize = 16;

/// Forwards of another config, not in use. Dropped, it changes nothing.
pub struct ForwardsChange {
    next: Vec<(ForwardSettings, Option<ForwardWay>)>,
    times: HoldTimes,
}

impl ForwardsChange {
    /// Returns true if any of them needs the judgements of traces.
    pub fn wants_judgements(&self) -> bool {
        self.next.iter().any(|(settings, _)| settings.backend.traces != ForwardedTraces::All)
    }
}

/// A forward that was removed, and sends what waits.
pub(super) struct RetiredForward {
    name: String,
    given_up: CancellationToken,
    /// Cancelled once nothing of it runs.
    ended: CancellationToken,
}

impl RetiredForward {
    /// Waits for its end until there is no more time, then lets it give up; whether there was.
    pub(super) async fn end_until(
        self,
        no_more_time: Pin<&mut impl Future<Output = ()>>,
        is_over: bool,
    ) -> bool {
        if !is_over {
            tokio::select! {
                biased;
                () = self.ended.cancelled() => return true,
                () = no_more_time => {}
            }
        }
        self.given_up.cancel();
        self.ended.cancelled().await;
        false
    }
}

impl Forwards {
    /// Waits for forwards that were removed and have the name of one that is to be started: both
    /// would count as one.
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

    /// Makes the ways to backends that are new or changed, without sending anything. `times` are
    /// those of the new config.
    ///
    /// # Errors
    /// A fault of a backend's settings, or with a file that they name.
    pub fn prepare(
        &self,
        settings: &[ForwardSettings],
        times: HoldTimes,
    ) -> Result<ForwardsChange, ForwardStartError> {
        let has_log = self.common.as_ref().is_some_and(|common| common.log.is_some());
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
            let way = if is_same { None } else { Some(settings.way(has_log)?) };
            next.push((settings.clone(), way));
        }
        Ok(ForwardsChange { next, times })
    }

    /// Uses what was prepared: what is offered from now on goes there. Must be called in a Tokio
    /// runtime. Changes must be taken in the order in which they were prepared.
    pub fn take(&self, change: ForwardsChange) {
        let Some(common) = &self.common else { return };
        let ForwardsChange { next, times } = change;
        let mut running = self.running.write();
        let mut before = std::mem::take(&mut *running);
        for (settings, way) in next {
            let place = before.iter().position(|forward| forward.settings.name == settings.name);
            let old = place.map(|place| before.remove(place));
            let forward = match (old, way) {
                (Some(old), Some(way)) => old.changed(common, settings, way, times),
                (Some(old), None) => old,
                (None, Some(way)) => {
                    let forward = RunningForward::start(common, settings, way, times);
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

    /// Lets a forward end that is offered nothing any more.
    fn retire(&self, forward: &RunningForward) {
        let name = forward.settings.name.clone();
        let given_up = CancellationToken::new();
        let ended = CancellationToken::new();
        let retired = RetiredForward { name, given_up, ended };
        let given_up = retired.given_up.clone();
        let ended = retired.ended.clone();
        self.retired.lock().push(retired);
        let mut ending = forward.begin_removal();
        tokio::spawn(async move {
            // Also where it is stopped in between.
            let _ended = ended.drop_guard();
            let queue = Arc::clone(&ending.queue);
            let lost_before = queue.books().lost_items();
            ending.end_holding().await;
            let no_more_time = async {
                let _ = tokio::time::timeout(REMOVAL_WAIT, given_up.cancelled()).await;
            };
            ending.end_until(std::pin::pin!(no_more_time), false).await;
            queue.books().end();
            let lost = queue.books().lost_items() - lost_before;
            if lost > 0 {
                tracing::warn!(forward = %queue.books().name, lost,
                    "the forward was removed before all that was received was passed on");
            }
        });
    }
}
