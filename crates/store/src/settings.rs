//! Settings of the store: place, content, limits.

use std::collections::BTreeSet;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use crate::link::TraceLink;
use spanscore_base::settings::{HumanDuration, Switch};

/// Stored part of the content of traces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StoredContent {
    /// No argument, result, input or output, and only the evaluators' own words of explanations.
    None,
    /// Everything, with secrets and personal data redacted.
    #[default]
    Redacted,
    /// Everything, unchanged.
    Full,
}

/// Evaluations with stored details.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StoredDetails {
    /// All.
    All,
    /// Those that did not pass, or with a score below 1.
    #[default]
    Imperfect,
}

/// Limits beyond which the oldest data is deleted.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct RetentionSettings {
    /// Longest time for which a run is stored.
    #[default(HumanDuration::from_secs(14 * 24 * 3600))]
    pub age: HumanDuration,
    /// Limit on the file's size in mebibytes. Without `data_dir` at most 256.
    #[schemars(range(min = 4))]
    #[default = 2048]
    pub size_mib: u32,
    /// Longest time for which the hourly sums are stored.
    #[default(HumanDuration::from_secs(400 * 24 * 3600))]
    pub rollups: HumanDuration,
}

/// Store of runs and their evaluations: one SQLite file.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct StoreSettings {
    /// File, relative to `data_dir`. Without `data_dir` a temporary file, deleted at the end.
    #[default(PathBuf::from("scores.db"))]
    pub path: PathBuf,
    /// Stored part of the content of traces.
    pub content: StoredContent,
    /// Evaluations with stored details.
    pub details: StoredDetails,
    /// Limits beyond which the oldest data is deleted.
    pub retention: RetentionSettings,
    /// URL of a trace in the backend with its spans, such as
    /// `https://jaeger.example.org/trace/{trace_id}`, for links in pages and `show`.
    pub trace_url: Option<TraceLink>,
    /// Clients of `receivers.otlp.auth` whose evaluations are stored, too: other processes that
    /// export events over OTLP. They never replace those of this process.
    pub accept_evaluations: BTreeSet<String>,
    /// Limit on the bytes waiting to be written: a share of the process's memory.
    #[serde(skip)]
    #[default(32 << 20)]
    pub queue_bytes: usize,
}

/// Section `store` of a config.
pub type StoreSection = Switch<StoreSettings>;
