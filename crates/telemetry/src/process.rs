//! Process metrics of the operating system, also as OTLP metrics.
//!
//! Scrapes show them under their Prometheus names, OTLP under those of OpenTelemetry's semantic
//! conventions for processes.

use std::fs;

use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Metric, NumberDataPoint, Sum, metric,
};
use prometheus::core::{Collector, Desc};
use prometheus::proto::{self, MetricFamily, MetricType};
use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Resource, getrlimit};

/// Metric of the process.
struct ProcessMetric {
    /// Prometheus name.
    name: &'static str,
    /// Prometheus help text.
    help: &'static str,
    /// OpenTelemetry metric, if the conventions define one.
    pushed: Option<PushedMetric>,
    kind: ProcessMetricKind,
}

/// OpenTelemetry description of a metric.
struct PushedMetric {
    name: &'static str,
    unit: &'static str,
    about: &'static str,
}

/// Kind of a process metric.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ProcessMetricKind {
    /// Only increases.
    Counter,
    /// Increases and decreases.
    UpDownCounter,
    /// Time since the start, which Prometheus shows as a point in time.
    Uptime,
}

/// Metrics of the process, in the order of [`values`].
const METRICS: [ProcessMetric; 7] = [
    ProcessMetric {
        name: "process_cpu_seconds_total",
        help: "Total user and system CPU time spent in seconds.",
        pushed: Some(PushedMetric {
            name: "process.cpu.time",
            unit: "s",
            about: "Total CPU time.",
        }),
        kind: ProcessMetricKind::Counter,
    },
    ProcessMetric {
        name: "process_resident_memory_bytes",
        help: "Resident memory size in bytes.",
        pushed: Some(PushedMetric {
            name: "process.memory.usage",
            unit: "By",
            about: "Physical memory in use.",
        }),
        kind: ProcessMetricKind::UpDownCounter,
    },
    ProcessMetric {
        name: "process_virtual_memory_bytes",
        help: "Virtual memory size in bytes.",
        pushed: Some(PushedMetric {
            name: "process.memory.virtual",
            unit: "By",
            about: "Committed virtual memory.",
        }),
        kind: ProcessMetricKind::UpDownCounter,
    },
    ProcessMetric {
        name: "process_open_fds",
        help: "Number of open file descriptors.",
        pushed: Some(PushedMetric {
            name: "process.unix.file_descriptor.count",
            unit: "{file_descriptor}",
            about: "File descriptors in use.",
        }),
        kind: ProcessMetricKind::UpDownCounter,
    },
    ProcessMetric {
        name: "process_threads",
        help: "Number of OS threads in the process.",
        pushed: Some(PushedMetric {
            name: "process.thread.count",
            unit: "{thread}",
            about: "Threads.",
        }),
        kind: ProcessMetricKind::UpDownCounter,
    },
    ProcessMetric {
        name: "process_start_time_seconds",
        help: "Start time of the process since unix epoch in seconds.",
        pushed: Some(PushedMetric {
            name: "process.uptime",
            unit: "s",
            about: "Time since the process started.",
        }),
        kind: ProcessMetricKind::Uptime,
    },
    ProcessMetric {
        name: "process_max_fds",
        help: "Maximum number of open file descriptors.",
        pushed: None,
        kind: ProcessMetricKind::UpDownCounter,
    },
];

/// Reads `/proc` at each scrape.
pub(super) struct ProcessCollector(Vec<Desc>);

impl ProcessCollector {
    /// Describes the metrics.
    ///
    /// # Errors An invalid Prometheus name or text.
    pub(super) fn new() -> Result<Self, prometheus::Error> {
        let desc = |known: &ProcessMetric| {
            let help = known.help.to_owned();
            Desc::new(known.name.to_owned(), help, Vec::new(), Default::default())
        };
        METRICS.iter().map(desc).collect::<Result<_, _>>().map(Self)
    }
}

impl Collector for ProcessCollector {
    fn desc(&self) -> Vec<&Desc> {
        self.0.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let read = METRICS.iter().zip(values().into_iter().flatten());
        let families = read.map(|(known, value)| {
            let mut metric = proto::Metric::default();
            let mut family = MetricFamily::default();
            if known.kind == ProcessMetricKind::Counter {
                let mut counter = proto::Counter::default();
                counter.set_value(value as f64);
                metric.set_counter(counter);
                family.set_field_type(MetricType::COUNTER);
            } else {
                let mut gauge = proto::Gauge::default();
                gauge.set_value(value as f64);
                metric.set_gauge(gauge);
                family.set_field_type(MetricType::GAUGE);
            }
            family.set_name(known.name.to_owned());
            family.set_help(known.help.to_owned());
            family.set_metric(vec![metric]);
            family
        });
        families.collect()
    }
}

/// Reads the values from `/proc` in the order of [`METRICS`]; `None` without procfs.
fn values() -> Option<[u64; 7]> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The name may contain blanks and parentheses; the first word after it is the third field.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    let ticks = clock_ticks_per_second().max(1);
    let system = fs::read_to_string("/proc/stat").ok()?;
    let boot = system.lines().find_map(|line| line.strip_prefix("btime "));
    let boot = boot.and_then(|seconds| seconds.trim().parse::<u64>().ok()).unwrap_or_default();
    Some([
        (field(14)? + field(15)?) / ticks,
        field(24)? * page_size() as u64,
        field(23)?,
        open_files(),
        field(20)?,
        field(22)? / ticks + boot,
        getrlimit(Resource::Nofile).current.unwrap_or_default(),
    ])
}

/// Counts open files: from the folder's size since Linux 6.2, by listing it before.
fn open_files() -> u64 {
    const FOLDER: &str = "/proc/self/fd";
    match fs::metadata(FOLDER).map_or(0, |folder| folder.len()) {
        0 => fs::read_dir(FOLDER).map_or(0, |files| files.count() as u64),
        count => count,
    }
}

/// Reads the metrics that OpenTelemetry defines.
pub(super) fn metrics(started_ns: u64, now_ns: u64) -> Vec<Metric> {
    let read = METRICS.iter().zip(values().into_iter().flatten());
    read.filter_map(|(known, value)| known.metric(value, started_ns, now_ns)).collect()
}

impl ProcessMetric {
    fn metric(&self, value: u64, started_ns: u64, now_ns: u64) -> Option<Metric> {
        let pushed = self.pushed.as_ref()?;
        let value = match self.kind {
            ProcessMetricKind::Counter => Value::AsDouble(value as f64),
            ProcessMetricKind::UpDownCounter => Value::AsInt(value.cast_signed()),
            ProcessMetricKind::Uptime => {
                Value::AsDouble((now_ns as f64 / 1e9 - value as f64).max(0.0))
            }
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
        Some(Metric {
            name: pushed.name.to_owned(),
            unit: pushed.unit.to_owned(),
            description: pushed.about.to_owned(),
            data: Some(data),
            ..Metric::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_scraped_is_this_process() {
        let families = ProcessCollector::new().unwrap().collect();
        let value = |name: &str| {
            let family = families.iter().find(|family| family.name() == name).unwrap();
            family.get_metric()[0].get_gauge().get_value()
        };
        assert_eq!(families.len(), METRICS.len());
        let open = value("process_open_fds");
        assert!(open >= 3.0 && open <= value("process_max_fds"), "{open}");
        let resident = value("process_resident_memory_bytes");
        assert!(resident > 1e6 && resident < value("process_virtual_memory_bytes"), "{resident}");
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let age = now.as_secs_f64() - value("process_start_time_seconds");
        assert!((-2.0..86_400.0).contains(&age) && value("process_threads") >= 1.0, "{age}");
    }
}
