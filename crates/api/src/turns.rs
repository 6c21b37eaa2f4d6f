//! Turns of work: a number at once, a bounded queue, refusal beyond it.
//!
//! The queue serves peers in fair turns. Each peer has a share of the places and a limit on
//! concurrent turns. So heavy clients wait longer, and a light one hardly longer than for the
//! end of a running turn.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use spanscore_base::model::{FairQueue, Sender};

use crate::shares::{SharedHold, SharedQuota};

/// Limits on concurrent turns.
#[derive(Clone, Copy)]
pub(crate) struct TurnLimits {
    /// Of all peers.
    pub(crate) of_all: usize,
    /// Of one peer.
    pub(crate) of_peer: usize,
}

/// Turns of one kind of work.
pub(crate) struct WorkTurns {
    limits: TurnLimits,
    /// Places of running and waiting work.
    places: Arc<SharedQuota>,
    queue: Mutex<TurnQueue>,
}

/// Running work by peer, and waiting work.
#[derive(Default)]
struct TurnQueue {
    running: Vec<u32>,
    waiting: FairQueue<WaitingTurn>,
}

/// Work waiting for its turn. It holds its place until then, even without a waiting client.
struct WaitingTurn {
    peer: u32,
    place: SharedHold,
    begin: oneshot::Sender<WorkTurn>,
}

/// Turn of one piece of work, passed on when dropped.
pub(crate) struct WorkTurn {
    turns: Arc<WorkTurns>,
    peer: u32,
    _place: SharedHold,
}

impl Drop for WorkTurn {
    fn drop(&mut self) {
        self.turns.end(self.peer);
    }
}

impl WorkTurns {
    /// Returns unused turns, with this many places for waiting work.
    pub(crate) fn new(name: &'static str, limits: TurnLimits, waiting: usize) -> Arc<Self> {
        let places = SharedQuota::of_places(name, limits.of_all + waiting);
        Arc::new(Self { limits, places, queue: Mutex::default() })
    }

    /// Waits for a sender's turn; `None` without a place in the queue.
    pub(crate) async fn take(self: &Arc<Self>, sender: Sender) -> Option<WorkTurn> {
        let place = self.place(sender)?;
        let begun = {
            let peer = sender.peer;
            let mut queue = self.queue.lock();
            if queue.has_room(self.limits) && !is_held(self.limits, &queue.running, peer) {
                queue.running.push(peer);
                return Some(WorkTurn { turns: Arc::clone(self), peer, _place: place });
            }
            let (begin, begun) = oneshot::channel();
            queue.waiting.put(sender, 1, WaitingTurn { peer, place, begin });
            begun
        };
        begun.await.ok()
    }

    fn place(&self, sender: Sender) -> Option<SharedHold> {
        self.places.take(sender, 1).or_else(|| {
            self.queue.lock().waiting.retain(|waiting| !waiting.begin.is_closed());
            self.places.take(sender, 1)
        })
    }

    /// Ends a turn of a peer, and starts the next ones.
    fn end(self: &Arc<Self>, peer: u32) {
        self.queue.lock().end(peer);
        loop {
            let next = self.queue.lock().next(self.limits);
            let Some(WaitingTurn { peer, place, begin }) = next else { return };
            // The turn of a client that has left is passed on.
            let turn = WorkTurn { turns: Arc::clone(self), peer, _place: place };
            drop(begin.send(turn));
        }
    }
}

impl TurnQueue {
    fn has_room(&self, limits: TurnLimits) -> bool {
        self.running.len() < limits.of_all
    }

    fn end(&mut self, peer: u32) {
        if let Some(at) = self.running.iter().position(|it| *it == peer) {
            self.running.swap_remove(at);
        }
    }

    /// Takes the next work that may run.
    fn next(&mut self, limits: TurnLimits) -> Option<WaitingTurn> {
        if !self.has_room(limits) {
            return None;
        }
        let Self { running, waiting } = self;
        let next = waiting.take_unless(|it| is_held(limits, running, it.peer))?;
        running.push(next.peer);
        Some(next)
    }
}

/// Returns true if a peer has reached its limit with these running turns.
fn is_held(limits: TurnLimits, running: &[u32], peer: u32) -> bool {
    running.iter().filter(|it| **it == peer).count() >= limits.of_peer
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::Pin;
    use std::task::Poll;

    use super::*;

    type Waiting = Pin<Box<dyn Future<Output = Option<WorkTurn>> + Send>>;

    /// Asks once for a turn; `Err` waits.
    async fn ask(turns: &Arc<WorkTurns>, peer: u32) -> Result<Option<WorkTurn>, Waiting> {
        let turns = Arc::clone(turns);
        let sender = Sender { peer, connection: 1, ..Sender::default() };
        let mut asking: Waiting = Box::pin(async move { turns.take(sender).await });
        match poll_fn(|cx| Poll::Ready(asking.as_mut().poll(cx))).await {
            Poll::Ready(turn) => Ok(turn),
            Poll::Pending => Err(asking),
        }
    }

    #[tokio::test]
    async fn small_sender_waits_for_one_request_of_a_queued_sender() {
        let turns = WorkTurns::new("x", TurnLimits { of_all: 1, of_peer: 1 }, 4);
        let running = ask(&turns, 1).await.ok().flatten().unwrap();
        let mut of_flood = Vec::new();
        while let Err(waiting) = ask(&turns, 1).await {
            of_flood.push(waiting);
        }
        let other = ask(&turns, 2).await.err().unwrap();
        assert_eq!(of_flood.len(), 3);
        drop(running);
        drop(of_flood.remove(0).await.unwrap());
        assert_eq!(turns.queue.lock().running, [2]);
        let its = other.await.unwrap();
        // A client that has left is skipped.
        drop(of_flood.remove(0));
        drop(its);
        assert!(of_flood.remove(0).await.is_some());
        assert!(turns.queue.lock().running.is_empty());
    }
}
