//! Batches of tasks to an evaluator, and the handling of answers and faults.

use std::sync::Arc;
use std::time::Duration;

use prost::Message;

use super::channel::{Channel, ChannelState};
use super::{ExternalCount, ExternalEffect, ExternalScheduler, SentRequest};
use crate::external::transport::{
    Description, ExternalFault, ExternalPayload, ExternalReply, own_name, task_level,
};
use crate::scheduler::ScheduledRequest;
use spanscore_base::model::EvaluationId;
use spanscore_evaluate::ExternalRequest;
use spanscore_evaluate::external::answer::{ExternalVerdict, by_task, of_output};
use spanscore_evaluate::external::proto::{EvaluateRequest, TaskMessage};
use spanscore_evaluate::external::{ExternalBody, ExternalTransport, invocations, prune};

/// Size limit on the tasks of one request, bytes; a larger task goes alone. Servers mostly accept 4
/// MiB.
const REQUEST_BYTES_MAX: usize = 3 << 20;

impl ExternalScheduler {
    /// Sends as many requests as the channel admits.
    pub(super) fn send_ready(&mut self, now_ms: u64, channel: usize) {
        while self.backend.channels[channel].has_room()
            && let Some(ids) = self.take_batch(channel)
        {
            let ChannelState::Ready(description) = &self.backend.channels[channel].state else {
                return;
            };
            let description = Arc::clone(description);
            self.send(now_ms, channel, &ids, &description);
        }
    }

    /// Takes the tasks of the next request from the queue.
    fn take_batch(&mut self, channel: usize) -> Option<Vec<u64>> {
        let most = self.backend.channels[channel].batch() as usize;
        let mut ids = Vec::new();
        let mut bytes = 0;
        while let Some(id) = self.front(channel) {
            let Some(task) = self.entries.get(&id) else { break };
            let size = match &task.request.inquiry.body {
                ExternalBody::Invocations(text) => text.len(),
                ExternalBody::Task(task) => task.encoded_len(),
            };
            if ids.len() == most || (!ids.is_empty() && bytes + size > REQUEST_BYTES_MAX) {
                break;
            }
            bytes += size;
            ids.push(id);
            self.queue(channel).take();
        }
        (!ids.is_empty()).then_some(ids)
    }

    fn send(&mut self, now_ms: u64, channel: usize, ids: &[u64], described: &Description) {
        let mut tasks = Vec::new();
        let mut messages = Vec::new();
        let mut input = None;
        for id in ids.iter().copied() {
            let Some(task) = self.entries.get_mut(&id) else { continue };
            if let Err(fault) = described.check_level(task.request.evaluation.evaluator.level) {
                self.stop(id, fault.outcome());
                continue;
            }
            task.attempts += 1;
            let name = name_of(&task.request, id, &described.version);
            match &task.request.inquiry.body {
                ExternalBody::Invocations(text) => {
                    let metric = own_name(&task.request.evaluation.evaluator.name);
                    input = Some(invocations::named(metric, text));
                }
                ExternalBody::Task(body) => {
                    messages.push(message(&task.request, body, &name, described));
                }
            }
            tasks.push((id, name));
            if let Some(waited_ms) = self.depart(now_ms, id, ()) {
                self.count(channel, ExternalCount::Waited(waited_ms));
            }
        }
        if tasks.is_empty() {
            return;
        }
        let known = &mut self.backend.channels[channel];
        let request = match input {
            Some(input) => ExternalPayload::Input(input),
            None => ExternalPayload::Tasks(Box::new(request(known, described, messages))),
        };
        known.in_flight += 1;
        let id = self.backend.next_request;
        self.backend.next_request += 1;
        let version = described.version.clone();
        self.backend.requests.insert(id, SentRequest { channel, tasks, version });
        self.effect(ExternalEffect::Send { channel, id, request });
    }

    /// Takes in the answer or the fault of a request.
    pub(in crate::external) fn answered(
        &mut self,
        now_ms: u64,
        id: u64,
        answer: Result<ExternalReply, ExternalFault>,
    ) {
        let Some(sent) = self.backend.requests.remove(&id) else { return };
        let SentRequest { channel, mut tasks, version } = sent;
        self.backend.channels[channel].in_flight -= 1;
        let outcome = answer.as_ref().err().map_or("answered", |fault| fault.told().0);
        self.count(channel, ExternalCount::Request(outcome));
        tasks.retain(|(id, _)| self.land(*id).is_some() && !self.drop_superseded(*id));
        match answer {
            Ok(reply) => self.replied(now_ms, channel, tasks, &version, reply),
            Err(fault) => self.failed(now_ms, channel, &tasks, &fault),
        }
        self.close_if_idle(channel);
    }

    fn replied(
        &mut self,
        now_ms: u64,
        channel: usize,
        tasks: Vec<(u64, String)>,
        version: &str,
        reply: ExternalReply,
    ) {
        self.backend.channels[channel].failures = 0;
        let (ids, names): (Vec<u64>, Vec<String>) = tasks.into_iter().unzip();
        let wants: Vec<_> =
            ids.iter().filter_map(|id| Some(self.entries.get(id)?.request.inquiry.want)).collect();
        let verdicts = match reply {
            ExternalReply::Output(output, errors) => {
                let outcome = wants.first().map(|want| of_output(&output, &errors, *want));
                let verdict =
                    |outcome| vec![ExternalVerdict { span_id: None, outcome, is_retryable: false }];
                outcome.map(verdict).into_iter().collect()
            }
            ExternalReply::Response(response) => {
                let (verdicts, ignored) = by_task(response, &names, &wants);
                self.count(channel, ExternalCount::Ignored(ignored));
                verdicts
            }
        };
        for (id, verdicts) in ids.into_iter().zip(verdicts) {
            let wants_more = verdicts.iter().any(|verdict| verdict.is_retryable);
            if wants_more && self.try_again(now_ms, id, None) {
                continue;
            }
            self.complete(id, |_, ScheduledRequest { mut request, .. }| {
                request.know_version(version);
                request.conclude(verdicts)
            });
        }
    }

    fn failed(
        &mut self,
        now_ms: u64,
        channel: usize,
        tasks: &[(u64, String)],
        fault: &ExternalFault,
    ) {
        if let ExternalFault::Unavailable(error) = fault {
            let known = &mut self.backend.channels[channel];
            if matches!(known.state, ChannelState::Ready(_)) {
                let evaluator = &known.name;
                tracing::warn!(%evaluator, %error, "an external evaluator went away");
                known.lost(now_ms, error.clone());
            }
            // Nothing was evaluated: they wait for its return.
            for (id, _) in tasks.iter().rev() {
                if !self.leave_if_untouched(*id) {
                    self.requeue_first(*id);
                }
            }
            return;
        }
        let after = match fault {
            ExternalFault::Retryable { after, .. } => *after,
            _ => None,
        };
        for (id, _) in tasks {
            let may_help = matches!(fault, ExternalFault::Retryable { .. });
            if !may_help || !self.try_again(now_ms, *id, after) {
                self.stop(*id, fault.outcome());
            }
        }
    }

    /// Schedules a retry of a task; false after the last attempt, or without time.
    fn try_again(&mut self, now_ms: u64, id: u64, after: Option<Duration>) -> bool {
        let is_retried = self.retry(now_ms, id, after);
        // Absent if it is left to the next process.
        if let Some(channel) = self.target(id).filter(|_| is_retried) {
            self.count(channel, ExternalCount::Retry);
        }
        is_retried
    }
}

/// Returns the name of a task in a request: the id of its evaluation, if present.
fn name_of(task: &ExternalRequest, id: u64, version: &str) -> String {
    let of_evaluation = task.versioned_id(version);
    if of_evaluation == EvaluationId::default() {
        format!("{id:032x}")
    } else {
        of_evaluation.to_string()
    }
}

fn message(
    task: &ExternalRequest,
    body: &TaskMessage,
    name: &str,
    described: &Description,
) -> TaskMessage {
    let evaluation = &task.evaluation;
    let mut message = TaskMessage {
        id: name.to_owned(),
        level: task_level(evaluation.evaluator.level) as i32,
        span_id: evaluation.span_id.to_string(),
        ..body.clone()
    };
    prune(&mut message, &described.needs);
    message
}

fn request(channel: &Channel, described: &Description, tasks: Vec<TaskMessage>) -> EvaluateRequest {
    let settings_json = match &channel.plan.transport {
        ExternalTransport::Grpc(remote) | ExternalTransport::Http(remote) => {
            remote.settings_json.clone()
        }
        ExternalTransport::Process(_) => String::new(),
    };
    EvaluateRequest { kind: described.kind.clone(), settings_json, tasks }
}
