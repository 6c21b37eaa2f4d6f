//! Requests to an evaluator, and the handling of their answers and faults.

use std::sync::Arc;
use std::time::Duration;

use prost::Message;

use super::channel::{Channel, ChannelState};
use super::core::{ExternalAction, ExternalCore, ExternalCount, Pending, SentRequest};
use crate::external::transport::{
    Description, ExternalFault, ExternalPayload, ExternalReply, task_level,
};
use spanscore_base::model::{EvaluationId, Outcome};
use spanscore_evaluate::external::answer::{ExternalVerdict, by_task, of_output};
use spanscore_evaluate::external::proto::{EvaluateRequest, TaskMessage};
use spanscore_evaluate::external::{ExternalBody, ExternalTransport, invocations, prune};
use spanscore_net::client::back_off_ms;

/// Tries of one task.
const ATTEMPTS: u32 = 3;
/// Bytes of the tasks of one request; a larger task goes alone. Servers mostly take 4 MiB.
const REQUEST_BYTES_MAX: usize = 3 << 20;

impl ExternalCore {
    /// Sends what there is room for.
    pub(super) fn send_ready(&mut self, now_ms: u64, channel: usize) {
        while self.channels[channel].in_flight < self.channels[channel].plan.concurrency
            && let Some(ids) = self.take_batch(channel)
        {
            let ChannelState::Ready(description) = &self.channels[channel].state else { return };
            let description = Arc::clone(description);
            self.send(now_ms, channel, &ids, &description);
        }
    }

    /// The tasks of the next request.
    fn take_batch(&mut self, channel: usize) -> Option<Vec<u64>> {
        let known = &mut self.channels[channel];
        let most = known.batch() as usize;
        let mut ids = Vec::new();
        let mut bytes = 0;
        while let Some(id) = known.queue.front().copied() {
            let Some(task) = self.tasks.get(&id) else {
                known.queue.pop_front();
                continue;
            };
            let own = match &task.asked.inquiry.body {
                ExternalBody::Invocations(text) => text.len(),
                ExternalBody::Task(task) => task.encoded_len(),
            };
            if ids.len() == most || (!ids.is_empty() && bytes + own > REQUEST_BYTES_MAX) {
                break;
            }
            bytes += own;
            ids.push(id);
            known.queue.pop_front();
        }
        (!ids.is_empty()).then_some(ids)
    }

    fn send(&mut self, now_ms: u64, channel: usize, ids: &[u64], described: &Description) {
        let mut tasks = Vec::new();
        let mut messages = Vec::new();
        let mut input = None;
        for id in ids {
            let Some(task) = self.tasks.get(id) else { continue };
            if let Err(fault) = described.check_level(task.asked.evaluation.evaluator.level) {
                let (error_type, error) = fault.told();
                self.stop_task(*id, Outcome::Failed { error_type, error: error.to_owned() });
                continue;
            }
            let Some(task) = self.tasks.get_mut(id) else { continue };
            if task.attempts == 0 {
                let waited = now_ms.saturating_sub(task.arrived_ms);
                self.actions.push(ExternalAction::Count(ExternalCount::Waited(channel, waited)));
            }
            task.is_in_flight = true;
            task.attempts += 1;
            let name = name_of(task, *id, &described.version);
            match &task.asked.inquiry.body {
                ExternalBody::Invocations(text) => {
                    let evaluator = &task.asked.evaluation.evaluator.name;
                    let metric = evaluator.split_once('/').map_or(&**evaluator, |(_, name)| name);
                    input = Some(invocations::named(metric, text));
                }
                ExternalBody::Task(body) => messages.push(message(task, body, &name, described)),
            }
            tasks.push((*id, name));
        }
        if tasks.is_empty() {
            return;
        }
        let known = &mut self.channels[channel];
        let request = match input {
            Some(input) => ExternalPayload::Input(input),
            None => ExternalPayload::Tasks(Box::new(request(known, described, messages))),
        };
        known.in_flight += 1;
        let id = self.next_id;
        let version = described.version.clone();
        self.next_id += 1;
        self.requests.insert(id, SentRequest { channel, tasks, version });
        self.actions.push(ExternalAction::Send { channel, id, request });
    }

    /// Takes the answer to a request, or its fault.
    pub(in crate::external) fn answered(
        &mut self,
        now_ms: u64,
        id: u64,
        answer: Result<ExternalReply, ExternalFault>,
    ) {
        let Some(SentRequest { channel, tasks, version }) = self.requests.remove(&id) else {
            return;
        };
        self.channels[channel].in_flight -= 1;
        let outcome = answer.as_ref().err().map_or("answered", |fault| fault.told().0);
        self.actions.push(ExternalAction::Count(ExternalCount::Request(channel, outcome)));
        let mut left = Vec::with_capacity(tasks.len());
        for (id, name) in tasks {
            let Some(task) = self.tasks.get_mut(&id) else { continue };
            task.is_in_flight = false;
            if task.is_superseded {
                self.remove(id);
                self.actions.push(ExternalAction::Count(ExternalCount::Superseded));
            } else {
                left.push((id, name));
            }
        }
        match answer {
            Ok(reply) => self.replied(now_ms, channel, left, &version, reply),
            Err(fault) => self.met(now_ms, channel, &left, &fault),
        }
        let known = &self.channels[channel];
        if known.name.is_empty() && known.in_flight == 0 && known.queue.is_empty() {
            self.actions.push(ExternalAction::Close(channel));
        }
    }

    fn replied(
        &mut self,
        now_ms: u64,
        channel: usize,
        tasks: Vec<(u64, String)>,
        version: &str,
        reply: ExternalReply,
    ) {
        self.channels[channel].failures = 0;
        let (ids, names): (Vec<u64>, Vec<String>) = tasks.into_iter().unzip();
        let wants: Vec<_> =
            ids.iter().filter_map(|id| Some(self.tasks.get(id)?.asked.inquiry.want)).collect();
        let verdicts = match reply {
            ExternalReply::Output(output, errors) => {
                let outcome = wants.first().map(|want| of_output(&output, &errors, *want));
                let verdict =
                    |outcome| vec![ExternalVerdict { span_id: None, outcome, is_retryable: false }];
                outcome.map(verdict).into_iter().collect()
            }
            ExternalReply::Response(response) => {
                let (verdicts, ignored) = by_task(response, &names, &wants);
                let count = ExternalCount::Ignored(channel, ignored);
                self.actions.push(ExternalAction::Count(count));
                verdicts
            }
        };
        for (id, verdicts) in ids.into_iter().zip(verdicts) {
            let wants_more = verdicts.iter().any(|verdict| verdict.is_retryable);
            if wants_more && self.try_again(now_ms, id, None) {
                continue;
            }
            let Some(mut task) = self.remove(id) else { continue };
            let subject = task.asked.subject;
            task.asked.know_version(version);
            let evaluations = task.asked.conclude(verdicts);
            let receipt = task.receipt;
            self.actions.push(ExternalAction::Emit { subject, evaluations, receipt });
        }
    }

    fn met(&mut self, now_ms: u64, channel: usize, tasks: &[(u64, String)], fault: &ExternalFault) {
        if let ExternalFault::Unavailable(error) = fault {
            if matches!(self.channels[channel].state, ChannelState::Ready(_)) {
                let evaluator = &self.channels[channel].name;
                tracing::warn!(%evaluator, %error, "an external evaluator went away");
                self.channels[channel].lost(now_ms, error.clone());
            }
            // Nothing was evaluated: they wait for it to come back.
            for (id, _) in tasks.iter().rev() {
                if self.is_leaving {
                    self.leave(*id);
                } else {
                    self.channels[channel].queue.push_front(*id);
                }
            }
            return;
        }
        let after = match fault {
            ExternalFault::Retryable { after, .. } => *after,
            _ => None,
        };
        let (error_type, error) = fault.told();
        for (id, _) in tasks {
            let may_help = matches!(fault, ExternalFault::Retryable { .. });
            if may_help && self.try_again(now_ms, *id, after) {
                continue;
            }
            self.stop_task(*id, Outcome::Failed { error_type, error: error.to_owned() });
        }
    }

    /// Has a task sent again later; false where it was tried often enough, or there is no time.
    fn try_again(&mut self, now_ms: u64, id: u64, after: Option<Duration>) -> bool {
        let Some(task) = self.tasks.get_mut(&id) else { return false };
        let at_ms = now_ms.saturating_add(back_off_ms(id, task.attempts, after));
        if task.attempts >= ATTEMPTS || at_ms > task.deadline_ms {
            return false;
        }
        let channel = task.channel;
        if self.is_leaving {
            self.leave(id);
            return true;
        }
        task.timer_ms = Some(at_ms);
        self.timers.insert((at_ms, id));
        self.actions.push(ExternalAction::Count(ExternalCount::Retry(channel)));
        true
    }
}

/// Returns the id of a task in a request: that of its evaluation, where evaluations have ids.
fn name_of(task: &Pending, id: u64, version: &str) -> String {
    let of_evaluation = task.asked.versioned_id(version);
    if of_evaluation == EvaluationId::default() {
        format!("{id:032x}")
    } else {
        of_evaluation.to_string()
    }
}

fn message(task: &Pending, body: &TaskMessage, name: &str, described: &Description) -> TaskMessage {
    let evaluation = &task.asked.evaluation;
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
