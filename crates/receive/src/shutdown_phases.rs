//! Shutdown phases of the receivers: refuse, hurry, stop, kill.
//!
//! While later stages finish, ports stay open and every new request is told to come again: a sender
//! that finds a closed port, or an open connection gone, may lose its data.

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::Refused;
use super::status::RefusedRequest;

/// Phase of the shutdown, shared by ports, connections and requests; and the requests under way.
#[derive(Clone, Default)]
pub(super) struct ShutdownPhases {
    /// New requests are answered as shutting down.
    pub(super) refuse: CancellationToken,
    /// Requests whose sender has not sent all of them yet are answered so too.
    hurry: CancellationToken,
    /// Ports close, and connections once they have answered their requests.
    pub(super) stop: CancellationToken,
    /// Everything ends at once.
    pub(super) kill: CancellationToken,
    under_way: TaskTracker,
}

/// A request that was let in, until dropped.
pub(super) type UnderWay = TaskTrackerToken;

impl ShutdownPhases {
    /// Lets a request in, unless the process ends.
    pub(super) fn enter(&self) -> Result<UnderWay, RefusedRequest> {
        // Before the check: a request that is let in is waited for.
        let under_way = self.under_way.token();
        if self.refuse.is_cancelled() { Err(shutting_down()) } else { Ok(under_way) }
    }

    /// Waits for a sender for as long as the process can.
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

    /// Waits until no request is under way, and, once there is no more time, no longer for their
    /// senders. True when all have ended by themselves.
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
