//! A whole collector on free ports, between real OTLP clients and an independent backend.

use std::net::SocketAddr;

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use prost::Message;
use spanscore::config::{ConfigError, ConfigPart, ResolvedConfig, load};
use spanscore_pipeline::{Collector, CollectorSettings, ShutdownReport};
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;

use super::fake_backend::{FakeBackend, attribute};
use super::patience::{eventually, once};

/// Quick settings that a test's own config is merged over.
const BASE: &str = r#"
receivers:
  otlp: {protocols: {grpc: {endpoint: "127.0.0.1:0"}, http: {endpoint: "127.0.0.1:0"}}}
traces: {quiet_period: 50ms, idle_timeout: 20s}
telemetry: {metrics: {endpoint: null}, health: {endpoint: null}}
exporters:
  otlp_grpc/backend:
    endpoint: http://${env:BACKEND}
    forms: [event]
    include_content: true
    sending_queue: {batch: {flush_timeout: 5ms}}
"#;

/// Keeps traces open until the collector stops, so that a test decides when they are judged.
pub(crate) const HELD: &str = "traces: {quiet_period: 10m, idle_timeout: 10m}\n";

/// The content type of OTLP/HTTP.
pub(crate) const PROTOBUF: &str = "application/x-protobuf";

/// A running collector and the backend that it sends to.
pub(crate) struct Running {
    collector: Collector,
    pub(crate) backend: FakeBackend,
    pub(crate) grpc: SocketAddr,
    pub(crate) http: SocketAddr,
    client: TraceServiceClient<Channel>,
    web: reqwest::Client,
}

impl Running {
    /// Starts it with a config over quick settings.
    pub(crate) async fn start(config: &str) -> Self {
        Self::with(config, |_| {}).await
    }

    /// As [`Running::start`], on one shard.
    pub(crate) async fn on_one_shard(config: &str) -> Self {
        Self::with(config, |settings| settings.shard_count = Some(1)).await
    }

    /// As [`Running::start`], with a change to what the config says; `${env:BACKEND}` in it is the
    /// address of the backend.
    pub(crate) async fn with(config: &str, change: impl FnOnce(&mut CollectorSettings)) -> Self {
        Self::between(FakeBackend::grpc().await, config, change).await
    }

    /// As [`Running::with`], with a backend of the test's own.
    pub(crate) async fn between(
        backend: FakeBackend,
        config: &str,
        change: impl FnOnce(&mut CollectorSettings),
    ) -> Self {
        let mut settings = settings(config, backend.address);
        settings.shard_count = Some(2);
        change(&mut settings);
        let collector = Collector::start(settings).await.expect("it starts");
        let addresses = collector.addresses();
        let (grpc, http) = (addresses.grpc.expect("gRPC"), addresses.http.expect("HTTP"));
        let client = connect(grpc).await;
        Self {
            collector,
            backend,
            grpc,
            http,
            client,
            web: crate::support::web_client().build().unwrap(),
        }
    }

    /// Another connection.
    pub(crate) async fn connect(&self) -> TraceServiceClient<Channel> {
        connect(self.grpc).await
    }

    /// Sends over gRPC; how many spans were rejected, and why.
    pub(crate) async fn send(&self, request: ExportTraceServiceRequest) -> (i64, String) {
        rejected(self.try_send(request).await.expect("it is taken"))
    }

    /// Sends over gRPC.
    pub(crate) async fn try_send(
        &self,
        request: ExportTraceServiceRequest,
    ) -> Result<ExportTraceServiceResponse, tonic::Status> {
        self.client.clone().export(request).await.map(tonic::Response::into_inner)
    }

    /// Posts a body as it is.
    pub(crate) async fn post(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> reqwest::Response {
        let mut request = self.web.post(format!("http://{}{path}", self.http)).body(body);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.send().await.expect("an answer")
    }

    /// Posts protobuf to the path of traces; status, rejected spans and why.
    pub(crate) async fn post_traces(&self, body: Vec<u8>) -> (u16, i64, String) {
        let response = self.post("/v1/traces", &[("content-type", PROTOBUF)], body).await;
        let status = response.status().as_u16();
        let body = response.bytes().await.expect("a body");
        if status != 200 {
            return (status, 0, String::new());
        }
        let (count, why) = rejected(ExportTraceServiceResponse::decode(body).expect("a response"));
        (status, count, why)
    }

    /// Waits until so many events have come; all that have, by trace, revision and evaluator.
    pub(crate) async fn events(&self, count: usize) -> Vec<Event> {
        self.backend.until(|backend| backend.log_count() >= count).await;
        events(&self.backend)
    }

    /// Waits until a series of our own metrics has this value.
    pub(crate) async fn counted(&self, series: &str, value: u64) {
        let line = format!("{series} {value}");
        eventually(|| {
            let text = self.collector.exposition();
            once(text.lines().any(|have| have == line), || format!("no {line} in\n{text}"))
        })
        .await;
    }

    /// Lets it take another config, over the same quick settings; what is wrong with it.
    pub(crate) async fn reload(&self, config: &str) -> Result<(), String> {
        let plan = plan(config, self.backend.address).map_err(|error| error.to_string())?;
        self.collector.reload(plan.into()).await.map_err(|error| error.to_string())
    }

    /// Our own metrics.
    pub(crate) fn exposition(&self) -> String {
        self.collector.exposition()
    }

    /// Stops it; all events that came, and how many evaluations could not be delivered.
    pub(crate) async fn stop(self) -> (Vec<Event>, u64) {
        let backend = self.backend.clone();
        let lost = self.lost(&CancellationToken::new()).await;
        (events(&backend), lost.evaluations())
    }

    /// Stops it; what was lost.
    pub(crate) async fn lost(self, hurry: &CancellationToken) -> ShutdownReport {
        self.collector.shutdown(hurry).await
    }

    /// Stops it; the events of what was open.
    pub(crate) async fn judged(self) -> Vec<Event> {
        let (events, unsent) = self.stop().await;
        assert_eq!(unsent, 0);
        events
    }
}

fn settings(config: &str, backend: SocketAddr) -> CollectorSettings {
    match plan(config, backend) {
        Ok(plan) => plan.into(),
        Err(error) => panic!("{error}"),
    }
}

fn plan(config: &str, backend: SocketAddr) -> Result<ResolvedConfig, ConfigError> {
    let part = |name: &str, text: &str| ConfigPart::Text { name: name.into(), text: text.into() };
    let lookup = |name: &str| (name == "BACKEND").then(|| backend.to_string());
    ResolvedConfig::new(&load(&[part("base", BASE), part("test", config)], &lookup)?)
}

async fn connect(address: SocketAddr) -> TraceServiceClient<Channel> {
    TraceServiceClient::connect(format!("http://{address}")).await.expect("it listens")
}

fn rejected(response: ExportTraceServiceResponse) -> (i64, String) {
    let partial = response.partial_success.unwrap_or_default();
    (partial.rejected_spans, partial.error_message)
}

fn events(backend: &FakeBackend) -> Vec<Event> {
    let mut events: Vec<_> = backend.log_records().into_iter().map(Event).collect();
    events.sort_by_key(|event| {
        let revision = event.int("spanscore.evaluation.revision");
        (event.0.trace_id.clone(), revision, event.name().to_owned(), event.0.span_id.clone())
    });
    events
}

/// An event that came to the backend.
#[derive(Clone, Debug)]
pub(crate) struct Event(pub(crate) LogRecord);

impl Event {
    /// A text of it; empty when it has none.
    pub(crate) fn text(&self, key: &str) -> &str {
        match attribute(&self.0.attributes, key) {
            Some(Value::StringValue(text)) => text,
            _ => "",
        }
    }

    pub(crate) fn int(&self, key: &str) -> i64 {
        match attribute(&self.0.attributes, key) {
            Some(Value::IntValue(number)) => *number,
            other => panic!("{key} is {other:?}"),
        }
    }

    /// The evaluator.
    pub(crate) fn name(&self) -> &str {
        self.text("gen_ai.evaluation.name")
    }

    pub(crate) fn id(&self) -> &str {
        self.text("spanscore.evaluation.id")
    }

    pub(crate) fn score(&self) -> Option<f64> {
        match attribute(&self.0.attributes, "gen_ai.evaluation.score.value") {
            Some(Value::DoubleValue(score)) => Some(*score),
            _ => None,
        }
    }

    pub(crate) fn label(&self) -> &str {
        self.text("gen_ai.evaluation.score.label")
    }

    pub(crate) fn completion(&self) -> &str {
        self.text("spanscore.evaluation.completion")
    }

    pub(crate) fn revision(&self) -> i64 {
        self.int("spanscore.evaluation.revision")
    }

    /// The first byte of the trace's id: the tests' traces are told apart by it.
    pub(crate) fn trace(&self) -> u8 {
        self.0.trace_id[0]
    }

    /// The first byte of the span's id.
    pub(crate) fn span(&self) -> u8 {
        self.0.span_id[0]
    }
}
