//! `spanscore record`: records the requests of agents to a file.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use tokio::runtime::Builder;

use super::Recorder;
use crate::cli::run::recording::RecordingWatch;
use crate::cli::signals::StopSignals;
use crate::cli::source::ConfigArgs;
use crate::cli::{CommandError, Exit, output, recorded, started};
use crate::config::ResolvedConfig;
use spanscore_base::model::Facts;
use spanscore_base::otlp::Signal;
use spanscore_engine::replay::Replay;
use spanscore_extract::{Resolver, TraceExplanation};

/// Receives OTLP and writes the requests to a file
///
/// Listens on the addresses in `receivers` of the config (by default 127.0.0.1:4317 and 4318) until
/// SIGINT or SIGTERM. The file has one OTLP/JSON request per line, traces and logs in order of
/// arrival, for `score`, `inspect`, `send` and `receivers.file`. An existing recording is replaced;
/// any other file is not.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  spanscore record traces.jsonl
  spanscore record --explain traces.jsonl
  spanscore score traces.jsonl")]
pub(in crate::cli) struct RecordArgs {
    /// File to write
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    config: ConfigArgs,
    /// Shows on standard error what each request contains, like `inspect --explain`
    #[arg(long)]
    explain: bool,
}

pub(in crate::cli) fn run(args: &RecordArgs) -> Result<Exit, CommandError> {
    let plan = args.config.plan()?;
    // The recording continues without a reader of the output.
    let show = |explanation: &TraceExplanation| drop(output::line(explanation));
    let watch = if args.explain { Some(explaining(&plan, show)?) } else { None };
    let runtime = started(Builder::new_multi_thread().worker_threads(2))?;
    let recorded = runtime.block_on(record(args, &plan, watch));
    runtime.shutdown_background();
    recorded?;
    Ok(Exit::Success)
}

async fn record(
    args: &RecordArgs,
    plan: &ResolvedConfig,
    watch: Option<RecordingWatch>,
) -> anyhow::Result<()> {
    let mut signals = StopSignals::new()?;
    let recorder = Recorder::start(&args.file, Some(&plan.config.receivers), watch).await?;
    let file = args.file.display();
    for (protocol, address) in [("HTTP", recorder.http()), ("gRPC", recorder.grpc())] {
        if let Some(address) = address {
            output::note(format_args!(
                "agents: OTEL_EXPORTER_OTLP_ENDPOINT=http://{address} ({protocol})"
            ));
        }
    }
    output::note(format_args!("recording to {file}; Ctrl-C ends"));
    signals.stop().await;
    let counts = recorder.stop().await?;
    let requests = counts.requests;
    let items = counts.items;
    output::note(format_args!("{requests} requests with {items} items in {file}"));
    Ok(())
}

/// Returns an observer that explains each request separately; its traces may continue in the next
/// one.
pub(super) fn explaining(
    plan: &ResolvedConfig,
    show: fn(&TraceExplanation),
) -> Result<RecordingWatch, CommandError> {
    let resolver: Arc<Resolver> = Arc::new(recorded::resolver(plan, &Facts::all())?);
    let limits = plan.config.limits;
    let key = plan.config.sessions.key;
    Ok(Box::new(move |signal: Signal, body: &[u8]| {
        let mut replay = Replay::new(&resolver, limits, key);
        match replay.add(signal, body) {
            Ok(_) => replay.explain(show),
            Err(error) => output::note(format_args!("spanscore: {error}")),
        }
    }))
}
