//! Metrics of the pipeline.
//!
//! Field names are Prometheus names without prefix and suffix.

mod key_counts;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use self::key_counts::KeyCounts;
use spanscore_assemble::{Sessions, Shard, SpanCounts};
use spanscore_base::model::{Completion, Evaluation, Level, Outcome, Reason};
use spanscore_evaluate::engine::run::{Configured, Evaluators, SkipReason, Skips};
use spanscore_extract::{Extracted, Rejection};
use spanscore_net::clock::since_1970;
use spanscore_net::metrics;
use spanscore_net::metrics::{CounterBy, KeyValue, Meter, label};

metrics! {
    /// Instruments of the stages between receivers and exporters.
    pub(super) struct StageMetrics {
        refused: CounterBy("spanscore.pipeline.refused_requests", "{request}",
            "Requests refused retryably.", "reason", REFUSALS);
        waits: CounterBy("spanscore.pipeline.waits", "{wait}",
            "Requests that waited for room.", "for", ["queue", "reading", "shard"]);
        recovered: Counter("spanscore.pipeline.recovered_spans", "{span}",
            "Spans that an earlier process had taken.");
        rejected: CounterBy("spanscore.extract.rejected_items", "{item}",
            "Items that were not taken.", "reason", Rejection::ALL.iter().map(|it| it.as_str()));
        repaired: CounterBy("spanscore.extract.repaired_items", "{item}",
            "Items taken with a repair.", "reason", ["ended_before_start"]);
        judged_spans: Counter("spanscore.assemble.judged_spans", "{span}",
            "Spans of judged traces.");
        ignored_spans: CounterBy("spanscore.assemble.ignored_spans", "{span}",
            "Spans not judged.", "reason", ["no_agent_span"]);
        dropped_spans: CounterBy("spanscore.assemble.dropped_spans", "{span}", "Spans dropped.",
            "reason", dropped(&SpanCounts::default()).map(|(word, _)| word));
        dropped_logs: CounterBy("spanscore.assemble.dropped_log_records", "{record}",
            "Log events dropped.", "reason", ["duplicate", "trace_over_limit", "orphan"]);
        ignored_traces: CounterBy("spanscore.assemble.ignored_traces", "{trace}",
            "Traces not judged.", "reason", ["no_agent_span"]);
        judged_traces: CounterBy("spanscore.assemble.judged_traces", "{trace}",
            "Traces judged.", "completion", COMPLETIONS.map(Completion::as_str));
        evicted: CounterBy("spanscore.assemble.evicted_traces", "{trace}",
            "Traces that a limit ended.",
            "reason", ["trace_size", "trace_count", "memory", "remembered", "session"]);
        reopened: Counter("spanscore.assemble.reopened_traces", "{trace}",
            "Judged traces reopened.");
        waited_longer: Counter("spanscore.assemble.waited_longer_traces", "{trace}",
            "Traces that were waited for since they lacked something.");
        forgotten: CounterBy("spanscore.assemble.forgotten_facts", "{fact}",
            "Facts learnt of senders that were evicted for newer ones.",
            "reason", ["habits", SESSION_VERDICTS, "judged_traces"]);
        judged_sessions: Counter("spanscore.assemble.judged_sessions", "{session}",
            "Sessions judged.");
        session_losses: CounterBy("spanscore.assemble.session_losses", "{trace}",
            "Traces missing from their session.", "reason", ["queue_full", "session_over_limit"]);
        limited: CounterBy("spanscore.evaluate.limited_targets", "{target}",
            "Traces and sessions not judged in part, as a limit of work was met.",
            "reason", [EXPENSIVE, TOO_LARGE]);
        long_traces: CounterBy("spanscore.evaluate.long_traces", "{trace}",
            "Traces that took more than a slice of steps, by the thread that judged them.",
            "thread", ["own", "shard"]);
        copied_traces: Counter("spanscore.evaluate.copied_traces", "{trace}",
            "Traces copied as they grew while they were judged beside their shard.");
        long_sessions: Counter("spanscore.evaluate.long_sessions", "{session}",
            "Sessions that took more than a slice of steps, judged by a thread of their own.");
        cut_texts: Counter("spanscore.evaluate.cut_texts", "{text}",
            "Texts in the details of evaluations that were cut.");
        panics: Counter("spanscore.evaluate.panics", "{panic}",
            "Faults of ours that were survived.");
        time: FloatCounter("spanscore.evaluate.time", "s",
            "Time that judging took, over all shards.");
        revised: Counter("spanscore.evaluate.revised_evaluations", "{evaluation}",
            "Evaluations that revise an earlier one of the same target.");
        asked_again: Counter("spanscore.judge.repeated_inquiries", "{inquiry}",
            "Answers of judges about traces that another process had begun to read before their \
             partition moved: at most so many were asked twice.");
        asked_again_cost: FloatCounter("spanscore.judge.repeated_cost", "{USD}",
            "Cost of these answers.");
        delay: Histogram("spanscore.evaluate.delay", "s",
            "Time from the end of a trace whose root ended, by its sender's clock, until its \
             evaluations are handed to the exporters.", &DELAY_BOUNDS);
        open_traces: Gauge("spanscore.assemble.open_traces", "{trace}", "Traces open now.");
        open_spans: Gauge("spanscore.assemble.open_spans", "{span}", "Spans of open traces.");
        held_bytes: Gauge("spanscore.assemble.held", "By",
            "Memory of open traces.");
    }
}

metrics! {
    /// Instruments of one evaluator.
    struct OutcomeMetrics {
        not_evaluable: CounterBy("spanscore.evaluate.not_evaluable", "{evaluation}",
            "Evaluations without a score, by reason.",
            "reason", Reason::ALL.iter().map(|it| it.as_str()));
        failed: Counter("spanscore.evaluate.failed", "{evaluation}", "Evaluations that broke.");
        partial: Counter("spanscore.evaluate.partial_evaluations", "{evaluation}",
            "Evaluations of traces that certainly lacked something.");
        when_errors: Counter("spanscore.evaluate.when_errors", "{error}",
            "Expressions of `when` and `run_if` that could not be evaluated.");
    }
}

metrics! {
    /// Targets skipped by an evaluator; the judge is a label if it always uses the same one.
    struct SkippedMetrics {
        targets: CounterBy("spanscore.evaluate.skipped", "{target}",
            "Traces and sessions that an evaluator passed over as the config says, by reason.",
            "reason", SkipReason::CHOSEN.map(SkipReason::as_str));
    }
}

/// All metrics of these stages, and the values behind the gauges.
pub(super) struct PipelineMetrics {
    pub(super) stages: StageMetrics,
    outcomes: OutcomeMetrics,
    skipped: SkippedMetrics,
    /// Open traces, open spans and bytes held of each shard.
    shards: Mutex<Vec<[u64; 3]>>,
}

/// Counts of judged traces, added to the metrics in batches.
#[derive(Default)]
pub(super) struct JudgedCounts {
    completions: KeyCounts<Completion>,
    skips: KeyCounts<(usize, SkipReason)>,
    /// Traces judged in part, because of their work budget.
    pub(super) expensive: u64,
    /// Traces not read, because of the memory for judging.
    pub(super) too_large: u64,
    /// Shortened texts of answers.
    pub(super) cut_texts: u64,
}

impl JudgedCounts {
    /// Counts one trace.
    pub(super) fn add(&mut self, completion: Completion, skips: Skips) {
        self.completions.add([completion]);
        self.skips.add(skips);
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

/// Reason of [`StageMetrics::limited`]: the work budget of a trace.
pub(super) const EXPENSIVE: &str = "trace_steps";
/// Reason of [`StageMetrics::limited`]: the memory for judging.
pub(super) const TOO_LARGE: &str = "judging_memory";

/// Reason of [`StageMetrics::forgotten`]: verdicts on sessions.
pub(super) const SESSION_VERDICTS: &str = "session_verdicts";
/// Reason of [`StageMetrics::dropped_spans`]: an internal error of their shard.
pub(super) const FAULT: &str = "fault";

/// Reasons for refusing a request.
const REFUSALS: [&str; 8] = [
    "queue_full", "reading_full", "shard_full", "log_full", "log_share", "log_behind",
    "log_failed", "restoring",
];

/// Returns the dropped spans, by reason.
fn dropped(counts: &SpanCounts) -> [(&'static str, u64); 7] {
    [
        ("duplicate", counts.duplicate),
        ("conflict", counts.conflicting),
        ("replaced", counts.replaced),
        ("trace_over_limit", counts.over_limit),
        (FAULT, counts.lost),
        ("forgotten", counts.forgotten),
        ("revoked", counts.revoked),
    ]
}

/// Adds counts other than zero: adding costs more than a check.
fn add(counter: &CounterBy, counts: &[(&'static str, u64)]) {
    for (value, count) in counts.iter().filter(|(_, count)| *count > 0) {
        counter.add(value, *count);
    }
}

fn evaluator(configured: &Configured) -> Vec<KeyValue> {
    vec![label("evaluator", &configured.info.name)]
}

fn evaluator_and_judge(configured: &Configured) -> Vec<KeyValue> {
    let mut labels = evaluator(configured);
    labels.extend(configured.judge().map(|judge| label("judge", judge)));
    labels
}

impl PipelineMetrics {
    pub(super) fn new(meter: &Meter, evaluators: &Evaluators) -> Self {
        let metrics = Self {
            stages: StageMetrics::new(meter).of(&[]),
            outcomes: OutcomeMetrics::new(meter),
            skipped: SkippedMetrics::new(meter),
            shards: Mutex::default(),
        };
        metrics.begin(evaluators);
        metrics
    }

    /// Shows the series of evaluators at zero.
    pub(super) fn begin(&self, evaluators: &Evaluators) {
        for configured in evaluators.evaluators() {
            self.outcomes.of(&evaluator(configured));
            self.skipped.of(&evaluator_and_judge(configured));
        }
    }

    pub(super) fn extracted(&self, extracted: &Extracted) {
        if extracted.rejected_total() > 0 {
            for &reason in Rejection::ALL {
                self.stages.rejected.add(reason.as_str(), extracted.rejected(reason));
            }
        }
        add(&self.stages.repaired, &[("ended_before_start", extracted.ended_before_start)]);
    }

    pub(super) fn judged(&self, judged: &JudgedCounts, took: Duration, by: &Evaluators) {
        self.stages.time.add(took.as_secs_f64());
        for (completion, count) in &judged.completions.0 {
            self.stages.judged_traces.add(completion.as_str(), *count);
        }
        let limited = [(EXPENSIVE, judged.expensive), (TOO_LARGE, judged.too_large)];
        add(&self.stages.limited, &limited);
        if judged.cut_texts > 0 {
            self.stages.cut_texts.add(judged.cut_texts);
        }
        self.skips(&judged.skips, by);
    }

    pub(super) fn session_judged(
        &self,
        skips: Skips,
        limited: Option<&'static str>,
        by: &Evaluators,
    ) {
        self.stages.judged_sessions.add(1);
        if let Some(word) = limited {
            self.stages.limited.add(word, 1);
        }
        let mut counts = KeyCounts::default();
        counts.add(skips);
        self.skips(&counts, by);
    }

    fn skips(&self, counts: &KeyCounts<(usize, SkipReason)>, by: &Evaluators) {
        for ((index, reason), count) in &counts.0 {
            let Some(configured) = by.evaluators().get(*index) else { continue };
            if *reason == SkipReason::Error {
                self.outcomes.when_errors.add_under(&evaluator(configured), *count);
            } else {
                let labels = evaluator_and_judge(configured);
                self.skipped.targets.add_under(&labels, reason.as_str(), *count);
            }
        }
    }

    pub(super) fn sessions(&self, sessions: &mut Sessions) {
        let counts = sessions.take_counts();
        add(&self.stages.session_losses, &[("session_over_limit", counts.traces_over_limit)]);
        add(&self.stages.evicted, &[("session", counts.evicted)]);
    }

    /// Records the delay of each trace, and counts revisions.
    fn delays(&self, evaluations: &[Evaluation]) {
        let revised = evaluations.iter().filter(|evaluation| evaluation.revises.is_some()).count();
        if revised > 0 {
            self.stages.revised.add(revised as u64);
        }
        let now = since_1970();
        for same in evaluations.chunk_by(|a, b| Arc::ptr_eq(&a.target, &b.target)) {
            let Some(Evaluation { target, evaluator, revision, .. }) = same.first() else {
                continue;
            };
            // A revision follows long after the end, and the end of a session is a time-out.
            let is_first = *revision == 0 && evaluator.level != Level::Session;
            if is_first && target.completion == Completion::RootEnded {
                let ended = Duration::from_nanos(target.ended_ns);
                self.stages.delay.record(now.saturating_sub(ended).as_secs_f64());
            }
        }
    }

    pub(super) fn evaluations(&self, evaluations: &[Evaluation]) {
        self.delays(evaluations);
        // Adding to a counter costs more than an evaluation, so equal labels are added once.
        for evaluation in evaluations.iter().filter(|evaluation| evaluation.target.is_partial) {
            self.outcomes.partial.add_under(&[label("evaluator", &evaluation.evaluator.name)], 1);
        }
        let unscored = evaluations.iter().filter_map(|evaluation| {
            let reason = match &evaluation.outcome {
                Outcome::Scored(_) => return None,
                Outcome::NotEvaluable { reason, .. } => Some(reason.as_str()),
                Outcome::Failed { .. } => None,
            };
            Some((evaluation.evaluator.name.as_str(), reason))
        });
        let mut tally = KeyCounts::default();
        tally.add(unscored);
        for ((name, reason), count) in tally.0 {
            let of = [label("evaluator", name)];
            match reason {
                Some(word) => self.outcomes.not_evaluable.add_under(&of, word, count),
                None => self.outcomes.failed.add_under(&of, count),
            }
        }
    }

    /// Adds the counts of a shard, and updates the gauges over all shards.
    pub(super) fn shard(&self, index: usize, shard: &mut Shard) {
        let counts = shard.take_counts();
        let stages = &self.stages;
        if counts.spans != SpanCounts::default() {
            stages.judged_spans.add(counts.spans.judged);
            add(&stages.ignored_spans, &[("no_agent_span", counts.spans.ignored)]);
            add(&stages.dropped_spans, &dropped(&counts.spans));
        }
        let dropped_logs = [
            ("duplicate", counts.duplicate_logs),
            ("trace_over_limit", counts.logs_over_limit),
            ("orphan", counts.orphan_logs),
        ];
        add(&stages.dropped_logs, &dropped_logs);
        add(&stages.ignored_traces, &[("no_agent_span", counts.without_agent)]);
        let evicted = [
            ("trace_size", counts.evicted_by_size),
            ("trace_count", counts.evicted_by_count),
            ("memory", counts.evicted_by_memory),
            ("remembered", counts.forgotten_early),
        ];
        add(&stages.evicted, &evicted);
        let forgotten =
            [("habits", counts.forgotten_habits), ("judged_traces", counts.judged_forgotten)];
        add(&stages.forgotten, &forgotten);
        if counts.reopened > 0 {
            stages.reopened.add(counts.reopened);
        }
        if counts.waited_longer > 0 {
            stages.waited_longer.add(counts.waited_longer);
        }
        let mut shards = self.shards.lock();
        if shards.len() <= index {
            shards.resize(index + 1, [0; 3]);
        }
        let held = [shard.open_count(), shard.open_spans(), shard.bytes()].map(|it| it as u64);
        if shards[index] == held && index > 0 {
            return;
        }
        shards[index] = held;
        let sum = |of: usize| shards.iter().map(|held| held[of]).sum();
        stages.open_traces.record(sum(0));
        stages.open_spans.record(sum(1));
        stages.held_bytes.record(sum(2));
    }
}
