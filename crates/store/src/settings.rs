//! Settings of the store: place, content, limits.

use std::collections::BTreeSet;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use crate::link::TraceLink;
use spanscore_base::settings::{HumanDuration, Switch};

/// Content of traces that the store keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StoredContent {
    /// No arguments, results, inputs or outputs. Explanations contain only the evaluators' own
    /// words.
    None,
    /// All content, with secrets and personal data redacted.
    #[default]
    Redacted,
    /// All content, unchanged.
    Full,
}

/// Evaluations whose details the store keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StoredDetails {
    /// All evaluations.
    All,
    /// Evaluations that did not pass, or with a score below 1.
    #[default]
    Imperfect,
}

/// Limits above which the oldest data is deleted.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct RetentionSettings {
    /// Longest time that a run is kept. Default `14d`.
    #[default(HumanDuration::from_secs(14 * 24 * 3600))]
    pub age: HumanDuration,
    /// Limit on the size of the file, in mebibytes, 4 or more; 256 at most without `data_dir`.
    /// Default 2048.
    #[schemars(range(min = 4))]
    #[default = 2048]
    pub size_mib: u32,
    /// Longest time that hourly sums are kept. Default `400d`.
    #[default(HumanDuration::from_secs(400 * 24 * 3600))]
    pub rollups: HumanDuration,
}

/// Store of judged runs and their evaluations: one SQLite file.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct StoreSettings {
    /// Path of the file, relative to `data_dir`. Without `data_dir` the file is temporary and
    /// deleted at the end. Default `scores.db`.
    #[default(PathBuf::from("scores.db"))]
    pub path: PathBuf,
    /// Content of traces that is kept: `redacted` (default), `none` or `full`.
    pub content: StoredContent,
    /// Evaluations whose details are kept: `imperfect` (default) or `all`.
    pub details: StoredDetails,
    /// Limits above which the oldest data is deleted.
    pub retention: RetentionSettings,
    /// URL of a trace in the tracing backend, for links in the dashboard and `spanscore show`, such
    /// as `https://jaeger.example.org/trace/{trace_id}`.
    pub trace_url: Option<TraceLink>,
    /// Clients of `receivers.otlp.auth` whose evaluations are stored, too: other processes that
    /// export evaluations as OTLP events. They never replace evaluations of this process.
    pub accept_evaluations: BTreeSet<String>,
    /// Limit on the bytes that wait for the writer, a part of the process's memory.
    #[serde(skip)]
    #[default(32 << 20)]
    pub queue_bytes: usize,
}

/// Section `store` of a config.
pub type StoreSection = Switch<StoreSettings>;
