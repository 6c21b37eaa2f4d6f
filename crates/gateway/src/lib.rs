//! Gateway to Kafka: receives OTLP, splits each request by trace, and acknowledges it after the
//! brokers do.
//!
//! ```text
//! receivers ──► intake ──► split ──► producer ──► topic, keyed by trace id
//!     ◄─────────── answer ◄──────────── brokers' answer
//! ```
//!
//! It evaluates nothing and holds only the requests in progress. While the brokers are unavailable,
//! every request is refused at once, so that its sender retries.

mod intake;
mod metrics;
mod settings;
mod split;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use intake::GatewayIntake;
use metrics::{GatewayMetrics, show_brokers};
pub use settings::{
    GatewayKafkaSettings, GatewayLimits, GatewayReceivers, GatewaySettings, divide,
};
use spanscore_base::model::Memory;
use spanscore_kafka::{BrokerState, Producer, ProducerStartError};
use spanscore_net::tls::Rereader;
use spanscore_receive::settings::ReceiversSettings;
use spanscore_receive::{ReceiverStartError, Receivers};
use spanscore_telemetry::{Addresses, BuildFacts, Telemetry, TelemetryError};

/// Time for connections to close after the last request.
const CLOSE_TIME: Duration = Duration::from_millis(500);

/// Start-up error of a gateway, by component.
#[derive(Debug, thiserror::Error)]
pub enum GatewayStartError {
    /// Endpoints for metrics and health.
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
    /// Client of Kafka.
    #[error("`kafka`")]
    Producer(#[from] ProducerStartError),
    /// Receiver.
    #[error(transparent)]
    Receiver(#[from] ReceiverStartError),
}

/// Running gateway.
pub struct Gateway {
    telemetry: Telemetry,
    receivers: Receivers,
    shutdown_timeout: Duration,
    _rereading: DropGuard,
}

impl Gateway {
    /// Starts it on the current runtime; the brokers need not be reachable.
    ///
    /// # Errors
    /// The component that cannot start; nothing is left running.
    pub async fn start(
        settings: &GatewaySettings,
        build: BuildFacts,
    ) -> Result<Self, GatewayStartError> {
        let telemetry = Telemetry::start(&settings.telemetry).await?;
        let meter = telemetry.meter();
        build.show(&meter);
        let memory = Memory::new(&settings.memory);
        telemetry.show_memory(&memory);
        let kafka = &settings.kafka;
        let producer =
            Producer::start(&kafka.cluster(), &kafka.producer, &kafka.topic, kafka.timeout.0)?;
        let producer = Arc::new(producer);
        show_brokers(&meter, &producer);
        let asked = Arc::clone(&producer);
        telemetry.readiness().need(move || matches!(asked.state(), BrokerState::Here { .. }));
        let metrics = GatewayMetrics::new(&meter).of(&[]);
        let intake = GatewayIntake::new(producer, kafka, Arc::clone(&memory.queue), metrics);
        let otlp = Some(settings.receivers.otlp.clone());
        let receivers = ReceiversSettings { otlp, ..ReceiversSettings::default() };
        let receivers = Receivers::start(&receivers, intake, &memory, &meter).await?;
        let files = receivers.files().iter().chain(telemetry.files());
        let (_, rereading) = Rereader::start(files, &meter);
        telemetry.readiness().set(true);
        let shutdown_timeout = settings.shutdown_timeout.0;
        Ok(Self { telemetry, receivers, shutdown_timeout, _rereading: rereading })
    }

    /// Returns the bound addresses.
    pub fn addresses(&self) -> Addresses {
        let grpc = self.receivers.grpc_address();
        Addresses { grpc, http: self.receivers.http_address(), ..self.telemetry.addresses() }
    }

    /// Stops. New requests are refused, and those in progress are answered within the timeout or
    /// until `hurry` is cancelled. Their senders retry unacknowledged ones.
    pub async fn shutdown(mut self, hurry: &CancellationToken) {
        self.telemetry.readiness().set(false);
        let deadline = Instant::now() + self.shutdown_timeout.saturating_sub(CLOSE_TIME);
        let no_more_time = async {
            tokio::select! {
                () = tokio::time::sleep_until(deadline) => {}
                () = hurry.cancelled() => {}
            }
        };
        if !self.receivers.settle(no_more_time).await {
            tracing::warn!("requests that did not end were told to come again");
        }
        self.receivers.drain(CLOSE_TIME).await;
        let _ = timeout(CLOSE_TIME, self.telemetry.finish()).await;
    }
}
