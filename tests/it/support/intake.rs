//! An intake that answers as told and remembers what it got, behind real receivers.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use spanscore_base::model::Memory;
use spanscore_base::otlp::Signal;
use spanscore_base::settings::HumanDuration;
use spanscore_receive::settings::{OtlpReceiverSettings, ProtocolsSettings, ReceiversSettings};
use spanscore_receive::{Accepted, ConnectionAccount, Intake, Received, Receivers, Refused};
use spanscore_telemetry::Telemetry;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::patience::{eventually, once};

/// Takes requests as one item each, unless told otherwise.
pub(crate) struct FakeIntake {
    /// Requests that came in.
    pub(crate) seen: Mutex<Vec<(Signal, Bytes)>>,
    /// Answer to them.
    pub(crate) answer: Mutex<Result<Accepted, Refused>>,
    /// A permit lets one request through.
    pub(crate) gate: Semaphore,
}

impl Default for FakeIntake {
    fn default() -> Self {
        let one = Accepted { accepted: 1, ..Accepted::default() };
        Self {
            seen: Mutex::default(),
            answer: Mutex::new(Ok(one)),
            gate: Semaphore::new(Semaphore::MAX_PERMITS),
        }
    }
}

impl FakeIntake {
    /// Answers so from now on.
    pub(crate) fn answer(&self, answer: Result<Accepted, Refused>) {
        *self.answer.lock().unwrap() = answer;
    }

    /// Takes the requests since the last call.
    pub(crate) fn take(&self) -> Vec<(Signal, Bytes)> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }
}

impl Intake for FakeIntake {
    async fn accept_by(
        &self,
        received: Received,
        _: &Arc<ConnectionAccount>,
        _: Instant,
    ) -> Result<Accepted, Refused> {
        self.seen.lock().unwrap().push((received.signal, received.request));
        self.gate.acquire().await.unwrap().forget();
        self.answer.lock().unwrap().clone()
    }
}

/// Receivers on free ports before a [`FakeIntake`].
pub(crate) struct Harness {
    pub(crate) intake: Arc<FakeIntake>,
    pub(crate) receivers: Option<Receivers>,
    pub(crate) telemetry: Telemetry,
    pub(crate) grpc: SocketAddr,
    pub(crate) http: SocketAddr,
}

/// Settings with small limits: bodies of 1 MiB, waits of 200 ms.
pub(crate) fn small_settings() -> OtlpReceiverSettings {
    let mut protocols = ProtocolsSettings::default();
    let short = HumanDuration::from_millis(200);
    if let Some(grpc) = &mut protocols.grpc {
        grpc.endpoint = "127.0.0.1:0".to_owned();
        grpc.max_recv_msg_size_mib = 1;
    }
    if let Some(http) = &mut protocols.http {
        http.endpoint = "127.0.0.1:0".to_owned();
        http.max_request_body_size = 1 << 20;
    }
    OtlpReceiverSettings {
        protocols,
        wait_for_room: short,
        read_timeout: short,
        ..Default::default()
    }
}

impl Harness {
    pub(crate) async fn start() -> Self {
        Self::with(small_settings()).await
    }

    pub(crate) async fn with(otlp: OtlpReceiverSettings) -> Self {
        Self::within(otlp, &Memory::default()).await
    }

    /// With these shares of memory.
    pub(crate) async fn within(otlp: OtlpReceiverSettings, memory: &Memory) -> Self {
        let intake = Arc::new(FakeIntake::default());
        let telemetry = Telemetry::without_endpoints().unwrap();
        let settings = ReceiversSettings { otlp: Some(otlp), ..ReceiversSettings::default() };
        let own = Arc::clone(&intake);
        let receivers = Receivers::start(&settings, own, memory, &telemetry.meter()).await.unwrap();
        let (grpc, http) = (receivers.grpc_address().unwrap(), receivers.http_address().unwrap());
        Self { intake, receivers: Some(receivers), telemetry, grpc, http }
    }

    /// The address of a path on the HTTP port.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.http)
    }

    /// Asserts that `/metrics` has this line.
    pub(crate) fn assert_counted(&self, line: &str) {
        let text = self.telemetry.exposition();
        assert!(text.lines().any(|have| have == line), "no {line} in\n{text}");
    }

    /// Waits until `/metrics` has this line: what is counted after an answer or a close.
    pub(crate) async fn counted(&self, line: &str) {
        eventually(|| {
            let text = self.telemetry.exposition();
            once(text.lines().any(|have| have == line), || format!("no {line} in\n{text}"))
        })
        .await;
    }

    /// Waits until a series of `/metrics` is above zero.
    pub(crate) async fn counted_above_zero(&self, series: &str) {
        let is_above = |line: &str| line.starts_with(series) && !line.ends_with(" 0");
        eventually(|| {
            let text = self.telemetry.exposition();
            once(text.lines().any(is_above), || format!("{series} is 0 in\n{text}"))
        })
        .await;
    }

    pub(crate) async fn drain(&mut self, deadline: Duration) -> bool {
        self.receivers.take().unwrap().drain(deadline).await
    }
}
