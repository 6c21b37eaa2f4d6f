//! Metrics of the pipeline.
//!
//! Names are those of the Prometheus exposition without prefix and suffix; every counter starts at
//! 0 for each of its reasons.

mod skipped;

use std::sync::Mutex;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Gauge, Histogram, Meter};

use self::skipped::{PassCounts, SkippedCounters};
use spanscore_assemble::{Sessions, Shard, SpanCounts};
use spanscore_base::model::{Completion, Evaluation, Level, Outcome, Reason};
use spanscore_evaluate::engine::run::{Evaluators, Skips};
use spanscore_extract::{Extracted, Rejection};

/// Instruments of the stages between receivers and exporters.
pub(super) struct PipelineMetrics {
    refused: Counter<u64>,
    waits: Counter<u64>,
    rejected: Counter<u64>,
    repaired: Counter<u64>,
    spans: SpanCounters,
    ignored_traces: Counter<u64>,
    judged: Counter<u64>,
    evicted: Counter<u64>,
    reopened: Counter<u64>,
    waited_longer: Counter<u64>,
    forgotten: Counter<u64>,
    sessions: Counter<u64>,
    session_losses: Counter<u64>,
    skipped: SkippedCounters,
    expensive: Counter<u64>,
    cut_texts: Counter<u64>,
    panics: Counter<u64>,
    time: Counter<f64>,
    not_evaluable: Counter<u64>,
    failed: Counter<u64>,
    partial: Counter<u64>,
    revised: Counter<u64>,
    /// Time from the end of a trace to its scores.
    delay: Histogram<f64>,
    open_traces: Gauge<u64>,
    open_spans: Gauge<u64>,
    held_bytes: Gauge<u64>,
    shards: Mutex<Vec<[u64; 3]>>,
}

/// Counters of spans and log events, by outcome.
struct SpanCounters {
    recovered: Counter<u64>,
    judged: Counter<u64>,
    ignored: Counter<u64>,
    dropped: Counter<u64>,
    dropped_logs: Counter<u64>,
}

/// Counts of judged traces, added to the metrics in batches.
#[derive(Default)]
pub(super) struct JudgedCounts {
    completions: Vec<(Completion, u64)>,
    passes: PassCounts,
    /// Traces judged in part, as the rest would have exceeded their work budget.
    pub(super) expensive: u64,
    /// Traces not read, as that could have exceeded the memory for judging.
    pub(super) too_large: u64,
    /// Texts of answers that were cut.
    pub(super) cut_texts: u64,
}

impl JudgedCounts {
    /// Counts one trace.
    pub(super) fn add(&mut self, completion: Completion, passes: Skips) {
        match self.completions.iter_mut().find(|(known, _)| *known == completion) {
            Some((_, count)) => *count += 1,
            None => self.completions.push((completion, 1)),
        }
        self.passes.add(passes);
    }
}

const COMPLETIONS: [Completion; 5] = [
    Completion::RootEnded,
    Completion::Idle,
    Completion::AgeMax,
    Completion::Shutdown,
    Completion::Evicted,
];

/// Upper bounds of the delay histogram, seconds: around a quiet period, an SDK's export interval
/// and the longest waits for a trace.
const DELAY_BOUNDS: [f64; 12] =
    [0.1, 0.5, 1.0, 2.0, 5.0, 7.5, 10.0, 15.0, 30.0, 60.0, 120.0, 600.0];

/// Reason of [`PipelineMetrics::expensive`]: the work budget of a trace.
pub(super) const EXPENSIVE: &str = "trace_steps";
/// Reason of [`PipelineMetrics::expensive`]: the memory for judging.
pub(super) const TOO_LARGE: &str = "judging_memory";

fn reason(word: &'static str) -> [KeyValue; 1] {
    [KeyValue::new("reason", word)]
}

fn counter(meter: &Meter, name: &'static str, about: &'static str) -> Counter<u64> {
    // The unit is the last word of the name, in the singular.
    let counted = name.rsplit(['.', '_']).next().and_then(|word| word.strip_suffix('s'));
    let unit = format!("{{{}}}", counted.unwrap_or("evaluation"));
    meter.u64_counter(name).with_description(about).with_unit(unit).build()
}

fn delay_histogram(meter: &Meter) -> Histogram<f64> {
    meter
        .f64_histogram("spanscore.evaluate.delay")
        .with_description(
            "Time from the end of a trace whose root ended, by its sender's clock, until its \
             evaluations are handed to the exporters.",
        )
        .with_unit("s")
        .with_boundaries(DELAY_BOUNDS.to_vec())
        .build()
}

impl SpanCounters {
    fn new(meter: &Meter) -> Self {
        let counter = |name: &'static str, about: &'static str| counter(meter, name, about);
        let counters = Self {
            recovered: counter(
                "spanscore.pipeline.recovered_spans",
                "Spans that an earlier process had taken.",
            ),
            judged: counter("spanscore.assemble.judged_spans", "Spans of judged traces."),
            ignored: counter("spanscore.assemble.ignored_spans", "Spans not judged."),
            dropped: counter("spanscore.assemble.dropped_spans", "Spans dropped."),
            dropped_logs: counter("spanscore.assemble.dropped_log_records", "Log events dropped."),
        };
        counters.add(&SpanCounts::default());
        for word in ["duplicate", "trace_over_limit", "orphan"] {
            counters.dropped_logs.add(0, &reason(word));
        }
        counters.recovered.add(0, &[]);
        counters
    }

    fn add(&self, counts: &SpanCounts) {
        self.judged.add(counts.judged, &[]);
        self.ignored.add(counts.ignored, &reason("no_agent_span"));
        for (count, word) in [
            (counts.duplicate, "duplicate"),
            (counts.conflicting, "conflict"),
            (counts.replaced, "replaced"),
            (counts.over_limit, "trace_over_limit"),
            (counts.lost, "fault"),
            (counts.forgotten, "forgotten"),
        ] {
            self.dropped.add(count, &reason(word));
        }
    }
}

impl PipelineMetrics {
    pub(super) fn new(meter: &Meter, evaluators: &Evaluators) -> Self {
        let counter = |name: &'static str, about: &'static str| counter(meter, name, about);
        let gauge = |name: &'static str, about: &'static str, unit: &'static str| {
            meter.u64_gauge(name).with_description(about).with_unit(unit).build()
        };
        let metrics = Self {
            refused: counter("spanscore.pipeline.refused_requests", "Requests refused retryably."),
            waits: counter("spanscore.pipeline.waits", "Requests that waited for room."),
            rejected: counter("spanscore.extract.rejected_items", "Items that were not taken."),
            repaired: counter("spanscore.extract.repaired_items", "Items taken with a repair."),
            spans: SpanCounters::new(meter),
            ignored_traces: counter("spanscore.assemble.ignored_traces", "Traces not judged."),
            judged: counter("spanscore.assemble.judged_traces", "Traces judged."),
            evicted: counter("spanscore.assemble.evicted_traces", "Traces that a limit ended."),
            reopened: counter("spanscore.assemble.reopened_traces", "Judged traces reopened."),
            waited_longer: counter(
                "spanscore.assemble.waited_longer_traces",
                "Traces that were waited for since they lacked something.",
            ),
            forgotten: counter(
                "spanscore.assemble.forgotten_facts",
                "Facts learnt of senders that were evicted for newer ones.",
            ),
            sessions: counter("spanscore.assemble.judged_sessions", "Sessions judged."),
            session_losses: counter(
                "spanscore.assemble.session_losses",
                "Traces missing from their session.",
            ),
            skipped: SkippedCounters::new(meter),
            expensive: counter(
                "spanscore.evaluate.limited_targets",
                "Traces and sessions not judged in part, as a limit of work was met.",
            ),
            cut_texts: counter(
                "spanscore.evaluate.cut_texts",
                "Texts in the details of evaluations that were cut.",
            ),
            panics: counter("spanscore.evaluate.panics", "Faults of ours that were survived."),
            time: meter
                .f64_counter("spanscore.evaluate.time")
                .with_description("Time that judging took, over all shards.")
                .with_unit("s")
                .build(),
            not_evaluable: counter(
                "spanscore.evaluate.not_evaluable",
                "Evaluations without a score, by reason.",
            ),
            failed: counter("spanscore.evaluate.failed", "Evaluations that broke."),
            partial: counter(
                "spanscore.evaluate.partial_evaluations",
                "Evaluations of traces that certainly lacked something.",
            ),
            revised: counter(
                "spanscore.evaluate.revised_evaluations",
                "Evaluations that revise an earlier one of the same target.",
            ),
            delay: delay_histogram(meter),
            open_traces: gauge("spanscore.assemble.open_traces", "Traces open now.", "{trace}"),
            open_spans: gauge("spanscore.assemble.open_spans", "Spans of open traces.", "{span}"),
            held_bytes: gauge("spanscore.assemble.held", "Memory of open traces.", "By"),
            shards: Mutex::default(),
        };
        metrics.start_at_zero();
        metrics.begin(evaluators);
        metrics
    }

    /// Creates the series of evaluators at zero.
    pub(super) fn begin(&self, evaluators: &Evaluators) {
        for configured in evaluators.evaluators() {
            let evaluator = [KeyValue::new("evaluator", configured.info.name.clone())];
            self.skipped.begin(configured);
            self.failed.add(0, &evaluator);
            self.partial.add(0, &evaluator);
            for reason in Reason::ALL {
                let reason = KeyValue::new("reason", reason.as_str());
                self.not_evaluable.add(0, &[evaluator[0].clone(), reason]);
            }
        }
    }

    fn start_at_zero(&self) {
        self.refused.add(0, &reason("queue_full"));
        for rejection in Rejection::ALL {
            self.rejected.add(0, &reason(rejection.as_str()));
        }
        self.repaired.add(0, &reason("ended_before_start"));
        self.ignored_traces.add(0, &reason("no_agent_span"));
        for completion in COMPLETIONS {
            self.judged.add(0, &[KeyValue::new("completion", completion.as_str())]);
        }
        for word in ["queue_full", "session_over_limit"] {
            self.session_losses.add(0, &reason(word));
        }
        self.sessions.add(0, &[]);
        for word in ["trace_size", "trace_count", "memory", "remembered", "session"] {
            self.evicted.add(0, &reason(word));
        }
        self.reopened.add(0, &[]);
        self.waited_longer.add(0, &[]);
        for word in ["habits", "session_verdicts"] {
            self.forgotten.add(0, &reason(word));
        }
        self.expensive.add(0, &reason(EXPENSIVE));
        self.expensive.add(0, &reason(TOO_LARGE));
        for place in ["queue", "reading", "shard"] {
            self.waits.add(0, &[KeyValue::new("for", place)]);
        }
        for word in
            ["reading_full", "shard_full", "log_full", "log_behind", "log_failed", "restoring"]
        {
            self.refused.add(0, &reason(word));
        }
        self.panics.add(0, &[]);
        self.cut_texts.add(0, &[]);
        self.revised.add(0, &[]);
        self.time.add(0.0, &[]);
    }

    pub(super) fn refused(&self, word: &'static str) {
        self.refused.add(1, &reason(word));
    }

    /// Counts a request that waits for room in the queue, for reading or at its shard.
    pub(super) fn waited(&self, place: &'static str) {
        self.waits.add(1, &[KeyValue::new("for", place)]);
    }

    pub(super) fn extracted(&self, extracted: &Extracted) {
        if extracted.rejected_total() > 0 {
            for rejection in Rejection::ALL {
                self.rejected.add(extracted.rejected(rejection), &reason(rejection.as_str()));
            }
        }
        if extracted.ended_before_start > 0 {
            self.repaired.add(extracted.ended_before_start, &reason("ended_before_start"));
        }
    }

    pub(super) fn judged(&self, judged: &JudgedCounts, took: Duration, by: &Evaluators) {
        self.time.add(took.as_secs_f64(), &[]);
        for (completion, count) in &judged.completions {
            self.judged.add(*count, &[KeyValue::new("completion", completion.as_str())]);
        }
        if judged.expensive > 0 {
            self.expensive.add(judged.expensive, &reason(EXPENSIVE));
        }
        if judged.too_large > 0 {
            self.expensive.add(judged.too_large, &reason(TOO_LARGE));
        }
        self.cut_texts(judged.cut_texts);
        self.skipped.add(&judged.passes, by);
    }

    pub(super) fn cut_texts(&self, texts: u64) {
        if texts > 0 {
            self.cut_texts.add(texts, &[]);
        }
    }

    pub(super) fn session_judged(
        &self,
        passes: Skips,
        limited: Option<&'static str>,
        by: &Evaluators,
    ) {
        self.sessions.add(1, &[]);
        if let Some(word) = limited {
            self.expensive.add(1, &reason(word));
        }
        let mut counts = PassCounts::default();
        counts.add(passes);
        self.skipped.add(&counts, by);
    }

    pub(super) fn session_trace_lost(&self) {
        self.session_losses.add(1, &reason("queue_full"));
    }

    pub(super) fn sessions(&self, sessions: &mut Sessions) {
        let counts = sessions.take_counts();
        if counts.traces_over_limit > 0 {
            self.session_losses.add(counts.traces_over_limit, &reason("session_over_limit"));
        }
        if counts.evicted > 0 {
            self.evicted.add(counts.evicted, &reason("session"));
        }
    }

    pub(super) fn forgot_session_verdicts(&self, count: u64) {
        if count > 0 {
            self.forgotten.add(count, &reason("session_verdicts"));
        }
    }

    pub(super) fn panicked(&self) {
        self.panics.add(1, &[]);
    }

    /// Records the delay of each trace, and counts revisions.
    fn delays(&self, evaluations: &[Evaluation]) {
        let revised = evaluations.iter().filter(|evaluation| evaluation.revises.is_some()).count();
        if revised > 0 {
            self.revised.add(revised as u64, &[]);
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        for same in evaluations.chunk_by(|a, b| Arc::ptr_eq(&a.target, &b.target)) {
            let Some(Evaluation { target, evaluator, revision, .. }) = same.first() else {
                continue;
            };
            // A revision comes long after the end, and the end of a session is a time-out.
            let is_first = *revision == 0 && evaluator.level != Level::Session;
            if is_first && target.completion == Completion::RootEnded {
                let ended = Duration::from_nanos(target.ended_ns);
                self.delay.record(now.saturating_sub(ended).as_secs_f64(), &[]);
            }
        }
    }

    pub(super) fn evaluations(&self, evaluations: &[Evaluation]) {
        self.delays(evaluations);
        // Adding to a counter costs more than an evaluation, so equal labels are added once.
        let mut tally: Vec<(&str, Option<&'static str>, u64)> = Vec::new();
        for evaluation in evaluations.iter().filter(|evaluation| evaluation.target.is_partial) {
            let name = evaluation.evaluator.name.clone();
            self.partial.add(1, &[KeyValue::new("evaluator", name)]);
        }
        for evaluation in evaluations {
            let reason = match &evaluation.outcome {
                Outcome::Scored(_) => continue,
                Outcome::NotEvaluable { reason, .. } => Some(reason.as_str()),
                Outcome::Failed { .. } => None,
            };
            let name = evaluation.evaluator.name.as_str();
            match tally.iter_mut().find(|known| known.0 == name && known.1 == reason) {
                Some((.., count)) => *count += 1,
                None => tally.push((name, reason, 1)),
            }
        }
        for (name, reason, count) in tally {
            let evaluator = KeyValue::new("evaluator", name.to_owned());
            match reason {
                Some(word) => {
                    self.not_evaluable.add(count, &[evaluator, KeyValue::new("reason", word)]);
                }
                None => self.failed.add(count, &[evaluator]),
            }
        }
    }

    /// Counts spans that a shard lost by an internal error.
    pub(super) fn lost_spans(&self, count: usize) {
        self.spans.add(&SpanCounts { lost: count as u64, ..SpanCounts::default() });
    }

    /// Counts spans restored from an earlier process.
    pub(super) fn recovered(&self, spans: u64) {
        self.spans.recovered.add(spans, &[]);
    }

    /// Adds the counts of a shard, and updates the gauges over all shards.
    pub(super) fn shard(&self, index: usize, shard: &mut Shard) {
        let counts = shard.take_counts();
        let add = |counter: &Counter<u64>, count: u64, word: &'static str| {
            if count > 0 {
                counter.add(count, &reason(word));
            }
        };
        if counts.spans != SpanCounts::default() {
            self.spans.add(&counts.spans);
        }
        add(&self.spans.dropped_logs, counts.duplicate_logs, "duplicate");
        add(&self.spans.dropped_logs, counts.logs_over_limit, "trace_over_limit");
        add(&self.spans.dropped_logs, counts.orphan_logs, "orphan");
        add(&self.ignored_traces, counts.without_agent, "no_agent_span");
        add(&self.evicted, counts.evicted_by_size, "trace_size");
        add(&self.evicted, counts.evicted_by_count, "trace_count");
        add(&self.evicted, counts.evicted_by_memory, "memory");
        add(&self.evicted, counts.forgotten_early, "remembered");
        add(&self.forgotten, counts.forgotten_habits, "habits");
        if counts.reopened > 0 {
            self.reopened.add(counts.reopened, &[]);
        }
        if counts.waited_longer > 0 {
            self.waited_longer.add(counts.waited_longer, &[]);
        }
        let mut shards = self.shards.lock().unwrap_or_else(PoisonError::into_inner);
        if shards.len() <= index {
            shards.resize(index + 1, [0; 3]);
        }
        let held = [shard.open_count(), shard.open_spans(), shard.bytes()].map(|it| it as u64);
        if shards[index] == held && index > 0 {
            return;
        }
        shards[index] = held;
        let sum = |of: usize| shards.iter().map(|held| held[of]).sum();
        self.open_traces.record(sum(0), &[]);
        self.open_spans.record(sum(1), &[]);
        self.held_bytes.record(sum(2), &[]);
    }
}
