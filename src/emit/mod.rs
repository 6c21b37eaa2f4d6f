//! Evaluations out.
//!
//! In come evaluations, in batches that belong to one trace; out they go as text and JSON records
//! ([`record`], [`console`]), files, Prometheus series and OTLP events, spans and metrics. Each
//! exporter has a bounded queue of its own and tries again by itself, so a slow or dead backend
//! never slows the pipeline: [`Exporters::offer`] never waits, and what does not fit is dropped and
//! counted. `docs/output.md` lists every name that is emitted.
//!
//! ```text
//! offer -> queue (bytes) -> batch (200 ms) -> consumers -> convert, compress, send, try again
//! ```
//!
//! **Invariant:** no argument and no result leaves the process over OTLP unless `content` says so:
//! without it an explanation is exported without what may be content
//! ([`Explanation::without_content`](crate::model::Explanation::without_content)). What an
//! evaluator says is content unless it marks it as plain: names of tools, counts, rules, and names
//! of arguments that stand in criteria, schemas or settings.

pub mod console;
mod content;
mod counters;
mod dead_letters;
pub mod details;
mod exporters;
mod file;
pub mod forward;
mod native;
mod otlp;
pub mod prometheus;
mod queue;
pub mod record;
pub(crate) mod rotating;
#[cfg(test)]
mod sample;
mod scores;
pub mod settings;

pub use counters::Loss;
pub use exporters::{Exporters, ExportersChange, Persistence, Starting};

use crate::log::LogOpenError;
pub(crate) use content::{ContentFilter, ShownContent};

/// Why an exporter could not start.
#[derive(Debug, thiserror::Error)]
pub enum ExporterStartError {
    /// The file cannot be opened.
    #[error("exporter `{exporter}`: cannot open `{path}` for writing: {error}")]
    File {
        /// The exporter's name in the config.
        exporter: String,
        /// The file.
        path: String,
        /// What the system says.
        error: std::io::Error,
    },
    /// A client for the backend cannot be made.
    #[error("exporter `{exporter}`: {error}")]
    Client {
        /// The exporter's name in the config.
        exporter: String,
        /// What is wrong, such as a certificate that cannot be read.
        error: String,
    },
    /// What it keeps while its queue is full cannot be opened.
    #[error("exporter `{exporter}`: cannot keep evaluations in `{path}`: {error}")]
    Overflow {
        /// The exporter's name in the config.
        exporter: String,
        /// The folder.
        path: String,
        /// What is wrong with it.
        error: LogOpenError,
    },
    /// Exporters that earlier changes replaced or removed have not ended.
    #[error(
        "{count} exporters of earlier configs still hand over what they hold: change the config \
         again in some seconds"
    )]
    Busy {
        /// How many.
        count: usize,
    },
    /// Its metrics cannot be registered.
    #[error("exporter `{exporter}`: cannot show its metrics: {error}")]
    Metrics {
        /// The exporter's name in the config.
        exporter: String,
        /// What the registry says.
        error: ::prometheus::Error,
    },
}

/// Evaluations that an exporter did not deliver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsent {
    /// The exporter's name in the config.
    pub exporter: String,
    /// How many evaluations.
    pub evaluations: u64,
}
