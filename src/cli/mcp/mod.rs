//! `spanscore mcp`: serves recorded traces and their scores to assistants, over the Model Context
//! Protocol.
//!
//! [`load`] reads and judges the files into a [`store`]. [`server`] handles the protocol and passes
//! each call to [`files`], whose [`answers`] select by [`matching`], or to [`stored`], which
//! queries a collector's store. [`asking`] asks judges, if allowed. [`trim`] bounds every answer.

mod answers;
mod asking;
mod files;
mod load;
mod matching;
mod server;
mod store;
mod stored;
mod summary;
mod tools;
mod trim;

use std::path::{Path, PathBuf};

use clap::Args;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::io::stdio_pipes;
use tokio::runtime::Builder;

use self::asking::JudgeAsking;
use self::files::FileRuns;
use self::load::LoadPlan;
use self::server::TraceServer;
use self::stored::StoredRuns;
use super::score::replies::{CommandJudges, RepliesArgs};
use super::source::ConfigArgs;
use super::{CommandError, Exit, inputs, misused, started};
use spanscore_emit::ShownContent;

/// Limit on a client's message, bytes; a longer one is refused.
const MESSAGE_BYTES_MAX: usize = 1 << 20;

/// Serves recorded traces and their scores to an assistant over the Model Context Protocol
///
/// Uses standard input and output, for assistants that start the command themselves. Reads and
/// judges the same files as `score`, once at the start. Tools: `summarize`, `list_evaluators`,
/// `query_evaluations` and `get_trajectory`. With `--allow-evaluate` also `evaluate`, which sends
/// requests to judges and may cost money. Nothing else is changed or sent.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  spanscore mcp --config eval.yaml traces.jsonl
  spanscore mcp --store /var/lib/spanscore/scores.db
  claude mcp add spanscore -- spanscore mcp --config /path/eval.yaml /path/runs/")]
pub(super) struct McpArgs {
    /// Files, folders or patterns to read
    #[arg(value_name = "FILE", required_unless_present = "store")]
    files: Vec<PathBuf>,
    /// Reads the store of a collector instead of files, even while the collector runs
    #[arg(long, value_name = "FILE", conflicts_with_all = ["files", "allow_evaluate"])]
    store: Option<PathBuf>,
    #[command(flatten)]
    config: ConfigArgs,
    /// Content that the assistant sees, such as arguments and results: none, redacted, full
    #[arg(
        long,
        value_name = "WORD",
        default_value = "redacted",
        value_parser = ShownContent::from_word
    )]
    content: ShownContent,
    /// Offers the tool `evaluate`, with which the assistant sends requests to judges
    #[arg(long)]
    allow_evaluate: bool,
    #[command(flatten)]
    replies: RepliesArgs,
}

pub(super) fn run(args: &McpArgs) -> Result<Exit, CommandError> {
    if args.files.iter().any(|file| file == Path::new("-")) {
        return misused("the assistant uses standard input, so `-` cannot be read: name a file");
    }
    let server = match &args.store {
        Some(path) => TraceServer::new(StoredRuns::open(path, args.content)?, false),
        None => of_files(args)?,
    };
    let runtime = started(Builder::new_multi_thread().worker_threads(1))?;
    let served = runtime.block_on(serve(server));
    runtime.shutdown_background();
    served?;
    Ok(Exit::Success)
}

/// Returns a server of files, which it reads and judges after its start.
fn of_files(args: &McpArgs) -> Result<TraceServer, CommandError> {
    let plan = args.config.plan()?;
    let files = inputs::expand(&args.files)?;
    let judges = || CommandJudges::new(plan.config.judges.clone(), &args.replies);
    let asking = args.allow_evaluate.then(|| JudgeAsking::new(judges()));
    let asks = args.allow_evaluate;
    let load = LoadPlan { plan, files, shown: args.content, keeps_inquiries: asks };
    Ok(TraceServer::new(FileRuns::new(load, asking), asks))
}

/// Serves until the client disconnects.
async fn serve(server: TraceServer) -> anyhow::Result<()> {
    server.begin_loading();
    let (read, write) = stdio_pipes();
    let transport =
        AsyncRwTransport::new_server(read, write).with_max_line_length(MESSAGE_BYTES_MAX);
    match rmcp::serve_server(server, transport).await {
        Ok(service) => {
            service.waiting().await?;
            Ok(())
        }
        // A client that disconnects before its handshake is not an error.
        Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => Ok(()),
        Err(error) => Err(anyhow::anyhow!("failed to begin with the client: {error}")),
    }
}
