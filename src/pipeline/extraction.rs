//! Requests to records: small ones where they arrive, large ones beside the network's threads.
//!
//! A body of 20 MB takes tens of milliseconds to read, in which a thread of the network would serve
//! nobody else. So large bodies are read on threads for work that blocks, as many at once as there
//! are cores; others of them wait, in order, until their request's deadline.

use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use bytes::Bytes;
use tokio::sync::Semaphore;
use tokio::task::JoinError;
use tokio::time::{Instant, timeout_at};

use super::pool::BatchPool;
use crate::extract::{Extracted, ExtractionCache, Table, extract};
use crate::model::SpanBatch;
use crate::otlp::Signal;
use crate::otlp::request::Broken;

/// Bodies up to this size are read in place: they take less than a millisecond, and it costs more
/// to hand them to another thread than to make others wait that long. SDKs send no larger ones.
const IN_PLACE_BYTES_MAX: usize = 1 << 20;

/// Records by shard, and the table that they were extracted with.
pub(super) type TableBatches = (Vec<SpanBatch>, Arc<Table>);

/// Why a request was not read.
#[derive(Debug, thiserror::Error)]
pub(super) enum UnreadRequest {
    /// It is no such request.
    #[error("{0}")]
    Broken(#[from] Broken),
    /// Too many large ones are read, and its deadline has passed.
    #[error("too many large requests are read")]
    Crowded,
    /// The process ends.
    #[error("shutting down")]
    Ending,
}

/// Extracts the records of requests.
pub(super) struct Extraction {
    parts: Arc<ExtractionParts>,
    /// Large bodies that may be read at once.
    large: Arc<Semaphore>,
}

struct ExtractionParts {
    table: RwLock<Arc<Table>>,
    /// Resources seen before, one cache for each request under way at once.
    caches: Mutex<Vec<ExtractionCache>>,
    pool: Arc<BatchPool>,
    shard_count: usize,
}

impl Extraction {
    pub(super) fn new(table: Arc<Table>, pool: Arc<BatchPool>, shard_count: usize) -> Self {
        let table = RwLock::new(table);
        let caches = Mutex::default();
        let parts = ExtractionParts { table, caches, pool, shard_count };
        Self { parts: Arc::new(parts), large: Arc::new(Semaphore::new(shard_count.max(1))) }
    }

    /// The table of today.
    #[cfg(test)]
    pub(super) fn table(&self) -> Arc<Table> {
        self.parts.table()
    }

    /// Extracts with another table from now on.
    pub(super) fn set_table(&self, table: Arc<Table>) {
        *self.parts.table.write().unwrap_or_else(PoisonError::into_inner) = table;
    }

    /// Empty batches, to be filled again.
    pub(super) fn pool(&self) -> &BatchPool {
        &self.parts.pool
    }

    /// Forgets what is only remembered to be quick.
    pub(super) fn rest(&self) {
        self.parts.caches().clear();
        self.parts.pool.clear();
    }

    /// The records of a request, by shard. `waits` is called where a large one has to wait.
    pub(super) async fn read(
        &self,
        signal: Signal,
        request: &Bytes,
        deadline: Instant,
        waits: impl FnOnce(),
    ) -> Result<(TableBatches, Extracted), UnreadRequest> {
        if request.len() <= IN_PLACE_BYTES_MAX {
            return Ok(self.parts.read(signal, request)?);
        }
        let turn = match Arc::clone(&self.large).try_acquire_owned() {
            Ok(turn) => turn,
            Err(_) => {
                waits();
                let turn = timeout_at(deadline, Arc::clone(&self.large).acquire_owned()).await;
                turn.map_err(|_| UnreadRequest::Crowded)?.map_err(|_| UnreadRequest::Ending)?
            }
        };
        let parts = Arc::clone(&self.parts);
        let request = request.clone();
        let reading = tokio::task::spawn_blocking(move || {
            // Given back when it is read, though nobody may wait for it any more.
            let _turn = turn;
            parts.read(signal, &request)
        });
        match reading.await.map_err(JoinError::try_into_panic) {
            Ok(read) => Ok(read?),
            // It goes on in whose request it is, as that of a small one does.
            Err(Ok(panic)) => resume_unwind(panic),
            Err(Err(_)) => Err(UnreadRequest::Ending),
        }
    }
}

impl ExtractionParts {
    fn table(&self) -> Arc<Table> {
        Arc::clone(&self.table.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn caches(&self) -> MutexGuard<'_, Vec<ExtractionCache>> {
        self.caches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, signal: Signal, request: &[u8]) -> Result<(TableBatches, Extracted), Broken> {
        let table = self.table();
        let mut batches: Vec<_> =
            (0..self.shard_count).map(|_| self.pool.take(request.len())).collect();
        let mut cache = self.caches().pop().unwrap_or_default();
        let extracted = extract(&table, signal, request, &mut cache, &mut batches);
        self.caches().push(cache);
        Ok(((batches, table), extracted?))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use super::*;
    use crate::extract::dialect::Dialect;
    use crate::model::Facts;

    fn extraction() -> Extraction {
        let table = Table::compile(Dialect::with_builtin(Vec::new()), &Facts::all()).unwrap();
        Extraction::new(Arc::new(table), Arc::default(), 1)
    }

    /// A request that holds nothing but an unknown field of so many bytes.
    fn request(bytes: usize) -> Bytes {
        let mut request = vec![0x7a];
        prost::encoding::encode_varint(bytes as u64, &mut request);
        request.resize(request.len() + bytes, 0);
        request.into()
    }

    #[tokio::test(start_paused = true)]
    async fn large_requests_wait_for_each_other_and_small_ones_for_none() {
        let extraction = extraction();
        let large = request(IN_PLACE_BYTES_MAX);
        let small = request(100);
        let waited = AtomicBool::new(false);
        let read = async |request: &Bytes| {
            let deadline = Instant::now() + Duration::from_secs(1);
            let waits = || waited.store(true, Ordering::Relaxed);
            extraction.read(Signal::Traces, request, deadline, waits).await.map(drop)
        };
        assert!(read(&large).await.is_ok() && !waited.load(Ordering::Relaxed));
        let turn = Arc::clone(&extraction.large).try_acquire_owned().expect("given back");
        let started = Instant::now();
        assert!(read(&small).await.is_ok() && !waited.load(Ordering::Relaxed));
        assert!(matches!(read(&large).await, Err(UnreadRequest::Crowded)));
        assert!(waited.load(Ordering::Relaxed));
        assert_eq!(started.elapsed(), Duration::from_secs(1));
        drop(turn);
        assert!(read(&large).await.is_ok());
    }

    #[tokio::test]
    async fn large_request_that_is_none_is_told_as_a_small_one_is() {
        let soon = Instant::now() + Duration::from_secs(60);
        for bytes in [10, 2 * IN_PLACE_BYTES_MAX] {
            let broken = request(bytes).slice(..bytes / 2);
            let read = extraction().read(Signal::Traces, &broken, soon, || {}).await;
            assert!(matches!(read, Err(UnreadRequest::Broken(_))), "{bytes}");
        }
    }
}
