//! Commands that read the store: `scores`, `show`, `compare`, `backfill`, `export` and `tail`.

pub(super) mod backfill;
pub(super) mod compare;
mod csv;
pub(super) mod export;
mod files;
pub(super) mod filter;
mod rows;
pub(super) mod scores;
pub(super) mod show;
pub(super) mod tail;

use std::path::{Path, PathBuf};

use clap::Args;

use crate::cli::source::ConfigArgs;
use crate::cli::{CommandError, misused};
use crate::config::Config;
use spanscore_store::query::{PagePlace, StoreQueryError, StoreReader, StoredPage};

/// Options to find the store.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct StoreArgs {
    /// File of the store. Default: `store.path` in `data_dir` of the config
    #[arg(long, value_name = "FILE")]
    store: Option<PathBuf>,
    #[command(flatten)]
    pub(super) config: ConfigArgs,
}

impl StoreArgs {
    /// Opens the store.
    fn open(&self) -> Result<StoreReader, CommandError> {
        opened(&self.path()?)
    }

    /// Opens the store of a config that was read already.
    pub(super) fn open_in(&self, config: &Config) -> Result<StoreReader, CommandError> {
        opened(&self.store.clone().map_or_else(|| self.configured(config), Ok)?)
    }

    /// Returns the path of the store.
    fn path(&self) -> Result<PathBuf, CommandError> {
        match &self.store {
            Some(path) => Ok(path.clone()),
            None => self.configured(&self.config.plan()?.config),
        }
    }

    fn configured(&self, config: &Config) -> Result<PathBuf, CommandError> {
        let Some(store) = &config.store.0 else {
            return misused("the config says `store: false`: name a file with --store");
        };
        let folder = config.data_dir.as_ref().ok_or_else(|| {
            let name = self.config.name();
            CommandError::Usage(format!(
                "{name} has no `data_dir`, so its store ends with the collector: name its file \
                 with --store (the collector's first lines tell it), or give it a `data_dir`"
            ))
        })?;
        Ok(folder.join(&store.path))
    }
}

fn opened(path: &Path) -> Result<StoreReader, CommandError> {
    if path.is_dir() {
        return misused(format!("{} is a folder: name the file in it", path.display()));
    }
    StoreReader::open(path).map_err(|error| CommandError::Runtime(error.into()))
}

/// Yields all rows, read page by page.
pub(super) fn paged<T>(
    read: impl Fn(Option<PagePlace>) -> Result<StoredPage<T>, StoreQueryError>,
) -> impl Iterator<Item = Result<T, CommandError>> {
    let mut next = Some(None);
    let pages = std::iter::from_fn(move || {
        let page = read(next.take()?);
        Some(page.inspect(|page| next = page.next.map(Some)))
    });
    pages.flat_map(|page| {
        let (items, error) = match page {
            Ok(page) => (page.items, None),
            Err(error) => (Vec::new(), Some(Err(error.into()))),
        };
        items.into_iter().map(Ok).chain(error)
    })
}

/// Visits all rows, page by page.
pub(super) fn pages<T>(
    read: impl Fn(Option<PagePlace>) -> Result<StoredPage<T>, StoreQueryError>,
    mut visit: impl FnMut(T) -> Result<(), CommandError>,
) -> Result<(), CommandError> {
    paged(read).try_for_each(|row| visit(row?))
}

/// A wrong query is a usage error.
impl From<StoreQueryError> for CommandError {
    fn from(error: StoreQueryError) -> Self {
        match error {
            StoreQueryError::Field { .. }
            | StoreQueryError::Word { .. }
            | StoreQueryError::Time(_)
            | StoreQueryError::Text { .. }
            | StoreQueryError::TraceId { .. }
            | StoreQueryError::TraceStart { .. } => Self::Usage(error.to_string()),
            other => Self::Runtime(other.into()),
        }
    }
}

/// Returns the shown digits of a trace id.
fn short(trace_id: &str) -> &str {
    trace_id.get(..8).unwrap_or(trace_id)
}
