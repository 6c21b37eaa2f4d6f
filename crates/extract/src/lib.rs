//! Extraction of tool calls from spans and log events, by the rules of dialects.
//!
//! [`extract`] makes all records, from an encoded request on arrival. [`Resolver`] makes all
//! trajectories, from the records of a complete trace.
//!
//! ```text
//! dialect   rules of one instrumentation: data, no code
//! table     dialects compiled into one hash index of keys and bit sets of conditions
//! record    on arrival: an encoded request -> records for each shard, one pass per span
//! resolve   on completion: the records of a trace -> a trajectory
//! decode    values in a framework's private form -> plain values, for `resolve`
//! suggest   spans that no dialect matches -> a draft dialect for a person to review
//! unknown_tool  status messages of the kind "tool not found"
//! ```
//!
//! `dialect` depends only on `decode`; `record` and `resolve` share `table` and the byte layout
//! of a record; `record` does not depend on `resolve`.

mod decode;
pub mod dialect;
mod record;
mod resolve;
mod standing;
pub mod suggest;
mod table;
#[cfg(test)]
mod testing;
mod unknown_tool;

pub use self::record::cache::ExtractionCache;
pub use self::record::counts::{Extracted, Rejection};
pub use self::record::translate::Translation;
pub use self::resolve::raw_text;
pub use self::resolve::{
    CallInMessage, FactExplanation, GivenBy, Resolver, SessionCalls, SpanExplanation,
    TraceExplanation, reading_steps, reconcile,
};
pub use self::table::{Table, TableError};

use spanscore_base::model::SpanBatch;
use spanscore_base::otlp::Signal;
use spanscore_base::otlp::metrics::count_points;
use spanscore_base::otlp::request::Broken;

/// Adds the records of an encoded request to the batches, one per shard. For metrics, only the
/// points are counted.
///
/// # Errors
/// Returns [`Broken`] if the request is no protobuf and has no item. If only a part is broken, the
/// rest is extracted; the items that start in that part count as rejected, or the part as one.
pub fn extract(
    table: &Table,
    signal: Signal,
    body: &[u8],
    cache: &mut ExtractionCache,
    batches: &mut [SpanBatch],
) -> Result<Extracted, Broken> {
    match signal {
        Signal::Traces => record::traces::extract_traces(table, body, cache, batches),
        Signal::Logs => record::logs::extract_logs(table, body, cache, batches),
        Signal::Metrics => count_points(body).map(Extracted::counted),
    }
}
