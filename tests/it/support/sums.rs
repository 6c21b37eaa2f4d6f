//! Sums that the counters of the stages must add up to, over a metrics page.

use std::collections::BTreeMap;

/// A metrics page.
pub(crate) struct Page(pub(crate) String);

impl Page {
    /// The sum of a metric over all series that have these labels, such as `reason="duplicate"`.
    pub(crate) fn sum(&self, name: &str, labels: &str) -> u64 {
        let lines = self.0.lines().filter(|line| !line.starts_with('#') && line.contains(labels));
        let values = lines.filter_map(|line| {
            let (series, value) = line.rsplit_once(' ')?;
            let found = series.split('{').next()?;
            (found == format!("spanscore_{name}")).then(|| value.parse::<f64>().ok())?
        });
        values.map(|value| value as u64).sum()
    }

    /// Spans that came, and what became of them by stage and reason.
    pub(crate) fn spans(&self) -> (u64, BTreeMap<&'static str, u64>) {
        let came = self.sum("receiver_accepted_spans_total", "")
            + self.sum("pipeline_recovered_spans_total", "");
        let names = [
            "pipeline_queued_spans",
            "assemble_open_spans",
            "assemble_judged_spans_total",
            "assemble_ignored_spans_total",
            "assemble_dropped_spans_total",
        ];
        (came, names.map(|name| (name, self.sum(name, ""))).into())
    }

    /// Evaluations that exporters were given, and what became of them.
    pub(crate) fn evaluations(&self) -> (u64, BTreeMap<&'static str, u64>) {
        let came = self.sum("exporter_offered_evaluations_total", "")
            + self.sum("exporter_recovered_evaluations_total", "");
        let names = [
            "exporter_queued_evaluations",
            "exporter_overflow_evaluations",
            "exporter_sent_evaluations_total",
            "exporter_send_failed_evaluations_total",
            "exporter_enqueue_failed_evaluations_total",
            "exporter_left_evaluations_total",
        ];
        (came, names.map(|name| (name, self.sum(name, ""))).into())
    }

    /// Returns true if all adds up.
    pub(crate) fn is_sum(&self) -> bool {
        self.difference().is_none()
    }

    /// Returns the sum that does not add up, for a person; `None` where all do.
    pub(crate) fn difference(&self) -> Option<String> {
        for (what, (came, became)) in [("spans", self.spans()), ("evaluations", self.evaluations())]
        {
            let sum: u64 = became.values().sum();
            if came != sum {
                return Some(format!("{what}: {came} came, {sum} are known: {became:?}"));
            }
        }
        None
    }
}
