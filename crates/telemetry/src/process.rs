//! Metrics of the process from the operating system, as OTLP metrics.
//!
//! They are scraped under Prometheus' names for them; over OTLP they have those of OpenTelemetry's
//! semantic conventions for processes.

use std::fs;

use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Metric, NumberDataPoint, Sum, metric,
};
use prometheus::core::{Collector, Desc};
use prometheus::proto::{self, MetricFamily, MetricType};
use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Resource, getrlimit};

/// Names and texts of what is scraped, in the order of [`values`].
const SCRAPED: [(&str, &str); 7] = [
    ("process_cpu_seconds_total", "Total user and system CPU time spent in seconds."),
    ("process_open_fds", "Number of open file descriptors."),
    ("process_max_fds", "Maximum number of open file descriptors."),
    ("process_virtual_memory_bytes", "Virtual memory size in bytes."),
    ("process_resident_memory_bytes", "Resident memory size in bytes."),
    ("process_start_time_seconds", "Start time of the process since unix epoch in seconds."),
    ("process_threads", "Number of OS threads in the process."),
];

/// Reads `/proc` whenever somebody scrapes.
pub(super) struct ProcessCollector(Vec<Desc>);

impl ProcessCollector {
    /// Describes what is scraped.
    ///
    /// # Errors
    /// A name or a text that Prometheus does not take.
    pub(super) fn new() -> Result<Self, prometheus::Error> {
        let desc = |(name, help): (&str, &str)| {
            Desc::new(name.to_owned(), help.to_owned(), Vec::new(), Default::default())
        };
        SCRAPED.into_iter().map(desc).collect::<Result<_, _>>().map(Self)
    }
}

impl Collector for ProcessCollector {
    fn desc(&self) -> Vec<&Desc> {
        self.0.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let Some(values) = values() else { return Vec::new() };
        let families = SCRAPED.into_iter().zip(values).map(|((name, help), value)| {
            let mut metric = proto::Metric::default();
            let mut family = MetricFamily::default();
            if name.ends_with("_total") {
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
            family.set_name(name.to_owned());
            family.set_help(help.to_owned());
            family.set_metric(vec![metric]);
            family
        });
        families.collect()
    }
}

/// Reads what `/proc` says now; nothing where there is none.
fn values() -> Option<[u64; 7]> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The name before may hold blanks and parentheses; the first word behind it is the third field.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    let ticks = clock_ticks_per_second().max(1);
    let system = fs::read_to_string("/proc/stat").ok()?;
    let boot = system.lines().find_map(|line| line.strip_prefix("btime "));
    let boot = boot.and_then(|seconds| seconds.trim().parse::<u64>().ok()).unwrap_or_default();
    Some([
        (field(14)? + field(15)?) / ticks,
        open_files(),
        getrlimit(Resource::Nofile).current.unwrap_or_default(),
        field(23)?,
        field(24)? * page_size() as u64,
        field(22)? / ticks + boot,
        field(20)?,
    ])
}

/// Counts open files: since Linux 6.2 the folder says how many; before, it is read.
fn open_files() -> u64 {
    const FOLDER: &str = "/proc/self/fd";
    match fs::metadata(FOLDER).map_or(0, |folder| folder.len()) {
        0 => fs::read_dir(FOLDER).map_or(0, |files| files.count() as u64),
        count => count,
    }
}

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
        assert_eq!(families.len(), SCRAPED.len());
        let open = value("process_open_fds");
        assert!(open >= 3.0 && open <= value("process_max_fds"), "{open}");
        let resident = value("process_resident_memory_bytes");
        assert!(resident > 1e6 && resident < value("process_virtual_memory_bytes"), "{resident}");
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let age = now.as_secs_f64() - value("process_start_time_seconds");
        assert!((-2.0..86_400.0).contains(&age) && value("process_threads") >= 1.0, "{age}");
    }
}
