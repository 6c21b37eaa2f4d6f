//! Harness: a scheduler of judges on a fake clock, with inquiries of one statement.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};

use crate::judge::backend::{JudgeBackend, JudgeCount, JudgeEffect, JudgeScheduler};
use crate::judge::settings::{JudgeSettings, JudgingSettings};
use crate::judge::wire::{Fault, Finish, Reply, TokenUsage};
use crate::scheduler::{Action, SilentEnd, WaitLimits};
use spanscore_base::model::{
    Completion, Evaluation, EvaluationId, EvaluatorInfo, Explanation, Outcome, Reason, Receipt,
    Score, Sender, SpanId, Target, TraceId, WaitingRoom,
};
use spanscore_base::value::Value;
use spanscore_evaluate::JudgeRequest;
use spanscore_evaluate::inquiry::{
    AnsweredItem, Conclusion, Inquiry, JudgeAnswer, JudgeAnswers, JudgePlan, JudgePrompt, MarkKey,
    PromptRoom, RedactionGaps, UnreadableReply,
};

const LIMITS: WaitLimits = WaitLimits { settle_ms: 10_000, deadline_ms: 300_000 };

/// One statement. A reply is the word for its answer, or no answer; a following `!` suspects an
/// injection, and a number after that cites a line.
#[derive(Debug)]
pub(super) struct OneStatement {
    pub(super) text: String,
    /// Number of its requests.
    pub(super) windows: usize,
    /// True if our detectors find an injection.
    pub(super) is_injected: bool,
}

impl Inquiry for OneStatement {
    fn prompt(&self, room: &PromptRoom) -> Result<JudgePrompt, Outcome> {
        let mut digest = [0; 16];
        digest[..8].copy_from_slice(&(self.text.len() as u64).to_be_bytes());
        digest[8..12].copy_from_slice(
            &spanscore_base::model::fingerprint(self.text.as_bytes()).to_be_bytes(),
        );
        digest[12] = u8::from(room.withholds_injections);
        digest[13] = room.window as u8;
        digest[14] = room.withheld.len() as u8;
        Ok(JudgePrompt {
            system: String::new(),
            user: match self.windows {
                1 => self.text.clone(),
                _ => format!("{} window {}", self.text, room.window),
            },
            schema: Some("{}"),
            statements: 1,
            answer_tokens: 0,
            digest,
            cut_bytes: 0,
            windows: self.windows,
            injection_found: self.is_injected,
            gaps: RedactionGaps::default(),
        })
    }

    fn read(&self, _: &PromptRoom, reply: &str) -> Result<JudgeAnswers, UnreadableReply> {
        let (word, injected, cite) = match reply.split_once('!') {
            Some((word, cite)) => (word, true, cite),
            None => (reply, false, ""),
        };
        let answer = match word {
            "yes" => JudgeAnswer::Yes,
            "no" => JudgeAnswer::No,
            "unclear" => JudgeAnswer::Unclear,
            _ => return Err(UnreadableReply("it is no word".into())),
        };
        let cites = cite.parse().into_iter().collect();
        let item = AnsweredItem { answer, cites, reason: String::new(), overturned: None };
        let items = vec![item];
        Ok(JudgeAnswers { items, injection_suspected: injected, ..JudgeAnswers::default() })
    }

    fn conclude(&self, _: &PromptRoom, votes: &[JudgeAnswers]) -> Conclusion {
        let count = |answer| votes.iter().filter(|vote| vote.items[0].answer == answer).count();
        let yes = count(JudgeAnswer::Yes);
        let no = count(JudgeAnswer::No);
        let most = yes.max(no).max(votes.len() - yes - no);
        let is_unsure = yes == no || most == votes.len() - yes - no;
        let outcome = if is_unsure {
            let explanation = String::new();
            Outcome::NotEvaluable { reason: Reason::InsufficientData, explanation }
        } else {
            score(if yes > no { 1.0 } else { 0.0 })
        };
        Conclusion {
            outcome,
            calls: Vec::new(),
            agreement: most as f64 / votes.len() as f64,
            is_unsure,
            injection_suspected: votes.iter().any(|vote| vote.injection_suspected),
        }
    }

    fn statements(&self) -> usize {
        1
    }

    fn bytes(&self) -> usize {
        self.text.len()
    }
}

pub(super) fn score(value: f64) -> Outcome {
    let explanation = Explanation::default();
    let details = Value::Null;
    Outcome::Scored(Score { value, explanation, details, label: None })
}

pub(super) fn plan(more: Json) -> JudgePlan {
    let number = |key: &str, other: u64| more[key].as_u64().unwrap_or(other) as u32;
    JudgePlan {
        judge: "small".into(),
        jury: more["jury"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|name| name.as_str().expect("a name").to_owned())
            .collect(),
        escalate_to: more["escalate_to"].as_str().map(str::to_owned),
        samples_min: number("min", 1),
        samples_max: number("max", 1),
        rechecks_injections: more["rechecks"].as_bool().unwrap_or(false),
        evidence_tokens: 1_000,
    }
}

pub(super) fn asked(n: u64, revision: u32, plan: JudgePlan) -> JudgeRequest {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&n.to_be_bytes());
    id[8] = revision as u8;
    let target = Target {
        sender: Default::default(),
        trace_id: TraceId(id),
        session_id: None,
        resource: Arc::default(),
        agent_name: None,
        response: None,
        completion: Completion::Idle,
        is_partial: false,
        time_ns: 0,
        started_ns: 0,
        ended_ns: 0,
    };
    let evaluation = Evaluation {
        id: EvaluationId(id),
        evaluator: Arc::new(EvaluatorInfo { threshold: 0.5, ..EvaluatorInfo::default() }),
        target: Arc::new(target),
        span_id: SpanId::default(),
        outcome: score(0.0),
        revision,
        revises: (revision > 0).then_some(EvaluationId([9; 16])),
        supersedes: None,
        judge: None,
    };
    let mut subject = id;
    subject[8] = 0;
    let text = format!("inquiry {n} {revision}");
    let inquiry = Arc::new(OneStatement { text, windows: 1, is_injected: true });
    JudgeRequest { inquiry, plan, evaluation, calls: Vec::new(), subject }
}

/// Scheduler with its clock and its collected actions.
pub(super) struct Harness {
    pub(super) core: JudgeScheduler,
    pub(super) load: Arc<WaitingRoom>,
    pub(super) now_ms: u64,
    pub(super) emitted: Vec<Evaluation>,
    pub(super) ends: Vec<SilentEnd>,
    pub(super) cost_nano: u64,
    pub(super) counts: Vec<JudgeCount>,
    pub(super) asked_at: Vec<u64>,
}

impl Harness {
    pub(super) fn new(judges: Json) -> Self {
        let judges: BTreeMap<String, JudgeSettings> =
            serde_json::from_value(judges).expect("judges");
        let judges = judges.into_iter().collect();
        let backend = JudgeBackend::new(judges, MarkKey([7; 32]), true);
        let core = JudgeScheduler::new(backend, LIMITS);
        let emitted = Vec::new();
        let ends = Vec::new();
        let asked_at = Vec::new();
        let cost_nano = 0;
        let counts = Vec::new();
        let load = JudgingSettings::default().room();
        let now_ms = 1_000_000;
        Self { core, load, now_ms, emitted, ends, cost_nano, counts, asked_at }
    }

    pub(super) fn arrive(&mut self, asked: JudgeRequest) {
        self.arrive_with(asked, None);
    }

    pub(super) fn arrive_with(&mut self, asked: JudgeRequest, receipt: Option<Receipt>) {
        let place = self.load.enter(Default::default(), asked.bytes()).expect("room");
        self.core.arrive(self.now_ms, asked, receipt, place);
    }

    /// Adds the next inquiries of a sender while they find room; returns their number.
    pub(super) fn fill(&mut self, sender: Sender, first: u64) -> u64 {
        for n in first.. {
            let asked = asked(n, 0, plan(json!({})));
            let Some(place) = self.load.enter(sender, 1) else { return n - first };
            self.core.arrive(self.now_ms, asked, None, place);
        }
        0
    }

    /// Polls, renders at once, and returns requests as inquiry, judge and question.
    pub(super) fn poll(&mut self) -> Vec<(u64, usize, String)> {
        let mut sent = Vec::new();
        let mut actions = VecDeque::from(self.core.poll(self.now_ms));
        while let Some(action) = actions.pop_front() {
            match action {
                Action::Effect(JudgeEffect::Render { id, judge, inquiry, room }) => {
                    self.core.rendered(id, judge, inquiry.prompt(&room));
                    actions.extend(self.core.poll(self.now_ms));
                }
                Action::Effect(JudgeEffect::Send { id, judge, question, .. }) => {
                    self.asked_at.push(self.now_ms);
                    let remark = question.remark.map_or("", |_| " again");
                    sent.push((id, judge, format!("{}{remark}", question.prompt.user)));
                }
                Action::Effect(JudgeEffect::Called(call)) => {
                    self.cost_nano += (call.cost_usd * 1e9).round() as u64;
                }
                Action::Effect(JudgeEffect::Count(_, _, count)) => self.counts.push(count),
                Action::Emit(emission) => self.emitted.extend(emission.evaluations),
                Action::Count(end) => self.ends.push(end),
            }
        }
        sent
    }

    /// Takes in the answer of a judge.
    pub(super) fn answer(&mut self, id: u64, answer: Result<Reply, Fault>) {
        self.core.answered(self.now_ms, id, Duration::ZERO, answer);
    }

    /// Runs the clock until the scheduler is empty; the judge takes `takes_ms` for each answer.
    pub(super) fn run(
        &mut self,
        takes_ms: u64,
        mut judge: impl FnMut(usize, &str, usize) -> Result<Reply, Fault>,
    ) {
        let mut flights: Vec<(u64, u64, usize, String)> = Vec::new();
        let mut count = 0;
        for _ in 0..1_000_000 {
            for (id, at, text) in self.poll() {
                flights.push((self.now_ms + takes_ms, id, at, text));
            }
            if self.core.is_empty() {
                return;
            }
            let landing = flights.iter().map(|flight| flight.0).min();
            let wake = self.core.next_wake_ms().into_iter().chain(landing).min();
            self.now_ms = wake.expect("something to wait for").max(self.now_ms);
            let now_ms = self.now_ms;
            let landed: Vec<_> = flights.extract_if(.., |flight| flight.0 <= now_ms).collect();
            for (_, id, at, text) in landed {
                let answer = judge(at, &text, count);
                count += 1;
                self.answer(id, answer);
            }
        }
        panic!("the scheduler does not come to an end");
    }

    pub(super) fn reasons(&self) -> BTreeMap<&'static str, usize> {
        let mut reasons = BTreeMap::new();
        for evaluation in &self.emitted {
            let word = match &evaluation.outcome {
                Outcome::Scored(_) => "scored",
                Outcome::NotEvaluable { reason, .. } => reason.as_str(),
                Outcome::Failed { error_type, .. } => error_type,
            };
            *reasons.entry(word).or_default() += 1;
        }
        reasons
    }
}

pub(super) fn small() -> Json {
    json!({"small": {"api": "openai", "model": "m",
        "price": {"input": 1.0, "output": 1.0}, "max_tokens": 100}})
}

pub(super) fn with(more: Json) -> Json {
    let mut judges = small();
    for (key, value) in more.as_object().expect("a map") {
        judges["small"][key] = value.clone();
    }
    judges
}

pub(super) fn reply(text: &str) -> Result<Reply, Fault> {
    let usage = TokenUsage { input: 10, cached: 0, output: 5 };
    Ok(Reply { text: text.into(), finish: Finish::Stop, usage })
}
