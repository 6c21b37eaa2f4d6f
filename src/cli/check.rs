//! `spanscore check`: finds mistakes in a config before it runs.

use std::path::PathBuf;

use clap::Args;
use tokio::runtime::Builder;

use super::serve::probing::{UnreachedEvaluator, check_external};
use super::source::ConfigArgs;
use super::{CommandError, Exit, output, started};
use crate::config::{self, ResolvedConfig};
use spanscore_base::visible;

/// Checks a config and describes what it does
///
/// Prints every mistake with its file, line and column, and what this machine lacks. A missing
/// folder of a file is a mistake. Missing certificates, tokens and keys are warnings, since they
/// may exist where the config runs. External evaluators are asked whether they accept their
/// settings. Exit code 78 if there is a mistake.
#[derive(Args, Debug)]
#[command(
    visible_alias = "validate",
    after_help = "\
Examples:
  spanscore check spanscore.yaml
  spanscore check --config base.yaml --config production.yaml --print"
)]
pub(super) struct CheckArgs {
    /// Config file, as with --config
    #[arg(value_name = "FILE", conflicts_with = "config")]
    file: Option<PathBuf>,
    #[command(flatten)]
    config: ConfigArgs,
    /// Prints the merged config as YAML. Secrets are left out; values from the environment appear
    /// as references
    #[arg(long)]
    print: bool,
}

pub(super) fn run(args: &CheckArgs) -> Result<Exit, CommandError> {
    let config = args.config.or_file(args.file.as_deref());
    let loaded = config.load()?;
    let plan = ResolvedConfig::new(&loaded)?;
    if args.print {
        output::text(&config::redacted(&loaded))?;
        return Ok(Exit::Success);
    }
    let missing = plan.check_machine(&loaded)?;
    let runtime = started(&mut Builder::new_current_thread())?;
    for UnreachedEvaluator { evaluator, why } in runtime.block_on(check_external(&loaded, &plan))? {
        let line = format!("{evaluator} could not be asked whether it takes its settings: {why}");
        output::note(visible::line(&line));
    }
    for warning in plan.warnings().into_iter().chain(missing) {
        output::note(visible::line(&warning));
    }
    output::line(format_args!("{}: no mistakes", visible::line(config.name())))?;
    for (title, lines) in plan.summary() {
        let lines = if lines.is_empty() { vec!["none".to_owned()] } else { lines };
        for (index, line) in lines.iter().enumerate() {
            let title = if index == 0 { title } else { "" };
            output::line(format_args!("  {title:<11} {}", visible::line(line)))?;
        }
    }
    Ok(Exit::Success)
}
