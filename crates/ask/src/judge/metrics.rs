//! Metrics of judges. Names and units are in `docs/operations.md`.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use super::lane::core::LaneCount;
use super::wire::TokenUsage;
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
    /// Instruments under other labels: none, the evaluator, the judge.
    struct AllJudgesMetrics {
        inquiries: CounterBy("spanscore.judge.inquiries", "{inquiry}",
            "Inquiries that left otherwise than with an evaluation.",
            "outcome", ["replaced", "superseded", "left"]);
        agreement: Histogram("spanscore.judge.agreement", "1",
            "Mean share of votes that agree with the majority.", &AGREEMENT_BOUNDS);
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

/// Instruments of the lane.
pub(super) struct LaneMetrics {
    asked: AskedMetrics,
    all: AllJudgesMetrics,
    /// Names of judges by index on the lane; reloads append.
    names: RwLock<Vec<String>>,
}

impl LaneMetrics {
    pub(super) fn new(
        meter: &Meter,
        names: Vec<String>,
        asking: &[(String, String)],
        load: &Arc<WaitingRoom>,
    ) -> Self {
        let load = Arc::clone(load);
        Scraped::show_all(WAITING, meter, move |see| see(&load, &[]));
        let asked = AskedMetrics::new(meter);
        let own = Self { asked, all: AllJudgesMetrics::new(meter), names: RwLock::new(names) };
        own.begin(asking);
        own
    }

    /// Shows each evaluator and its judge at zero, so that an alert sees the first increment.
    pub(super) fn begin(&self, asking: &[(String, String)]) {
        for (evaluator, judge) in asking {
            if let Some(judge) = self.place(judge) {
                self.asked.of(&self.labels(judge, evaluator));
            }
        }
        if !asking.is_empty() {
            self.all.inquiries.of(&[]);
        }
    }

    /// Appends a judge.
    pub(super) fn add(&self, name: String) {
        self.names.write().unwrap_or_else(PoisonError::into_inner).push(name);
    }

    fn names(&self) -> RwLockReadGuard<'_, Vec<String>> {
        self.names.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the index of the newest judge of a name.
    pub(super) fn place(&self, judge: &str) -> Option<usize> {
        self.names().iter().rposition(|name| name == judge)
    }

    fn judge(&self, judge: usize) -> KeyValue {
        label("judge", self.names().get(judge).map_or("", String::as_str))
    }

    fn labels(&self, judge: usize, evaluator: &str) -> [KeyValue; 2] {
        [self.judge(judge), label("evaluator", evaluator)]
    }

    pub(super) fn asked(
        &self,
        (judge, evaluator): (usize, &str),
        outcome: &'static str,
        usage: TokenUsage,
        cost_nano: u64,
    ) {
        let of = self.labels(judge, evaluator);
        self.asked.requests.under(&of).add(outcome, 1);
        let new = usage.input.saturating_sub(usage.cached);
        let counter = self.asked.tokens.under(&of);
        for (kind, tokens) in TOKEN_TYPES.into_iter().zip([new, usage.cached, usage.output]) {
            counter.add(kind, tokens);
        }
        self.asked.cost.under(&of).add(cost_nano as f64 / 1e9);
    }

    /// Records the duration of a request, whatever its outcome.
    pub(super) fn took(&self, judge: usize, took: Duration) {
        self.all.duration.under(&[self.judge(judge)]).record(took.as_secs_f64());
    }

    /// Counts the outcome of an inquiry, under the judge that was asked last, or would have been.
    pub(super) fn emitted(&self, judge: Option<usize>, evaluations: &[Evaluation]) {
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
        if let Some(judge) = judge {
            self.asked.unanswered.under(&self.labels(judge, name)).add(reason, 1);
        }
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

    pub(super) fn count(&self, count: &LaneCount) {
        let outcome = match count {
            LaneCount::CacheHit(judge, evaluator) => {
                return self.asked.cache_hits.under(&self.labels(*judge, evaluator)).add(1);
            }
            LaneCount::Waited(judge, evaluator, ms) => {
                let wait = self.asked.wait.under(&self.labels(*judge, evaluator));
                return wait.record(*ms as f64 / 1e3);
            }
            LaneCount::Gaps(judge, evaluator, gaps) => {
                return self.gaps(&self.labels(*judge, evaluator), *gaps);
            }
            LaneCount::Refused(judge, parameter) => {
                let judge = self.names().get(*judge).cloned().unwrap_or_default();
                tracing::info!(judge, parameter, "the judge does not take this; it is left out");
                return;
            }
            LaneCount::Replaced => "replaced",
            LaneCount::Superseded => "superseded",
            LaneCount::Left => "left",
        };
        self.all.inquiries.add(outcome, 1);
    }
}
