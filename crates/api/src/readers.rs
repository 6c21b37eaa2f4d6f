//! Readers of the store: four at once, a line of waiting ones, refusal beyond it.
//!
//! The line serves peers by turns; a peer has its part of the places, and three readers at most. So
//! whoever asks much waits longer, and whoever asks seldom waits for one query.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use http::StatusCode;
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::oneshot;

use spanscore_base::model::{FairLine, Sender};
use spanscore_store::query::StoreReader;

use crate::problem::ApiProblem;
use crate::shares::{SharedHold, SharedQuota};

/// Most queries at once.
pub(crate) const READERS_MAX: usize = 4;
/// Most queries of one peer at once.
pub(crate) const OF_PEER_MAX: usize = 3;
/// Most queries that wait for a reader.
pub(crate) const WAITING_MAX: usize = 32;
/// Largest answer.
pub(crate) const ANSWER_BYTES_MAX: usize = 8 << 20;

/// Connections to the store.
pub(crate) struct StoreReaders {
    path: PathBuf,
    idle: Mutex<Vec<StoreReader>>,
    /// Places of those that ask and of those that wait.
    places: Arc<SharedQuota>,
    turns: Mutex<QueryTurns>,
}

/// Queries that run, by their peers, and those that wait.
#[derive(Default)]
struct QueryTurns {
    running: Vec<u32>,
    waiting: FairLine<WaitingQuery>,
}

/// Query that waits for its turn. Its place is its own until then, though nobody may want its
/// answer any more.
struct WaitingQuery {
    peer: u32,
    place: SharedHold,
    begin: oneshot::Sender<QueryTurn>,
}

/// Turn of a query, given on when it ends.
struct QueryTurn {
    readers: Arc<StoreReaders>,
    peer: u32,
    _place: SharedHold,
}

/// Returns true if a peer has no more queries at once while these run.
fn is_held(running: &[u32], peer: u32) -> bool {
    running.iter().filter(|it| **it == peer).count() >= OF_PEER_MAX
}

impl QueryTurns {
    fn is_full(&self) -> bool {
        self.running.len() >= READERS_MAX
    }

    fn end(&mut self, peer: u32) {
        if let Some(at) = self.running.iter().position(|it| *it == peer) {
            self.running.swap_remove(at);
        }
    }

    /// Takes the next that may run.
    fn next(&mut self) -> Option<WaitingQuery> {
        if self.is_full() {
            return None;
        }
        let next = self.waiting.take_unless(|query| is_held(&self.running, query.peer))?;
        self.running.push(next.peer);
        Some(next)
    }
}

impl Drop for QueryTurn {
    fn drop(&mut self) {
        self.readers.turns.lock().end(self.peer);
        self.readers.give_turns();
    }
}

impl StoreReaders {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self {
            path,
            idle: Mutex::default(),
            places: SharedQuota::of_places("queries", READERS_MAX + WAITING_MAX),
            turns: Mutex::default(),
        }
    }

    /// Asks the store for a sender, on a thread for blocking work.
    pub(crate) async fn ask<T: Send + 'static>(
        self: &Arc<Self>,
        sender: Sender,
        question: impl FnOnce(&StoreReader) -> Result<T, ApiProblem> + Send + 'static,
    ) -> Result<T, ApiProblem> {
        let busy = || {
            let text = "too many queries wait for the store, or yours take your part of the \
                        places: ask again in a second, or for less";
            ApiProblem::new(StatusCode::TOO_MANY_REQUESTS, "too_busy", text)
        };
        let place = self.place(sender).ok_or_else(busy)?;
        let turn = self.turn(sender, place).await.ok_or_else(busy)?;
        let asking = tokio::task::spawn_blocking(move || {
            // Held to the end of the query, also if nobody waits for its answer any more.
            let readers = &turn.readers;
            let reader = readers.take()?;
            let answer = question(&reader);
            readers.idle.lock().push(reader);
            answer
        });
        asking.await.unwrap_or_else(|_| {
            let text = "the query could not be answered: report it";
            Err(ApiProblem::new(StatusCode::INTERNAL_SERVER_ERROR, "fault", text))
        })
    }

    fn place(&self, sender: Sender) -> Option<SharedHold> {
        self.places.take(sender, 1).or_else(|| {
            self.turns.lock().waiting.retain(|query| !query.begin.is_closed());
            self.places.take(sender, 1)
        })
    }

    /// Waits for the turn of a query.
    async fn turn(self: &Arc<Self>, sender: Sender, place: SharedHold) -> Option<QueryTurn> {
        let begun = {
            let peer = sender.peer;
            let mut turns = self.turns.lock();
            if !turns.is_full() && !is_held(&turns.running, peer) {
                turns.running.push(peer);
                return Some(QueryTurn { readers: Arc::clone(self), peer, _place: place });
            }
            let (begin, begun) = oneshot::channel();
            turns.waiting.put(sender, 1, WaitingQuery { peer, place, begin });
            begun
        };
        begun.await.ok()
    }

    /// Has those begin whose turn it is.
    fn give_turns(self: &Arc<Self>) {
        loop {
            let Some(WaitingQuery { peer, place, begin }) = self.turns.lock().next() else {
                return;
            };
            // Of one that has gone the turn comes back, and goes to the next.
            let turn = QueryTurn { readers: Arc::clone(self), peer, _place: place };
            drop(begin.send(turn));
        }
    }

    /// Takes an idle reader of the present file, or opens one.
    fn take(&self) -> Result<StoreReader, ApiProblem> {
        let idle = self.idle.lock().pop();
        match idle.filter(|reader| reader.is_of(&self.path)) {
            Some(reader) => Ok(reader),
            None => StoreReader::open(&self.path).map_err(|error| {
                let text = error.to_string();
                ApiProblem::new(StatusCode::SERVICE_UNAVAILABLE, "store_unavailable", text)
            }),
        }
    }
}

/// Writes an answer as JSON.
pub(crate) fn answer(value: &impl Serialize) -> Result<Vec<u8>, ApiProblem> {
    let mut out = Bounded { bytes: Vec::new(), max: ANSWER_BYTES_MAX };
    match serde_json::to_writer(&mut out, value) {
        Ok(()) => Ok(out.bytes),
        Err(_) => {
            let text = "the answer would be over 8 MiB: lower `limit`, or narrow the filter";
            Err(ApiProblem::new(StatusCode::UNPROCESSABLE_ENTITY, "too_large", text))
        }
    }
}

/// Buffer that refuses to grow beyond a limit.
struct Bounded {
    bytes: Vec<u8>,
    max: usize,
}

impl Write for Bounded {
    fn write(&mut self, more: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + more.len() > self.max {
            return Err(io::Error::from(io::ErrorKind::FileTooLarge));
        }
        self.bytes.extend_from_slice(more);
        Ok(more.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_as_large_as_the_limit_and_no_larger() {
        let text = |bytes: usize| answer(&"x".repeat(bytes)).map(|bytes| bytes.len());
        assert_eq!(text(ANSWER_BYTES_MAX - 2).ok(), Some(ANSWER_BYTES_MAX));
        assert_eq!(text(ANSWER_BYTES_MAX - 1).map_err(|it| it.kind), Err("too_large"));
    }
}
