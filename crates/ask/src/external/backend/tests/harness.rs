//! Harness: a scheduler of external evaluators on a fake clock, with tasks of one evaluator.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::external::backend::{ExternalBackend, ExternalEffect, ExternalScheduler};
use crate::external::transport::{Description, ExternalFault, ExternalPayload, ExternalReply};
use crate::scheduler::{Action, SilentEnd, WaitLimits};
use spanscore_base::model::{
    Completion, Evaluation, EvaluationId, EvaluatorInfo, Outcome, SpanId, Target, TraceId,
    WaitingRoom, Want,
};
use spanscore_base::settings::tls::TlsSettings;
use spanscore_evaluate::ExternalRequest;
use spanscore_evaluate::external::plan::Redact;
use spanscore_evaluate::external::proto::{
    EvaluateResponse, EvaluationMessage, OutcomeMessage, ScoreMessage, TaskMessage,
};
use spanscore_evaluate::external::{
    ExternalBody, ExternalInquiry, ExternalPlan, ExternalTransport, RemotePlan,
};

/// Step of the clock, milliseconds.
const STEP_MS: u64 = 50;

fn plan() -> Arc<ExternalPlan> {
    let remote = RemotePlan {
        endpoint: "http://e".into(),
        kind: None,
        settings_json: "{}".to_owned(),
        batch: 2,
        headers: BTreeMap::new(),
        tls: TlsSettings::default(),
        signing_key_env: None,
    };
    let transport = ExternalTransport::Grpc(remote);
    Arc::new(ExternalPlan {
        timeout: Duration::from_secs(5),
        concurrency: 1,
        redact: Redact::None,
        transport,
    })
}

/// Returns a task about a target, at this revision.
pub(super) fn asked(n: u64, revision: u32) -> ExternalRequest {
    let mut id = [1; 16];
    id[..8].copy_from_slice(&n.to_be_bytes());
    let subject = id;
    let target = Target {
        sender: Default::default(),
        started_ns: 0,
        ended_ns: 0,
        trace_id: TraceId(id),
        session_id: None,
        resource: Arc::default(),
        agent_name: None,
        response: None,
        completion: Completion::Idle,
        is_partial: false,
        time_ns: 0,
    };
    id[8..12].copy_from_slice(&(revision + 1).to_be_bytes());
    let name = "grpc/quality".to_owned();
    let evaluation = Evaluation {
        id: EvaluationId(id),
        evaluator: Arc::new(EvaluatorInfo { name, threshold: 0.5, ..EvaluatorInfo::default() }),
        target: Arc::new(target),
        span_id: SpanId::default(),
        outcome: Outcome::Failed { error_type: "judge_not_asked", error: String::new() },
        revision,
        revises: (revision > 0).then_some(EvaluationId([9; 16])),
        supersedes: None,
        judge: None,
    };
    let body = ExternalBody::Task(Box::default());
    let inquiry = ExternalInquiry { plan: plan(), body, want: Want::ALL };
    ExternalRequest { inquiry, evaluation, calls: Vec::new(), subject }
}

/// Returns a description of version 1.
pub(super) fn described() -> Result<Description, ExternalFault> {
    Ok(Description { version: "1".to_owned(), ..Description::default() })
}

/// Returns the fault of an unreachable evaluator.
pub(super) fn gone() -> ExternalFault {
    ExternalFault::Unavailable("nobody is there".to_owned())
}

/// Returns the same score for all tasks of a request.
pub(super) fn answer(request: &ExternalPayload, value: f64) -> ExternalReply {
    let ExternalPayload::Tasks(request) = request else { panic!("tasks are sent") };
    let answer = |task: &TaskMessage| EvaluationMessage {
        task_id: task.id.clone(),
        outcome: Some(OutcomeMessage::Scored(ScoreMessage { value, label: None })),
        ..EvaluationMessage::default()
    };
    let evaluations = request.tasks.iter().map(answer).collect();
    ExternalReply::Response(EvaluateResponse { evaluations })
}

/// Scheduler with its clock and its collected actions.
pub(super) struct ExternalHarness {
    pub(super) core: ExternalScheduler,
    pub(super) room: Arc<WaitingRoom>,
    pub(super) now_ms: u64,
    pub(super) arrived: usize,
    pub(super) emitted: Vec<Evaluation>,
    pub(super) ends: Vec<SilentEnd>,
    pub(super) describes: usize,
    pub(super) sent: usize,
    asked: Vec<usize>,
    requests: Vec<(u64, ExternalPayload)>,
}

impl ExternalHarness {
    pub(super) fn new((deadline_ms, waits): (u64, bool)) -> Self {
        let limits = WaitLimits { settle_ms: 0, deadline_ms };
        Self {
            core: ExternalScheduler::new(ExternalBackend::new(waits), limits),
            room: WaitingRoom::new(1_000, 1 << 20),
            now_ms: 1_000,
            arrived: 0,
            emitted: Vec::new(),
            ends: Vec::new(),
            describes: 0,
            sent: 0,
            asked: Vec::new(),
            requests: Vec::new(),
        }
    }

    pub(super) fn arrive(&mut self, asked: ExternalRequest) {
        let place = self.room.enter(Default::default(), 10).expect("there is room");
        self.arrived += 1;
        self.core.arrive(self.now_ms, asked, None, place);
    }

    /// Polls the scheduler; returns the number of requests in flight.
    pub(super) fn poll(&mut self) -> usize {
        let actions = self.core.poll(self.now_ms);
        self.take(actions);
        self.requests.len()
    }

    pub(super) fn take(&mut self, actions: Vec<Action<ExternalEffect>>) {
        for action in actions {
            match action {
                Action::Effect(ExternalEffect::Describe(channel)) => {
                    self.describes += 1;
                    self.asked.push(channel);
                }
                Action::Effect(ExternalEffect::Send { id, request, .. }) => {
                    self.sent += 1;
                    self.requests.push((id, request));
                }
                Action::Emit(emission) => self.emitted.extend(emission.evaluations),
                Action::Count(end) => self.ends.push(end),
                Action::Effect(_) => {}
            }
        }
    }

    /// Answers all requests in flight.
    pub(super) fn answer_all(
        &mut self,
        mut answer: impl FnMut(&ExternalPayload) -> Result<ExternalReply, ExternalFault>,
    ) {
        for (id, request) in std::mem::take(&mut self.requests) {
            let said = answer(&request);
            self.core.answered(self.now_ms, id, said);
        }
        self.poll();
    }

    /// Advances the clock, with an evaluator that answers a step later.
    pub(super) fn run(
        &mut self,
        ms: u64,
        mut describe: impl FnMut(usize) -> Result<Description, ExternalFault>,
        mut answer: impl FnMut(&ExternalPayload) -> Result<ExternalReply, ExternalFault>,
    ) {
        let end = self.now_ms + ms;
        loop {
            self.poll();
            for channel in std::mem::take(&mut self.asked) {
                self.core.described(self.now_ms, channel, describe(channel));
            }
            self.poll();
            self.answer_all(&mut answer);
            if self.now_ms >= end {
                return;
            }
            self.now_ms = (self.now_ms + STEP_MS).min(end);
        }
    }

    /// Counts the evaluations by outcome.
    pub(super) fn outcomes(&self) -> BTreeMap<&'static str, usize> {
        let mut outcomes = BTreeMap::new();
        for evaluation in &self.emitted {
            let word = match &evaluation.outcome {
                Outcome::Scored(_) => "scored",
                Outcome::NotEvaluable { reason, .. } => reason.as_str(),
                Outcome::Failed { error_type, .. } => error_type,
            };
            *outcomes.entry(word).or_default() += 1;
        }
        outcomes
    }
}
