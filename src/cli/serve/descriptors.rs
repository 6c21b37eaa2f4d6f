//! Budget of file descriptors: fixed parts for the log, probes and backends, the rest for
//! connections.
//!
//! A process without a free descriptor can start no file of its log, answer no probe and refuse no
//! connection. So the soft limit is raised to the hard one, and the parts that strangers can fill
//! are bounded: connections and followed files.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::config::{Config, ResolvedConfig};
use spanscore_pipeline::DASHBOARD_CONNECTIONS_MAX;
use spanscore_receive::settings::{FileReceiverSettings, OtlpReceiverSettings};
use spanscore_telemetry::{CONNECTIONS_MAX, connections_max};

/// Descriptors of the process itself: streams, pollers, listeners, locks, briefly opened files.
const OWN: u64 = 64;
/// Descriptors of an exporter or forward: its connections, and the files of its overflow.
const FOR_BACKEND: u64 = 32;
/// Descriptors of an external evaluator: its connections, or pipes.
const FOR_EVALUATOR: u64 = 8;
/// Divisor of the limit for the least part of connections, and of followed files.
const LEAST_PARTS: u64 = 4;

/// Descriptors of the process, and the parts that strangers can fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DescriptorBudget {
    /// Limit of the process.
    pub(super) limit: u64,
    /// Descriptors for everything but connections and followed files.
    pub(super) reserve: u64,
    /// Limit on open connections of senders.
    pub(super) connections: usize,
    /// Limit on files followed at once.
    pub(super) files: usize,
}

impl DescriptorBudget {
    /// Raises the limit as far as allowed, and lowers the settings of a plan to fit it.
    pub(super) fn apply(plan: &mut ResolvedConfig) -> Self {
        let limit = open_files_max();
        let budget = Self::new(limit, reserve(plan, limit), &plan.config);
        let receivers = &mut plan.config.receivers;
        if let Some(otlp) = &mut receivers.otlp {
            lower("receivers.otlp.max_connections", &mut otlp.max_connections, budget.connections);
        }
        if let Some(file) = &mut receivers.file {
            let setting = &mut file.max_concurrent_files;
            lower("receivers.file.max_concurrent_files", setting, budget.files);
        }
        budget
    }

    /// Divides a limit after this reserve.
    fn new(limit: u64, reserve: u64, config: &Config) -> Self {
        let wanted = |setting: Option<usize>| setting.map_or(0, |most| most as u64);
        let otlp = config.receivers.otlp.as_ref();
        let file = config.receivers.file.as_ref();
        let least = limit / LEAST_PARTS;
        let files = wanted(file.map(|it: &FileReceiverSettings| it.max_concurrent_files));
        let files = files.min(least.max(1));
        let rest = limit.saturating_sub(reserve).saturating_sub(files).max(least).max(1);
        let connections =
            wanted(otlp.map(|it: &OtlpReceiverSettings| it.max_connections)).min(rest);
        let whole = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
        Self { limit, reserve, connections: whole(connections), files: whole(files) }
    }
}

/// Raises the soft limit on open files to the hard one; returns the new soft limit.
pub(super) fn open_files_max() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let Some(soft) = current else { return u64::MAX };
    // Some systems do not grant a process an infinite limit.
    let Some(hard) = maximum.filter(|hard| *hard > soft) else { return soft };
    match setrlimit(Resource::Nofile, Rlimit { current: Some(hard), maximum }) {
        Ok(()) => hard,
        Err(error) => {
            tracing::warn!(soft, hard, %error, "the limit of open files cannot be raised");
            soft
        }
    }
}

/// Returns the number of descriptors that strangers cannot increase.
fn reserve(plan: &ResolvedConfig, limit: u64) -> u64 {
    let config = &plan.config;
    let log = config.data_dir.as_ref().map_or(0, |_| {
        let limits = config.log.limits(config.durability);
        // Its files, as many again for files deleted while they are read, and its folder.
        limits.size_max / limits.segment.max(1) + 16
    });
    let backends = (plan.exporters.len() + plan.forward.len()) as u64;
    let judges = config.judges.values().map(|judge| u64::from(judge.limits.concurrency) + 2);
    let evaluators = plan.evaluators.iter().filter(|it| it.external().is_some()).count() as u64;
    let endpoints = [CONNECTIONS_MAX; 2].into_iter().chain([DASHBOARD_CONNECTIONS_MAX]);
    let endpoints = endpoints.map(|most| connections_max(most, limit) as u64);
    OWN + endpoints.sum::<u64>()
        + log
        + backends * FOR_BACKEND
        + judges.sum::<u64>()
        + evaluators * FOR_EVALUATOR
}

/// Lowers a setting to fit the limit on open files, and logs that.
fn lower(name: &'static str, setting: &mut usize, most: usize) {
    if *setting > most {
        tracing::warn!(
            setting = name,
            wanted = *setting,
            most,
            "lowered: the limit of open files leaves no more; raise it (`ulimit -n`, LimitNOFILE)"
        );
        *setting = most;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_and_files_have_what_the_rest_leaves_and_a_quarter_at_least() {
        let mut config = Config::default();
        let mut check = |files: bool, (limit, reserve), expected: (usize, usize)| {
            config.receivers.file = files.then(FileReceiverSettings::default);
            let budget = DescriptorBudget::new(limit, reserve, &config);
            assert_eq!((budget.connections, budget.files), expected, "{limit} {reserve} {files}");
        };
        check(false, (1 << 20, 300), (4096, 0));
        check(false, (1024, 300), (724, 0));
        check(true, (1024, 300), (468, 256));
        check(true, (1 << 20, 300), (4096, 1024));
        check(false, (64, 300), (16, 0));
        check(true, (0, 300), (1, 1));
    }
}
