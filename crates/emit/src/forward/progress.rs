//! Progress of each forward through the log, so that a restart does not resend delivered requests.
//!
//! A waiting request holds a [`LogPlace`]: a claim on its record, and an entry among the pending
//! positions. When the last clone is dropped, the request is done, unless it was
//! [left](LogPlace::leave) to the next process. The file (`forward.json` in the data directory)
//! names for each forward the highest offered position and the pending ones below it. It is
//! replaced by rename about once a second, so a crash resends the requests of the last second.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use spanscore_base::model::Claim;
use spanscore_base::otlp::{RawBody, Signal};
use spanscore_net::file::write_by_rename;

/// Interval of writes of a changed file.
const WRITE_INTERVAL: Duration = Duration::from_secs(1);
/// Limit on pending positions of one forward in the file; all later positions count as pending.
const NAMED_MAX: usize = 10_000;

/// Source of requests in a log.
pub trait ReadBack: Send + Sync {
    /// Reads the body at a position, as received; blocks.
    ///
    /// # Errors
    /// A body that cannot be read, with the reason.
    fn read_back(&self, position: u64) -> Result<(Signal, RawBody), String>;
}

/// Log from which requests are read again, and its folder.
#[derive(Clone)]
pub struct ForwardLog {
    /// Reader of the log.
    pub log: Arc<dyn ReadBack>,
    /// Folder of the progress file.
    pub folder: PathBuf,
    /// Position after the log's last record at the start. Noted positions beyond it were lost with
    /// the log's end, and will be reused.
    pub end: u64,
}

/// Log positions that one forward was offered and has passed on.
#[derive(Debug, Default)]
pub(super) struct ForwardProgress {
    state: Mutex<PassedState>,
}

#[derive(Debug, Default)]
struct PassedState {
    /// Progress of an earlier process.
    before: ProgressEntry,
    highest: Option<u64>,
    pending: BTreeSet<u64>,
    /// True once everything left by an earlier process was offered again.
    is_replayed: bool,
    has_changed: bool,
    /// Claims on requests left to the next process; the log keeps them as long as these live.
    left: Vec<Claim>,
}

/// Entry of one forward in the file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct ProgressEntry {
    /// Highest offered position; below it only the named ones are pending.
    highest: Option<u64>,
    pending: Vec<u64>,
    /// Position from which all are pending.
    all_from: Option<u64>,
}

impl ProgressEntry {
    /// Returns the part that is valid for a log with this end.
    fn up_to(mut self, end: u64) -> Self {
        self.highest = self.highest.map(|highest| highest.min(end.saturating_sub(1)));
        self.highest = self.highest.filter(|_| end > 0);
        self.pending.retain(|position| *position < end);
        self
    }

    fn is_done(&self, position: u64) -> bool {
        self.highest.is_some_and(|highest| position <= highest)
            && self.all_from.is_none_or(|from| position < from)
            && self.pending.binary_search(&position).is_err()
    }

    /// Removes a position that is offered again from those of an earlier process. A log is replayed
    /// in its order.
    fn offered(&mut self, position: u64) {
        if let Ok(at) = self.pending.binary_search(&position) {
            self.pending.remove(at);
        }
        if self.highest.is_some_and(|highest| position <= highest) {
            let from = self.all_from.map(|from| if position < from { from } else { position + 1 });
            self.all_from = from;
        }
    }
}

impl ForwardProgress {
    /// Marks an offered request as pending; returns false if an earlier process has passed it on.
    pub(super) fn offered(&self, position: u64) -> bool {
        let mut state = self.state.lock();
        if state.before.is_done(position) {
            return false;
        }
        state.before.offered(position);
        state.highest = state.highest.max(Some(position));
        state.pending.insert(position);
        state.has_changed = true;
        true
    }

    /// Marks a request as done.
    pub(super) fn done(&self, position: u64) {
        let mut state = self.state.lock();
        state.pending.remove(&position);
        state.has_changed = true;
    }

    /// Returns the place of a pending request; the claim may be on a lower position.
    pub(super) fn place(self: &Arc<Self>, position: u64, claim: Claim) -> LogPlace {
        let claim = Some(claim);
        let progress = Arc::clone(self);
        let is_left = AtomicBool::new(false);
        LogPlace(Arc::new(PlaceParts { claim, progress, position, is_left, is_given_on: false }))
    }

    /// Forgets positions of an earlier process that were not offered again: the log lost them.
    pub(super) fn replayed(&self) {
        let mut state = self.state.lock();
        let ProgressEntry { pending, all_from, .. } = &mut state.before;
        pending.clear();
        *all_from = None;
        state.is_replayed = true;
        state.has_changed = true;
    }

    /// Returns its entry for the file.
    fn line(&self) -> ProgressEntry {
        let mut state = self.state.lock();
        state.has_changed = false;
        let before = &state.before;
        // Positions of an earlier process that were not offered again are still pending.
        let mut pending: Vec<u64> = state.pending.iter().chain(&before.pending).copied().collect();
        pending.sort_unstable();
        let mut all_from = before.all_from;
        if !state.is_replayed {
            // Beyond the highest position of an earlier process, some may not have been offered
            // yet.
            let unknown = before.highest.map_or(0, |highest| highest.saturating_add(1));
            all_from = Some(all_from.map_or(unknown, |from| from.min(unknown)));
        }
        if pending.len() > NAMED_MAX {
            all_from = Some(pending[NAMED_MAX]).min(all_from.or(Some(u64::MAX)));
            pending.truncate(NAMED_MAX);
        }
        ProgressEntry { highest: state.highest.max(before.highest), pending, all_from }
    }
}

/// Place of a request in the log; clones share it and are cheap.
#[derive(Clone, Debug)]
pub(super) struct LogPlace(Arc<PlaceParts>);

#[derive(Debug)]
struct PlaceParts {
    /// Claim, taken when the place is dropped.
    claim: Option<Claim>,
    progress: Arc<ForwardProgress>,
    position: u64,
    is_left: AtomicBool,
    /// True if another holder has the claim.
    is_given_on: bool,
}

impl LogPlace {
    /// Returns the position.
    pub(super) fn position(&self) -> u64 {
        self.0.position
    }

    /// Returns the position, which stays pending, and its claim; `None` if there are other clones.
    pub(super) fn into_claim(mut self) -> Option<(u64, Claim)> {
        let parts = Arc::get_mut(&mut self.0)?;
        let claim = parts.claim.take()?;
        parts.is_given_on = true;
        Some((parts.position, claim))
    }

    /// Leaves the request to the next process.
    pub(super) fn leave(&self) {
        self.0.is_left.store(true, Ordering::Release);
    }
}

impl Drop for PlaceParts {
    fn drop(&mut self) {
        if self.is_given_on {
            return;
        }
        if self.is_left.load(Ordering::Acquire) {
            self.progress.state.lock().left.extend(self.claim.take());
        } else {
            self.progress.done(self.position);
        }
    }
}

/// Progress file of all forwards.
pub(super) struct ProgressFile {
    path: PathBuf,
    /// Entries of an earlier process for forwards that have not started.
    before: Mutex<BTreeMap<String, ProgressEntry>>,
    forwards: Mutex<BTreeMap<String, Arc<ForwardProgress>>>,
}

impl ProgressFile {
    /// Reads the file of an earlier process. An unreadable file counts as empty: everything in the
    /// log is sent again.
    pub(super) fn open(folder: &Path, end: u64) -> Self {
        let path = folder.join("forward.json");
        let lines = read(&path).unwrap_or_else(|error| {
            tracing::warn!(path = %path.display(), error,
                "what was passed on is not known; all that the log holds is sent again");
            BTreeMap::new()
        });
        let before = lines.into_iter().map(|(name, line)| (name, line.up_to(end))).collect();
        Self { path, before: Mutex::new(before), forwards: Mutex::default() }
    }

    /// Returns the progress of a starting forward, from an earlier process or this one.
    pub(super) fn begin(&self, name: &str) -> Arc<ForwardProgress> {
        let mut forwards = self.forwards.lock();
        if let Some(known) = forwards.get(name) {
            return Arc::clone(known);
        }
        let progress = Arc::new(ForwardProgress::default());
        let before = self.before.lock().remove(name);
        progress.state.lock().before = before.unwrap_or_default();
        forwards.insert(name.to_owned(), Arc::clone(&progress));
        progress
    }

    /// Writes the file at intervals, and once more when stopped.
    pub(super) async fn run(self: Arc<Self>, stop: CancellationToken) {
        let mut ticks = tokio::time::interval(WRITE_INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut trouble = false;
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            let own = Arc::clone(&self);
            let written = tokio::task::spawn_blocking(move || own.write(false)).await;
            if let Ok(Err(error)) = &written
                && !trouble
            {
                tracing::warn!(path = %self.path.display(), %error,
                    "cannot note what was passed on; a restart would send it again");
            }
            trouble = !matches!(written, Ok(Ok(())));
        }
    }

    /// Writes a changed file, with `is_forced` also an unchanged one.
    pub(super) fn write(&self, is_forced: bool) -> std::io::Result<()> {
        let lines: BTreeMap<_, _> = {
            let forwards = self.forwards.lock();
            let has_changed = forwards.values().any(|progress| progress.state.lock().has_changed);
            if forwards.is_empty() || !(is_forced || has_changed) {
                return Ok(());
            }
            forwards.iter().map(|(name, progress)| (name.clone(), progress.line())).collect()
        };
        let text = serde_json::to_vec(&lines)?;
        write_by_rename(&self.path, &text)
    }
}

fn read(path: &Path) -> Result<BTreeMap<String, ProgressEntry>, String> {
    match std::fs::read(path) {
        Ok(text) => serde_json::from_slice(&text).map_err(|error| error.to_string()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(BTreeMap::new()),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanscore_base::model::Source;

    /// Returns the place of a request, if it is to be passed on.
    fn place(progress: &Arc<ForwardProgress>, claim: Claim) -> Option<LogPlace> {
        let position = claim.position();
        progress.offered(position).then(|| progress.place(position, claim))
    }

    fn open(folder: &Path) -> (ProgressFile, Arc<ForwardProgress>) {
        open_at(folder, u64::MAX)
    }

    fn open_at(folder: &Path, end: u64) -> (ProgressFile, Arc<ForwardProgress>) {
        let file = ProgressFile::open(folder, end);
        let progress = file.begin("a");
        (file, progress)
    }

    #[test]
    fn what_was_left_is_offered_to_the_next_process_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let source = Arc::new(Source::default());
        let claim = |position| source.claim(position, 1);
        let (file, progress) = open(folder.path());
        progress.replayed();
        let places: Vec<_> = [1, 2, 3].map(|at| place(&progress, claim(at)).unwrap()).into();
        places[1].leave();
        drop(places);
        assert_eq!(source.lowest(), Some(2), "the log keeps what is left");
        file.write(false).unwrap();
        drop((file, progress));
        let (file, progress) = open(folder.path());
        assert!(place(&progress, claim(1)).is_none() && place(&progress, claim(3)).is_none());
        file.write(true).unwrap();
        let (_file, again) = open(folder.path());
        assert!(place(&again, claim(2)).is_some(), "nobody has offered it in between");
        assert!(place(&progress, claim(2)).is_some() && place(&progress, claim(4)).is_some());
        assert_eq!(source.lowest(), None, "what is done with is needed no more");
    }

    #[test]
    fn what_was_not_offered_again_before_the_next_end_is_offered_by_the_process_after_it() {
        let folder = tempfile::tempdir().unwrap();
        let source = Arc::new(Source::default());
        let claim = |position| source.claim(position, 1);
        let (file, progress) = open(folder.path());
        progress.replayed();
        drop(place(&progress, claim(1)));
        file.write(false).unwrap();
        // It took 2 and 3 and was killed before the write; the next takes 9, and is killed before
        // it reaches them.
        let (file, progress) = open(folder.path());
        drop(place(&progress, claim(9)));
        file.write(false).unwrap();
        let (_file, progress) = open(folder.path());
        assert!(place(&progress, claim(1)).is_none());
        assert!([2, 3].iter().all(|at| place(&progress, claim(*at)).is_some()));
    }

    #[test]
    fn positions_that_the_log_has_lost_and_gives_again_are_new() {
        let folder = tempfile::tempdir().unwrap();
        let source = Arc::new(Source::default());
        let claim = |position| source.claim(position, 1);
        let (file, progress) = open(folder.path());
        progress.replayed();
        (1..9).for_each(|position| drop(place(&progress, claim(position))));
        file.write(false).unwrap();
        let (_file, progress) = open_at(folder.path(), 5);
        assert!((1..5).all(|position| place(&progress, claim(position)).is_none()));
        assert!((5..9).all(|position| place(&progress, claim(position)).is_some()));
    }

    #[test]
    fn pending_positions_beyond_the_limit_are_offered_again() {
        let folder = tempfile::tempdir().unwrap();
        let source = Arc::new(Source::default());
        let (file, progress) = open(folder.path());
        let last = NAMED_MAX as u64 + 5;
        let places: Vec<_> =
            (0..=last).filter_map(|position| place(&progress, source.claim(position, 1))).collect();
        drop(place(&progress, source.claim(last + 1, 1)));
        file.write(false).unwrap();
        let (_file, again) = open(folder.path());
        let offered = (0..=last).filter(|it| place(&again, source.claim(*it, 1)).is_some()).count();
        assert_eq!(offered, places.len());
    }

    #[cfg(unix)]
    #[test]
    fn the_file_is_its_owners_and_a_broken_one_is_none() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let source = Arc::new(Source::default());
        let path = folder.path().join("forward.json");
        std::fs::write(&path, "{\"a\": nonsense").unwrap();
        let (file, progress) = open(folder.path());
        assert!(place(&progress, source.claim(1, 1)).is_some());
        file.write(true).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
