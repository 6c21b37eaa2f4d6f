//! Receivers that only record: both protocols on loopback, the requests into a file.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::model::Memory;
use crate::receive::Receivers;
use crate::receive::file::recording::{Recording, RecordingCounts, RecordingWatch};
use crate::receive::settings::ReceiversSettings;
use crate::telemetry::Telemetry;

/// Longest wait for requests that are under way when it stops.
const SETTLE_TIME: Duration = Duration::from_secs(5);
/// Longest wait for connections to close.
const CLOSE_TIME: Duration = Duration::from_millis(200);
/// How often it looks whether anything came.
const LOOK: Duration = Duration::from_millis(20);

/// Running receivers and the file that they fill.
pub(in crate::cli) struct Recorder {
    receivers: Receivers,
    recording: Arc<Recording>,
    /// Counts what nobody reads: it must live as long as the receivers.
    _telemetry: Telemetry,
}

impl Recorder {
    /// Listens where the settings say; without settings on one free port, for both protocols.
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

    /// Where OTLP/gRPC listens, if it does.
    pub(in crate::cli) fn grpc(&self) -> Option<SocketAddr> {
        self.receivers.grpc_address()
    }

    /// Where OTLP/HTTP listens, if it does.
    pub(in crate::cli) fn http(&self) -> Option<SocketAddr> {
        self.receivers.http_address()
    }

    /// Waits until nothing has come for this long, from now on.
    pub(in crate::cli) async fn quiet(&self, wait: Duration) {
        let mut since = Instant::now();
        while since.elapsed() < wait {
            tokio::time::sleep(LOOK.min(wait)).await;
            since = since.max(self.recording.last());
        }
    }

    /// Takes no more, and closes the file.
    pub(in crate::cli) async fn stop(self) -> anyhow::Result<RecordingCounts> {
        self.receivers.settle(tokio::time::sleep(SETTLE_TIME)).await;
        self.receivers.drain(CLOSE_TIME).await;
        self.recording.finish().map_err(anyhow::Error::msg)
    }
}
