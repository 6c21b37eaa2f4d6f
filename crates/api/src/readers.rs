//! Readers of the store: four at a time, in fair [turns](crate::turns).

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use http::StatusCode;
use parking_lot::Mutex;
use serde::Serialize;

use spanscore_base::model::Sender;
use spanscore_store::query::StoreReader;

use crate::problem::ApiProblem;
use crate::turns::{TurnLimits, WorkTurns};

/// Limit on concurrent queries.
pub(crate) const READERS_MAX: usize = 4;
/// Limit on concurrent queries of one peer.
pub(crate) const OF_PEER_MAX: usize = 3;
/// Limit on queries waiting for a reader.
pub(crate) const WAITING_MAX: usize = 32;
/// Largest answer.
pub(crate) const ANSWER_BYTES_MAX: usize = 8 << 20;

/// Connections to the store.
pub(crate) struct StoreReaders {
    path: PathBuf,
    idle: Mutex<Vec<StoreReader>>,
    turns: Arc<WorkTurns>,
}

impl StoreReaders {
    pub(crate) fn new(path: PathBuf) -> Self {
        let limits = TurnLimits { of_all: READERS_MAX, of_peer: OF_PEER_MAX };
        Self { path, idle: Mutex::default(), turns: WorkTurns::new("queries", limits, WAITING_MAX) }
    }

    /// Queries the store for a sender, on a thread for blocking work.
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
        let turn = self.turns.take(sender).await.ok_or_else(busy)?;
        let readers = Arc::clone(self);
        let asking = tokio::task::spawn_blocking(move || {
            // Held to the end of the query, even without a waiting client.
            let _turn = turn;
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

/// Returns an answer as JSON.
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
