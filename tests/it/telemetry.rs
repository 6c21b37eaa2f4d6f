//! Our own metrics and health, as scrapers and probes meet them.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::intake::Harness;
use spanscore::telemetry::{HealthSettings, MetricsSettings, Telemetry, TelemetrySettings};

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
    meter.u64_counter("spanscore.stage.items").with_unit("{item}").build().add(1, &[]);
    meter.u64_counter("spanscore.stage.read").with_unit("By").build().add(1, &[]);
    meter.f64_histogram("spanscore.stage.time").with_unit("s").build().record(1.0, &[]);
    meter.u64_gauge("spanscore.stage.open").with_unit("{trace}").build().record(1, &[]);
    let (status, text) = get(telemetry.metrics_address(), "/metrics").await;
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
            "target_info gauge",
        ]
    );
    assert!(!text.contains("otel_scope"), "{text}");
}

#[tokio::test]
async fn readiness_shows_where_probes_look() {
    let telemetry = Telemetry::start(&settings()).await.unwrap();
    let health = telemetry.health_address();
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
    second.metrics.endpoint = first.metrics_address().map(|address| address.to_string());
    let error = Telemetry::start(&second).await.err().unwrap().to_string();
    assert!(error.contains("telemetry.metrics.endpoint"), "{error}");
}

#[tokio::test]
async fn silent_peers_keep_neither_scrapes_nor_probes_away() {
    let telemetry = Telemetry::start(&settings()).await.unwrap();
    let address = telemetry.metrics_address().unwrap();
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
