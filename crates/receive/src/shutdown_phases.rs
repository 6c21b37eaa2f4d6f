//! Shutdown phases of the receivers: refuse, hurry, stop, kill.
//!
//! While later stages finish, ports stay open and every new request is answered with a retry hint:
//! a sender may lose data at a closed port or connection.

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::Refused;
use super::status::RefusedRequest;

/// Shutdown phase shared by ports, connections and requests, with the running requests.
#[derive(Clone, Default)]
pub(super) struct ShutdownPhases {
    /// New requests are answered as shutting down.
    pub(super) refuse: CancellationToken,
    /// Incomplete requests are answered so, too.
    hurry: CancellationToken,
    /// Ports close, and connections after answering their requests.
    pub(super) stop: CancellationToken,
    /// Everything ends at once.
    pub(super) kill: CancellationToken,
    under_way: TaskTracker,
}

/// A running request, until dropped.
pub(super) type UnderWay = TaskTrackerToken;

impl ShutdownPhases {
    /// Admits a request, unless the process shuts down.
    pub(super) fn enter(&self) -> Result<UnderWay, RefusedRequest> {
        // Before the check, so that an admitted request is waited for.
        let under_way = self.under_way.token();
        if self.refuse.is_cancelled() { Err(shutting_down()) } else { Ok(under_way) }
    }

    /// Waits for a sender until `hurry`.
    pub(super) async fn unless_hurried<T>(
        &self,
        reading: impl Future<Output = Result<T, RefusedRequest>>,
    ) -> Result<T, RefusedRequest> {
        tokio::select! {
            biased;
            read = reading => read,
            () = self.hurry.cancelled() => Err(shutting_down()),
        }
    }

    /// Waits until no request is running; once `no_more_time` completes, no longer for their
    /// senders. True if all have ended by themselves.
    pub(super) async fn settle(&self, no_more_time: impl Future<Output = ()>) -> bool {
        self.under_way.close();
        let settled = tokio::select! {
            biased;
            () = self.under_way.wait() => true,
            () = no_more_time => false,
        };
        self.hurry.cancel();
        settled
    }
}

fn shutting_down() -> RefusedRequest {
    RefusedRequest::from(Refused::ShuttingDown)
}
