//! Retirement of exporters that a new config replaces or removes.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::starting::{Started, StartedQueue};
use super::{Exporters, RunningExporter};
use crate::queue::Queue;

/// Time for a removed exporter to deliver its queue.
pub(super) const REMOVAL_WAIT: Duration = Duration::from_secs(10);

/// Replaced or removed exporter.
#[derive(Clone)]
pub(super) struct Retired {
    pub(super) name: String,
    pub(super) queue: Option<Arc<Queue>>,
    /// Token cancelled at the end of all its tasks.
    pub(super) ended: CancellationToken,
}

impl Retired {
    /// Drops its queue, and waits for its end.
    pub(super) async fn give_up(&self) {
        if let Some(queue) = &self.queue {
            queue.give_up();
            self.ended.cancelled().await;
        }
    }
}

impl Exporters {
    /// Ends an exporter without further input, in a task.
    pub(super) fn retire(&self, exporter: RunningExporter, is_removed: bool) {
        let RunningExporter { settings, started } = exporter;
        let name = settings.name;
        let ended = CancellationToken::new();
        let queue = started.queue.as_ref().map(|end| Arc::clone(&end.queue));
        self.retired.lock().push(Retired { name: name.clone(), queue, ended: ended.clone() });
        let instruments = Arc::clone(&self.instruments);
        tokio::spawn(async move {
            // A guard, so that waiters wake even if this task is aborted.
            let _ended = ended.drop_guard();
            end(started, &name).await;
            if is_removed {
                instruments.gauges.forget(&name);
            }
        });
    }

    /// Returns the number of retired exporters that have not ended.
    pub(super) fn count_of_retired(&self) -> usize {
        let mut retired = self.retired.lock();
        retired.retain(|it| !it.ended.is_cancelled());
        retired.len()
    }
}

/// Delivers the queue of an exporter, or hands it over.
async fn end(started: Started, name: &str) {
    started.tasks.iter().for_each(|(closing, _)| closing.cancel());
    let reports = async {
        for (_, mut task) in started.tasks {
            if timeout(REMOVAL_WAIT, &mut task).await.is_err() {
                task.abort();
            }
        }
    };
    tokio::join!(reports, end_queue(started.queue, name));
}

async fn end_queue(started: Option<StartedQueue>, name: &str) {
    let Some(StartedQueue { queue, task: Some(mut task), .. }) = started else { return };
    if queue.is_succeeded() {
        let _ = task.await;
        return;
    }
    queue.closing().cancel();
    if timeout(REMOVAL_WAIT, &mut task).await.is_err() {
        queue.remove();
        let lost = queue.abandon(&mut task).await.lost;
        tracing::warn!(
            exporter = name,
            lost,
            "the exporter was removed before all evaluations were sent"
        );
    }
    let kept = queue.overflown();
    if kept > 0 {
        tracing::warn!(
            exporter = name,
            kept,
            "evaluations of an exporter that is not configured any more stay unsent on disk"
        );
    }
}
