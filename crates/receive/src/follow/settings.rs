//! Settings of the file receiver, named as in the Collector's `otlp_json_file` receiver.

use schemars::JsonSchema;
use serde::Deserialize;
use smart_default::SmartDefault;

use super::paths::FILES_MAX;
use spanscore_base::settings::{HumanDuration, above_zero};

/// Follows files that another process writes, such as the Collector's file exporter. Formats:
/// OTLP/JSON with one request per line, and length-prefixed requests in protobuf or JSON,
/// optionally compressed.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct FileReceiverSettings {
    /// Files to follow: paths with `*` and `?` for characters within one path component. Include
    /// the names of rotated files, else their last records are missed.
    #[schemars(length(min = 1))]
    pub include: Vec<String>,
    /// Files to skip, as patterns.
    pub exclude: Vec<String>,
    /// Start position in files that exist at the first start: `end` (default) or `beginning`. Files
    /// that appear later are read from the beginning. With stored positions, so are files that
    /// appeared while the process was down.
    #[default(StartAt::End)]
    pub start_at: StartAt,
    /// Signal of protobuf requests, which do not state it: `traces`, `logs` or `metrics`. Default:
    /// `logs` or `metrics` if the file name contains that part, else `traces`.
    pub signal: Option<FileSignal>,
    /// Interval between checks of the files. Default `200ms`.
    #[serde(deserialize_with = "above_zero")]
    #[default(HumanDuration::from_millis(200))]
    pub poll_interval: HumanDuration,
    /// Limit on the size of a request, in mebibytes, 1 to 128, before and after decompression. A
    /// larger request is skipped and counted. Default 64.
    #[serde(deserialize_with = "above_zero")]
    #[schemars(range(min = 1, max = 128))]
    #[default = 64]
    pub max_record_mib: usize,
    /// Limit on files that are followed at once, 1 to 1024. Further files wait until one is closed.
    /// The limit is lower if the process may open few files. Default 1024.
    #[serde(deserialize_with = "above_zero")]
    #[schemars(range(min = 1, max = 1024))]
    #[default(FILES_MAX)]
    pub max_concurrent_files: usize,
}

/// Pattern characters of other programs.
const FOREIGN_SIGNS: [char; 2] = ['[', '{'];

impl FileReceiverSettings {
    /// Checks the section.
    ///
    /// # Errors
    /// An error text for the user.
    pub fn check(&self) -> Result<(), &'static str> {
        if self.include.iter().all(|pattern| pattern.trim().is_empty()) {
            return Err("`include` names no files");
        }
        let is_foreign =
            |pattern: &String| pattern.contains("**") || pattern.contains(FOREIGN_SIGNS);
        if self.include.iter().chain(&self.exclude).any(is_foreign) {
            return Err(
                "`**`, `[` and `{` are not understood: `*` and `?` stand for characters of one \
                 name; write a pattern for each folder and each ending; for a bracket in a name \
                 write `?`",
            );
        }
        if self.max_record_mib > 128 {
            return Err("`max_record_mib` must be 1 to 128");
        }
        if self.max_concurrent_files > FILES_MAX {
            return Err("`max_concurrent_files` must be 1 to 1024");
        }
        Ok(())
    }
}

/// Start position in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StartAt {
    /// The first request.
    Beginning,
    /// The end: only new requests.
    End,
}

/// Signal of protobuf requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileSignal {
    /// Spans.
    Traces,
    /// Log records.
    Logs,
    /// Metrics.
    Metrics,
}
