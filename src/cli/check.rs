//! `spanscore check`: finds what is wrong with a config before it runs.

use clap::Args;

use super::source::ConfigArgs;
use super::{CommandError, Exit, output};
use crate::config::{self, ResolvedConfig};
use crate::visible;

/// Checks a config and says what it would do
///
/// Every mistake is shown with its file, line and column, and what this machine lacks, such as the
/// folder of a file. Exit code 78 if there is one.
#[derive(Args, Debug)]
#[command(
    visible_alias = "validate",
    after_help = "\
Examples:
  spanscore check --config spanscore.yaml
  spanscore check --config base.yaml --config production.yaml --print"
)]
pub(super) struct CheckArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Prints the merged config in YAML; secrets are left out, and what came from the environment
    /// stands as its reference
    #[arg(long)]
    print: bool,
}

pub(super) fn run(args: &CheckArgs) -> Result<Exit, CommandError> {
    let loaded = args.config.load()?;
    let plan = ResolvedConfig::new(&loaded)?;
    if args.print {
        output::text(&config::redacted(&loaded))?;
        return Ok(Exit::Success);
    }
    plan.check_machine(&loaded)?;
    output::line(format_args!("{}: no mistakes", visible::line(args.config.name())))?;
    for (title, lines) in plan.summary() {
        let lines = if lines.is_empty() { vec!["none".to_owned()] } else { lines };
        for (index, line) in lines.iter().enumerate() {
            let title = if index == 0 { title } else { "" };
            output::line(format_args!("  {title:<11} {}", visible::line(line)))?;
        }
    }
    Ok(Exit::Success)
}
