//! Spending file, by which hourly and daily budgets survive restarts.
//!
//! It holds lines of JSON. The first is complete; each later one has the changes since, so that
//! booking a request takes one short write and one sync.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{JudgeBackend, JudgeState};
use spanscore_net::file::write_by_rename;

/// Size of changes at which the file is rewritten, bytes.
pub(super) const CHANGES_BYTES_MAX: usize = 256 << 10;

/// Spending by minute since 1970, ascending.
type Minutes = Vec<(u64, u64)>;

/// Spending on one judge: complete, or from the last known minute on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct SpentOnJudge {
    nano_usd: Minutes,
    tokens: Minutes,
    /// Reservations of requests in flight, nano-dollars and tokens: a killed process may have to
    /// pay them.
    #[serde(default)]
    open: (u64, u64),
}

impl SpentOnJudge {
    /// Applies a change.
    fn follow(&mut self, change: Self) {
        for (all, newer) in
            [(&mut self.nano_usd, change.nano_usd), (&mut self.tokens, change.tokens)]
        {
            let first = newer.first().map_or(u64::MAX, |(minute, _)| *minute);
            all.truncate(all.partition_point(|(minute, _)| *minute < first));
            all.extend(newer);
        }
        self.open = change.open;
    }

    /// Drops all spending except the last minute, the only one that may still grow.
    fn keep_last(&mut self) {
        for all in [&mut self.nano_usd, &mut self.tokens] {
            let last = last(all);
            all.retain(|(minute, _)| *minute == last);
        }
    }
}

fn last(minutes: &[(u64, u64)]) -> u64 {
    minutes.last().map_or(0, |(minute, _)| *minute)
}

/// Spending file of a process.
pub(in crate::judge) struct SpentFile {
    /// Path of the file.
    pub(in crate::judge) path: PathBuf,
    /// File to append changes to; `None` if it must be rewritten.
    changes: Option<Arc<File>>,
    changes_bytes: usize,
    /// Spending of the last minute in the file.
    written: BTreeMap<String, SpentOnJudge>,
}

impl SpentFile {
    /// Restores an earlier process's spending. Requests in flight when it was killed count as spent
    /// now, since their cost is unknown.
    pub(in crate::judge) fn restore(
        path: PathBuf,
        backend: &mut JudgeBackend,
        now_ms: u64,
    ) -> Self {
        let mut spent = read(&path);
        for JudgeState { name, gate, .. } in &mut backend.judges {
            let Some(SpentOnJudge { nano_usd, tokens, open }) = spent.remove(&*name) else {
                continue;
            };
            gate.money.restore(nano_usd, open.0, now_ms);
            gate.spent_tokens.restore(tokens, open.1, now_ms);
        }
        Self { path, changes: None, changes_bytes: 0, written: BTreeMap::new() }
    }

    /// Writes the changes since the last call, or a complete new file renamed over the old.
    ///
    /// # Errors
    /// Those of the file system; the next write is complete.
    pub(in crate::judge) async fn keep(&mut self, backend: &JudgeBackend) -> io::Result<()> {
        // Without the file that the changes extend, the second write is complete.
        if !self.try_keep(backend).await? {
            self.try_keep(backend).await?;
        }
        Ok(())
    }

    /// Writes once; returns false without writing if another file, or none, is at the path.
    async fn try_keep(&mut self, backend: &JudgeBackend) -> io::Result<bool> {
        let changes = self.changes.take().filter(|_| self.changes_bytes < CHANGES_BYTES_MAX);
        if changes.is_none() {
            self.changes_bytes = 0;
            self.written.clear();
        }
        // Of judges with one name the last has the meters.
        let spent: BTreeMap<&String, SpentOnJudge> =
            backend.judges.iter().map(|judge| (&judge.name, self.spent_on(judge))).collect();
        let mut spent: Vec<_> =
            spent.into_iter().filter(|(name, it)| self.written.get(*name) != Some(it)).collect();
        let mut line = serde_json::to_vec(&spent.iter().cloned().collect::<BTreeMap<_, _>>())?;
        line.push(b'\n');
        self.changes_bytes += line.len();
        let path = self.path.clone();
        let writing = tokio::task::spawn_blocking(move || write(&path, changes, &line));
        self.changes = writing.await??;
        if self.changes.is_none() {
            return Ok(false);
        }
        spent.iter_mut().for_each(|(_, it)| it.keep_last());
        self.written.extend(spent.into_iter().map(|(name, it)| (name.clone(), it)));
        Ok(true)
    }

    fn spent_on(&self, JudgeState { name, gate, .. }: &JudgeState) -> SpentOnJudge {
        let since =
            self.written.get(name).map_or((0, 0), |it| (last(&it.nano_usd), last(&it.tokens)));
        SpentOnJudge {
            nano_usd: gate.money.spent_since(since.0),
            tokens: gate.spent_tokens.spent_since(since.1),
            open: (gate.money.reserved(), gate.spent_tokens.reserved()),
        }
    }
}

/// Appends a line, or writes a new file; returns `None` if the path has another file.
fn write(path: &Path, changes: Option<Arc<File>>, line: &[u8]) -> io::Result<Option<Arc<File>>> {
    let Some(file) = changes else {
        write_by_rename(path, line)?;
        return OpenOptions::new().append(true).open(path).map(|file| Some(Arc::new(file)));
    };
    let own = file.metadata()?;
    let is_own = |there: std::fs::Metadata| (there.dev(), there.ino()) == (own.dev(), own.ino());
    if !std::fs::metadata(path).is_ok_and(is_own) {
        return Ok(None);
    }
    (&*file).write_all(line)?;
    file.sync_data()?;
    Ok(Some(file))
}

/// Reads the file, up to an unreadable line.
fn read(path: &Path) -> BTreeMap<String, SpentOnJudge> {
    let tell = |error: &dyn std::fmt::Display| {
        tracing::error!(file = %path.display(), %error, "not all that judges cost before is known");
    };
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return BTreeMap::new(),
        Err(error) => {
            tell(&error);
            return BTreeMap::new();
        }
    };
    let mut spent: BTreeMap<String, SpentOnJudge> = BTreeMap::new();
    for line in serde_json::Deserializer::from_slice(&bytes).into_iter() {
        let line: BTreeMap<String, SpentOnJudge> = match line {
            Ok(line) => line,
            // No request was sent by a line that is incomplete.
            Err(error) if error.is_eof() => break,
            Err(error) => {
                tell(&error);
                break;
            }
        };
        line.into_iter().for_each(|(name, it)| spent.entry(name).or_default().follow(it));
    }
    spent
}
