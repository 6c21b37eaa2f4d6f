//! Exporters: deliver evaluations to backends, files, the console and the metrics endpoint.
//!
//! In: evaluations, in batches of one trace. Out: text and JSON records ([`record`], [`console`]),
//! files, Prometheus series and OTLP events, spans and metrics. Each exporter has a bounded queue
//! and retries behind it, so a slow or dead backend never slows the pipeline: [`Exporters::offer`]
//! never waits, and evaluations that do not fit are dropped and counted. `docs/output.md` lists
//! every emitted name.
//!
//! ```text
//! offer -> queue (bytes) -> batch (200 ms) -> consumers -> convert, compress, send, retry
//! ```
//!
//! **Invariant:** arguments and results leave the process over OTLP only as `content` allows:
//! without it an explanation is exported without its content parts
//! ([`Explanation::without_content`](spanscore_base::model::Explanation::without_content)). An
//! evaluator's text is content unless it is marked as plain: names of tools, counts, rules, and
//! names of arguments from criteria, schemas or settings.

pub mod console;
mod content;
mod counters;
mod dead_letters;
pub mod details;
mod exporters;
mod file;
pub mod forward;
mod kafka;
mod native;
mod otlp;
pub mod prometheus;
mod queue;
pub mod record;
pub mod rotating;
#[cfg(test)]
mod sample;
mod scores;
pub mod settings;
mod time_left;

pub use counters::Loss;
pub use exporters::{Exporters, ExportersChange, Persistence, Starting};

pub use content::{ContentFilter, ShownContent, TraceContent};
use spanscore_log::LogOpenError;

/// Error of an exporter that cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ExporterStartError {
    /// The file cannot be opened.
    #[error("exporter `{exporter}`: cannot open `{path}` for writing: {error}")]
    File {
        /// Name of the exporter in the config.
        exporter: String,
        /// Path of the file.
        path: String,
        /// Error of the operating system.
        error: std::io::Error,
    },
    /// The client of the backend cannot be built.
    #[error("exporter `{exporter}`: {error}")]
    Client {
        /// Name of the exporter in the config.
        exporter: String,
        /// Error, such as a certificate that cannot be read.
        error: String,
    },
    /// The overflow of its queue cannot be opened.
    #[error("exporter `{exporter}`: cannot keep evaluations in `{path}`: {error}")]
    Overflow {
        /// Name of the exporter in the config.
        exporter: String,
        /// Path of the folder.
        path: String,
        /// Error of the folder.
        error: LogOpenError,
    },
    /// Exporters replaced or removed by earlier changes have not ended.
    #[error(
        "{count} exporters of earlier configs still hand over what they hold: change the config \
         again in some seconds"
    )]
    Busy {
        /// Number of such exporters.
        count: usize,
    },
    /// Its metrics cannot be registered.
    #[error("exporter `{exporter}`: cannot show its metrics: {error}")]
    Metrics {
        /// Name of the exporter in the config.
        exporter: String,
        /// Error of the registry.
        error: ::prometheus::Error,
    },
}

/// Number of evaluations that an exporter did not deliver, or of items that a forward did not:
/// accepted spans, log records and data points.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undelivered {
    /// Name of the exporter or forward in the config.
    pub name: String,
    /// Number of evaluations or items.
    pub count: u64,
}
