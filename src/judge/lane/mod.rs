//! The lane beside the shards: what waits for judges, and the task that asks them.
//!
//! [`core`] decides, without a clock and without I/O; the task here gives it time, sends what it
//! says, and hands out what comes of it.

mod answering;
mod change;
pub(super) mod core;
mod dialog;
mod ending;
mod spent;
mod task;
#[cfg(test)]
mod tests;
mod watched;

use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use opentelemetry::metrics::Meter;
use tokio::sync::mpsc;

use self::change::{JudgePlace, place_of};
use self::core::{LaneCore, LaneLimits};
use self::ending::not_asked;
use self::task::{LaneRunner, LaneSurroundings};
use super::cache::QuestionKey;
use super::call::CallWatch;
use super::client::{JudgeClient, JudgeStartError, ReplyRecording};
use super::metrics::{JudgeMetrics, LaneMetrics};
use super::settings::{JudgeSettings, JudgingSettings};
use crate::evaluate::AskedInquiry;
use crate::evaluate::inquiry::MarkKey;
use crate::lane::LaneRun;
use crate::model::{Evaluation, Reason, Receipt, WaitingPlace, WaitingRoom};
use crate::settings::HumanDuration;

/// Takes the evaluations of one inquiry, with the receipt to hold until they have arrived.
pub type LaneOutlet = Arc<dyn Fn(Vec<Evaluation>, Option<Receipt>) + Send + Sync>;

/// Keeps an answer of a judge before anybody hears of it.
pub trait AnswerLog: Send + Sync {
    /// Keeps it; ends once it is kept, or cannot be.
    fn keep(&self, key: [u8; 16], text: String) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// A lane over recorded traces: nothing is revised, and nobody waits for a judge that is not well.
const RECORDED: LaneLimits =
    LaneLimits { settle_ms: 0, deadline_ms: u64::MAX, waits_for_circuit: false };

/// What the lane is told.
enum LaneMessage {
    Ask(Box<AskedInquiry>, Option<Receipt>, WaitingPlace),
    Remember(QuestionKey, String),
    Change(JudgesChange),
    Close { leaves: bool },
}

/// Where inquiries are handed in. Cheap to clone.
#[derive(Clone)]
pub struct LaneHandle {
    sender: mpsc::UnboundedSender<LaneMessage>,
    load: Arc<WaitingRoom>,
    outlet: LaneOutlet,
    metrics: Arc<LaneMetrics>,
}

impl LaneHandle {
    /// Hands inquiries in; never waits. Of what finds no room, it is told at once.
    pub fn ask(&self, asked: Vec<AskedInquiry>, receipt: Option<&Receipt>) {
        for asked in asked {
            let Some(place) = self.load.enter(asked.bytes()) else {
                let judge = self.metrics.place(&asked.plan.judge);
                let evaluations = asked.give_up(not_asked(Reason::QueueFull), None);
                self.metrics.emitted(judge, &evaluations);
                (self.outlet)(evaluations, receipt.cloned());
                continue;
            };
            let message = LaneMessage::Ask(Box::new(asked), receipt.cloned(), place);
            if let Err(mpsc::error::SendError(LaneMessage::Ask(asked, receipt, _))) =
                self.sender.send(message)
            {
                let judge = self.metrics.place(&asked.plan.judge);
                let evaluations = asked.give_up(not_asked(Reason::Shutdown), None);
                self.metrics.emitted(judge, &evaluations);
                (self.outlet)(evaluations, receipt);
            }
        }
    }

    /// Tells of an answer that an earlier process was given.
    pub fn remember(&self, key: [u8; 16], text: String) {
        // A lane that has ended needs none.
        let _ = self.sender.send(LaneMessage::Remember(key, text));
    }
}

/// What a lane is made of.
pub struct LaneSettings<'a> {
    /// The judges by name.
    pub judges: &'a BTreeMap<String, JudgeSettings>,
    /// The evaluators that are known to ask, each with its judge.
    pub asking: Vec<(String, String)>,
    /// Where replies are recorded, or read from.
    pub recording: Option<ReplyRecording>,
    /// Where it is kept what was spent.
    pub spent_file: Option<PathBuf>,
    /// Where answers are kept until they are delivered.
    pub log: Option<Arc<dyn AnswerLog>>,
    /// Who is told of each request.
    pub watch: Option<CallWatch>,
}

/// Judges of another config, not in use. Dropped, it changes nothing.
pub struct JudgesChange {
    judges: Vec<(String, JudgeSettings, JudgeClient)>,
    /// The evaluators that ask from then on, each with its judge.
    asking: Vec<(String, String)>,
    limits: LaneLimits,
}

/// Judges that one process asks at most, those that it has asked before among them.
const KNOWN_MAX: usize = 1_000;

/// The running lane.
pub struct JudgeLane {
    /// All that there are, in the order of the lane.
    known: Mutex<Vec<(String, JudgeSettings)>>,
    handle: LaneHandle,
    /// Whether what is not asked at the end is left to the next process.
    leaves: bool,
    task: LaneRun,
}

impl JudgeLane {
    /// Starts on the current runtime.
    ///
    /// # Errors
    /// A key that is not there, or a client that cannot be made.
    pub fn start(
        settings: LaneSettings<'_>,
        judging: &JudgingSettings,
        outlet: LaneOutlet,
        meter: &Meter,
    ) -> Result<Self, JudgeStartError> {
        let limits = limits_of(judging);
        let load = judging.room();
        Self::start_with(settings, outlet, limits, load, JudgeMetrics::new(meter))
    }

    fn start_with(
        settings: LaneSettings<'_>,
        outlet: LaneOutlet,
        limits: LaneLimits,
        load: Arc<WaitingRoom>,
        metrics: JudgeMetrics,
    ) -> Result<Self, JudgeStartError> {
        let LaneSettings { judges, asking, recording, spent_file, log, watch } = settings;
        if let Some(ReplyRecording::Record(folder)) = &recording {
            std::fs::create_dir_all(folder).map_err(|error| JudgeStartError::Folder {
                path: folder.display().to_string(),
                error,
            })?;
        }
        let client = |(name, judge): (&String, &JudgeSettings)| {
            JudgeClient::new(name, judge, recording.clone())
        };
        let clients = judges.iter().map(client).collect::<Result<Vec<_>, _>>()?;
        let own = judges.iter().map(|(name, judge)| (name.clone(), judge.clone()));
        let own: Vec<_> = own.collect();
        let core = LaneCore::new(own.clone(), limits, mark_key()?);
        let (sender, receiver) = mpsc::unbounded_channel();
        let leaves = log.is_some();
        let names = judges.keys().cloned().collect();
        let metrics = Arc::new(metrics.of(names, &asking, &load));
        let handle =
            LaneHandle { sender, load, outlet: Arc::clone(&outlet), metrics: Arc::clone(&metrics) };
        let around = LaneSurroundings { outlet, metrics, spent_file, log, watch };
        let runner = LaneRunner::new(core, clients, around);
        let task = LaneRun::spawn("judges", runner, receiver);
        Ok(Self { known: Mutex::new(own), handle, leaves, task })
    }

    /// Where inquiries are handed in.
    pub fn handle(&self) -> LaneHandle {
        self.handle.clone()
    }

    /// Makes clients for judges that are new or changed, without asking anybody.
    ///
    /// # Errors
    /// A key that is not there, a client that cannot be made, or too many judges over time.
    pub fn prepare(
        &self,
        judges: &BTreeMap<String, JudgeSettings>,
        asking: Vec<(String, String)>,
        judging: &JudgingSettings,
    ) -> Result<JudgesChange, JudgeStartError> {
        let known = self.known();
        let mut change = JudgesChange { judges: Vec::new(), asking, limits: limits_of(judging) };
        for (name, judge) in judges {
            let before = known.iter().rev().find(|(own, _)| own == name);
            if before.is_none_or(|(_, own)| own != judge) {
                let client = JudgeClient::new(name, judge, None)?;
                change.judges.push((name.clone(), judge.clone(), client));
            }
        }
        if known.len() + change.judges.len() > KNOWN_MAX {
            return Err(JudgeStartError::TooMany { count: KNOWN_MAX });
        }
        Ok(change)
    }

    /// Uses what was prepared. Judges that the config has no more answer what they were asked.
    pub fn take(&self, change: JudgesChange, judging: &JudgingSettings) {
        let (count_max, bytes_max) = judging.room_max();
        self.handle.load.resize(count_max, bytes_max);
        let mut known = self.known();
        for (name, judge, _) in &change.judges {
            let all = known.iter().map(|(name, own)| (name.as_str(), own));
            match place_of(all, name, judge) {
                JudgePlace::Same(place) => known[place].1 = judge.clone(),
                JudgePlace::New => known.push((name.clone(), judge.clone())),
            }
        }
        drop(known);
        // A lane that has ended needs none.
        let _ = self.handle.sender.send(LaneMessage::Change(change));
    }

    fn known(&self) -> MutexGuard<'_, Vec<(String, JudgeSettings)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes no more. What is under way is waited for until there is no more time; what is not
    /// asked then is left to the next process where there is a log, else it is not evaluable.
    pub async fn shutdown(self, no_more_time: impl Future<Output = ()>) {
        let Self { handle, leaves, task, .. } = self;
        // A lane that has ended needs none.
        let _ = handle.sender.send(LaneMessage::Close { leaves });
        task.finish(no_more_time).await;
    }
}

fn limits_of(judging: &JudgingSettings) -> LaneLimits {
    let ms = |time: HumanDuration| u64::try_from(time.0.as_millis()).unwrap_or(u64::MAX);
    LaneLimits {
        settle_ms: ms(judging.settle),
        deadline_ms: ms(judging.deadline),
        waits_for_circuit: true,
    }
}

/// What nobody can guess, for as long as the process lives.
fn mark_key() -> Result<MarkKey, JudgeStartError> {
    let mut bytes = [0; 32];
    let random = rustls::crypto::ring::default_provider().secure_random;
    random.fill(&mut bytes).map_err(|_| JudgeStartError::NoRandomness)?;
    Ok(MarkKey(bytes))
}

/// Asks about all of these, and gives the evaluations of each, in order.
///
/// # Errors
/// As [`JudgeLane::start`].
pub async fn ask_all(
    settings: LaneSettings<'_>,
    asked: Vec<AskedInquiry>,
) -> Result<Vec<Vec<Evaluation>>, JudgeStartError> {
    let ids: Vec<_> = asked.iter().map(|asked| asked.evaluation.id).collect();
    let done: Arc<Mutex<Vec<Vec<Evaluation>>>> = Arc::default();
    let kept = Arc::clone(&done);
    let outlet: LaneOutlet = Arc::new(move |evaluations, _| {
        kept.lock().unwrap_or_else(PoisonError::into_inner).push(evaluations);
    });
    let metrics = JudgeMetrics::none();
    // Whoever hands over holds all of it anyway.
    let unlimited = WaitingRoom::new(usize::MAX, usize::MAX);
    let lane = JudgeLane::start_with(settings, outlet, RECORDED, unlimited, metrics)?;
    lane.handle().ask(asked, None);
    lane.shutdown(std::future::pending()).await;
    let done = std::mem::take(&mut *done.lock().unwrap_or_else(PoisonError::into_inner));
    let mut by_id: hashbrown::HashMap<_, Vec<Vec<Evaluation>>> = hashbrown::HashMap::new();
    for evaluations in done.into_iter().rev() {
        if let Some(first) = evaluations.first() {
            by_id.entry(first.id).or_default().push(evaluations);
        }
    }
    let take = |id| by_id.get_mut(&id).and_then(Vec::pop).unwrap_or_default();
    Ok(ids.into_iter().map(take).collect())
}
