//! Lane of inquiries to judges, beside the shards: public handle, start, reload and shutdown.
//!
//! [`core`] schedules, without a clock and without I/O. The task drives it: it supplies the time,
//! performs its actions and reports what comes of them.

mod answering;
mod change;
pub(super) mod core;
mod ending;
mod sampling;
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

use tokio::sync::mpsc;

use self::change::{JudgePlace, place_of};
use self::core::{LaneCore, LaneLimits};
use self::ending::not_asked;
use self::task::{LaneRunner, LaneSurroundings};
use super::cache::QuestionKey;
use super::call::CallWatch;
use super::client::{JudgeClient, JudgeStartError, ReplyRecording};
use super::metrics::LaneMetrics;
use super::settings::{JudgeSettings, JudgingSettings};
use spanscore_base::model::{Evaluation, Reason, Receipt, WaitingPlace, WaitingRoom};
use spanscore_base::settings::HumanDuration;
use spanscore_evaluate::JudgeRequest;
use spanscore_evaluate::inquiry::MarkKey;
use spanscore_net::lane::LaneRun;
use spanscore_net::metrics::{Meter, unread_meter};

/// Consumer of the evaluations of one inquiry, with the receipt to hold until they are delivered.
pub type LaneOutlet = Arc<dyn Fn(Vec<Evaluation>, Option<Receipt>) + Send + Sync>;

/// Log of answers, written before an answer is used.
pub trait AnswerLog: Send + Sync {
    /// Logs an answer; ends once it is durable, or cannot be.
    fn keep(&self, key: [u8; 16], text: String) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// Limits for recorded traces: no revisions to wait for, and no waiting for an open circuit.
const RECORDED: LaneLimits =
    LaneLimits { settle_ms: 0, deadline_ms: u64::MAX, waits_for_circuit: false };

/// Message to the lane.
enum LaneMessage {
    Ask(Box<JudgeRequest>, Option<Receipt>, WaitingPlace),
    Remember(QuestionKey, String),
    Change(JudgesChange),
    Close { leaves: bool },
}

/// Sender of inquiries to the lane. Cheap to clone.
#[derive(Clone)]
pub struct LaneHandle {
    sender: mpsc::UnboundedSender<LaneMessage>,
    load: Arc<WaitingRoom>,
    outlet: LaneOutlet,
    metrics: Arc<LaneMetrics>,
}

impl LaneHandle {
    /// Sends inquiries; never waits. Those that find no room come out at once, as not evaluable.
    pub fn ask(&self, asked: Vec<JudgeRequest>, receipt: Option<&Receipt>) {
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

    /// Caches an answer from an earlier process.
    pub fn remember(&self, key: [u8; 16], text: String) {
        // Fails only after the lane has ended, which needs no answers.
        let _ = self.sender.send(LaneMessage::Remember(key, text));
    }
}

/// Parts of a lane.
pub struct LaneSettings<'a> {
    /// Judges by name.
    pub judges: &'a BTreeMap<String, JudgeSettings>,
    /// Evaluators known to ask, each with its judge.
    pub asking: Vec<(String, String)>,
    /// Recording or replay of replies.
    pub recording: Option<ReplyRecording>,
    /// File that carries spending over a restart.
    pub spent_file: Option<PathBuf>,
    /// Log of answers until they are delivered.
    pub log: Option<Arc<dyn AnswerLog>>,
    /// Observer of finished requests.
    pub watch: Option<CallWatch>,
}

/// Prepared reload of judges, with their clients. Dropping it changes nothing.
pub struct JudgesChange {
    judges: Vec<(String, JudgeSettings, JudgeClient)>,
    /// Evaluators that ask after the reload, each with its judge.
    asking: Vec<(String, String)>,
    limits: LaneLimits,
}

/// Limit of judges over the life of a process, replaced ones included.
const KNOWN_MAX: usize = 1_000;

/// Running lane.
pub struct JudgeLane {
    /// All judges by index on the lane, replaced ones included.
    known: Mutex<Vec<(String, JudgeSettings)>>,
    handle: LaneHandle,
    /// True if inquiries without an answer at shutdown are left to the next process.
    leaves: bool,
    task: LaneRun,
}

impl JudgeLane {
    /// Starts the lane on the current runtime.
    ///
    /// # Errors
    /// A key that is not set, or a client that cannot be built.
    pub fn start(
        settings: LaneSettings<'_>,
        judging: &JudgingSettings,
        outlet: LaneOutlet,
        meter: &Meter,
    ) -> Result<Self, JudgeStartError> {
        let limits = limits_of(judging);
        let load = judging.room();
        Self::start_with(settings, outlet, limits, load, meter)
    }

    fn start_with(
        settings: LaneSettings<'_>,
        outlet: LaneOutlet,
        limits: LaneLimits,
        load: Arc<WaitingRoom>,
        meter: &Meter,
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
        let metrics = Arc::new(LaneMetrics::new(meter, names, &asking, &load));
        let handle =
            LaneHandle { sender, load, outlet: Arc::clone(&outlet), metrics: Arc::clone(&metrics) };
        let around = LaneSurroundings { outlet, metrics, spent_file, log, watch };
        let runner = LaneRunner::new(core, clients, around);
        let task = LaneRun::spawn("judges", runner, receiver);
        Ok(Self { known: Mutex::new(own), handle, leaves, task })
    }

    /// Returns a sender of inquiries.
    pub fn handle(&self) -> LaneHandle {
        self.handle.clone()
    }

    /// Builds clients for new and changed judges, without sending anything.
    ///
    /// # Errors
    /// A key that is not set, a client that cannot be built, or too many judges over time.
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

    /// Applies a prepared reload. Judges that the config has no more finish their inquiries.
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
        // Fails only after the lane has ended, which needs no judges.
        let _ = self.handle.sender.send(LaneMessage::Change(change));
    }

    fn known(&self) -> MutexGuard<'_, Vec<(String, JudgeSettings)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the lane and waits for requests under way until `no_more_time`. Inquiries without an
    /// answer then are left to the next process if there is a log, else they are not evaluable.
    pub async fn shutdown(self, no_more_time: impl Future<Output = ()>) {
        let Self { handle, leaves, task, .. } = self;
        // Fails only after the lane has ended by itself.
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

/// Draws the secret for marks: random, and new in each process.
fn mark_key() -> Result<MarkKey, JudgeStartError> {
    let mut bytes = [0; 32];
    let random = rustls::crypto::ring::default_provider().secure_random;
    random.fill(&mut bytes).map_err(|_| JudgeStartError::NoRandomness)?;
    Ok(MarkKey(bytes))
}

/// Asks about all inquiries; returns their evaluations in the same order.
///
/// # Errors
/// As [`JudgeLane::start`].
pub async fn ask_all(
    settings: LaneSettings<'_>,
    asked: Vec<JudgeRequest>,
) -> Result<Vec<Vec<Evaluation>>, JudgeStartError> {
    let ids: Vec<_> = asked.iter().map(|asked| asked.evaluation.id).collect();
    let done: Arc<Mutex<Vec<Vec<Evaluation>>>> = Arc::default();
    let kept = Arc::clone(&done);
    let outlet: LaneOutlet = Arc::new(move |evaluations, _| {
        kept.lock().unwrap_or_else(PoisonError::into_inner).push(evaluations);
    });
    // The caller holds all inquiries in memory anyway.
    let unlimited = WaitingRoom::new(usize::MAX, usize::MAX);
    let lane = JudgeLane::start_with(settings, outlet, RECORDED, unlimited, &unread_meter())?;
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
