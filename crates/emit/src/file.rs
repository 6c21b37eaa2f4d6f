//! The `file` exporter: JSON Lines, rotated by size.
//!
//! A failed write is retried while a receipt waits for its evaluations. Without a log its
//! evaluations are lost, and counted.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Deserialize;
use smart_default::SmartDefault;

use super::content::{ContentFilter, ShownContent};
use super::counters::{LogLimiter, Loss};
use super::queue::{
    Delivery, EvaluationBatch, OVERFLOW_MIB, Parcel, QueueLimits, SendRequests, check_overflow,
};
use super::record;
use super::rotating::{Rotating, Rotation};
use super::settings::{Exporter, ExporterKind};
use super::{ExporterStartError, Starting};
use spanscore_base::panics::Panicked;
use spanscore_base::settings::{Node, SettingsError};
use spanscore_net::backoff::chance;
use spanscore_net::client::retry::{Retries, RetrySettings};

/// Kind `file`.
pub(crate) static KIND: ExporterKind = ExporterKind {
    name: "file",
    aliases: &[],
    about: "Appends evaluations to a file, one JSON object per line.",
    single: false,
    schema: || schemars::schema_for!(FileSettings),
    read: |node| Ok(Arc::new(read(node)?)),
};

/// Longest wait for more evaluations before a batch is written.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(200);

/// Appends evaluations to a file as JSON Lines. If another program moves or deletes the file, the
/// next batch opens a new file at `path`.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct FileSettings {
    /// Path of the file. The exporter creates the file, but not its folder.
    pub(crate) path: String,
    /// Rotation of the file by size.
    pub(crate) rotation: RotationSettings,
    /// Content in the file that may quote arguments and results: `full` (default), `redacted`
    /// (without the personal data and credentials that are found) or `none`. `include_content` is
    /// another name of this setting.
    #[serde(alias = "include_content")]
    #[default(ShownContent::Full)]
    pub(crate) content: ShownContent,
    /// Keeps an evaluation in the log below `data_dir`, if the process has one, until it is in the
    /// file. Writes are then repeated without limit. Default `true`.
    #[default = true]
    pub(crate) must_deliver: bool,
    /// Limit on the evaluations on disk that memory has no room for while the file cannot be
    /// written, in MiB below `data_dir`. Above it, the exporter uses free room of the log. Requires
    /// `must_deliver` and a log. 0, or 64 or more. Default 1024.
    #[default(OVERFLOW_MIB)]
    pub(crate) overflow_mib: u32,
}

/// Rotation of a file by size.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RotationSettings {
    /// Size in MiB (1024 * 1024 bytes) above which the file is renamed to `<path>.1`. 0 turns
    /// rotation off, for a file that another program rotates. Default 100.
    #[default = 100]
    pub(crate) max_megabytes: u64,
    /// Number of rotated files. The oldest is deleted. Default 10.
    #[default = 10]
    pub(crate) max_backups: u32,
}

fn read(node: &Node) -> Result<FileSettings, SettingsError> {
    let file: FileSettings = node.read()?;
    if file.path.is_empty() {
        return Err(SettingsError::new("`path` is missing").with_help("name the file to write"));
    }
    check_overflow(file.overflow_mib).map_err(SettingsError::new)?;
    Ok(file)
}

impl Exporter for FileSettings {
    fn missing(&self) -> Option<SettingsError> {
        let folder = Path::new(&self.path).parent().filter(|it| !it.as_os_str().is_empty())?;
        (!folder.is_dir()).then(|| {
            let text = format!("the folder {} does not exist", folder.display());
            SettingsError::new(text).with_help("make it, or name another one")
        })
    }

    fn start(&self, starting: &mut Starting<'_>) -> Result<(), ExporterStartError> {
        let tries_again = self.must_deliver && starting.has_log();
        let filter = starting.content_filter(self.content);
        let file = RecordFile::open(self, tries_again, filter).map_err(|error| {
            let exporter = starting.name().to_owned();
            let path = self.path.clone();
            ExporterStartError::File { exporter, path, error }
        })?;
        starting.show(self.content.is_shown(), true);
        let limits = QueueLimits::local(FLUSH_TIMEOUT).must_deliver(self.must_deliver);
        let overflow = starting.overflow(self.must_deliver, self.overflow_mib)?;
        starting.queue(limits, overflow, file);
        Ok(())
    }
}

/// Writer of records to a file.
pub(crate) struct RecordFile {
    content: bool,
    filter: ContentFilter,
    /// True if failed writes are retried.
    tries_again: bool,
    file: Arc<Mutex<Rotating>>,
    broken: LogLimiter,
}

/// Lines to write, with the end offset of each.
struct RecordLines {
    text: Bytes,
    ends: Vec<usize>,
}

impl From<Bytes> for RecordLines {
    fn from(text: Bytes) -> Self {
        let ends = memchr::memchr_iter(b'\n', &text).map(|at| at + 1).collect();
        Self { text, ends }
    }
}

impl RecordFile {
    /// Opens the file for appending.
    pub(crate) fn open(
        settings: &FileSettings,
        tries_again: bool,
        filter: ContentFilter,
    ) -> io::Result<Self> {
        let rotation = Rotation {
            bytes_max: settings.rotation.max_megabytes.saturating_mul(1 << 20),
            backups_max: settings.rotation.max_backups,
            is_private: true,
        };
        let file = Arc::new(Mutex::new(Rotating::open(Path::new(&settings.path), rotation)?));
        let content = settings.content.is_shown();
        Ok(Self { content, filter, tries_again, file, broken: LogLimiter::default() })
    }

    /// Writes all lines except the first `done`; returns the number of whole lines written, and the
    /// error that stopped the rest.
    async fn write(&self, lines: &Arc<RecordLines>, done: usize) -> (usize, Option<io::Error>) {
        let file = Arc::clone(&self.file);
        let lines = Arc::clone(lines);
        let write = move || {
            let start = done.checked_sub(1).map_or(0, |last| lines.ends[last]);
            let ends: Vec<_> = lines.ends[done..].iter().map(|end| end - start).collect();
            let mut file = file.lock();
            file.append(&lines.text[start..], &ends)
        };
        // An aborted task leaves unknown how much it wrote.
        let stopped = |_| (0, Some(io::Error::other("stopped")));
        let (written, error) = tokio::task::spawn_blocking(write).await.unwrap_or_else(stopped);
        (written as usize, error)
    }
}

impl SendRequests for RecordFile {
    type Request = Bytes;

    /// Renders a batch as lines.
    async fn requests(&self, batch: &EvaluationBatch) -> Result<Vec<Bytes>, Panicked> {
        let content = self.content;
        let text = self.filter.make(batch, move |filter, batch| {
            let mut text = String::new();
            for evaluation in batch.iter().flat_map(|evaluations| evaluations.iter()) {
                record::write_line(&filter.apply(evaluation), content, &mut text);
            }
            vec![text.into()]
        });
        text.await
    }

    /// Writes all lines, retrying if the settings require it.
    async fn send(&self, text: Bytes) -> Delivery {
        let lines = Arc::new(RecordLines::from(text));
        let mut done = 0;
        let settings = RetrySettings { enabled: self.tries_again, ..RetrySettings::default() };
        let mut retries = Retries::new(&settings.without_default_limit());
        loop {
            let (written, error) = self.write(&lines, done).await;
            done += written;
            let Some(error) = error else {
                return Delivery { sent: done as u64, lost: Vec::new() };
            };
            if self.broken.may_log() {
                tracing::warn!(%error, "failed to write evaluations to the file");
            }
            let Some(wait) = retries.next(None, chance()) else {
                let lost = (lines.ends.len() - done) as u64;
                return Delivery { sent: done as u64, lost: vec![(Loss::Io, lost)] };
            };
            tokio::time::sleep(wait).await;
        }
    }

    fn into_parcel(text: Bytes) -> Parcel {
        // No batch holds more than `u32::MAX`.
        let count = memchr::memchr_iter(b'\n', &text).count() as u32;
        Parcel { count, payload: text }
    }

    fn from_parcel(parcel: &Parcel) -> Option<Bytes> {
        Some(parcel.payload.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::Deliver;
    use crate::sample;

    #[tokio::test(start_paused = true)]
    async fn file_that_cannot_be_written_is_tried_again_only_where_it_must_deliver() {
        for tries_again in [false, true] {
            let dir = tempfile::tempdir().expect("a folder");
            let folder = dir.path().join("scores");
            let path = dir.path().join("scores/s.jsonl");
            std::fs::create_dir(&folder).expect("a folder");
            let settings = FileSettings {
                path: path.to_string_lossy().into_owned(),
                ..FileSettings::default()
            };
            let file = RecordFile::open(&settings, tries_again, ContentFilter::nothing());
            let file = file.expect("opens");
            std::fs::remove_dir_all(&folder).expect("removed");
            let batch = || vec![[sample::scored(1.0), sample::failed()].into()];
            let mut delivery = std::pin::pin!(file.deliver(batch()));
            let minute = Duration::from_secs(60);
            let gone = tokio::time::timeout(minute, delivery.as_mut()).await;
            if tries_again {
                assert!(gone.is_err());
                std::fs::create_dir(&folder).expect("a folder");
                assert_eq!(delivery.await, Delivery { sent: 2, lost: Vec::new() });
                let read = || std::fs::read_to_string(&path).expect("the file");
                let text = read();
                assert_eq!(text.lines().count(), 2);
                // A parcel from disk is written like the batch itself.
                for parcel in file.pack(&batch()).await.expect("packed") {
                    assert_eq!(file.deliver_parcel(parcel).await.sent, 2);
                }
                assert_eq!(read(), text.repeat(2));
            } else {
                assert_eq!(gone, Ok(Delivery { sent: 0, lost: vec![(Loss::Io, 2)] }));
            }
        }
    }
}
