//! Dead letters: unanswered inquiries, in a file that `spanscore rejudge` reads. Only ids and
//! errors.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use spanscore_ask::judge::DeadLetterChoice;
use spanscore_base::model::{Evaluation, Outcome, Reason};
use spanscore_emit::record;
use spanscore_emit::rotating::{Rotating, Rotation};
use spanscore_net::metrics;
use spanscore_net::metrics::{CounterBy, Meter};

/// Path of the file in `data_dir`.
pub const UNANSWERED_FILE: &str = "dead_letters/judges.jsonl";

/// Limit on lines waiting for the writer; others are dropped.
const WAITING_MAX: usize = 1_024;
/// Rotation of the file: 80 MiB in all.
const ROTATION: Rotation = Rotation { bytes_max: 16 << 20, backups_max: 4, is_private: true };

metrics! {
    struct LetterMetrics {
        letters: CounterBy("spanscore.judge.dead_letters", "{inquiry}",
            "Inquiries without an answer: kept for `spanscore rejudge`, or not.",
            "outcome", ["written", "failed", "dropped"]);
    }
}

/// Current `dead_letter` setting, shared by its clones.
#[derive(Clone)]
pub(super) struct KeptLetters(Arc<AtomicU8>);

impl KeptLetters {
    pub(super) fn new(choice: DeadLetterChoice) -> Self {
        Self(Arc::new(AtomicU8::new(choice as u8)))
    }

    /// Changes the setting.
    pub(super) fn change(&self, choice: DeadLetterChoice) {
        self.0.store(choice as u8, Ordering::Relaxed);
    }

    fn is_meant(&self, outcome: &Outcome) -> bool {
        let choice = self.0.load(Ordering::Relaxed);
        if choice == DeadLetterChoice::None as u8 {
            return false;
        }
        match outcome {
            Outcome::NotEvaluable {
                reason: Reason::BudgetExhausted | Reason::BudgetShare, ..
            } => choice == DeadLetterChoice::All as u8,
            outcome => outcome.is_unanswered(),
        }
    }
}

/// Writer of dead letters on its own thread, since the dispatcher never waits for the disk.
pub(super) struct UnansweredLetters {
    kept: KeptLetters,
    lines: Option<SyncSender<String>>,
    counter: CounterBy,
    writer: Option<JoinHandle<()>>,
}

impl UnansweredLetters {
    /// Starts the writer; `None` without `data_dir`. Counters appear at once, the file with the
    /// first letter.
    pub(super) fn start(data_dir: Option<&Path>, kept: KeptLetters, meter: &Meter) -> Option<Self> {
        let counter = LetterMetrics::new(meter).of(&[]).letters;
        let path = data_dir?.join(UNANSWERED_FILE);
        let (lines, taken) = sync_channel(WAITING_MAX);
        let counted = counter.clone();
        let writing = std::thread::Builder::new().name("dead-letters".to_owned());
        let writer = writing.spawn(move || write(&path, &taken, &counted));
        let writer = writer.map_err(|error| {
            tracing::error!(%error, "what judges do not answer cannot be kept");
        });
        Some(Self { kept, lines: Some(lines), counter, writer: writer.ok() })
    }

    /// Writes a letter for each evaluation without an answer.
    pub(super) fn keep(&self, evaluations: &[Evaluation]) {
        for evaluation in evaluations.iter().filter(|one| self.kept.is_meant(&one.outcome)) {
            let mut line = String::new();
            record::write_line(evaluation, false, &mut line);
            let is_taken = self.lines.as_ref().is_some_and(|lines| lines.try_send(line).is_ok());
            if !is_taken {
                self.counter.add("dropped", 1);
            }
        }
    }
}

/// Waits until all lines are written, before the process ends.
impl Drop for UnansweredLetters {
    fn drop(&mut self) {
        drop(self.lines.take());
        if let Some(writer) = self.writer.take() {
            // The panic hook has logged its panic.
            let _ = writer.join();
        }
    }
}

fn write(path: &Path, lines: &Receiver<String>, counter: &CounterBy) {
    let mut open = None;
    for line in lines {
        match append(path, &mut open, &line) {
            Ok(dropped) => {
                counter.add("written", 1);
                counter.add("dropped", dropped);
            }
            Err(error) => {
                counter.add("failed", 1);
                tracing::warn!(path = %path.display(), %error, "a dead letter cannot be kept");
            }
        }
    }
}

/// Appends a line; returns the number of older lines removed by rotation.
fn append(path: &Path, open: &mut Option<Rotating>, line: &str) -> std::io::Result<u64> {
    let file = match open {
        Some(file) => file,
        None => open.insert(Rotating::open_private(path, ROTATION)?),
    };
    let (_, error) = file.append(line.as_bytes(), &[line.len()]);
    error.map_or_else(|| Ok(file.take_dropped()), Err)
}
