//! `spanscore serve`: the collector.

mod descriptors;
pub(super) mod gateway;
pub(super) mod open;
mod overdue;
pub(super) mod probing;
mod reloads;

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use clap::Args;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use self::descriptors::DescriptorBudget;
use self::overdue::ShutdownWatch;
use self::probing::{UnreachedEvaluator, check_external};
use self::reloads::Reloads;
use super::signals::StopSignals;
use super::source::ConfigArgs;
use super::{CommandError, Exit, output, started};
use crate::config::{Config, ResolvedConfig};
use spanscore_api::LocalAccess;
use spanscore_base::visible;
use spanscore_pipeline::{Collector, ShutdownReport};
use spanscore_telemetry::{Addresses, LogFormat, start_logs};

/// Runs the collector: receives OTLP and exports scores (also the default without a command)
///
/// SIGTERM or SIGINT stops the collector: it accepts no more spans, judges the open traces and
/// flushes the exporters, within `shutdown_timeout`. A second signal ends it at once. If that loses
/// data, the exit code is 3 and the last line says how much.
///
/// SIGHUP reloads the config. Evaluators, datasets, dialects, exporters, forwards, judges, limits,
/// clients, tokens and certificates change without a restart, and open traces stay open. A config
/// with a mistake is reported and not used. Changes that require a restart are reported, too.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  spanscore
  spanscore serve --config spanscore.yaml
  spanscore serve --config spanscore.yaml --watch
  spanscore serve --set receivers.otlp.protocols.grpc.endpoint=127.0.0.1:14317")]
pub(super) struct ServeArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Reloads the config when one of its files, a dataset or a file of tools changes
    #[arg(long)]
    watch: bool,
}

pub(super) fn run(args: &ServeArgs) -> Result<Exit, CommandError> {
    let loaded = args.config.load()?;
    let mut plan = ResolvedConfig::new(&loaded)?;
    start_logs(&plan.config.telemetry.logs).map_err(anyhow::Error::new)?;
    tracing::info!(
        memory_mib = plan.config.limits.memory_mib.mib(),
        container_mib = plan.container_memory.map(|bytes| bytes >> 20),
        "limit of memory"
    );
    let budget = DescriptorBudget::apply(&mut plan);
    tracing::info!(
        open_files_max = budget.limit,
        reserved = budget.reserve,
        connections_max = budget.connections,
        "limit of open files"
    );
    let runtime = started(&mut Builder::new_multi_thread())?;
    let reloads = Reloads::new(args.config.clone(), loaded, args.watch);
    let is_json = plan.config.telemetry.logs.format == LogFormat::Json;
    let watch = StopWatch::new(&runtime, plan.config.shutdown_timeout.0)?;
    let lost = runtime.block_on(serve(plan, reloads, watch));
    // Blocking work that outlives the orderly shutdown is not awaited.
    runtime.shutdown_background();
    Ok(report_end(&lost?, is_json))
}

/// Reports the kept and lost work of a shutdown, as lines for people or as log records.
fn report_end(lost: &ShutdownReport, is_json: bool) -> Exit {
    match lost.kept() {
        Some(kept) if is_json => tracing::info!(kept, "kept in the log for the next start"),
        Some(kept) => output::note(format_args!("kept in the log for the next start: {kept}")),
        None => {}
    }
    if lost.is_nothing() {
        return Exit::Success;
    }
    if is_json {
        tracing::warn!(%lost, "lost at shutdown")
    } else {
        output::note(format_args!("lost at shutdown: {lost}"))
    }
    Exit::Lost
}

async fn serve(
    plan: ResolvedConfig,
    mut reloads: Reloads,
    watch: StopWatch,
) -> Result<ShutdownReport, CommandError> {
    let exporters = plan.exporters.iter().map(|exporter| exporter.name.clone()).collect();
    let kafka = plan.config.receivers.kafka.iter().flat_map(|kafka| kafka.topics());
    let topics = kafka.map(str::to_owned).collect();
    let schemes = schemes(&plan.config);
    let is_json = plan.config.telemetry.logs.format == LogFormat::Json;
    let StopWatch { mut signals, overdue } = watch;
    let mut hangup = signal(SignalKind::hangup()).map_err(anyhow::Error::new)?;
    for UnreachedEvaluator { evaluator, why } in check_external(reloads.loaded(), &plan).await? {
        tracing::warn!(%evaluator, %why, "could not be asked whether it takes its settings");
    }
    let collector = Collector::start(plan.into()).await.map_err(anyhow::Error::new)?;
    let Addresses { grpc, http, metrics, dashboard, .. } = collector.addresses();
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        commit = env!("SPANSCORE_BUILD_COMMIT"),
        grpc = grpc.map(tracing::field::display),
        http = http.map(tracing::field::display),
        metrics = metrics.map(tracing::field::display),
        dashboard = dashboard.map(tracing::field::display),
        "started"
    );
    // A program that parses JSON lines would fail on a greeting for people.
    if !is_json {
        let pages = collector.pages().map(|pages| pages_address(pages, &reloads)).transpose();
        let pages = pages.map_err(anyhow::Error::new)?;
        let url = |at: Option<SocketAddr>, scheme| at.map(|at| format!("{scheme}://{at}"));
        let [grpc, http] = [url(grpc, schemes[0]), url(http, schemes[1])];
        let metrics = url(metrics, schemes[2]);
        let ready = Ready { grpc, http, metrics, pages, exporters, topics };
        ready.lines().into_iter().for_each(output::note);
    }
    for address in [grpc, http].into_iter().flatten().filter(|it| it.ip().is_unspecified()) {
        tracing::warn!(%address, "listens on all addresses: whoever reaches them can send");
    }
    loop {
        tokio::select! {
            biased;
            () = signals.stop() => break,
            _ = hangup.recv() => reloads.reload(&collector).await,
            () = reloads.changed() => reloads.reload(&collector).await,
        }
        overdue.set(collector.shutdown_timeout());
    }
    tracing::info!("told to stop: open traces are judged, exporters deliver what they hold");
    let hurry = CancellationToken::new();
    let mut stopping = pin!(collector.shutdown(&hurry));
    tokio::select! {
        lost = stopping.as_mut() => Ok(lost),
        () = signals.stop() => {
            tracing::warn!("told to stop again: what is not judged and delivered is given up");
            hurry.cancel();
            Ok(stopping.await)
        }
    }
}

/// Returns the address of the pages. On a terminal it is a login link for one use; elsewhere lines
/// are stored, and read by others.
fn pages_address(pages: &LocalAccess, reloads: &Reloads) -> std::io::Result<String> {
    if std::io::stderr().is_terminal() {
        return pages.link();
    }
    let files = reloads.files().iter().map(|file| format!(" -c {}", file.display()));
    let files = visible::line(files.collect::<String>()).to_string();
    Ok(format!("{} (to log in: spanscore open{files})", pages.url()))
}

/// Signals that stop the collector, and the watchdog of its shutdown.
struct StopWatch {
    signals: StopSignals,
    overdue: ShutdownWatch,
}

impl StopWatch {
    fn new(runtime: &Runtime, timeout: Duration) -> anyhow::Result<Self> {
        // In this order, so that the watchdog sees no signal alone.
        let signals = StopSignals::on(runtime)?;
        Ok(Self { signals, overdue: ShutdownWatch::start(timeout)? })
    }
}

/// Returns the schemes of the ports for gRPC, HTTP and metrics.
fn schemes(config: &Config) -> [&'static str; 3] {
    let protocols = config.receivers.otlp.as_ref().map(|otlp| &otlp.protocols);
    let grpc = protocols.and_then(|it| it.grpc.as_ref()?.tls.as_ref());
    let http = protocols.and_then(|it| it.http.as_ref()?.tls.as_ref());
    let tls = [grpc, http, config.telemetry.metrics.tls.as_ref()];
    tls.map(|tls| if tls.is_some() { "https" } else { "http" })
}

/// Addresses of a running collector, for the greeting.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ready {
    /// OTLP/gRPC.
    pub(crate) grpc: Option<String>,
    /// OTLP/HTTP.
    pub(crate) http: Option<String>,
    /// Prometheus metrics.
    pub(crate) metrics: Option<String>,
    /// Address of the pages of the store.
    pub(crate) pages: Option<String>,
    /// Names of the exporters in the config.
    pub(crate) exporters: Vec<String>,
    /// Topics of Kafka that are read.
    pub(crate) topics: Vec<String>,
}

impl Ready {
    /// Formats the greeting: the pages, the address for agents, the outputs of scores, and a sample
    /// command.
    pub(crate) fn lines(&self) -> Vec<String> {
        let first = self.http.as_ref().or(self.grpc.as_ref());
        let door = match (&self.http, &self.grpc) {
            (Some(http), Some(grpc)) => format!("{http} (gRPC: {grpc})"),
            (Some(http), None) => http.clone(),
            (None, Some(grpc)) => format!("{grpc} (gRPC only)"),
            (None, None) => "(no receiver is on)".to_owned(),
        };
        let metrics = self.metrics.as_ref().map(|url| format!("{url}/metrics"));
        let has_door = first.is_some() || self.topics.is_empty();
        let agents = has_door.then(|| format!("agents: OTEL_EXPORTER_OTLP_ENDPOINT={door}"));
        let topics = self.topics.join(", ");
        let topics = (!topics.is_empty()).then(|| format!("Kafka: {topics}"));
        // A scraped exporter is listed by its URL.
        let is_scraped = |name: &&String| name.starts_with("prometheus");
        let has_scraped = metrics.is_some() && self.exporters.iter().any(|it| is_scraped(&it));
        let exporters = self.exporters.iter().filter(|name| !(has_scraped && is_scraped(name)));
        let mut shown: Vec<String> = exporters.cloned().collect();
        shown.extend(metrics.clone().filter(|_| has_scraped));
        let scores = (!shown.is_empty()).then(|| format!("scores: {}", shown.join(", ")));
        let pages = self.pages.as_ref().map(|way| format!("pages: {way}"));
        let metrics = metrics.filter(|_| !has_scraped).map(|url| format!("metrics: {url}"));
        let sample = first.map(|url| sample(url));
        let inputs = pages.into_iter().chain(agents).chain(topics);
        inputs.chain(scores).chain(metrics).chain(sample).collect()
    }
}

/// Formats the command that sends a sample run to an address.
fn sample(url: &str) -> String {
    let is_default = [4317, 4318].iter().any(|port| url == format!("http://127.0.0.1:{port}"));
    let endpoint = if is_default { String::new() } else { format!(" --endpoint {url}") };
    let ca = if url.starts_with("https:") { " --ca CA_FILE" } else { "" };
    format!("try it: spanscore send --sample{endpoint}{ca}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greeting_says_where_to_look_and_where_to_point_an_agent() {
        let at = |port| Some(format!("http://127.0.0.1:{port}"));
        let ready = Ready {
            grpc: at(4317),
            http: at(4318),
            metrics: at(8888),
            pages: Some("http://127.0.0.1:8890/".into()),
            exporters: vec!["console".into(), "prometheus".into()],
            topics: Vec::new(),
        };
        insta::assert_snapshot!(ready.lines().join("\n"), @r"
        pages: http://127.0.0.1:8890/
        agents: OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318 (gRPC: http://127.0.0.1:4317)
        scores: console, http://127.0.0.1:8888/metrics
        try it: spanscore send --sample
        ");
        let of_topics = Ready { topics: vec!["otlp".into()], ..Ready::default() };
        assert_eq!(of_topics.lines(), ["Kafka: otlp"]);
        let elsewhere = Ready { http: at(5000), ..Ready::default() };
        insta::assert_snapshot!(elsewhere.lines().join("\n"), @r"
        agents: OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:5000
        try it: spanscore send --sample --endpoint http://127.0.0.1:5000
        ");
        let http = Some("https://127.0.0.1:4318".to_owned());
        let elsewhere = Ready { http, metrics: at(8888), ..Ready::default() };
        insta::assert_snapshot!(elsewhere.lines().join("\n"), @r"
        agents: OTEL_EXPORTER_OTLP_ENDPOINT=https://127.0.0.1:4318
        metrics: http://127.0.0.1:8888/metrics
        try it: spanscore send --sample --endpoint https://127.0.0.1:4318 --ca CA_FILE
        ");
    }
}
