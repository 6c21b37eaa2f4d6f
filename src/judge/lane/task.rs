//! The task of the lane: time and the network for what the core decides.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::core::{LaneAction, LaneCore};
use super::{AnswerLog, JudgesChange, LaneMessage, LaneOutlet, spent};
use crate::judge::cache::QuestionKey;
use crate::judge::call::CallWatch;
use crate::judge::client::JudgeClient;
use crate::judge::metrics::LaneMetrics;
use crate::judge::wire::{Fault, JudgeQuestion, Quirks, Reply};
use crate::panics::caught_future;

/// Inquiries that are taken in at once.
const TAKEN_MAX: usize = 256;
/// How often it is kept what was spent.
const KEEP_SPENT: Duration = Duration::from_secs(1);
/// The longest sleep without an event.
const SLEEP_MAX: Duration = Duration::from_secs(60);

/// Unix milliseconds that go on evenly, whatever becomes of the machine's clock.
#[derive(Clone, Copy)]
struct EvenClock {
    start: Instant,
    start_ms: u64,
}

impl EvenClock {
    fn new() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let start_ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        Self { start: Instant::now(), start_ms }
    }

    fn now_ms(&self) -> u64 {
        let elapsed = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.start_ms.saturating_add(elapsed)
    }
}

/// A request that has ended.
struct EndedRequest {
    id: u64,
    judge: usize,
    took: Duration,
    answer: Result<Reply, Fault>,
}

/// What the lane works with beside its judges.
pub(super) struct LaneSurroundings {
    pub(super) outlet: LaneOutlet,
    pub(super) metrics: Arc<LaneMetrics>,
    pub(super) spent_file: Option<PathBuf>,
    pub(super) log: Option<Arc<dyn AnswerLog>>,
    pub(super) watch: Option<CallWatch>,
}

/// The lane with all it needs to run.
pub(super) struct LaneRunner {
    core: LaneCore,
    clients: Vec<JudgeClient>,
    around: LaneSurroundings,
    requests: JoinSet<EndedRequest>,
    clock: EvenClock,
    has_spent: bool,
    kept_at: Instant,
}

impl LaneRunner {
    pub(super) fn new(
        mut core: LaneCore,
        clients: Vec<JudgeClient>,
        around: LaneSurroundings,
    ) -> Self {
        if let Some(file) = &around.spent_file {
            spent::restore(file, &mut core);
        }
        Self {
            core,
            clients,
            around,
            requests: JoinSet::new(),
            clock: EvenClock::new(),
            has_spent: false,
            kept_at: Instant::now(),
        }
    }

    /// Works until it is told to close and nothing is left, or to hurry.
    pub(super) async fn run(
        mut self,
        mut messages: mpsc::UnboundedReceiver<LaneMessage>,
        hurry: CancellationToken,
    ) {
        let mut work = Vec::with_capacity(TAKEN_MAX);
        let mut is_open = true;
        loop {
            let actions = self.core.poll(self.clock.now_ms());
            self.perform(actions);
            self.keep_spent().await;
            if !is_open && messages.is_empty() && self.core.is_empty() {
                break;
            }
            let wake = self.wake();
            tokio::select! {
                biased;
                () = hurry.cancelled() => {
                    let actions = self.core.abandon();
                    self.perform(actions);
                    break;
                }
                Some(ended) = self.requests.join_next() => self.ended(ended),
                count = messages.recv_many(&mut work, TAKEN_MAX) => {
                    is_open &= count > 0;
                    for message in work.drain(..) {
                        is_open &= self.take_in(message);
                    }
                }
                () = tokio::time::sleep_until(wake) => {}
            }
        }
        self.requests.abort_all();
        self.kept_at = Instant::now() - KEEP_SPENT;
        self.keep_spent().await;
    }

    /// False where no more comes.
    fn take_in(&mut self, message: LaneMessage) -> bool {
        let now_ms = self.clock.now_ms();
        match message {
            LaneMessage::Ask(asked, receipt, place) => {
                self.core.arrive(now_ms, *asked, receipt, place);
            }
            LaneMessage::Remember(key, text) => self.core.remember(key, text),
            LaneMessage::Change(change) => self.change(change),
            LaneMessage::Close { leaves } => {
                self.core.close(now_ms, leaves);
                return false;
            }
        }
        true
    }

    /// Asks other judges from now on; what is under way ends as it began.
    fn change(&mut self, change: JudgesChange) {
        self.core.limits = change.limits;
        for (name, settings, client) in change.judges {
            let place = self.core.change(&name, settings);
            if place < self.clients.len() {
                self.clients[place] = client;
            } else {
                self.clients.push(client);
                self.around.metrics.add(name);
            }
        }
        self.around.metrics.begin(&change.asking);
    }

    fn ended(&mut self, ended: Result<EndedRequest, tokio::task::JoinError>) {
        // The task itself catches what panics.
        let Ok(EndedRequest { id, judge, took, answer }) = ended else { return };
        self.around.metrics.took(judge, took);
        let evaluation = self.core.asking(id).map(|it| (it.id, it.target.trace_id, it.span_id));
        self.core.answered(self.clock.now_ms(), id, answer);
        self.has_spent = true;
        let actions = self.core.take_actions();
        if let (Some(watch), Some(of)) = (&self.around.watch, evaluation) {
            let calls = actions.iter().filter_map(|action| self.core.call_of(action, of, took));
            calls.for_each(|call| watch(call));
        }
        self.perform(actions);
    }

    fn wake(&self) -> Instant {
        let longest = if self.has_spent { KEEP_SPENT } else { SLEEP_MAX };
        let now_ms = self.clock.now_ms();
        let wake = self.core.next_wake_ms().map(|at| at.saturating_sub(now_ms));
        Instant::now() + wake.map_or(longest, |wake| Duration::from_millis(wake).min(longest))
    }

    fn perform(&mut self, actions: Vec<LaneAction>) {
        for action in actions {
            match action {
                LaneAction::Send { id, judge, key, quirks, question } => {
                    self.send(id, judge, (key, quirks, question));
                }
                LaneAction::Emit { evaluations, receipt, judge } => {
                    self.around.metrics.emitted(judge, &evaluations);
                    (self.around.outlet)(evaluations, receipt);
                }
                LaneAction::Asked { judge, evaluator, outcome, usage, cost_nano } => {
                    self.around.metrics.asked((judge, &evaluator), outcome, usage, cost_nano);
                }
                LaneAction::Count(count) => self.around.metrics.count(&count),
            }
        }
    }

    fn send(
        &mut self,
        id: u64,
        judge: usize,
        (key, quirks, question): (QuestionKey, Quirks, Box<JudgeQuestion>),
    ) {
        let Some(client) = self.clients.get(judge).cloned() else { return };
        let log = self.around.log.clone();
        self.requests.spawn(async move {
            let asking = async {
                let reply = client.ask(key, &quirks, &question).await?;
                if let Some(log) = log {
                    // Whoever asks again after a crash finds it there.
                    log.keep(key, reply.text.clone()).await;
                }
                Ok(reply)
            };
            let internal = || Fault::Rejected { status: 0, text: "an internal error".to_owned() };
            let started = Instant::now();
            let answer = caught_future(asking).await.unwrap_or_else(|_| Err(internal()));
            EndedRequest { id, judge, took: started.elapsed(), answer }
        });
    }

    async fn keep_spent(&mut self) {
        let Some(file) = self.around.spent_file.as_ref().filter(|_| self.has_spent) else { return };
        if self.kept_at.elapsed() < KEEP_SPENT {
            return;
        }
        (self.has_spent, self.kept_at) = (false, Instant::now());
        if let Err(error) = spent::keep(file, &mut self.core).await {
            let file = file.display();
            tracing::error!(%file, %error, "what judges cost cannot be kept");
        }
    }
}
