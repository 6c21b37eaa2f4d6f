//! `spanscore gateway`: OTLP in, messages to Kafka out.

use clap::Args;
use tokio::runtime::Builder;
use tokio_util::sync::CancellationToken;

use super::StopWatch;
use super::descriptors::open_files_max;
use crate::cli::signals::StopSignals;
use crate::cli::source::ConfigArgs;
use crate::cli::{CommandError, Exit, output, started};
use crate::config::{BUILD, GatewayConfig};
use spanscore_gateway::{Gateway, GatewaySettings};
use spanscore_telemetry::{Addresses, start_logs};

/// Open files of the process other than senders' connections: brokers, endpoints, certificates.
const RESERVED_FILES: u64 = 512;

/// Runs the gateway: receives OTLP and writes it to a Kafka topic, keyed by trace id
///
/// A request is split by trace, and acknowledged once the brokers have all of it. The gateway
/// judges nothing and stores nothing: while the brokers are away, senders are told to retry.
/// Collectors read the topic with `receivers.kafka`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  spanscore gateway --config gateway.yaml
  spanscore gateway --set kafka.brokers='[kafka:9092]' --set kafka.topic=otlp_spans
  spanscore gateway --config gateway.yaml --check")]
pub(in crate::cli) struct GatewayArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Checks the config and ends
    #[arg(long)]
    check: bool,
}

pub(in crate::cli) fn run(args: &GatewayArgs) -> Result<Exit, CommandError> {
    let loaded = args.config.load_without_built_in()?;
    let mut settings = GatewayConfig::resolve(&loaded)?;
    if args.check {
        if let Some(missing) = spanscore_kafka::missing_client() {
            output::note(format_args!("`kafka`: {missing}"));
        }
        output::line(format_args!("{}: ok", args.config.name()))?;
        return Ok(Exit::Success);
    }
    start_logs(&settings.telemetry.logs).map_err(anyhow::Error::new)?;
    let connections = open_files_max().saturating_sub(RESERVED_FILES).max(1);
    let otlp = &mut settings.receivers.otlp;
    let connections = usize::try_from(connections).unwrap_or(usize::MAX);
    otlp.max_connections = otlp.max_connections.min(connections);
    let runtime = started(&mut Builder::new_multi_thread())?;
    let watch = StopWatch::new(&runtime, settings.shutdown_timeout.0)?;
    let served = runtime.block_on(serve(&settings, watch.signals));
    runtime.shutdown_background();
    served.map(|()| Exit::Success)
}

async fn serve(settings: &GatewaySettings, mut signals: StopSignals) -> Result<(), CommandError> {
    let gateway = Gateway::start(settings, BUILD).await.map_err(anyhow::Error::new)?;
    let Addresses { grpc, http, metrics, health, .. } = gateway.addresses();
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        topic = %settings.kafka.topic,
        grpc = grpc.map(tracing::field::display),
        http = http.map(tracing::field::display),
        metrics = metrics.map(tracing::field::display),
        health = health.map(tracing::field::display),
        "gateway started"
    );
    signals.stop().await;
    tracing::info!("told to stop: requests under way get their answers");
    let hurry = CancellationToken::new();
    let stopping = gateway.shutdown(&hurry);
    tokio::pin!(stopping);
    tokio::select! {
        () = stopping.as_mut() => return Ok(()),
        () = signals.stop() => hurry.cancel(),
    }
    stopping.await;
    Ok(())
}
