//! Settings of the file receiver, by the names of the Collector's `otlp_json_file` receiver.

use schemars::JsonSchema;
use serde::Deserialize;
use smart_default::SmartDefault;

use super::paths::FILES_MAX;
use spanscore_base::settings::{HumanDuration, above_zero};

/// Follows files that another process writes, such as the Collector's file exporter: OTLP/JSON, one
/// request a line, or requests in protobuf or JSON, each behind its length and compressed or not.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct FileReceiverSettings {
    /// The files, as patterns: `*` and `?` stand for any characters of one name. Files that are
    /// rotated away should match as well, so that their last records are not missed.
    #[schemars(length(min = 1))]
    pub include: Vec<String>,
    /// Patterns of those files that are left alone.
    pub exclude: Vec<String>,
    /// Start position in files that are there at the first start. Files that appear later are read
    /// from their beginning; with stored positions, so are those that appeared while nobody looked.
    #[default(StartAt::End)]
    pub start_at: StartAt,
    /// Signal of requests in protobuf, which do not tell it themselves. By default by the file's
    /// name (`logs`, `metrics` among its parts), else traces.
    pub signal: Option<FileSignal>,
    /// Interval at which the files are looked at.
    #[serde(deserialize_with = "above_zero")]
    #[default(HumanDuration::from_millis(200))]
    pub poll_interval: HumanDuration,
    /// Largest request in mebibytes, before and after decompression; a larger one is skipped and
    /// counted.
    #[serde(deserialize_with = "above_zero")]
    #[schemars(range(min = 1, max = 128))]
    #[default = 64]
    pub max_record_mib: usize,
    /// Most files that are followed at once; further ones wait until one is gone. The process takes
    /// fewer where its limit of open files is small.
    #[serde(deserialize_with = "above_zero")]
    #[schemars(range(min = 1, max = 1024))]
    #[default(FILES_MAX)]
    pub max_concurrent_files: usize,
}

/// Signs of patterns in other programs.
const FOREIGN_SIGNS: [char; 2] = ['[', '{'];

impl FileReceiverSettings {
    /// Checks the section.
    ///
    /// # Errors
    /// A text for the config's user.
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

/// Signal of requests in protobuf.
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
