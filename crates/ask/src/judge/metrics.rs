//! Metrics of judges. Names and units are in `docs/operations.md`.

use std::sync::Arc;
use std::time::Duration;

use strum::VariantArray;

use super::call::JudgeCall;
use crate::scheduler::SilentEnd;
use spanscore_base::model::{Evaluation, Outcome, Reason, WaitingRoom};
use spanscore_evaluate::inquiry::RedactionGaps;
use spanscore_net::metrics::{KeyValue, Meter, Scraped, label};
use spanscore_net::{metrics, readings};

/// Values of the label `type`: new input, input from the provider's prompt cache, output.
const TOKEN_TYPES: [&str; 3] = ["input", "cached", "output"];

/// Upper bounds of the agreement histogram.
const AGREEMENT_BOUNDS: [f64; 6] = [0.5, 0.6, 0.7, 0.8, 0.9, 0.99];
/// Upper bounds of the wait histogram, seconds: `settle`, and delays by budgets and rates.
const WAIT_BOUNDS: [f64; 10] = [0.01, 0.1, 1.0, 5.0, 11.0, 20.0, 60.0, 120.0, 300.0, 600.0];
/// Upper bounds of the request duration histogram, seconds.
const DURATION_BOUNDS: [f64; 9] = [0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0];

metrics! {
    /// Instruments of an evaluator at a judge.
    struct AskedMetrics {
        requests: CounterBy("spanscore.judge.requests", "{request}", "Requests to judges.",
            "outcome", ["replied"]);
        tokens: CounterBy("spanscore.judge.tokens", "{token}", "Tokens by judges.",
            "type", TOKEN_TYPES);
        cost: FloatCounter("spanscore.judge.cost", "{USD}",
            "Cost of requests to judges, US dollars.");
        cache_hits: Counter("spanscore.judge.cache_hits", "{answer}",
            "Questions answered from the cache.");
        surplus: Counter("spanscore.judge.surplus_usage", "{reply}",
            "Replies with more tokens than their request can take.");
        unanswered: CounterBy("spanscore.judge.unanswered", "{inquiry}",
            "Inquiries that came to no score, by reason.",
            "reason", Reason::UNANSWERED.map(Reason::as_str));
        unfollowed: Counter("spanscore.judge.unfollowed_secrets", "{value}",
            "Values of keys for secrets that were not looked for elsewhere.");
        withheld: CounterBy("spanscore.judge.withheld_texts", "{text}",
            "Texts that were withheld as a whole, by reason.",
            "reason", RedactionGaps::default().withheld.by_reason().map(|(reason, _)| reason));
        wait: Histogram("spanscore.judge.wait", "s",
            "Time that inquiries waited for their first request.", &WAIT_BOUNDS);
    }
}

metrics! {
    /// Instruments with other labels: none, the evaluator, the judge.
    struct AllJudgesMetrics {
        inquiries: CounterBy("spanscore.judge.inquiries", "{inquiry}",
            "Inquiries that left otherwise than with an evaluation.",
            "outcome", SilentEnd::VARIANTS.iter().map(|end| end.into_str()));
        agreement: Histogram("spanscore.judge.agreement", "1",
            "Mean share of votes that agree with the majority.", &AGREEMENT_BOUNDS);
        unsaved: Counter("spanscore.judge.unsaved_spending", "{write}",
            "Writes of the spending file that failed.");
        duration: Histogram("spanscore.judge.duration", "s",
            "Duration of requests to judges.", &DURATION_BOUNDS);
    }
}

readings! {
    const WAITING: Arc<WaitingRoom> {
        gauge("spanscore.judge.waiting", "{inquiry}", "Inquiries that wait for judges.",
            |room| room.now().0 as u64);
        gauge("spanscore.judge.waiting_size", "By", "Bytes of inquiries that wait.",
            |room| room.now().1 as u64);
    }
}

/// Counted events other than calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JudgeCount {
    /// The cache held the answer.
    CacheHit,
    /// Wait of an inquiry until its first request, milliseconds.
    Waited(u64),
    /// A judge reported more tokens than possible, which are ignored.
    Surplus,
    /// Gaps in the redaction of a record.
    Gaps(RedactionGaps),
    /// A judge refused a parameter, which is omitted from now on.
    Refused(&'static str),
}

/// Instruments of judges.
pub(super) struct JudgeMetrics {
    asked: AskedMetrics,
    all: AllJudgesMetrics,
}

impl JudgeMetrics {
    /// Creates the instruments; `asking` lists evaluators, each with its judge.
    pub(super) fn new(
        meter: &Meter,
        asking: &[(String, String)],
        room: &Arc<WaitingRoom>,
    ) -> Arc<Self> {
        let room = Arc::clone(room);
        Scraped::show_all(WAITING, meter, move |see| see(&room, &[]));
        let own = Self { asked: AskedMetrics::new(meter), all: AllJudgesMetrics::new(meter) };
        own.begin(asking);
        Arc::new(own)
    }

    /// Shows each evaluator and its judge at zero, so that an alert sees the first increment.
    pub(super) fn begin(&self, asking: &[(String, String)]) {
        for (evaluator, judge) in asking {
            self.asked.of(&labels(judge, evaluator));
        }
        if !asking.is_empty() {
            self.all.inquiries.of(&[]);
            self.all.unsaved.add(0);
        }
    }

    /// Counts a finished call.
    pub(super) fn called(&self, call: &JudgeCall) {
        let of = labels(&call.judge, &call.evaluator);
        self.asked.requests.under(&of).add(call.outcome, 1);
        let new = call.input_tokens.saturating_sub(call.cached_tokens);
        let counts = [new, call.cached_tokens, call.output_tokens];
        let counter = self.asked.tokens.under(&of);
        TOKEN_TYPES.into_iter().zip(counts).for_each(|(kind, tokens)| counter.add(kind, tokens));
        self.asked.cost.under(&of).add(call.cost_usd);
    }

    /// Records the duration of a request, whatever its outcome.
    pub(super) fn took(&self, judge: &str, took: Duration) {
        self.all.duration.under(&[label("judge", judge)]).record(took.as_secs_f64());
    }

    /// Counts the outcome of an inquiry, with the last or intended judge.
    pub(super) fn emitted(&self, judge: &str, evaluations: &[Evaluation]) {
        let Some(first) = evaluations.first() else { return };
        let name = &first.evaluator.name;
        let reason = match (&first.outcome, &first.judge) {
            (Outcome::Scored(_), Some(used)) => {
                let of = [label("evaluator", name)];
                return self.all.agreement.under(&of).record(used.agreement);
            }
            (Outcome::Scored(_), None) => return,
            (Outcome::NotEvaluable { reason, .. }, _) => reason.as_str(),
            (Outcome::Failed { error_type, .. }, _) => error_type,
        };
        self.asked.unanswered.under(&labels(judge, name)).add(reason, 1);
    }

    /// Counts gaps of redaction: secrets not followed, texts withheld.
    fn gaps(&self, of: &[KeyValue; 2], gaps: RedactionGaps) {
        self.asked.unfollowed.under(of).add(gaps.unfollowed);
        let withheld = self.asked.withheld.under(of);
        gaps.withheld
            .by_reason()
            .into_iter()
            .for_each(|(reason, count)| withheld.add(reason, count));
    }

    /// Counts an event other than a call.
    pub(super) fn count(&self, judge: &str, evaluator: &str, count: JudgeCount) {
        let of = labels(judge, evaluator);
        match count {
            JudgeCount::CacheHit => self.asked.cache_hits.under(&of).add(1),
            JudgeCount::Surplus => self.asked.surplus.under(&of).add(1),
            JudgeCount::Waited(ms) => self.asked.wait.under(&of).record(ms as f64 / 1e3),
            JudgeCount::Gaps(gaps) => self.gaps(&of, gaps),
            JudgeCount::Refused(parameter) => {
                tracing::info!(judge, parameter, "the judge does not take this; it is left out");
            }
        }
    }

    /// Counts a failed write of the spending file.
    pub(super) fn unsaved(&self) {
        self.all.unsaved.add(1);
    }

    /// Counts an inquiry that ended without an evaluation.
    pub(super) fn ended(&self, end: SilentEnd) {
        self.all.inquiries.add(end.into_str(), 1);
    }
}

fn labels(judge: &str, evaluator: &str) -> [KeyValue; 2] {
    [label("judge", judge), label("evaluator", evaluator)]
}
