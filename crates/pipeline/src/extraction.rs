//! Extraction of records from requests: small ones on the receiving task, large ones on blocking
//! threads.
//!
//! Reading a body of 20 MB takes tens of milliseconds, which would block a network thread. So large
//! bodies go to blocking threads, at most one per shard at once. Others wait in order until the
//! deadline of their request.

use std::panic::resume_unwind;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use tokio::sync::Semaphore;
use tokio::task::JoinError;
use tokio::time::{Instant, timeout_at};

use super::pool::BatchPool;
use spanscore_base::model::SpanBatch;
use spanscore_base::otlp::Signal;
use spanscore_base::otlp::request::Broken;
use spanscore_extract::{Extracted, ExtractionCache, Table, extract};

/// Largest body read in place. It takes less than a millisecond, and a thread switch would cost
/// more than the delay of others. SDKs send no larger ones.
const IN_PLACE_BYTES_MAX: usize = 1 << 20;

/// Records by shard, with the table that extracted them.
pub(super) type TableBatches = (Vec<SpanBatch>, Arc<Table>);

/// Reason for an unread request.
#[derive(Debug, thiserror::Error)]
pub(super) enum UnreadRequest {
    /// The body is malformed.
    #[error("{0}")]
    Broken(#[from] Broken),
    /// The deadline passed while other large requests were read.
    #[error("too many large requests are read")]
    Crowded,
    /// The process is shutting down.
    #[error("shutting down")]
    Ending,
}

/// Extractor shared by all receivers.
pub(super) struct Extraction {
    parts: Arc<ExtractionParts>,
    /// Permits for reading large bodies.
    large: Arc<Semaphore>,
}

struct ExtractionParts {
    table: RwLock<Arc<Table>>,
    /// Caches of known resources, one for each concurrent request.
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

    /// Returns the current table.
    #[cfg(test)]
    pub(super) fn table(&self) -> Arc<Table> {
        self.parts.table()
    }

    /// Replaces the table; later requests use it.
    pub(super) fn set_table(&self, table: Arc<Table>) {
        *self.parts.table.write() = table;
    }

    /// Returns the pool of empty batches.
    pub(super) fn pool(&self) -> &BatchPool {
        &self.parts.pool
    }

    /// Frees all caches.
    pub(super) fn rest(&self) {
        self.parts.caches.lock().clear();
        self.parts.pool.clear();
    }

    /// Extracts the records of a request, by shard. Calls `waits` if a large one must wait.
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
            // Held until the read ends, even if the request was dropped: it bounds the work, not
            // the waiting.
            let _turn = turn;
            parts.read(signal, &request)
        });
        match reading.await.map_err(JoinError::try_into_panic) {
            Ok(read) => Ok(read?),
            // Resumed on the request's task, as with a small request.
            Err(Ok(panic)) => resume_unwind(panic),
            Err(Err(_)) => Err(UnreadRequest::Ending),
        }
    }
}

impl ExtractionParts {
    fn table(&self) -> Arc<Table> {
        Arc::clone(&self.table.read())
    }

    fn read(&self, signal: Signal, request: &[u8]) -> Result<(TableBatches, Extracted), Broken> {
        let table = self.table();
        let mut batches: Vec<_> =
            (0..self.shard_count).map(|_| self.pool.take(request.len())).collect();
        let mut cache = self.caches.lock().pop().unwrap_or_default();
        let extracted = extract(&table, signal, request, &mut cache, &mut batches);
        self.caches.lock().push(cache);
        Ok(((batches, table), extracted?))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use super::*;
    use spanscore_base::model::Facts;
    use spanscore_extract::dialect::Dialect;

    fn extraction() -> Extraction {
        let table = Table::compile(Dialect::with_builtin(Vec::new()), &Facts::all()).unwrap();
        Extraction::new(Arc::new(table), Arc::default(), 1)
    }

    /// Builds a request with nothing but an unknown field of this size.
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
