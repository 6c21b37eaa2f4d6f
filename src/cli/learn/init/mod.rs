//! `spanscore init`: writes a first config with comments.

mod proposal;

use std::path::PathBuf;

use clap::Args;

use self::proposal::Proposal;
use crate::cli::learn::write_own;
use crate::cli::source::ConfigArgs;
use crate::cli::{CommandError, Exit, check_absent, inputs, output};
use crate::config::{self, ConfigPart, ResolvedConfig};
use spanscore_base::visible;

/// Writes a first config with comments, which `check` accepts
///
/// With `--from`, the config has evaluators for recorded runs: those that can judge them, with
/// their scores; limits on the calls of each tool; and a dialect for spans that no dialect reads.
/// Runs whose root span failed are left out. Review the config: it records what the agent does, not
/// what it should do.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  spanscore init
  spanscore init --from good/*.jsonl --output shop.yaml
  spanscore check spanscore.yaml")]
pub(in crate::cli) struct InitArgs {
    /// Recorded runs for the evaluators: files, folders or patterns. May be repeated
    #[arg(long, value_name = "RECORDING", num_args = 1..)]
    from: Vec<PathBuf>,
    /// File to write
    #[arg(short, long, value_name = "FILE", default_value = "spanscore.yaml")]
    output: PathBuf,
    /// Overwrites an existing file
    #[arg(long)]
    force: bool,
}

/// First lines of every written config.
const HEAD: &str = "\
# The config of spanscore: what it leaves out is as in the built-in one (`spanscore docs config`).
#
#   spanscore check FILE                finds mistakes, with their place
#   spanscore score --config FILE RUNS  judges recorded runs
#   spanscore --config FILE             judges what agents send
#   spanscore evaluators [KIND]         lists the kinds of evaluators, or the settings of one
";

/// Evaluators of a config without a recording.
const EVALUATORS: &str = "
evaluators:
  # The share of tool calls that succeeded.
  tool_error:
  # The share of tool calls that repeat no earlier one.
  tool_efficiency:

  # What is expected of some runs:
  # tool_call_args/refund:            # kind/name
  #   when: agent_name == \"refunds\"   # which runs; `spanscore docs evaluators`
  #   subset: true
  #   criteria: {tool_calls: [{name: issue_refund, args: {order: \"A-17\"}}]}
";

/// Sections after the evaluators.
const TAIL: &str = "
# Where scores go, beside the dashboard at http://127.0.0.1:8890:
exporters:
  console:
  prometheus:
  # otlp_http/backend:
  #   endpoint: http://127.0.0.1:4319

# Folder of what must survive the process:
# data_dir: /var/lib/spanscore
";

pub(in crate::cli) fn run(args: &InitArgs) -> Result<Exit, CommandError> {
    let path = visible::line(args.output.display()).to_string();
    check_absent([&*args.output].into_iter(), args.force)?;
    let mut is_broken = false;
    let mut text = HEAD.to_owned();
    if args.from.is_empty() {
        text.push_str(EVALUATORS);
    } else {
        let plan = ConfigArgs::default().plan()?;
        let proposal = Proposal::new(&plan, &inputs::expand(&args.from)?)?;
        is_broken = proposal.is_broken;
        text.push_str(&proposal.to_string());
    }
    text.push_str(TAIL);
    let part = ConfigPart::Text { name: path.clone(), text: text.clone() };
    ResolvedConfig::new(&config::load(&[part], &|_| None)?)?;
    write_own(&args.output, &text)?;
    output::note(format_args!("wrote {path}; check it: spanscore check {path}"));
    Ok(if is_broken { Exit::Failure } else { Exit::Success })
}
