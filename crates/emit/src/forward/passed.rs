//! Progress of each forward through the log, so that a restart does not resend what was passed on.
//!
//! A request that waits holds a [`LogPlace`]: a claim on its record, and a line among the pending
//! positions. Once the last clone of it is dropped, the request is done with, unless it was
//! [left](LogPlace::leave) for the next process. The file (`forward.json` in the data directory)
//! names for each forward the highest position that it was offered, and the pending ones below it.
//! It is written by rename about once a second, so a crash sends again the requests of the last
//! second.

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

/// Interval of writes of the file where something has changed.
const WRITE_INTERVAL: Duration = Duration::from_secs(1);
/// Most pending positions that the file names for one forward; from there on all are pending.
const NAMED_MAX: usize = 10_000;

/// Reads requests again that are in a log.
pub trait ReadBack: Send + Sync {
    /// The body at a position, as it came; blocks.
    ///
    /// # Errors
    /// It cannot be read, with the reason.
    fn read_back(&self, position: u64) -> Result<(Signal, RawBody), String>;
}

/// The log that requests are read from again, and the folder beside it.
#[derive(Clone)]
pub struct ForwardLog {
    /// The log.
    pub log: Arc<dyn ReadBack>,
    /// Folder of the file that notes the progress.
    pub folder: PathBuf,
    /// The position after all that the log held at the start. What is noted beyond it was lost with
    /// the end of the log, and its positions are given again.
    pub end: u64,
}

/// Positions of the log that one forward has been offered and has passed on.
#[derive(Debug, Default)]
pub(super) struct PassedOn {
    state: Mutex<PassedState>,
}

#[derive(Debug, Default)]
struct PassedState {
    /// Positions that an earlier process left.
    before: PassedLine,
    highest: Option<u64>,
    pending: BTreeSet<u64>,
    /// All that an earlier process left has been offered again.
    is_replayed: bool,
    has_changed: bool,
    /// Claims of what is left for the next process: the log keeps it as long as this lives.
    left: Vec<Claim>,
}

/// One forward in the file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct PassedLine {
    /// The highest position that was offered; none below it but those named is pending.
    highest: Option<u64>,
    pending: Vec<u64>,
    /// From here on all are pending.
    all_from: Option<u64>,
}

impl PassedLine {
    /// Returns the part of it that holds in a log that ended there.
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

    /// Removes a position that is offered again from those that an earlier process left. A log is
    /// replayed in its order.
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

impl PassedOn {
    /// Notes a request that is offered as pending; `false` where an earlier process has passed it
    /// on.
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

    /// Notes that a request is done with.
    pub(super) fn done(&self, position: u64) {
        let mut state = self.state.lock();
        state.pending.remove(&position);
        state.has_changed = true;
    }

    /// The place of a request that is pending; the claim may be one on a lower position.
    pub(super) fn place(self: &Arc<Self>, position: u64, claim: Claim) -> LogPlace {
        let claim = Some(claim);
        let passed = Arc::clone(self);
        let is_left = AtomicBool::new(false);
        LogPlace(Arc::new(PlaceParts { claim, passed, position, is_left, is_given_on: false }))
    }

    /// Forgets what an earlier process left and nobody has offered again: the log has it no more.
    pub(super) fn replayed(&self) {
        let mut state = self.state.lock();
        let PassedLine { pending, all_from, .. } = &mut state.before;
        pending.clear();
        *all_from = None;
        state.is_replayed = true;
        state.has_changed = true;
    }

    /// As the file has it.
    fn line(&self) -> PassedLine {
        let mut state = self.state.lock();
        state.has_changed = false;
        let before = &state.before;
        // Positions that an earlier process left and nobody has offered again are pending still.
        let mut pending: Vec<u64> = state.pending.iter().chain(&before.pending).copied().collect();
        pending.sort_unstable();
        let mut all_from = before.all_from;
        if !state.is_replayed {
            // Beyond what an earlier process had offered, some may not have been offered yet.
            let unknown = before.highest.map_or(0, |highest| highest.saturating_add(1));
            all_from = Some(all_from.map_or(unknown, |from| from.min(unknown)));
        }
        if pending.len() > NAMED_MAX {
            all_from = Some(pending[NAMED_MAX]).min(all_from.or(Some(u64::MAX)));
            pending.truncate(NAMED_MAX);
        }
        PassedLine { highest: state.highest.max(before.highest), pending, all_from }
    }
}

/// The place of a request in the log. Cheap to clone: a clone is the same place.
#[derive(Clone, Debug)]
pub(super) struct LogPlace(Arc<PlaceParts>);

#[derive(Debug)]
struct PlaceParts {
    /// Taken only when it is dropped.
    claim: Option<Claim>,
    passed: Arc<PassedOn>,
    position: u64,
    is_left: AtomicBool,
    /// Somebody else holds the claim now.
    is_given_on: bool,
}

impl LogPlace {
    /// The position.
    pub(super) fn position(&self) -> u64 {
        self.0.position
    }

    /// Returns the position, which stays pending, and its claim; `None` where others have the same
    /// place.
    pub(super) fn into_claim(mut self) -> Option<(u64, Claim)> {
        let parts = Arc::get_mut(&mut self.0)?;
        let claim = parts.claim.take()?;
        parts.is_given_on = true;
        Some((parts.position, claim))
    }

    /// Leaves the request for the next process.
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
            self.passed.state.lock().left.extend(self.claim.take());
        } else {
            self.passed.done(self.position);
        }
    }
}

/// The file of all forwards.
pub(super) struct PassedFile {
    path: PathBuf,
    /// Lines that an earlier process left of forwards that have not begun.
    before: Mutex<BTreeMap<String, PassedLine>>,
    forwards: Mutex<BTreeMap<String, Arc<PassedOn>>>,
}

impl PassedFile {
    /// Reads what an earlier process left. A file that cannot be read counts as none: everything
    /// in the log is sent again.
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

    /// Returns the progress of a forward that begins, from an earlier process or from this one.
    pub(super) fn begin(&self, name: &str) -> Arc<PassedOn> {
        let mut forwards = self.forwards.lock();
        if let Some(known) = forwards.get(name) {
            return Arc::clone(known);
        }
        let passed = Arc::new(PassedOn::default());
        let before = self.before.lock().remove(name);
        passed.state.lock().before = before.unwrap_or_default();
        forwards.insert(name.to_owned(), Arc::clone(&passed));
        passed
    }

    /// Writes now and then, and a last time once it is told to stop.
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

    /// Writes what has changed; `is_forced`: in any case.
    pub(super) fn write(&self, is_forced: bool) -> std::io::Result<()> {
        let lines: BTreeMap<_, _> = {
            let forwards = self.forwards.lock();
            let has_changed = forwards.values().any(|passed| passed.state.lock().has_changed);
            if forwards.is_empty() || !(is_forced || has_changed) {
                return Ok(());
            }
            forwards.iter().map(|(name, passed)| (name.clone(), passed.line())).collect()
        };
        let text = serde_json::to_vec(&lines)?;
        write_by_rename(&self.path, &text)
    }
}

fn read(path: &Path) -> Result<BTreeMap<String, PassedLine>, String> {
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

    /// The place of a request, where it is to be passed on.
    fn place(passed: &Arc<PassedOn>, claim: Claim) -> Option<LogPlace> {
        let position = claim.position();
        passed.offered(position).then(|| passed.place(position, claim))
    }

    fn open(folder: &Path) -> (PassedFile, Arc<PassedOn>) {
        open_at(folder, u64::MAX)
    }

    fn open_at(folder: &Path, end: u64) -> (PassedFile, Arc<PassedOn>) {
        let file = PassedFile::open(folder, end);
        let passed = file.begin("a");
        (file, passed)
    }

    #[test]
    fn what_was_left_is_offered_to_the_next_process_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let source = Arc::new(Source::default());
        let claim = |position| source.claim(position, 1);
        let (file, passed) = open(folder.path());
        passed.replayed();
        let places: Vec<_> = [1, 2, 3].map(|at| place(&passed, claim(at)).unwrap()).into();
        places[1].leave();
        drop(places);
        assert_eq!(source.lowest(), Some(2), "the log keeps what is left");
        file.write(false).unwrap();
        drop((file, passed));
        let (file, passed) = open(folder.path());
        assert!(place(&passed, claim(1)).is_none() && place(&passed, claim(3)).is_none());
        file.write(true).unwrap();
        let (_file, again) = open(folder.path());
        assert!(place(&again, claim(2)).is_some(), "nobody has offered it in between");
        assert!(place(&passed, claim(2)).is_some() && place(&passed, claim(4)).is_some());
        assert_eq!(source.lowest(), None, "what is done with is needed no more");
    }

    #[test]
    fn what_was_not_offered_again_before_the_next_end_is_offered_by_the_process_after_it() {
        let folder = tempfile::tempdir().unwrap();
        let source = Arc::new(Source::default());
        let claim = |position| source.claim(position, 1);
        let (file, passed) = open(folder.path());
        passed.replayed();
        drop(place(&passed, claim(1)));
        file.write(false).unwrap();
        // It took 2 and 3, and was killed before it wrote that. The next one takes 9, and is killed
        // before it came to them.
        let (file, passed) = open(folder.path());
        drop(place(&passed, claim(9)));
        file.write(false).unwrap();
        let (_file, passed) = open(folder.path());
        assert!(place(&passed, claim(1)).is_none());
        assert!([2, 3].iter().all(|at| place(&passed, claim(*at)).is_some()));
    }

    #[test]
    fn positions_that_the_log_has_lost_and_gives_again_are_new() {
        let folder = tempfile::tempdir().unwrap();
        let source = Arc::new(Source::default());
        let claim = |position| source.claim(position, 1);
        let (file, passed) = open(folder.path());
        passed.replayed();
        (1..9).for_each(|position| drop(place(&passed, claim(position))));
        file.write(false).unwrap();
        let (_file, passed) = open_at(folder.path(), 5);
        assert!((1..5).all(|position| place(&passed, claim(position)).is_none()));
        assert!((5..9).all(|position| place(&passed, claim(position)).is_some()));
    }

    #[test]
    fn more_than_can_be_named_is_pending_from_some_place_on() {
        let folder = tempfile::tempdir().unwrap();
        let source = Arc::new(Source::default());
        let (file, passed) = open(folder.path());
        let last = NAMED_MAX as u64 + 5;
        let places: Vec<_> =
            (0..=last).filter_map(|position| place(&passed, source.claim(position, 1))).collect();
        drop(place(&passed, source.claim(last + 1, 1)));
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
        let (file, passed) = open(folder.path());
        assert!(place(&passed, source.claim(1, 1)).is_some());
        file.write(true).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
