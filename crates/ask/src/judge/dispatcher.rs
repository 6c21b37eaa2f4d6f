//! Dispatcher of inquiries to judges, beside the shards: handle, start, reload and shutdown.
//!
//! [`JudgeBackend`] decides without clock and I/O; the [`JudgeExecutor`] performs its instructions.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::backend::spent::SpentFile;
use super::backend::{JudgeBackend, is_alike};
use super::call::CallWatch;
use super::client::{JudgeClient, JudgeStartError, ReplyRecording};
use super::executor::{JudgeCommand, JudgeExecutor};
use super::metrics::JudgeMetrics;
use super::settings::{JudgeSettings, JudgingSettings};
use crate::scheduler::{
    self, Driver, EmissionOutlet, Scheduler, SchedulerHandle, SchedulerTask, WaitLimits,
};
use spanscore_base::model::{Evaluation, Receipt, Sender, WaitingRoom};
use spanscore_evaluate::JudgeRequest;
use spanscore_evaluate::inquiry::MarkKey;
use spanscore_net::backoff::millis;
use spanscore_net::blocking::BlockingPool;
use spanscore_net::clock::since_1970;
use spanscore_net::metrics::{Meter, unread_meter};

/// Consumer of the evaluations of one inquiry, with the receipt to hold until they are delivered.
pub type JudgeOutlet = Arc<dyn Fn(Vec<Evaluation>, Option<Receipt>) + Send + Sync>;

/// Log of answers, written before an answer is used.
pub trait AnswerLog: Send + Sync {
    /// Logs an answer; completes when it is durable, or after a failure.
    fn keep(&self, key: [u8; 16], text: String) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// Limits for recorded traces: no revisions to wait for.
pub(super) const RECORDED: WaitLimits = WaitLimits { settle_ms: 0, deadline_ms: u64::MAX };

/// Sender of inquiries to the dispatcher. Cheap to clone.
#[derive(Clone)]
pub struct JudgeHandle(SchedulerHandle<JudgeRequest, JudgeCommand>);

impl JudgeHandle {
    /// Sends inquiries of a sender without waiting. Inquiries without room come out at once, as not
    /// evaluable.
    pub fn ask(&self, asked: Vec<JudgeRequest>, receipt: Option<&Receipt>, sender: Sender) {
        self.0.ask(asked, receipt, sender);
    }

    /// Caches an earlier process's answer.
    pub fn remember(&self, key: [u8; 16], text: String) {
        self.0.command(JudgeCommand::Remember(key, text));
    }
}

/// Parts of a dispatcher.
pub struct JudgeParts<'a> {
    /// Judges by name.
    pub judges: &'a BTreeMap<String, JudgeSettings>,
    /// Evaluators known to use judges, each with its judge.
    pub asking: Vec<(String, String)>,
    /// Recording or replay of replies.
    pub recording: Option<ReplyRecording>,
    /// File that carries spending over restarts.
    pub spent_file: Option<PathBuf>,
    /// Log of answers until they are delivered.
    pub log: Option<Arc<dyn AnswerLog>>,
    /// Observer of finished requests.
    pub watch: Option<CallWatch>,
    /// True if the observer requires prompt and reply.
    pub watches_content: bool,
    /// Daily budget shared by all judges, US dollars; applies to judges with a price.
    pub budget_usd: Option<f64>,
}

/// Prepared reload of judges, with their clients. Dropping it changes nothing.
pub struct JudgesChange {
    pub(super) judges: Vec<(String, JudgeSettings, JudgeClient)>,
    /// Evaluators that use judges after the reload, each with its judge.
    pub(super) asking: Vec<(String, String)>,
    pub(super) limits: WaitLimits,
}

/// Limit on judges over the life of a process, including replaced ones.
const KNOWN_MAX: usize = 1_000;

/// Newest settings of each judge, and the number of judges in the backend.
struct KnownJudges {
    newest: BTreeMap<String, JudgeSettings>,
    count: usize,
}

/// Running dispatcher.
pub struct JudgeDispatcher {
    known: Mutex<KnownJudges>,
    task: SchedulerTask<JudgeRequest, JudgeCommand>,
}

impl JudgeDispatcher {
    /// Starts on the current runtime.
    ///
    /// # Errors
    /// A missing key, or a client that cannot be built.
    pub fn start(
        parts: JudgeParts<'_>,
        judging: &JudgingSettings,
        outlet: JudgeOutlet,
        meter: &Meter,
    ) -> Result<Self, JudgeStartError> {
        let newest = parts.judges.clone();
        let known = Mutex::new(KnownJudges { count: newest.len(), newest });
        let room = judging.room();
        let metrics = JudgeMetrics::new(meter, &parts.asking, &room);
        let counted = Arc::clone(&metrics);
        let outlet: EmissionOutlet = Arc::new(move |emission| {
            counted.emitted(&emission.recipient, &emission.evaluations);
            outlet(emission.evaluations, emission.receipt);
        });
        let task = start_with(parts, outlet, (limits_of(judging), true), room, metrics)?;
        Ok(Self { known, task })
    }

    /// Returns a sender of inquiries.
    pub fn handle(&self) -> JudgeHandle {
        JudgeHandle(self.task.handle.clone())
    }

    /// Builds clients for new and changed judges, without sending anything.
    ///
    /// # Errors
    /// A missing key, a client that cannot be built, or too many judges over time.
    pub fn prepare(
        &self,
        judges: &BTreeMap<String, JudgeSettings>,
        asking: Vec<(String, String)>,
        judging: &JudgingSettings,
    ) -> Result<JudgesChange, JudgeStartError> {
        let known = self.known.lock();
        let mut change = JudgesChange { judges: Vec::new(), asking, limits: limits_of(judging) };
        for (name, judge) in judges {
            if known.newest.get(name) != Some(judge) {
                let client = JudgeClient::new(name, judge, None)?;
                change.judges.push((name.clone(), judge.clone(), client));
            }
        }
        if known.count + change.judges.len() > KNOWN_MAX {
            return Err(JudgeStartError::TooMany { count: KNOWN_MAX });
        }
        Ok(change)
    }

    /// Applies a prepared reload. Removed judges finish their inquiries.
    pub fn take(&self, change: JudgesChange, judging: &JudgingSettings) {
        self.task.handle.resize(judging.room_max());
        let mut known = self.known.lock();
        for (name, judge, _) in &change.judges {
            let before = known.newest.insert(name.clone(), judge.clone());
            known.count += usize::from(!before.is_some_and(|before| is_alike(&before, judge)));
        }
        drop(known);
        self.task.handle.command(JudgeCommand::Change(change));
    }

    /// Closes the dispatcher and waits for requests in flight until `no_more_time`. Unanswered
    /// inquiries are then left to the next process if there is a log, else not evaluable.
    pub async fn shutdown(self, no_more_time: impl Future<Output = ()>) {
        self.task.shutdown(no_more_time).await;
    }
}

/// Starts a scheduler; with the second of `limits` it waits for open circuits.
pub(super) fn start_with(
    parts: JudgeParts<'_>,
    outlet: EmissionOutlet,
    (limits, waits_for_circuit): (WaitLimits, bool),
    room: Arc<WaitingRoom>,
    metrics: Arc<JudgeMetrics>,
) -> Result<SchedulerTask<JudgeRequest, JudgeCommand>, JudgeStartError> {
    let JudgeParts { judges, recording, spent_file, log, watch, .. } = parts;
    if let Some(ReplyRecording::Record(folder)) = &recording {
        std::fs::create_dir_all(folder).map_err(|error| JudgeStartError::Folder {
            path: folder.display().to_string(),
            error,
        })?;
    }
    let client =
        |(name, judge): (&String, &JudgeSettings)| JudgeClient::new(name, judge, recording.clone());
    let clients = judges.iter().map(client).collect::<Result<Vec<_>, _>>()?;
    let judges = judges.iter().map(|(name, judge)| (name.clone(), judge.clone())).collect();
    let mut backend = JudgeBackend::new(judges, mark_key()?, waits_for_circuit);
    backend.shared_nano = parts.budget_usd.map(|usd| (usd * 1e9) as u64);
    backend.keeps_content = parts.watches_content;
    let restore = |path| SpentFile::restore(path, &mut backend, millis(since_1970()));
    let spent_file = spent_file.map(restore);
    let leaves = log.is_some();
    let executor = JudgeExecutor {
        clients,
        metrics,
        spent_file,
        log,
        watch,
        pool: BlockingPool::default(),
        has_spent: false,
        saved_at: Instant::now(),
        unsaved: None,
    };
    let driver = Driver::new(executor, Scheduler::new(backend, limits), outlet);
    Ok(SchedulerTask::spawn("judges", driver, room, leaves))
}

fn limits_of(judging: &JudgingSettings) -> WaitLimits {
    let [settle_ms, deadline_ms] = [judging.settle, judging.deadline].map(|time| millis(time.0));
    WaitLimits { settle_ms, deadline_ms }
}

/// Draws the secret for marks: random in each process.
fn mark_key() -> Result<MarkKey, JudgeStartError> {
    let mut bytes = [0; 32];
    let random = rustls::crypto::ring::default_provider().secure_random;
    random.fill(&mut bytes).map_err(|_| JudgeStartError::NoRandomness)?;
    Ok(MarkKey(bytes))
}

/// Asks all inquiries; returns their evaluations in the same order. No inquiry waits for an open
/// circuit.
///
/// # Errors
/// Those of [`JudgeDispatcher::start`].
pub async fn ask_all(
    parts: JudgeParts<'_>,
    asked: Vec<JudgeRequest>,
) -> Result<Vec<Vec<Evaluation>>, JudgeStartError> {
    // The caller holds all inquiries in memory anyway.
    let unlimited = WaitingRoom::new(usize::MAX, usize::MAX);
    let metrics = JudgeMetrics::new(&unread_meter(), &[], &unlimited);
    let start = |outlet| start_with(parts, outlet, (RECORDED, false), unlimited, metrics);
    scheduler::ask_all(asked, start).await
}
