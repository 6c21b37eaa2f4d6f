//! Settings of the store: place, content, limits.

use std::collections::BTreeSet;
use std::path::{Component, PathBuf};

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::link::TraceLink;
use spanscore_base::settings::{HumanDuration, Switch};

/// Part of the content of traces that is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
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
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RetentionSettings {
    /// Longest time for which a run is stored.
    pub age: HumanDuration,
    /// Most mebibytes of the file. Without `data_dir` at most 256.
    #[schemars(range(min = 4))]
    pub size_mib: u32,
    /// Longest time for which the hourly sums are stored.
    pub rollups: HumanDuration,
}

impl Default for RetentionSettings {
    fn default() -> Self {
        Self {
            age: HumanDuration::from_secs(14 * 24 * 3600),
            size_mib: 2048,
            rollups: HumanDuration::from_secs(400 * 24 * 3600),
        }
    }
}

/// Store of runs and their evaluations: one SQLite file.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StoreSettings {
    /// File, relative to `data_dir`. Without `data_dir` a temporary file that is removed at the
    /// end.
    #[serde(deserialize_with = "path_in_data_dir")]
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
    pub queue_bytes: usize,
}

impl Default for StoreSettings {
    fn default() -> Self {
        Self {
            path: PathBuf::from("scores.db"),
            content: StoredContent::default(),
            details: StoredDetails::default(),
            retention: RetentionSettings::default(),
            trace_url: None,
            accept_evaluations: BTreeSet::new(),
            queue_bytes: 32 << 20,
        }
    }
}

/// Reads a path that leads to a file below `data_dir`, or below the folder in its place.
fn path_in_data_dir<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    let path = PathBuf::deserialize(deserializer)?;
    let is_below = |it: Component<'_>| matches!(it, Component::Normal(_) | Component::CurDir);
    if path.file_name().is_some() && path.components().all(is_below) {
        return Ok(path);
    }
    let text = "`path` names a file in `data_dir`: write it as `scores.db`, and the folder as \
                `data_dir`";
    Err(D::Error::custom(text))
}

/// Section `store` of a config.
pub type StoreSection = Switch<StoreSettings>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_stays_in_its_folder() {
        for (path, is_taken) in [
            ("scores.db", true),
            ("./a/scores.db", true),
            ("/var/lib/scores.db", false),
            ("../scores.db", false),
            ("a/../../scores.db", false),
            ("", false),
        ] {
            let settings = serde_json::json!({ "path": path });
            let settings = serde_json::from_value::<StoreSettings>(settings);
            assert_eq!(settings.is_ok(), is_taken, "{path}");
        }
    }
}
