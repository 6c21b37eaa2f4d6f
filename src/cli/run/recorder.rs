//! Recorder: receivers for both protocols that write requests to a file.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::cli::run::recording::{Recording, RecordingCounts, RecordingWatch};
use spanscore_base::model::Memory;
use spanscore_receive::Receivers;
use spanscore_receive::settings::ReceiversSettings;
use spanscore_telemetry::Telemetry;

/// Longest wait for requests in flight at the stop.
const SETTLE_TIME: Duration = Duration::from_secs(5);
/// Longest wait for connections to close.
const CLOSE_TIME: Duration = Duration::from_millis(200);
/// Polling interval for new requests.
const LOOK: Duration = Duration::from_millis(20);

/// Running receivers and their file.
pub(in crate::cli) struct Recorder {
    receivers: Receivers,
    recording: Arc<Recording>,
    /// Metrics of the receivers, which are not read; must live as long as they do.
    _telemetry: Telemetry,
}

impl Recorder {
    /// Listens on the addresses of the settings, or without settings on one free port for both
    /// protocols.
    pub(in crate::cli) async fn start(
        path: &Path,
        settings: Option<&ReceiversSettings>,
        watch: Option<RecordingWatch>,
    ) -> anyhow::Result<Self> {
        let recording = Recording::create(path, watch)
            .with_context(|| format!("cannot create {}", path.display()))?;
        let recording = Arc::new(recording);
        let telemetry = Telemetry::without_endpoints()?;
        let memory = Memory::default();
        let meter = telemetry.meter();
        let intake = Arc::clone(&recording);
        let receivers = match settings {
            Some(settings) => Receivers::start(settings, intake, &memory, &meter).await?,
            None => Receivers::start_on_one_port(intake, &memory, &meter).await?,
        };
        Ok(Self { receivers, recording, _telemetry: telemetry })
    }

    /// Returns the address of OTLP/gRPC, if served.
    pub(in crate::cli) fn grpc(&self) -> Option<SocketAddr> {
        self.receivers.grpc_address()
    }

    /// Returns the address of OTLP/HTTP, if served.
    pub(in crate::cli) fn http(&self) -> Option<SocketAddr> {
        self.receivers.http_address()
    }

    /// Waits until no request has come for this long, counted from now.
    pub(in crate::cli) async fn quiet(&self, wait: Duration) {
        let mut since = Instant::now();
        while since.elapsed() < wait {
            tokio::time::sleep(LOOK.min(wait)).await;
            since = since.max(self.recording.last());
        }
    }

    /// Stops the receivers and closes the file.
    pub(in crate::cli) async fn stop(self) -> anyhow::Result<RecordingCounts> {
        self.receivers.settle(tokio::time::sleep(SETTLE_TIME)).await;
        self.receivers.drain(CLOSE_TIME).await;
        self.recording.finish().map_err(anyhow::Error::msg)
    }
}
