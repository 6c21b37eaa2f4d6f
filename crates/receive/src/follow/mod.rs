//! File receiver: follows files that another process writes.
//!
//! ```text
//! check: find files, detect truncation and renames -> read records -> intake -> store positions
//! ```
//!
//! Files take turns by bytes, so an endless file blocks no other. A file whose turn held no record,
//! as within an oversized line or a hole, rests until the next check.
//!
//! A record counts as read once the intake has accepted it. Without room the receiver waits, since
//! files persist. After a restart reading resumes from the stored positions, so records of the last
//! second before a crash may be repeated (at least once). A file that was absent is resumed as
//! after a restart. One task does everything; reads block a thread apart from the network's.

mod counters;
mod file;
mod framing;
mod paths;
mod positions;
mod record;
pub(super) mod settings;
#[cfg(test)]
mod tests;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, sleep};
use tokio_util::sync::CancellationToken;

use super::{ConnectionAccount, Intake, Received, Refused};
use crate::metrics::{AcceptedMetrics, labels};
use counters::{FollowMetrics, SkippedRecord};
use file::{FileBatch, FileIdentity, FilePosition, FileRecord, FollowedFile};
use paths::FILES_MAX;
use positions::PositionStore;
use record::{ReadRoom, RecordSettings, read_records};
use settings::{FileReceiverSettings, StartAt};
use spanscore_base::model::{Memory, MemoryQuota};
use spanscore_net::metrics::Meter;

/// Interval at which positions are stored.
const STORE_INTERVAL: Duration = Duration::from_secs(1);
/// Checks after which a fully read file without a name is closed.
const ABSENT_LOOKS_MAX: u32 = 5;
/// Memory for reading one file, beside its largest record.
const READING_BYTES: usize = 2 << 20;
/// Bytes of a file per turn, exceeded by the last record.
const TURN_BYTES: u64 = 1 << 20;
/// Pause before memory is requested again.
const MEMORY_WAIT: Duration = Duration::from_millis(100);
/// Shortest interval of log lines about skipped records.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

/// Running file receiver; none by default.
#[derive(Default)]
pub struct FileReceiver {
    running: Option<(CancellationToken, JoinHandle<()>)>,
}

impl FileReceiver {
    /// Starts it on the current runtime. `data_dir` is the folder for positions, if any.
    pub fn start<I: Intake>(
        settings: Option<&FileReceiverSettings>,
        intake: Arc<I>,
        memory: &Memory,
        meter: &Meter,
        data_dir: Option<&Path>,
    ) -> Self {
        let Some(settings) = settings.cloned() else { return Self::default() };
        let (store, stored) = match data_dir.map(PositionStore::open) {
            Some((store, stored)) => (Some(store), stored),
            None => (None, None),
        };
        let stop = CancellationToken::new();
        let follower = Follower {
            settings,
            intake,
            sender: Arc::default(),
            metrics: FollowMetrics::new(meter).of(&[]),
            accepted: AcceptedMetrics::new(meter).of(&labels("file", "file")),
            memory: Arc::clone(&memory.requests),
            stop: stop.clone(),
            files: Vec::new(),
            knows_files: stored.is_some(),
            stored: stored.unwrap_or_default(),
            store,
            is_first_look: true,
            last_stored: Instant::now(),
            last_logged: None,
        };
        Self { running: Some((stop, tokio::spawn(follower.run()))) }
    }

    /// Stops it, at the latest when `no_more_time` completes; a record in progress is accepted or
    /// read again later.
    pub async fn stop(self, no_more_time: impl Future<Output = ()>) {
        let Some((stop, mut task)) = self.running else { return };
        stop.cancel();
        tokio::select! {
            biased;
            _ = &mut task => {}
            () = no_more_time => task.abort(),
        }
    }
}

/// End of a file's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// It had its bytes, and more are available.
    Over,
    /// It is fully read, or held no record: it rests until the next check.
    Done,
    /// There was no room.
    Waits,
}

struct Follower<I> {
    settings: FileReceiverSettings,
    intake: Arc<I>,
    sender: Arc<ConnectionAccount>,
    metrics: FollowMetrics,
    accepted: AcceptedMetrics,
    memory: Arc<MemoryQuota>,
    stop: CancellationToken,
    files: Vec<FollowedFile>,
    /// Positions of missing files; the latest last.
    stored: Vec<FilePosition>,
    store: Option<PositionStore>,
    /// True if positions were stored before: an unlisted file is then new.
    knows_files: bool,
    is_first_look: bool,
    last_stored: Instant,
    last_logged: Option<Instant>,
}

impl<I: Intake> Follower<I> {
    async fn run(mut self) {
        let mut looks = tokio::time::interval(self.settings.poll_interval.0);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while self.stop.clone().run_until_cancelled(looks.tick()).await.is_some() {
            self.look().await;
            self.is_first_look = false;
            let next_look = Instant::now() + self.settings.poll_interval.0;
            while self.round().await && Instant::now() < next_look {}
            self.let_go();
            let behind = self.files.iter().map(|it| it.len().saturating_sub(it.position.offset));
            self.metrics.files.record(self.files.len() as u64);
            self.metrics.behind.record(behind.sum());
        }
        self.store(true).await;
    }

    /// Gives each active file a turn; false if all rest now.
    async fn round(&mut self) -> bool {
        let mut has_moved = false;
        let mut is_behind = false;
        let mut at = 0;
        while at < self.files.len() && !self.stop.is_cancelled() {
            if !self.files[at].rests {
                let turn = self.turn(at).await;
                // A panic during reading removes its file.
                let Some(file) = self.files.get_mut(at) else { break };
                file.rests = turn == Turn::Done;
                is_behind |= turn != Turn::Done;
                has_moved |= turn == Turn::Over;
                self.store(false).await;
            }
            at += 1;
        }
        if is_behind && !has_moved {
            // The caller checks for the end.
            let _ = self.stop.run_until_cancelled(sleep(MEMORY_WAIT)).await;
        }
        is_behind && !self.stop.is_cancelled()
    }

    /// Finds new, renamed and missing files.
    async fn look(&mut self) {
        let include = self.settings.include.clone();
        let exclude = self.settings.exclude.clone();
        let files_max = self.settings.max_concurrent_files;
        let known: Vec<_> = self.files.iter().map(|file| *file.identity()).collect();
        let looking = tokio::task::spawn_blocking(move || {
            let mut old = Vec::new();
            let mut new = Vec::new();
            for path in paths::find(&include, &exclude) {
                // A file deleted meanwhile is skipped.
                let Ok(place) = FileIdentity::place(&path) else { continue };
                if known.iter().any(|it| it.is_at(&place)) {
                    old.push((place, path));
                } else if known.len() + new.len() < files_max {
                    new.extend(FollowedFile::open(&path));
                }
            }
            (old, new)
        });
        let Ok((old, new)) = looking.await else { return };
        for file in &mut self.files {
            file.rests = false;
            match old.iter().find(|(identity, _)| identity.is_at(file.identity())) {
                Some((_, path)) => {
                    file.absent = 0;
                    file.position.path.clone_from(path);
                    file.path.clone_from(path);
                }
                None => file.absent += 1,
            }
        }
        for file in new {
            let is_twice = self.files.iter().any(|it| it.identity().is_at(file.identity()));
            if self.files.len() < files_max && !is_twice {
                self.begin(file);
            }
        }
    }

    /// Starts a file at its stored position, or as configured.
    fn begin(&mut self, mut file: FollowedFile) {
        let is_at = |it: &FilePosition| it.identity.is_at(file.identity());
        let stored = self.stored.iter().rposition(is_at).or_else(|| {
            // A remounted file system may have another device number.
            let at = self.stored.iter().rposition(|it| it.path == file.path)?;
            file.is_of(&self.stored[at].identity).then_some(at)
        });
        let is_from_end = self.settings.start_at == StartAt::End;
        let stored = stored.map(|at| self.stored.remove(at));
        match stored {
            Some(stored) if file.is_of(&stored.identity) && stored.offset <= file.len() => {
                file.resume(stored.offset, stored.line);
            }
            // Another file in its place, or a rewritten one.
            Some(_) => {}
            None if self.is_first_look && !self.knows_files && is_from_end => {
                file.resume(file.len(), 0);
            }
            None => {}
        }
        self.files.push(file);
    }

    /// Reads and hands over new records of one file, until it has had its bytes.
    async fn turn(&mut self, at: usize) -> Turn {
        let Some(restarted) = self.with(at, FollowedFile::restart_if_cut).await else {
            return Turn::Done;
        };
        if restarted {
            self.metrics.restarts.add(1);
            tracing::info!(path = %self.files[at].path.display(), "a file was cut or written anew");
        }
        let from = self.files[at].position.offset;
        let mut has_records = false;
        let turn = loop {
            let batch = match self.read(at).await {
                Ok(batch) => batch,
                Err(turn) => break turn,
            };
            let Some(file) = self.files.get(at) else { break Turn::Done };
            has_records |= !batch.records.is_empty();
            let is_over = file.position.offset.saturating_sub(from) >= TURN_BYTES;
            if !batch.is_progress || self.stop.is_cancelled() || is_over && !has_records {
                break Turn::Done;
            }
            if is_over {
                break Turn::Over;
            }
        };
        if let Some(file) = self.files.get_mut(at) {
            file.leave_room(&self.memory);
        }
        turn
    }

    /// Reads and hands over the next records of one file.
    ///
    /// # Errors
    /// The end of its turn: there is no room, it cannot be read, or a batch was not
    /// accepted and must be read again.
    async fn read(&mut self, at: usize) -> Result<FileBatch, Turn> {
        let bytes_max = self.settings.max_record_mib << 20;
        self.files[at].count_buffer(&self.memory);
        // Reading continues beyond the limit one record at a time.
        let own: usize = self.files.iter().map(FollowedFile::held).sum();
        if self.memory.left() < READING_BYTES && self.memory.held() > own {
            self.metrics.waits.add(1);
            return Err(Turn::Waits);
        }
        self.memory.take(READING_BYTES);
        let batch = self.with(at, move |file| file.next_batch(bytes_max)).await;
        let taken = match &batch {
            Some(batch) => self.take(at, batch, READING_BYTES + own).await,
            None => false,
        };
        self.memory.give_back(READING_BYTES);
        let batch = batch.filter(|_| taken).ok_or(Turn::Done)?;
        self.files[at].acknowledge(&batch);
        Ok(batch)
    }

    /// Works on a file off the network's threads.
    async fn with<T: Send + 'static>(
        &mut self,
        at: usize,
        work: impl FnOnce(&mut FollowedFile) -> io::Result<T> + Send + 'static,
    ) -> Option<T> {
        let mut file = self.files.swap_remove(at);
        let path = file.path.clone();
        let working = tokio::task::spawn_blocking(move || {
            let done = work(&mut file);
            (file, done)
        });
        // Reading does not panic; a file at which it did is found anew.
        let (file, done) = working.await.ok()?;
        self.files.push(file);
        let last = self.files.len() - 1;
        self.files.swap(at, last);
        done.inspect_err(|error| self.log(&path, None, &error.to_string())).ok()
    }

    /// Hands a batch to the intake; `false` if it was not accepted and must be read again. `held`
    /// is the memory counted for it and for file buffers.
    async fn take(&mut self, at: usize, batch: &FileBatch, held: usize) -> bool {
        let path = self.files[at].path.clone();
        for line in &batch.too_large {
            self.pass_over(&path, *line, SkippedRecord::TooLarge, "larger than `max_record_mib`");
        }
        let records: Arc<[FileRecord]> = batch.records.as_slice().into();
        let signal = self.settings.signal;
        let bytes_max = self.settings.max_record_mib << 20;
        let settings = RecordSettings { path: path.as_path().into(), signal, bytes_max };
        let mut next = 0;
        while next < records.len() {
            // If nothing else holds memory, a large record may exceed the limit: it would wait for
            // ever.
            let room = ReadRoom::new(&self.memory, self.memory.held() <= held);
            let some = Arc::clone(&records);
            let from = next;
            let how = settings.clone();
            let reading =
                tokio::task::spawn_blocking(move || read_records(&some, from, &how, room));
            let Ok(read) = reading.await else {
                // Reading does not panic; a record at which it did is skipped.
                self.pass_over(
                    &path,
                    records[next].line,
                    SkippedRecord::Malformed,
                    "cannot be read",
                );
                next += 1;
                continue;
            };
            for (line, reason, error) in read.unusable {
                self.pass_over(&path, line, reason, &error);
            }
            if !self.hand_over(&path, read.requests).await {
                return false;
            }
            drop(read.room);
            if read.next == next {
                self.metrics.waits.add(1);
                if self.stop.run_until_cancelled(sleep(MEMORY_WAIT)).await.is_none() {
                    return false;
                }
            }
            next = read.next;
        }
        true
    }

    fn pass_over(&mut self, path: &Path, line: u64, reason: SkippedRecord, error: &str) {
        self.metrics.passed_over.add(reason.into_str(), 1);
        self.log(path, Some(line), error);
    }

    /// Hands requests over until each is accepted or refused for good.
    async fn hand_over(&mut self, path: &Path, mut requests: Vec<(u64, Received)>) -> bool {
        while !requests.is_empty() {
            let mut handing = JoinSet::new();
            for (line, request) in std::mem::take(&mut requests) {
                let intake = Arc::clone(&self.intake);
                let sender = Arc::clone(&self.sender);
                handing.spawn(async move {
                    let outcome = intake.accept(request.clone(), &sender).await;
                    (line, request, outcome)
                });
            }
            let mut wait = None;
            while let Some(handed) = handing.join_next().await {
                let Ok((line, request, outcome)) = handed else {
                    self.metrics.passed_over.add(SkippedRecord::Malformed.into_str(), 1);
                    continue;
                };
                match outcome {
                    Ok(accepted) => {
                        self.metrics.records.add(1);
                        self.accepted.add(request.signal, accepted.accepted);
                    }
                    Err(Refused::Malformed(error)) => {
                        self.metrics.passed_over.add(SkippedRecord::Malformed.into_str(), 1);
                        self.log(path, Some(line), &error);
                    }
                    Err(Refused::Later { retry_after, .. }) => {
                        wait = wait.max(Some(retry_after));
                        requests.push((line, request));
                    }
                    Err(Refused::ShuttingDown) => return false,
                }
            }
            let Some(wait) = wait else { continue };
            self.metrics.waits.add(1);
            requests.sort_by_key(|(line, _)| *line);
            if self.stop.run_until_cancelled(sleep(wait)).await.is_none() {
                return false;
            }
        }
        true
    }

    /// Closes deleted files that are fully read.
    fn let_go(&mut self) {
        for file in self.files.extract_if(.., |file| file.absent > ABSENT_LOOKS_MAX) {
            if file.is_cut() {
                self.metrics.passed_over.add(SkippedRecord::Cut.into_str(), 1);
            }
            // It may return, as after a mount.
            self.stored.push(file.position);
        }
        let beyond = self.stored.len().saturating_sub(FILES_MAX);
        self.stored.drain(..beyond);
    }

    /// Stores the positions after the interval, or at the end.
    async fn store(&mut self, is_last: bool) {
        if !is_last && self.last_stored.elapsed() < STORE_INTERVAL {
            return;
        }
        self.last_stored = Instant::now();
        let Some(mut store) = self.store.take() else { return };
        let own = self.files.iter().map(|file| &file.position);
        let positions: Vec<_> = own.chain(&self.stored).take(FILES_MAX * 2).cloned().collect();
        let storing = tokio::task::spawn_blocking(move || {
            let stored = store.write(positions);
            (store, stored)
        });
        let Ok((store, stored)) = storing.await else { return };
        self.store = Some(store);
        if let Err(error) = stored {
            tracing::warn!(%error, "cannot store how far files were read");
        }
    }

    /// Logs an error of a file or record, at most once per interval.
    fn log(&mut self, path: &Path, line: Option<u64>, error: &str) {
        if self.last_logged.is_some_and(|last| last.elapsed() < LOG_INTERVAL) {
            return;
        }
        self.last_logged = Some(Instant::now());
        tracing::warn!(path = %path.display(), line, error, "a file cannot be read in full");
    }
}
