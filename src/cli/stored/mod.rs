//! Commands that read the store: `scores`, `show`, `compare`, `export` and `tail`.

pub(super) mod compare;
mod csv;
pub(super) mod export;
mod files;
mod filter;
mod rows;
pub(super) mod scores;
pub(super) mod show;
pub(super) mod tail;

use std::path::PathBuf;

use clap::Args;

use crate::cli::CommandError;
use crate::cli::source::ConfigArgs;
use spanscore_store::query::{StoreQueryError, StoreReader};

/// Place of the store on the command line.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct StoreArgs {
    /// File of the store; without it that of the config: `store.path` in `data_dir`
    #[arg(long, value_name = "FILE")]
    store: Option<PathBuf>,
    #[command(flatten)]
    config: ConfigArgs,
}

impl StoreArgs {
    /// Opens the store.
    fn open(&self) -> Result<StoreReader, CommandError> {
        let path = self.path()?;
        StoreReader::open(&path).map_err(|error| CommandError::Runtime(error.into()))
    }

    /// Returns the path of the store.
    fn path(&self) -> Result<PathBuf, CommandError> {
        self.store.clone().map_or_else(|| self.configured(), Ok)
    }

    fn configured(&self) -> Result<PathBuf, CommandError> {
        let config = self.config.plan()?.config;
        let Some(store) = config.store.0 else {
            let text = "the config says `store: false`: name a file with --store";
            return Err(CommandError::Usage(text.to_owned()));
        };
        let folder = config.data_dir.ok_or_else(|| {
            let name = self.config.name();
            CommandError::Usage(format!(
                "{name} has no `data_dir`, so its store ends with the collector: name its file \
                 with --store (the collector's first lines tell it), or give it a `data_dir`"
            ))
        })?;
        Ok(folder.join(store.path))
    }
}

/// Converts the error of a question: what was written wrong is a usage error.
fn asked(error: StoreQueryError) -> CommandError {
    match error {
        StoreQueryError::Field { .. }
        | StoreQueryError::Time(_)
        | StoreQueryError::TraceId { .. } => CommandError::Usage(error.to_string()),
        other => CommandError::Runtime(other.into()),
    }
}

/// Returns the digits of a trace id that people copy.
fn short(trace_id: &str) -> &str {
    trace_id.get(..8).unwrap_or(trace_id)
}
