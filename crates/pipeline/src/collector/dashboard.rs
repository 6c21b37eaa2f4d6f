//! Listener of the store's query interface and pages, with its metrics.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use prometheus::Registry;
use tokio::net::TcpListener;

use super::CollectorStartError;
use super::settings::{CollectorSettings, PagesSettings};
use crate::store;
use spanscore_api::{
    Api, ApiCounters, ApiParts, DashboardSettings, InspectRequest, LeftAccess, LocalAccess,
    RequestRefusal, access_folder, router,
};
use spanscore_assemble::{LimitsSettings, SessionKeyFields};
use spanscore_base::model::{Memory, MemoryQuota};
use spanscore_dashboard::asset;
use spanscore_engine::inspect::Inspector;
use spanscore_extract::dialect::Dialect;
use spanscore_net::metrics::{KeyValue, Meter, Scraped};
use spanscore_net::tls::{ServerTls, TlsError};
use spanscore_net::{metrics, readings};
use spanscore_store::Store;
use spanscore_telemetry::Telemetry;

/// Limit on open connections; one more closes the oldest. Up to 64 of them are streams.
pub const CONNECTIONS_MAX: usize = 256;

/// Start-up error of the listener.
#[derive(Debug, thiserror::Error)]
pub enum DashboardStartError {
    /// Cannot listen on the address.
    #[error(
        "cannot listen on {endpoint}: {error}; change `dashboard.endpoint`, or write \
         `dashboard: false`"
    )]
    Bind {
        /// The address.
        endpoint: String,
        /// Error of the system.
        error: io::Error,
    },
    /// The certificates are unusable.
    #[error("cannot set up TLS of `dashboard.tls`: {0}")]
    Tls(Box<TlsError>),
    /// The system provides no random numbers.
    #[error("cannot make a secret for `dashboard`: {0}")]
    Secret(io::Error),
    /// The system refused a thread or temporary folder.
    #[error("cannot start the store: {0}")]
    Store(io::Error),
    /// The system refused a thread for the pages.
    #[error(
        "cannot start the thread of the pages: {0}; raise the limit of threads, or write \
         `dashboard: false`"
    )]
    Thread(io::Error),
}

/// Returns the explainer of pasted requests; it compiles its dialects at first use.
fn inspect(
    dialects: Vec<Dialect>,
    limits: LimitsSettings,
    session_key: SessionKeyFields,
) -> InspectRequest {
    let inspector = OnceLock::new();
    Arc::new(move |request| {
        let made = || Inspector::new(dialects.clone(), limits, session_key);
        let inspector: &Result<Inspector, _> = inspector.get_or_init(made);
        let inspector = inspector.as_ref().map_err(ToString::to_string)?;
        inspector.inspect(request).map(String::into_bytes).map_err(|error| error.to_string())
    })
}

/// Access for the same user's commands, stored in files if those are writable.
pub(crate) enum PagesAccess {
    Left(LeftAccess),
    Unwritten(LocalAccess),
}

impl PagesAccess {
    pub(crate) fn get(&self) -> &LocalAccess {
        match self {
            Self::Left(left) => left.access(),
            Self::Unwritten(access) => access,
        }
    }
}

/// Store of one command with its pages, in a temporary file deleted on drop.
pub struct StorePages {
    store: Arc<Store>,
    access: PagesAccess,
    /// Listener of the pages.
    _telemetry: Telemetry,
}

impl StorePages {
    /// Starts the store and its pages on a free port of the loopback address, on the current
    /// runtime.
    ///
    /// # Errors
    /// The system refused a thread, temporary folder, port or random numbers.
    pub async fn start(settings: PagesSettings) -> Result<Self, CollectorStartError> {
        let mut telemetry = Telemetry::without_endpoints()?;
        let own = settings.store.clone();
        let store = store::open(own, None, &telemetry.meter()).map_err(DashboardStartError::Store);
        let store = store.map(Arc::new)?;
        let endpoint = "127.0.0.1:0".to_owned();
        let shown =
            DashboardSettings { endpoint: Some(endpoint.clone()), ..DashboardSettings::default() };
        let bodies = Memory::default().requests;
        let access = start((shown, settings), (&store, bodies), None, &mut telemetry).await?;
        let taken = io::Error::from(io::ErrorKind::AddrInUse);
        let access = access.ok_or(DashboardStartError::Bind { endpoint, error: taken })?;
        Ok(Self { store, access, _telemetry: telemetry })
    }

    /// Returns the store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Returns the access to the pages.
    pub fn access(&self) -> &LocalAccess {
        self.access.get()
    }
}

/// Starts the store and its listener, if configured; `memory` has the quota of queries.
pub(crate) async fn start_store(
    settings: &mut CollectorSettings,
    data_dir: Option<&Path>,
    memory: &Memory,
    telemetry: &mut Telemetry,
) -> Result<(Option<Arc<Store>>, Option<PagesAccess>), DashboardStartError> {
    let Some(own) = settings.store.take() else { return Ok((None, None)) };
    let store = store::start(own.clone(), data_dir, &telemetry.meter());
    let access = match store.as_ref().zip(settings.dashboard.take()) {
        Some((store, shown)) => {
            let pages = PagesSettings {
                store: own,
                dialects: settings.dialects.clone(),
                limits: settings.limits,
                session_key: settings.sessions.key,
            };
            let bodies = Arc::clone(&memory.requests);
            start((shown, pages), (store, bodies), data_dir, telemetry).await?
        }
        None => None,
    };
    Ok((store, access))
}

/// Starts the listener. An occupied default address is no error, since the user may not know of it.
async fn start(
    (settings, pages): (DashboardSettings, PagesSettings),
    (store, bodies): (&Store, Arc<MemoryQuota>),
    data_dir: Option<&Path>,
    telemetry: &mut Telemetry,
) -> Result<Option<PagesAccess>, DashboardStartError> {
    let tls = settings.tls.clone().map(|tls| ServerTls::new(tls, "dashboard.tls", &["http/1.1"]));
    let tls = tls.transpose().map_err(|error| DashboardStartError::Tls(Box::new(error)))?;
    let is_chosen = settings.endpoint.is_some();
    let endpoint = settings.endpoint().to_owned();
    let meter = telemetry.meter();
    let counters: Arc<ApiCounters> = Arc::default();
    let (listener, address) = match bind(&endpoint).await {
        Ok(bound) => bound,
        Err(error) if is_chosen => return Err(DashboardStartError::Bind { endpoint, error }),
        Err(error) => {
            tracing::warn!(
                endpoint,
                %error,
                "the store is not shown: name a free address as `dashboard.endpoint`, or write \
                 `dashboard: false`"
            );
            show(&meter, &counters, 0);
            return Ok(None);
        }
    };
    let registry = telemetry.registry().clone();
    let folder = access_folder(data_dir, address.port());
    let api = Api::new(ApiParts {
        store: store.view().clone(),
        content: pages.store.content,
        trace_link: pages.store.trace_url,
        inspect: inspect(pages.dialects, pages.limits, pages.session_key),
        settings,
        bodies,
        instance: folder.display().to_string(),
        progress: Arc::new(move || progress(&registry)),
        counters: Arc::clone(&counters),
        version: env!("CARGO_PKG_VERSION"),
    });
    let api = api.map_err(DashboardStartError::Secret)?;
    show(&meter, &counters, 1);
    let tls = tls.map(Arc::new);
    let access = leave(LocalAccess::of(&api, address), folder);
    let router = router(api, asset);
    telemetry
        .serve_dashboard((listener, address), router, tls, CONNECTIONS_MAX)
        .map_err(DashboardStartError::Thread)?;
    Ok(Some(access))
}

/// Stores the access in its folder; without it only the first link works.
fn leave(access: LocalAccess, folder: PathBuf) -> PagesAccess {
    match access.clone().leave(folder) {
        Ok(left) => PagesAccess::Left(left),
        Err(error) => {
            tracing::warn!(%error, "`spanscore open` cannot find this collector");
            PagesAccess::Unwritten(access)
        }
    }
}

async fn bind(endpoint: &str) -> io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(endpoint).await?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

/// Steps from a request to a judged trace, with the metrics that count them.
const STEPS: [(&str, &str); 4] = [
    ("requests", "spanscore_receiver_requests_total"),
    ("spans", "spanscore_receiver_accepted_spans_total"),
    ("ignored_traces", "spanscore_assemble_ignored_traces_total"),
    ("traces", "spanscore_assemble_judged_traces_total"),
];

/// Reads the counts of the steps.
fn progress(registry: &Registry) -> Vec<(&'static str, u64)> {
    let families = registry.gather();
    let count = |name: &str| {
        let family = families.iter().find(|family| family.name() == name);
        let counters = family.into_iter().flat_map(|family| family.get_metric());
        counters.map(|metric| metric.get_counter().get_value()).sum::<f64>()
    };
    STEPS.iter().map(|(step, name)| (*step, count(name) as u64)).collect()
}

metrics! {
    struct DashboardMetrics {
        listening: Gauge("spanscore.dashboard.listening", "{listener}",
            "1 while the store is shown, 0 if the default port was taken.");
    }
}

readings! {
    const REFUSED: u64 {
        sum("spanscore.dashboard.refused_requests", "{request}",
            "Requests to the query interface that were refused.", |count| *count);
    }
}

fn show(meter: &Meter, counters: &Arc<ApiCounters>, listening: u64) {
    DashboardMetrics::new(meter).of(&[]).listening.record(listening);
    let counters = Arc::clone(counters);
    Scraped::show_all(REFUSED, meter, move |see| {
        for &refusal in RequestRefusal::ALL {
            let word: &'static str = refusal.into();
            see(&counters.get(refusal), &[KeyValue::new("reason", word)]);
        }
    });
}
