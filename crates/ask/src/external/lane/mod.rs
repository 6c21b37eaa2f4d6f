//! The lane beside the shards: what waits for external evaluators, and the task that asks them.
//!
//! [`core`] decides, without a clock and without I/O; the task here gives it time, sends what it
//! says, and hands out what comes of it.

mod channel;
pub(super) mod core;
mod ending;
mod sending;
mod task;
#[cfg(test)]
mod tests;

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;

use self::core::{ExternalCore, ExternalPatience, not_sent};
use self::task::ExternalRunner;
use super::metrics::ExternalMetrics;
use spanscore_base::model::{Evaluation, Reason, Receipt, WaitingPlace, WaitingRoom};
use spanscore_evaluate::ExternalRequest;
use spanscore_evaluate::external::ExternalPlan;
use spanscore_net::lane::LaneRun;
use spanscore_net::metrics::{Meter, unread_meter};

/// Takes the evaluations of one task, with the receipt to hold until they have arrived.
type ExternalOutlet = Arc<dyn Fn(Vec<Evaluation>, Option<Receipt>) + Send + Sync>;
/// The same, told of which evaluator and target.
type SubjectOutlet = Arc<dyn Fn([u8; 16], Vec<Evaluation>, Option<Receipt>) + Send + Sync>;

/// A lane over recorded traces: nobody waits for an evaluator that is away.
const RECORDED: ExternalPatience = ExternalPatience { deadline_ms: u64::MAX, waits: false };

/// Limits of the lane.
#[derive(Clone, Copy, Debug)]
pub struct ExternalSettings {
    /// Time limit of an answer, counted from the arrival of its task.
    pub deadline: Duration,
    /// Tasks that may wait.
    pub waiting_max: usize,
    /// Bytes that they may hold.
    pub waiting_bytes_max: usize,
    /// True if tasks without an answer at the end are left to the next process.
    pub leaves: bool,
}

impl ExternalSettings {
    fn deadline_ms(&self) -> u64 {
        u64::try_from(self.deadline.as_millis()).unwrap_or(u64::MAX)
    }
}

/// Order to the lane's task.
enum ExternalOrder {
    Ask(Box<ExternalRequest>, Option<Receipt>, WaitingPlace),
    /// There may be an answer for so long, milliseconds.
    Deadline(u64),
    Close {
        leaves: bool,
    },
}

/// Handle that takes requests. Cheap to clone.
#[derive(Clone)]
pub struct ExternalHandle {
    sender: mpsc::UnboundedSender<ExternalOrder>,
    room: Arc<WaitingRoom>,
    outlet: SubjectOutlet,
}

impl ExternalHandle {
    /// Hands inquiries in; never waits. Of what finds no room, it is told at once.
    pub fn ask(&self, asked: Vec<ExternalRequest>, receipt: Option<&Receipt>) {
        for asked in asked {
            let subject = asked.subject;
            let Some(place) = self.room.enter(asked.bytes()) else {
                let evaluations = asked.give_up(not_sent(Reason::QueueFull));
                (self.outlet)(subject, evaluations, receipt.cloned());
                continue;
            };
            let order = ExternalOrder::Ask(Box::new(asked), receipt.cloned(), place);
            if let Err(mpsc::error::SendError(ExternalOrder::Ask(asked, receipt, _))) =
                self.sender.send(order)
            {
                let evaluations = asked.give_up(not_sent(Reason::Shutdown));
                (self.outlet)(subject, evaluations, receipt);
            }
        }
    }
}

/// Error of a lane that cannot start.
#[derive(Debug, thiserror::Error)]
#[error("failed to set up the evaluator `{evaluator}`: {error}")]
pub struct ExternalStartError {
    /// The evaluator.
    pub evaluator: String,
    /// Setting that cannot be used, in words.
    pub error: String,
}

/// The running lane.
pub struct ExternalLane {
    handle: ExternalHandle,
    leaves: bool,
    task: LaneRun,
}

impl ExternalLane {
    /// Starts on the current runtime; `known` are evaluators that are looked for at once.
    ///
    /// # Errors
    /// An evaluator whose settings cannot be used, such as a file that cannot be read.
    pub fn start<'e>(
        known: impl Iterator<Item = (&'e str, &'e Arc<ExternalPlan>)>,
        settings: &ExternalSettings,
        outlet: ExternalOutlet,
        meter: &Meter,
    ) -> Result<Self, ExternalStartError> {
        let deadline_ms = settings.deadline_ms();
        let patience = ExternalPatience { deadline_ms, waits: true };
        let room = WaitingRoom::new(settings.waiting_max, settings.waiting_bytes_max);
        let outlet: SubjectOutlet = Arc::new(move |_, all, receipt| outlet(all, receipt));
        let mut core = ExternalCore::new(patience);
        for (name, plan) in known {
            core.channel(name, plan);
        }
        let metrics = ExternalMetrics::new(meter, &room);
        let (lane, errors) = Self::start_with(core, room, outlet, metrics, settings.leaves);
        match errors.into_iter().next() {
            None => Ok(lane),
            Some(error) => {
                lane.task.cancel();
                Err(error)
            }
        }
    }

    fn start_with(
        core: ExternalCore,
        room: Arc<WaitingRoom>,
        outlet: SubjectOutlet,
        metrics: ExternalMetrics,
        leaves: bool,
    ) -> (Self, Vec<ExternalStartError>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut runner = ExternalRunner::new(core, Arc::clone(&outlet), metrics);
        let errors = runner.open();
        let task = LaneRun::spawn("external evaluators", runner, receiver);
        let handle = ExternalHandle { sender, room, outlet };
        (Self { handle, leaves, task }, errors)
    }

    /// Returns a handle that takes requests.
    pub fn handle(&self) -> ExternalHandle {
        self.handle.clone()
    }

    /// Follows other limits from now on. Evaluators that are new or changed are looked for when
    /// they are first asked.
    pub fn limit(&self, settings: &ExternalSettings) {
        self.handle.room.resize(settings.waiting_max, settings.waiting_bytes_max);
        // A lane that has ended needs none.
        let _ = self.handle.sender.send(ExternalOrder::Deadline(settings.deadline_ms()));
    }

    /// Takes no more. What is under way is waited for until there is no more time; what is not
    /// sent then is left to the next process where there is a log, else it is not evaluable. No
    /// process is left.
    pub async fn shutdown(self, no_more_time: impl Future<Output = ()>) {
        let Self { handle, leaves, task } = self;
        // A lane that has ended needs none.
        let _ = handle.sender.send(ExternalOrder::Close { leaves });
        task.finish(no_more_time).await;
    }
}

/// Asks about all of these, and gives the evaluations of each, in order.
pub async fn ask_all(asked: Vec<ExternalRequest>) -> Vec<Vec<Evaluation>> {
    let count = asked.len();
    let done: Arc<Mutex<Vec<Vec<Evaluation>>>> = Arc::new(Mutex::new(vec![Vec::new(); count]));
    let kept = Arc::clone(&done);
    let outlet: SubjectOutlet = Arc::new(move |subject, evaluations, _| {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = kept.get_mut(place_of(subject)) {
            *place = evaluations;
        }
    });
    let room = WaitingRoom::new(usize::MAX, usize::MAX);
    let metrics = ExternalMetrics::new(&unread_meter(), &room);
    let core = ExternalCore::new(RECORDED);
    let (lane, _) = ExternalLane::start_with(core, room, outlet, metrics, false);
    let numbered = asked.into_iter().zip(0u64..).map(|(mut asked, place)| {
        asked.subject = [0; 16];
        asked.subject[..8].copy_from_slice(&place.to_be_bytes());
        asked
    });
    lane.handle().ask(numbered.collect(), None);
    lane.shutdown(std::future::pending()).await;
    std::mem::take(&mut *done.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The place that a subject was made of.
fn place_of(subject: [u8; 16]) -> usize {
    let mut place = [0; 8];
    place.copy_from_slice(&subject[..8]);
    usize::try_from(u64::from_be_bytes(place)).unwrap_or(usize::MAX)
}
