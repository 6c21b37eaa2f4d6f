//! Settings of the store: place, content, limits.

use std::collections::BTreeSet;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use crate::link::TraceLink;
use spanscore_base::settings::{HumanDuration, Switch};

/// Part of the content of traces that is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StoredContent {
    /// No argument, result, input or output, and of explanations only words of the evaluators.
    None,
    /// All, with secrets and personal data replaced.
    #[default]
    Redacted,
    /// All, as it came.
    Full,
}

/// Evaluations whose details are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StoredDetails {
    /// Every one.
    All,
    /// Those that are no pass, or whose score is below 1.
    #[default]
    Imperfect,
}

/// Limits beyond which the oldest is deleted.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct RetentionSettings {
    /// Longest time for which a run is stored.
    #[default(HumanDuration::from_secs(14 * 24 * 3600))]
    pub age: HumanDuration,
    /// Most mebibytes of the file. Without `data_dir` at most 256.
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
    /// File, relative to `data_dir`. Without `data_dir` a temporary file that is removed at the
    /// end.
    #[default(PathBuf::from("scores.db"))]
    pub path: PathBuf,
    /// Part of the content of traces that is stored.
    pub content: StoredContent,
    /// Evaluations whose details are stored.
    pub details: StoredDetails,
    /// Limits beyond which the oldest is deleted.
    pub retention: RetentionSettings,
    /// Address of a trace in the backend that has its spans, such as
    /// `https://jaeger.example.org/trace/{trace_id}`; pages and `show` lead there.
    pub trace_url: Option<TraceLink>,
    /// Clients of `receivers.otlp.auth` whose evaluations are stored, too: other processes, which
    /// export events over OTLP. Theirs never stand over those of this process.
    pub accept_evaluations: BTreeSet<String>,
    /// Most bytes that wait to be written: a share of the memory of the process.
    #[serde(skip)]
    #[default(32 << 20)]
    pub queue_bytes: usize,
}

/// Section `store` of a config.
pub type StoreSection = Switch<StoreSettings>;
