//! `spanscore run -- COMMAND`: a collector around one command, and its scores.

mod child;
pub(super) mod record;
mod recorder;
pub(super) mod recording;
mod variables;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use tokio::runtime::Builder;

use self::child::{NotStarted, PassedSignals};
use self::recorder::Recorder;
use super::score::replies::RepliesArgs;
use super::score::{self, GateArgs};
use super::source::ConfigArgs;
use super::{CommandError, Exit, output, started};
use crate::cli::run::recording::{RecordingCounts, RecordingWatch};
use spanscore_base::visible;
use spanscore_extract::TraceExplanation;

/// Runs a command, receives its telemetry and prints the scores
///
/// Listens for OTLP over gRPC and HTTP on a free port of the loopback address, and sets the
/// OpenTelemetry variables of the command. When the command and its telemetry have ended, it judges
/// the traces like `score`. Signals are passed to the command. The receivers and exporters of the
/// config are not used.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  spanscore run -- python agent.py
  spanscore run --open -- python agent.py
  spanscore run --config eval.yaml -- pytest tests/agent
  spanscore run --record run.jsonl --format junit --output scores.xml -- npm test

Set for the command: OTEL_EXPORTER_OTLP_ENDPOINT; where they are not set yet
OTEL_EXPORTER_OTLP_PROTOCOL, OTEL_TRACES_EXPORTER, OTEL_LOGS_EXPORTER, OTEL_METRICS_EXPORTER,
OTEL_BSP_SCHEDULE_DELAY, OTEL_SERVICE_NAME, OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT,
PHOENIX_COLLECTOR_ENDPOINT, TRACELOOP_BASE_URL. Endpoints of single signals and
certificates for the endpoint are unset.

Ends with the command's exit code when that is not 0 (128 and the number of the signal that ended
it; 127 when there is no such command), else with that of `score`.")]
pub(super) struct RunArgs {
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    gate: GateArgs,
    /// Writes the received requests to this file, one OTLP/JSON request per line, for `score`,
    /// `send` and `receivers.file`
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Shows on standard error what each request contains, like `inspect --explain`
    #[arg(long)]
    explain: bool,
    /// Time without telemetry after the end of the command, in seconds, after which the traces are
    /// judged
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    wait: f64,
    /// Command and its arguments
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true)]
    command: Vec<OsString>,
}

/// Longest such wait, seconds.
const WAIT_MAX: f64 = 3600.0;

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds")?;
    if (0.0..=WAIT_MAX).contains(&seconds) {
        Ok(seconds)
    } else {
        Err(format!("must be between 0 and {WAIT_MAX}"))
    }
}

pub(super) fn run(args: &RunArgs) -> Result<Exit, CommandError> {
    let plan = args.config.plan()?;
    let gate = args.gate.prepare()?;
    score::check_open(&plan, &gate)?;
    let watch =
        if args.explain { Some(record::explaining(&plan, print_explanation)?) } else { None };
    let folder = tempfile::Builder::new().prefix("spanscore-run").tempdir();
    let folder = folder.context("cannot make a temporary folder")?;
    let own = folder.path().join("run.jsonl");
    let path = args.record.as_deref().unwrap_or(&own);
    let runtime = started(Builder::new_multi_thread().worker_threads(2))?;
    let ended = runtime.block_on(run_command(args, path, watch));
    runtime.shutdown_background();
    let CommandEnd { failure, counts } = match ended? {
        Ok(ended) => ended,
        Err(NotStarted { exit, error }) => {
            let name = args.command.first().map(|it| it.to_string_lossy()).unwrap_or_default();
            let text = format!("cannot run `{name}`: {error}{}", not_started(&name));
            output::note(format_args!("error: {}", visible::line(text)));
            return Ok(exit);
        }
    };
    match failure {
        _ if counts.requests > 0 => {}
        Some(exit) => output::note(format_args!(
            "spanscore: the command ended with code {} before it sent any telemetry: mend that \
             first",
            exit.code()
        )),
        None => output::note(NOTHING_CAME),
    }
    let verdict = score::judge(plan, &[path.to_owned()], &gate, &RepliesArgs::default())?;
    Ok(failure.unwrap_or(verdict))
}

/// Shell builtins without a program file.
const SHELL_WORDS: [&str; 6] = ["cd", "source", ".", "export", "alias", "set"];
/// Characters that only a shell interprets.
const SHELL_SIGNS: [char; 6] = ['&', '|', ';', '<', '>', '$'];

/// Returns the remedy for a first word that is not a program.
fn not_started(name: &str) -> String {
    let program = match Path::new(name).extension().and_then(|ending| ending.to_str()) {
        Some("py") => "python ",
        Some("js" | "mjs" | "cjs") => "node ",
        Some("ts") => "npx tsx ",
        Some("sh") => "sh ",
        _ => "",
    };
    let is_line = name.contains(' ') && !Path::new(name).exists();
    let needs_shell = SHELL_WORDS.contains(&name) || (is_line && name.contains(SHELL_SIGNS));
    let sets = |word: &str| word.split_once('=').is_some_and(|(key, _)| !key.contains('/'));
    match (is_line, program) {
        _ if name == "source" => {
            "; a shell runs that: `spanscore run -- sh -c '. FILE; ...'`".to_owned()
        }
        _ if needs_shell => "; a shell runs that: `spanscore run -- sh -c '...'`".to_owned(),
        _ if name.split(' ').next().is_some_and(sets) => {
            format!("; a variable is set by `env`: `spanscore run -- env {name} ...`")
        }
        (true, _) => format!("; a command stands without quotes: `spanscore run -- {name}`"),
        (false, "") => String::new(),
        (false, program) => {
            format!("; name the program that runs it: `spanscore run -- {program}{name}`")
        }
    }
}

/// Prints an explanation to standard error, apart from the scores.
fn print_explanation(explanation: &TraceExplanation) {
    output::note(explanation);
}

/// Advice for a command that sent nothing.
const NOTHING_CAME: &str = "\
spanscore: the command sent no telemetry. Does it set up OpenTelemetry with an OTLP exporter, and
does it flush before it ends? For Python: `pip install opentelemetry-distro
opentelemetry-exporter-otlp` and the instrumentation of its framework (`spanscore docs gate` names
it), then `spanscore run -- opentelemetry-instrument python agent.py`. An exporter whose address
stands in the code needs OTEL_EXPORTER_OTLP_ENDPOINT.";

/// End of a command, with the counts of its requests.
struct CommandEnd {
    failure: Option<Exit>,
    counts: RecordingCounts,
}

async fn run_command(
    args: &RunArgs,
    path: &Path,
    watch: Option<RecordingWatch>,
) -> anyhow::Result<Result<CommandEnd, NotStarted>> {
    let mut signals = PassedSignals::new().context("cannot take signals")?;
    let recorder = Recorder::start(path, None, watch).await?;
    let address = recorder.http().context("the receiver has no address")?;
    let changes = variables::changes(address, |name| std::env::var(name).ok());
    let mut child = match child::start(&args.command, &changes) {
        Ok(child) => child,
        Err(error) => return Ok(Err(error)),
    };
    let status = signals.wait(&mut child).await.context("cannot wait for the command")?;
    recorder.quiet(Duration::from_secs_f64(args.wait)).await;
    let counts = recorder.stop().await?;
    Ok(Ok(CommandEnd { failure: child::failure(status), counts }))
}
