//! `spanscore man`: manual pages of all commands.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, CommandFactory};
use clap_mangen::Man;

use crate::cli::{Cli, CommandError, Exit, output};

/// Prints the manual page, or writes the pages of all commands to a folder
#[derive(Args, Debug)]
pub(in crate::cli) struct ManualArgs {
    /// Writes spanscore.1 and a page for each command to this folder
    #[arg(long, value_name = "FOLDER")]
    output: Option<PathBuf>,
}

pub(in crate::cli) fn run(args: &ManualArgs) -> Result<Exit, CommandError> {
    let command = Cli::command();
    match &args.output {
        None => output::text(&page(command)?)?,
        Some(folder) => {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("cannot make {}", folder.display()))?;
            write(folder, "spanscore", command.clone())?;
            for own in command.get_subcommands().filter(|own| !own.is_hide_set()) {
                let name = format!("spanscore-{}", own.get_name());
                // A page shows a command with its full name, `spanscore score`.
                let shown: &'static str = String::leak(name.clone());
                write(folder, &name, own.clone().name(shown).bin_name(shown))?;
            }
        }
    }
    Ok(Exit::Success)
}

fn page(command: clap::Command) -> anyhow::Result<String> {
    let mut page = Vec::new();
    Man::new(command).render(&mut page)?;
    Ok(String::from_utf8(page)?)
}

fn write(folder: &Path, name: &str, command: clap::Command) -> anyhow::Result<()> {
    let path = folder.join(format!("{name}.1"));
    std::fs::write(&path, page(command)?)
        .with_context(|| format!("cannot write {}", path.display()))
}
