//! `spanscore completions`: completion scripts for shells.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::{Cli, CommandError, Exit, output};

/// Prints a completion script for a shell
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  spanscore completions bash > /etc/bash_completion.d/spanscore
  spanscore completions zsh > \"${fpath[1]}/_spanscore\"")]
pub(in crate::cli) struct CompletionsArgs {
    /// Name of the shell
    shell: Shell,
}

pub(in crate::cli) fn run(args: &CompletionsArgs) -> Result<Exit, CommandError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "spanscore", &mut script);
    output::text(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Success)
}
