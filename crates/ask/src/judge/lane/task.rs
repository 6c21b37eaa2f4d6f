//! Driver of the lane: clock, threads and network for the decisions of the core.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::task::JoinSet;
use tokio::time::Instant;

use super::core::{LaneAction, LaneCore};
use super::{AnswerLog, JudgesChange, LaneMessage, LaneOutlet, spent};
use crate::judge::cache::QuestionKey;
use crate::judge::call::CallWatch;
use crate::judge::client::JudgeClient;
use crate::judge::metrics::LaneMetrics;
use crate::judge::wire::{Fault, JudgeQuestion, ProviderCapabilities, Reply};
use spanscore_base::model::Outcome;
use spanscore_base::panics::caught_future;
use spanscore_evaluate::inquiry::{Inquiry, JudgePrompt, PromptRoom};
use spanscore_net::lane::{BlockingPool, LaneWork};

/// Shortest time between two writes of the spending file.
const KEEP_SPENT: Duration = Duration::from_secs(1);

/// Monotonic clock in Unix milliseconds: later steps of the system clock do not show.
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

/// Finished request.
pub(super) struct EndedRequest {
    id: u64,
    judge: usize,
    took: Duration,
    answer: Result<Reply, Fault>,
}

/// Result of work under way.
pub(super) enum JudgeLaneEnd {
    /// Prompt of an inquiry for the judge of this index.
    Rendered(u64, usize, Result<JudgePrompt, Outcome>),
    /// Answer or fault of a request.
    Asked(EndedRequest),
}

/// Inputs and outputs of the lane other than judges.
pub(super) struct LaneSurroundings {
    pub(super) outlet: LaneOutlet,
    pub(super) metrics: Arc<LaneMetrics>,
    pub(super) spent_file: Option<PathBuf>,
    pub(super) log: Option<Arc<dyn AnswerLog>>,
    pub(super) watch: Option<CallWatch>,
}

/// Core of the lane with its clients, clock and work under way.
pub(super) struct LaneRunner {
    core: LaneCore,
    clients: Vec<JudgeClient>,
    around: LaneSurroundings,
    under_way: JoinSet<JudgeLaneEnd>,
    aside: BlockingPool,
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
            under_way: JoinSet::new(),
            aside: BlockingPool::new(),
            clock: EvenClock::new(),
            has_spent: false,
            kept_at: Instant::now(),
        }
    }

    /// Applies a reload; requests under way end with the old settings.
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

    fn asked(&mut self, EndedRequest { id, judge, took, answer }: EndedRequest) {
        self.around.metrics.took(judge, took);
        let now_ms = self.clock.now_ms();
        self.request_ended(id, took, |core| core.answered(now_ms, id, answer));
    }

    /// Runs `end` on the core for a finished request, reports it to the observer and performs the
    /// actions due.
    fn request_ended(&mut self, id: u64, took: Duration, end: impl FnOnce(&mut LaneCore)) {
        let evaluation = self.core.asking(id).map(|it| (it.id, it.target.trace_id, it.span_id));
        end(&mut self.core);
        self.has_spent = true;
        let actions = self.core.take_actions();
        if let (Some(watch), Some(of)) = (&self.around.watch, evaluation) {
            let calls = actions.iter().filter_map(|action| self.core.call_of(action, of, took));
            calls.for_each(|call| watch(call));
        }
        self.perform(actions);
    }

    fn perform(&mut self, actions: Vec<LaneAction>) {
        for action in actions {
            match action {
                LaneAction::Render { id, judge, inquiry, room } => {
                    self.render(id, judge, inquiry, room);
                }
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

    fn render(&mut self, id: u64, judge: usize, inquiry: Arc<dyn Inquiry>, room: PromptRoom) {
        let aside = self.aside.clone();
        self.under_way.spawn(async move {
            let prompt = aside.run(move || inquiry.prompt(&room)).await.unwrap_or_else(|_| {
                let error = "rendering the record ended by an internal error".to_owned();
                Err(Outcome::Failed { error_type: "internal_error", error })
            });
            JudgeLaneEnd::Rendered(id, judge, prompt)
        });
    }

    fn send(
        &mut self,
        id: u64,
        judge: usize,
        (key, quirks, question): (QuestionKey, ProviderCapabilities, Box<JudgeQuestion>),
    ) {
        let Some(client) = self.clients.get(judge).cloned() else { return };
        let log = self.around.log.clone();
        self.under_way.spawn(async move {
            let asking = async {
                let reply = client.ask(key, &quirks, &question).await?;
                if let Some(log) = log {
                    // Logged before it is used: after a crash it is not paid again.
                    log.keep(key, reply.text.clone()).await;
                }
                Ok(reply)
            };
            let internal = || Fault::Rejected { status: 0, text: "an internal error".to_owned() };
            let started = Instant::now();
            let answer = caught_future(asking).await.unwrap_or_else(|_| Err(internal()));
            let took = started.elapsed();
            JudgeLaneEnd::Asked(EndedRequest { id, judge, took, answer })
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

impl LaneWork for LaneRunner {
    type Message = LaneMessage;
    type Ended = JudgeLaneEnd;

    async fn step(&mut self) {
        let actions = self.core.poll(self.clock.now_ms());
        self.perform(actions);
        self.keep_spent().await;
    }

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

    fn ended(&mut self, ended: JudgeLaneEnd) {
        match ended {
            JudgeLaneEnd::Rendered(id, judge, prompt) => self.core.rendered(id, judge, prompt),
            JudgeLaneEnd::Asked(request) => self.asked(request),
        }
    }

    fn sleep(&self) -> Option<Duration> {
        let now_ms = self.clock.now_ms();
        let wake = self.core.next_wake_ms().map(|at| at.saturating_sub(now_ms));
        wake.map(Duration::from_millis)
            .into_iter()
            .chain(self.has_spent.then_some(KEEP_SPENT))
            .min()
    }

    fn is_empty(&self) -> bool {
        self.core.is_empty()
    }

    fn under_way(&mut self) -> &mut JoinSet<JudgeLaneEnd> {
        &mut self.under_way
    }

    async fn abandon(&mut self) {
        let now_ms = self.clock.now_ms();
        for (id, took_ms) in self.core.under_way(now_ms) {
            let took = Duration::from_millis(took_ms);
            self.request_ended(id, took, |core| core.cut_off(now_ms, id));
        }
        let actions = self.core.abandon();
        self.perform(actions);
        self.kept_at = Instant::now() - KEEP_SPENT;
        self.keep_spent().await;
    }
}
