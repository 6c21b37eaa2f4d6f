//! State shared by all requests.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::body::Bytes;
use parking_lot::Mutex;

use spanscore_base::model::MemoryQuota;
use spanscore_store::{StoreView, StoredContent, TraceLink};

use crate::counters::ApiCounters;
use crate::guard::Guard;
use crate::inspecting::Inspecting;
use crate::readers::StoreReaders;
use crate::settings::DashboardSettings;
use crate::shares::SharedQuota;
use crate::stream::{STREAMS_MAX, StreamHead};

/// Inverse of the answers' share of the body quota.
const ANSWER_PARTS: usize = 4;

/// Counts of the steps from a request to a verdict.
pub type StepCounts = Arc<dyn Fn() -> Vec<(&'static str, u64)> + Send + Sync>;

/// Explains a pasted OTLP/JSON request as JSON; the error is a text.
pub type InspectRequest = Arc<dyn Fn(&[u8]) -> Result<Vec<u8>, String> + Send + Sync>;

/// Parts of an API.
pub struct ApiParts {
    /// The store.
    pub store: StoreView,
    /// Content of traces that it stores.
    pub content: StoredContent,
    /// URL of a trace in another system.
    pub trace_link: Option<TraceLink>,
    /// Explanation of pasted requests.
    pub inspect: InspectRequest,
    /// Settings of the listener.
    pub settings: DashboardSettings,
    /// Quota of the bodies of requests, and of answers.
    pub bodies: Arc<MemoryQuota>,
    /// Text that distinguishes its collector from others on this host.
    pub instance: String,
    /// Counts of the steps before the store.
    pub progress: StepCounts,
    /// Counters, which may exist before the API.
    pub counters: Arc<ApiCounters>,
    /// Version of the program.
    pub version: &'static str,
}

/// State of the API.
pub struct Api {
    pub(crate) store: StoreView,
    pub(crate) content: StoredContent,
    pub(crate) trace_link: Option<TraceLink>,
    pub(crate) inspecting: Inspecting,
    pub(crate) readers: Arc<StoreReaders>,
    pub(crate) bodies: Arc<SharedQuota>,
    /// Answers, until they are read.
    pub(crate) answers: Arc<SharedQuota>,
    pub(crate) guard: Guard,
    pub(crate) counters: Arc<ApiCounters>,
    pub(crate) progress: StepCounts,
    pub(crate) version: &'static str,
    pub(crate) base_path: String,
    pub(crate) started_ms: i64,
    pub(crate) streams: Arc<SharedQuota>,
    pub(crate) head: Mutex<StreamHead>,
    /// Compressed page assets, by their address in the program.
    pub(crate) compressed_files: Mutex<BTreeMap<usize, Bytes>>,
}

impl Api {
    /// Creates the state.
    ///
    /// # Errors
    /// The system provides no random numbers.
    pub fn new(parts: ApiParts) -> std::io::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            readers: Arc::new(StoreReaders::new(parts.store.path().to_owned())),
            answers: SharedQuota::new(Arc::clone(&parts.bodies), ANSWER_PARTS),
            bodies: SharedQuota::new(parts.bodies, 1),
            store: parts.store,
            content: parts.content,
            trace_link: parts.trace_link,
            inspecting: Inspecting::new(parts.inspect),
            guard: Guard::new(&parts.settings, &parts.instance)?,
            counters: parts.counters,
            progress: parts.progress,
            version: parts.version,
            base_path: parts.settings.base_path(),
            started_ms: now_ms(),
            streams: SharedQuota::of_places("streams", STREAMS_MAX),
            head: Mutex::default(),
            compressed_files: Mutex::default(),
        }))
    }
}

/// Returns the time, Unix milliseconds.
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
