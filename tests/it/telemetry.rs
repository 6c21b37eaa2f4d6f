//! Our own metrics and health, as scrapers and probes meet them.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::collector::Running;
use crate::support::fake_backend::FakeBackend;
use crate::support::intake::Harness;
use crate::support::patience::{PATIENCE, eventually, once};
use crate::support::spans::{request, searches, tool};
use spanscore_telemetry::{
    BuildFacts, HealthSettings, MetricsSettings, Telemetry, TelemetrySettings,
};

fn settings() -> TelemetrySettings {
    let endpoint = Some("127.0.0.1:0".to_owned());
    TelemetrySettings {
        metrics: MetricsSettings { endpoint: endpoint.clone(), ..MetricsSettings::default() },
        health: HealthSettings { endpoint, ..HealthSettings::default() },
        ..TelemetrySettings::default()
    }
}

async fn get(address: Option<std::net::SocketAddr>, path: &str) -> (u16, String) {
    let client = crate::support::web_client().build().unwrap();
    let response = client.get(format!("http://{}{path}", address.unwrap())).send().await.unwrap();
    (response.status().as_u16(), response.text().await.unwrap())
}

#[tokio::test]
async fn metrics_have_one_spelling() {
    let telemetry = Telemetry::start(&settings()).await.unwrap();
    let meter = telemetry.meter();
    BuildFacts { version: "1", commit: "c", target: "t", rustc: "r" }.show(&meter);
    meter.u64_counter("spanscore.stage.items").with_unit("{item}").build().add(1, &[]);
    meter.u64_counter("spanscore.stage.read").with_unit("By").build().add(1, &[]);
    meter.f64_histogram("spanscore.stage.time").with_unit("s").build().record(1.0, &[]);
    meter.u64_gauge("spanscore.stage.open").with_unit("{trace}").build().record(1, &[]);
    let (status, text) = get(telemetry.addresses().metrics, "/metrics").await;
    assert_eq!(status, 200);
    let mut names: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
    // What any process shows depends on the system.
    names.retain(|name| !name.starts_with("process_"));
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "spanscore_build_info gauge",
            "spanscore_stage_items_total counter",
            "spanscore_stage_open gauge",
            "spanscore_stage_read_bytes_total counter",
            "spanscore_stage_time_seconds histogram",
            "spanscore_telemetry_dropped_lines_total counter",
            "target_info gauge",
        ]
    );
    assert!(!text.contains("otel_scope"), "{text}");
}

#[tokio::test]
async fn readiness_shows_where_probes_look() {
    let telemetry = Telemetry::start(&settings()).await.unwrap();
    let health = telemetry.addresses().health;
    assert_eq!(get(health, "/livez").await.0, 200);
    for (is_ready, expected) in [(false, 503), (true, 200), (false, 503)] {
        telemetry.readiness().set(is_ready);
        assert_eq!(get(health, "/readyz").await.0, expected);
        assert_eq!(get(health, "/").await.0, expected);
    }
}

#[tokio::test]
async fn a_taken_port_is_an_error_that_names_the_setting() {
    let first = Telemetry::start(&settings()).await.unwrap();
    let mut second = settings();
    second.metrics.endpoint = first.addresses().metrics.map(|address| address.to_string());
    let error = Telemetry::start(&second).await.err().unwrap().to_string();
    assert!(error.contains("telemetry.metrics.endpoint"), "{error}");
}

#[tokio::test]
async fn silent_peers_keep_neither_scrapes_nor_probes_away() {
    let telemetry = Telemetry::start(&settings()).await.unwrap();
    let address = telemetry.addresses().metrics.unwrap();
    let mut silent = Vec::new();
    for _ in 0..100 {
        silent.push(TcpStream::connect(address).await.unwrap());
    }
    // From here on time passes as soon as everything waits.
    tokio::time::pause();
    let mut peer = TcpStream::connect(address).await.unwrap();
    peer.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut answer = [0; 15];
    peer.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200 OK");
}

#[tokio::test]
async fn receivers_count_from_zero_in_the_names_that_dashboards_use() {
    let harness = Harness::start().await;
    let text = harness.telemetry.exposition();
    // What differs from process to process and build to build.
    let own = ["target_info", "process_", "spanscore_build_info"];
    let is_wanted =
        |line: &&str| !line.starts_with("# HELP") && !own.iter().any(|name| line.contains(name));
    let lines: Vec<_> = text.lines().filter(is_wanted).collect();
    insta::assert_snapshot!(lines.join("\n"));
}

/// The metrics that a backend got, each with the names of its attributes' values of interest.
fn reported(backend: &FakeBackend) -> Vec<String> {
    let mut names: Vec<_> = backend.metrics().into_iter().map(|metric| metric.name).collect();
    names.sort();
    names.dedup();
    names
}

#[tokio::test]
async fn own_metrics_are_reported_over_otlp_with_those_of_the_process() {
    for is_http in [false, true] {
        let backend = if is_http { FakeBackend::http().await } else { FakeBackend::grpc().await };
        let (protocol, path) = if is_http { ("http/protobuf", "/base") } else { ("grpc", "") };
        let endpoint = format!("http://{}{path}", backend.address);
        let to = format!("{{endpoint: '{endpoint}', protocol: {protocol}, interval: 50ms}}");
        let config = format!("telemetry: {{metrics: {{endpoint: null, otlp: {to}}}}}\n");
        let running = Running::start(&config).await;
        running.send(request(searches(1, &[2]))).await;
        backend.until(|backend| !backend.metrics().is_empty()).await;
        let reports = "spanscore_telemetry_reports_total{outcome=\"failed\"}";
        running.counted(reports, 0).await;
        running.counted("spanscore_evaluate_delay_seconds_count", 1).await;
        assert_eq!(running.stop().await.1, 0);
        let names = reported(&backend);
        for name in [
            "spanscore.build.info",
            "spanscore.receiver.accepted_spans",
            "spanscore.evaluate.delay",
            "spanscore.exporter.delivery_time",
            "spanscore.telemetry.reports",
            "process.memory.usage",
            "process.cpu.time",
        ] {
            assert!(names.iter().any(|have| have == name), "{name} in {names:?}");
        }
        // What was counted after the last interval stands in the last report.
        let last = backend.metric_requests().pop().unwrap();
        let resource = last.resource_metrics[0].resource.as_ref().unwrap();
        let keys = resource.attributes.iter().map(|it| it.key.as_str());
        let keys: std::collections::BTreeSet<_> = keys.collect();
        let expected = ["service.name", "service.version", "service.instance.id"];
        assert_eq!(keys, expected.into());
        let accepted = last.resource_metrics[0].scope_metrics[0].metrics.iter();
        let accepted = accepted.filter(|it| it.name == "spanscore.receiver.accepted_spans");
        assert!(format!("{:?}", accepted.collect::<Vec<_>>()).contains("AsInt(2)"));
    }
}

#[tokio::test]
async fn a_backend_of_own_metrics_that_is_away_holds_up_nothing_and_is_counted() {
    let backend = FakeBackend::dead();
    let to = format!("{{endpoint: 'http://{}', interval: 20ms}}", backend.address);
    let running = Running::start(&format!("telemetry: {{metrics: {{otlp: {to}}}}}\n")).await;
    let failed = "spanscore_telemetry_reports_total{outcome=\"failed\"} ";
    let count = |text: String| {
        let value = text.lines().find_map(|line| line.strip_prefix(failed)?.parse::<u64>().ok());
        value.unwrap_or(0)
    };
    eventually(|| once(count(running.exposition()) > 0, || "no report failed")).await;
    let began = std::time::Instant::now();
    assert_eq!(running.stop().await.1, 0);
    assert!(began.elapsed() < PATIENCE);
}

#[tokio::test]
async fn the_delay_of_scores_and_revisions_are_counted() {
    let running = Running::start("evaluators: {tool_error: }\n").await;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let mut spans = searches(1, &[2]);
    for span in &mut spans {
        span.start_time_unix_nano = now.as_nanos() as u64 - 3_000_000_000;
        span.end_time_unix_nano = now.as_nanos() as u64 - 2_600_000_000;
    }
    running.send(request(spans)).await;
    running.counted("spanscore_evaluate_delay_seconds_count", 1).await;
    // It ended 2.6 s before it was sent, and is judged within a second or two.
    running.counted("spanscore_evaluate_delay_seconds_bucket{le=\"2\"}", 0).await;
    running.counted("spanscore_evaluate_delay_seconds_bucket{le=\"30\"}", 1).await;
    running.counted("spanscore_evaluate_revised_evaluations_total", 0).await;
    running.send(request(vec![tool(1, 3, "search")])).await;
    running.counted("spanscore_evaluate_revised_evaluations_total", 1).await;
    running.counted("spanscore_evaluate_delay_seconds_count", 1).await;
    let delivered =
        "spanscore_exporter_delivery_time_seconds_count{exporter=\"otlp_grpc/backend\"}";
    running.counted(delivered, 2).await;
    assert_eq!(running.stop().await.1, 0);
}
