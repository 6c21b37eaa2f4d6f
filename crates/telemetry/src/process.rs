//! Process metrics of the operating system, also as OTLP metrics.
//!
//! Scrapes show them under their Prometheus names, OTLP under those of OpenTelemetry's semantic
//! conventions for processes.

use std::fs;

use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Metric, NumberDataPoint, Sum, metric,
};
use prometheus::Counter;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Resource, getrlimit};

/// Metric of the process.
struct ProcessMetric {
    /// Name in the format of Prometheus, and the text beside it.
    scraped: [&'static str; 2],
    /// Name, unit and description by OpenTelemetry's conventions; `None` for what they do not name.
    pushed: Option<[&'static str; 3]>,
    kind: ProcessMetricKind,
}

/// Kind of a metric of the process.
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
        scraped: ["process_cpu_seconds_total", "Total user and system CPU time spent in seconds."],
        pushed: Some(["process.cpu.time", "s", "Total CPU time."]),
        kind: ProcessMetricKind::Counter,
    },
    ProcessMetric {
        scraped: ["process_resident_memory_bytes", "Resident memory size in bytes."],
        pushed: Some(["process.memory.usage", "By", "Physical memory in use."]),
        kind: ProcessMetricKind::UpDownCounter,
    },
    ProcessMetric {
        scraped: ["process_virtual_memory_bytes", "Virtual memory size in bytes."],
        pushed: Some(["process.memory.virtual", "By", "Committed virtual memory."]),
        kind: ProcessMetricKind::UpDownCounter,
    },
    ProcessMetric {
        scraped: ["process_open_fds", "Number of open file descriptors."],
        pushed: Some([
            "process.unix.file_descriptor.count",
            "{file_descriptor}",
            "File descriptors in use.",
        ]),
        kind: ProcessMetricKind::UpDownCounter,
    },
    ProcessMetric {
        scraped: ["process_threads", "Number of OS threads in the process."],
        pushed: Some(["process.thread.count", "{thread}", "Threads."]),
        kind: ProcessMetricKind::UpDownCounter,
    },
    ProcessMetric {
        scraped: [
            "process_start_time_seconds",
            "Start time of the process since unix epoch in seconds.",
        ],
        pushed: Some(["process.uptime", "s", "Time since the process started."]),
        kind: ProcessMetricKind::Uptime,
    },
    ProcessMetric {
        scraped: ["process_max_fds", "Maximum number of open file descriptors."],
        pushed: None,
        kind: ProcessMetricKind::UpDownCounter,
    },
];

/// Reads `/proc` at each scrape.
pub(super) struct ProcessCollector(Vec<Desc>);

impl ProcessCollector {
    /// Describes the metrics.
    ///
    /// # Errors
    /// An invalid Prometheus name or text.
    pub(super) fn new() -> Result<Self, prometheus::Error> {
        let desc = |known: &ProcessMetric| {
            let [name, help] = known.scraped.map(str::to_owned);
            Desc::new(name, help, Vec::new(), Default::default())
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
        read.filter_map(|(known, value)| known.families(value).ok()).flatten().collect()
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
    fn families(&self, value: u64) -> Result<Vec<MetricFamily>, prometheus::Error> {
        let [name, help] = self.scraped;
        if self.kind == ProcessMetricKind::Counter {
            let counter = Counter::new(name, help)?;
            counter.inc_by(value as f64);
            return Ok(counter.collect());
        }
        let gauge = prometheus::Gauge::new(name, help)?;
        gauge.set(value as f64);
        Ok(gauge.collect())
    }

    fn metric(&self, value: u64, started_ns: u64, now_ns: u64) -> Option<Metric> {
        let [name, unit, description] = self.pushed?.map(str::to_owned);
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
        Some(Metric { name, unit, description, data: Some(data), ..Metric::default() })
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
