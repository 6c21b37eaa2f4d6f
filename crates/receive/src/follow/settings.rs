//! Settings of the file receiver, named as in the Collector's `otlp_json_file` receiver.

use schemars::JsonSchema;
use serde::Deserialize;
use smart_default::SmartDefault;

use super::paths::FILES_MAX;
use spanscore_base::settings::{HumanDuration, above_zero};

/// Follows files of another process, such as the Collector's file exporter. Formats: OTLP/JSON with
/// one request a line, or length-prefixed requests in protobuf or JSON, optionally compressed.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct FileReceiverSettings {
    /// The files, as patterns: `*` and `?` stand for characters of one path component. Include
    /// rotated files, so that their last records are not missed.
    #[schemars(length(min = 1))]
    pub include: Vec<String>,
    /// Patterns of excluded files.
    pub exclude: Vec<String>,
    /// Start position in files that exist at the first start. Later files are read from their
    /// beginning; with stored positions, so are those that appeared while the process was down.
    #[default(StartAt::End)]
    pub start_at: StartAt,
    /// Signal of protobuf requests, which do not state it. Default by the file's name (`logs`,
    /// `metrics` among its parts), else traces.
    pub signal: Option<FileSignal>,
    /// Interval at which the files are checked.
    #[serde(deserialize_with = "above_zero")]
    #[default(HumanDuration::from_millis(200))]
    pub poll_interval: HumanDuration,
    /// Largest request in mebibytes, before and after decompression; a larger one is skipped and
    /// counted.
    #[serde(deserialize_with = "above_zero")]
    #[schemars(range(min = 1, max = 128))]
    #[default = 64]
    pub max_record_mib: usize,
    /// Limit on files followed at once; others wait until one is closed. Fewer if the process's
    /// limit of open files is small.
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
    /// Its first request.
    Beginning,
    /// Its end: only later requests are read.
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
