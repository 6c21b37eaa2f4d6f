//! Metrics of the process from the operating system, as OTLP metrics.
//!
//! They are scraped under Prometheus' names for them; over OTLP they have those of OpenTelemetry's
//! semantic conventions for processes.

use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Metric, NumberDataPoint, Sum, metric,
};
use prometheus::proto::MetricFamily;

/// Metric of the process.
struct ProcessMetric {
    /// Name in the text format of Prometheus.
    scraped: &'static str,
    name: &'static str,
    unit: &'static str,
    about: &'static str,
    kind: ProcessMetricKind,
}

/// Kind of a metric of the process.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ProcessMetricKind {
    /// Only up.
    Counter,
    /// Up and down.
    UpDownCounter,
    /// Time since the start, which Prometheus shows as a point in time.
    Uptime,
}

const METRICS: [ProcessMetric; 6] = [
    ProcessMetric {
        scraped: "process_cpu_seconds_total",
        name: "process.cpu.time",
        unit: "s",
        about: "Total CPU time.",
        kind: ProcessMetricKind::Counter,
    },
    ProcessMetric {
        scraped: "process_resident_memory_bytes",
        name: "process.memory.usage",
        unit: "By",
        about: "Physical memory in use.",
        kind: ProcessMetricKind::UpDownCounter,
    },
    ProcessMetric {
        scraped: "process_virtual_memory_bytes",
        name: "process.memory.virtual",
        unit: "By",
        about: "Committed virtual memory.",
        kind: ProcessMetricKind::UpDownCounter,
    },
    ProcessMetric {
        scraped: "process_open_fds",
        name: "process.unix.file_descriptor.count",
        unit: "{file_descriptor}",
        about: "File descriptors in use.",
        kind: ProcessMetricKind::UpDownCounter,
    },
    ProcessMetric {
        scraped: "process_threads",
        name: "process.thread.count",
        unit: "{thread}",
        about: "Threads.",
        kind: ProcessMetricKind::UpDownCounter,
    },
    ProcessMetric {
        scraped: "process_start_time_seconds",
        name: "process.uptime",
        unit: "s",
        about: "Time since the process started.",
        kind: ProcessMetricKind::Uptime,
    },
];

/// Returns the metrics of the process among the scraped ones.
pub(super) fn metrics(families: &[MetricFamily], started_ns: u64, now_ns: u64) -> Vec<Metric> {
    let found = METRICS.iter().filter_map(|known| {
        let family = families.iter().find(|family| family.name() == known.scraped)?;
        let first = family.get_metric().first()?;
        let value = match known.kind {
            ProcessMetricKind::Counter => first.get_counter().get_value(),
            ProcessMetricKind::UpDownCounter => first.get_gauge().get_value(),
            ProcessMetricKind::Uptime => now_ns as f64 / 1e9 - first.get_gauge().get_value(),
        };
        Some(known.metric(value, started_ns, now_ns))
    });
    found.collect()
}

impl ProcessMetric {
    fn metric(&self, value: f64, started_ns: u64, now_ns: u64) -> Metric {
        let value = match self.kind {
            ProcessMetricKind::UpDownCounter => Value::AsInt(value as i64),
            _ => Value::AsDouble(value.max(0.0)),
        };
        let point = NumberDataPoint {
            start_time_unix_nano: started_ns,
            time_unix_nano: now_ns,
            value: Some(value),
            ..NumberDataPoint::default()
        };
        let data_points = vec![point];
        let data = match self.kind {
            ProcessMetricKind::Uptime => metric::Data::Gauge(Gauge { data_points }),
            kind => metric::Data::Sum(Sum {
                data_points,
                aggregation_temporality: AggregationTemporality::Cumulative.into(),
                is_monotonic: kind == ProcessMetricKind::Counter,
            }),
        };
        Metric {
            name: self.name.to_owned(),
            description: self.about.to_owned(),
            unit: self.unit.to_owned(),
            data: Some(data),
            ..Metric::default()
        }
    }
}
