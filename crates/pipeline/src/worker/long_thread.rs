//! Thread that judges long traces or sessions beside their worker, one at a time.

use std::sync::Arc;

use tokio::sync::mpsc;

use spanscore_telemetry::Heartbeats;

/// Task of such a thread.
pub(crate) trait LongWork: Send + 'static {
    /// Result of the judgement.
    type Judgement: Send + 'static;

    /// Judges it; calls `waits` while it waits for memory.
    fn judge(self, waits: impl Fn()) -> Self::Judgement;
}

/// The worker's side: channels to the thread.
pub(crate) struct LongLink<T: LongWork> {
    pub(crate) tasks: mpsc::Sender<T>,
    judgements: mpsc::Receiver<T::Judgement>,
}

impl<T: LongWork> LongLink<T> {
    /// Returns both sides of a thread.
    pub(crate) fn with_thread() -> (Self, LongThread<T>) {
        // Of room for one.
        let (tasks, receiver) = mpsc::channel(1);
        let (sender, judgements) = mpsc::channel(1);
        (Self { tasks, judgements }, LongThread { tasks: receiver, judgements: sender })
    }

    /// Waits for the running judgement; `None` if the thread has ended. Pending for ever without
    /// one.
    pub(crate) async fn judged(link: &mut Option<Self>, is_running: bool) -> Option<T::Judgement> {
        match link {
            Some(link) if is_running => link.judgements.recv().await,
            _ => std::future::pending().await,
        }
    }
}

/// The thread's side.
pub(crate) struct LongThread<T: LongWork> {
    tasks: mpsc::Receiver<T>,
    judgements: mpsc::Sender<T::Judgement>,
}

impl<T: LongWork> LongThread<T> {
    /// Judges the task handed to it, if any.
    #[cfg(test)]
    pub(crate) fn judge_one(&mut self) -> Option<T::Judgement> {
        Some(self.tasks.try_recv().ok()?.judge(|| {}))
    }

    /// Judges tasks until their worker ends; updates the heartbeat at `place` meanwhile.
    pub(crate) async fn run(mut self, heartbeats: Arc<Heartbeats>, place: usize) {
        while let Some(task) = self.tasks.recv().await {
            heartbeats.beat(place);
            let judgement = task.judge(|| heartbeats.beat(place));
            heartbeats.end(place);
            if self.judgements.send(judgement).await.is_err() {
                return;
            }
        }
    }
}
