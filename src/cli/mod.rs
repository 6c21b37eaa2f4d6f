//! Command line: arguments in, text and an exit code out.
//!
//! Each command is a module with its arguments and a `run`. Work beyond reading arguments and
//! printing is in the stages and in [`pipeline`](spanscore_pipeline).

mod calibrate;
mod check;
mod exit_code;
mod generated;
mod inputs;
mod inspect;
mod kinds;
mod learn;
mod mcp;
mod output;
mod recorded;
mod rejudge;
mod run;
mod score;
mod send;
mod serve;
mod signals;
mod source;
mod stored;

use std::backtrace::{Backtrace, BacktraceStatus};
use std::ffi::OsString;
use std::panic::PanicHookInfo;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};

use anyhow::Context;
pub use exit_code::Exit;
use tokio::runtime::{Builder, Runtime};

use self::output::misuse::explained;
use crate::config::{self, ConfigError};
use spanscore_base::visible;
use spanscore_telemetry::flush_stderr;

/// Longest wait at the end for the reader of standard error.
const LAST_LINES_TIME: Duration = Duration::from_millis(500);

/// Text of `--version`: the version, then the build.
const LONG_VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (commit ",
    env!("SPANSCORE_BUILD_COMMIT"),
    ", ",
    env!("SPANSCORE_BUILD_TARGET"),
    ", ",
    env!("SPANSCORE_BUILD_PROFILE"),
    ", ",
    env!("SPANSCORE_BUILD_RUSTC"),
    ")"
);

/// Scores the tool use of AI agents from their OpenTelemetry traces.
///
/// Without a command, spanscore runs the collector: agents send OTLP to 127.0.0.1:4317 (gRPC) or
/// 127.0.0.1:4318 (HTTP), and scores appear here and on http://127.0.0.1:8888/metrics.
#[derive(Parser, Debug)]
#[command(
    name = "spanscore",
    version,
    long_version = LONG_VERSION,
    after_help = exit_code::HELP,
    args_conflicts_with_subcommands = true
)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: serve::ServeArgs,
}

#[derive(Subcommand, Debug)]
enum Command {
    Serve(serve::ServeArgs),
    Gateway(serve::gateway::GatewayArgs),
    Run(run::RunArgs),
    Record(run::record::RecordArgs),
    Score(score::ScoreArgs),
    Inspect(inspect::InspectArgs),
    Scores(stored::scores::ScoresArgs),
    Show(stored::show::ShowArgs),
    Compare(stored::compare::CompareArgs),
    Backfill(stored::backfill::BackfillArgs),
    Tail(stored::tail::TailArgs),
    Export(stored::export::ExportArgs),
    Open(serve::open::OpenArgs),
    Calibrate(calibrate::CalibrateArgs),
    Rejudge(rejudge::RejudgeArgs),
    Mcp(mcp::McpArgs),
    Init(learn::init::InitArgs),
    Learn(learn::LearnArgs),
    Check(check::CheckArgs),
    Send(send::SendArgs),
    Certs(send::certs::CertsArgs),
    Evaluators(kinds::evaluators::EvaluatorsArgs),
    Exporters(kinds::ExportersArgs),
    Receivers(kinds::ReceiversArgs),
    /// Prints the JSON Schema of the config, for editors and checks
    Schema,
    Completions(generated::completions::CompletionsArgs),
    Docs(generated::pages::DocsArgs),
    #[command(name = "man")]
    Manual(generated::manual::ManualArgs),
}

/// Error that ends a command.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    /// The arguments are inconsistent.
    #[error("{0}")]
    Usage(String),
    /// The config is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A failure at run time.
    #[error(transparent)]
    Runtime(#[from] anyhow::Error),
}

/// Returns an error for inconsistent arguments.
fn misused<T>(text: impl Into<String>) -> Result<T, CommandError> {
    Err(CommandError::Usage(text.into()))
}

/// Starts a runtime with clock and network.
fn started(builder: &mut Builder) -> anyhow::Result<Runtime> {
    builder.enable_all().build().context("cannot start the runtime")
}

/// Fails if an output file exists and may not be replaced.
fn check_absent<'p>(
    mut paths: impl Iterator<Item = &'p Path>,
    force: bool,
) -> Result<(), CommandError> {
    match paths.find(|path| path.is_dir() || (!force && path.symlink_metadata().is_ok())) {
        Some(path) if path.is_dir() => {
            misused(format!("{} is a folder: name a file in it", path.display()))
        }
        Some(path) => misused(format!("{} is there: add --force to replace it", path.display())),
        None => Ok(()),
    }
}

/// Runs the program with its arguments; the first is its name.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    std::panic::set_hook(Box::new(report_panic));
    let args: Vec<OsString> = args.into_iter().collect();
    let cli = match Cli::try_parse_from(&args) {
        Ok(cli) => cli,
        Err(error) => return usage(&explained(error, Cli::command(), &args)).into(),
    };
    let exit = command(cli).unwrap_or_else(|failure| report(&failure));
    flush_stderr(LAST_LINES_TIME);
    exit.into()
}

fn command(cli: Cli) -> Result<Exit, CommandError> {
    match cli.command.unwrap_or(Command::Serve(cli.serve)) {
        Command::Serve(args) => serve::run(&args),
        Command::Gateway(args) => serve::gateway::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Record(args) => run::record::run(&args),
        Command::Score(args) => score::run(&args),
        Command::Inspect(args) => inspect::run(&args),
        Command::Scores(args) => stored::scores::run(&args),
        Command::Show(args) => stored::show::run(&args),
        Command::Compare(args) => stored::compare::run(&args),
        Command::Backfill(args) => stored::backfill::run(&args),
        Command::Tail(args) => stored::tail::run(&args),
        Command::Export(args) => stored::export::run(&args),
        Command::Open(args) => serve::open::run(&args),
        Command::Calibrate(args) => calibrate::run(&args),
        Command::Rejudge(args) => rejudge::run(&args),
        Command::Mcp(args) => mcp::run(&args),
        Command::Init(args) => learn::init::run(&args),
        Command::Learn(args) => learn::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Send(args) => send::run(&args),
        Command::Certs(args) => send::certs::run(&args),
        Command::Evaluators(args) => kinds::evaluators::run(&args),
        Command::Exporters(args) => kinds::exporters(&args),
        Command::Receivers(args) => kinds::receivers(&args),
        Command::Schema => schema(),
        Command::Completions(args) => generated::completions::run(&args),
        Command::Docs(args) => generated::pages::run(&args),
        Command::Manual(args) => generated::manual::run(&args),
    }
}

fn schema() -> Result<Exit, CommandError> {
    let schema = serde_json::to_string_pretty(&config::schema()).map_err(anyhow::Error::new)?;
    output::line(schema)?;
    Ok(Exit::Success)
}

/// Prints help, version or a usage error of clap; the first two are no errors.
fn usage(error: &clap::Error) -> Exit {
    // A broken pipe while printing help is not an error.
    let _ = error.print();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Exit::Success,
        _ => Exit::Usage,
    }
}

/// Prints a panic like the standard library, with its message escaped, since a panic about a bad
/// slice quotes the whole text.
fn report_panic(info: &PanicHookInfo<'_>) {
    let thread = std::thread::current();
    output::note(format_args!("thread '{}' {info}", thread.name().unwrap_or("<unnamed>")));
    let backtrace = Backtrace::capture();
    if backtrace.status() == BacktraceStatus::Captured {
        output::note(backtrace);
    }
    // The process may end with it.
    flush_stderr(LAST_LINES_TIME);
}

fn report(failure: &CommandError) -> Exit {
    match failure {
        CommandError::Usage(message) => {
            let message = visible::line(message);
            output::note(format_args!("error: {message}\n\nFor more information, try '--help'."));
            Exit::Usage
        }
        CommandError::Config(error) => {
            let count = error.problems.len();
            let mistakes = if count == 1 { "mistake" } else { "mistakes" };
            output::note(format_args!("{error}\n\nerror: {count} {mistakes} in the config"));
            Exit::Config
        }
        CommandError::Runtime(error) => {
            output::note(format_args!("error: {}", visible::line(format_args!("{error:#}"))));
            Exit::Failure
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn arguments_do_not_contradict_each_other() {
        super::Cli::command().debug_assert();
    }
}
