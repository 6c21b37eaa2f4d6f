//! Store: judged runs and their evaluations in one SQLite file, and its queries.
//!
//! ```text
//! shards -> queue (rows, bytes; sheds) -> writer (one thread, transactions) -> file -> query
//! ```
//!
//! The store never blocks its callers. As its queue fills it omits content, then passing runs, and
//! finally everything but sums, with a counter for each. An unwritable file is retried; a damaged
//! one is set aside; one of a newer program or another process is left alone. `docs/store.md` is
//! for its readers.
//!
//! **Invariant:** sums equal the current evaluations, except those counted as uncorrected, repeated
//! unseen or lost.

mod collected;
mod counters;
mod edit;
mod histogram;
mod link;
mod open;
mod part;
pub mod query;
mod queue;
mod record;
mod rollup;
mod schema;
mod settings;
mod source;
mod store;
#[cfg(test)]
mod tests;
mod writer;

pub use collected::{CollectedEvents, read_events};
pub use counters::{StoreCount, StoreCounters};
pub use edit::{
    AnnotationChange, DatasetItemChange, EDIT_MAX, NewAnnotation, NewDatasetItem, StoreEditError,
};
pub use histogram::{DURATION_BINS, SCORE_BINS, add_packed, duration_bound};
pub use link::{TraceLink, TraceLinkError};
pub use open::StoreOpenError;
pub use part::{StoredGap, StoredPart};
pub use record::{Judgement, TrajectoryRecord};
pub use schema::VERSION;
pub use settings::{RetentionSettings, StoreSection, StoreSettings, StoredContent, StoredDetails};
pub use source::RESOURCE_KEYS;
pub use store::{Store, StoreView};
pub(crate) use writer::TOOLS_MAX;
pub use writer::{RedactValues, StoreState};
