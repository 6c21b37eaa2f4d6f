//! Settings of a collector, from a checked config.

use super::plan::ResolvedConfig;
use spanscore_assemble::{LimitsSettings, SessionsSettings};
use spanscore_extract::dialect::Dialect;
use spanscore_pipeline::{CollectorSettings, LogFolder};
use spanscore_telemetry::BuildFacts;

/// Facts of this build.
pub const BUILD: BuildFacts = BuildFacts {
    version: env!("CARGO_PKG_VERSION"),
    commit: env!("SPANSCORE_BUILD_COMMIT"),
    target: env!("SPANSCORE_BUILD_TARGET"),
    rustc: env!("SPANSCORE_BUILD_RUSTC"),
};

impl From<ResolvedConfig> for CollectorSettings {
    fn from(plan: ResolvedConfig) -> Self {
        let config = plan.config;
        Self {
            receivers: config.receivers,
            dialects: Dialect::with_builtin(config.dialects),
            traces: config.traces,
            sessions: SessionsSettings {
                memory_mib: Some(mib(plan.memory.sessions)),
                ..config.sessions
            },
            limits: LimitsSettings { traces_mib: Some(mib(plan.memory.traces)), ..config.limits },
            memory: plan.memory,
            judges: config.judges,
            judging: config.judging,
            evaluators: plan.evaluators,
            exporters: plan.exporters,
            forward: plan.forward,
            store: config.store.0,
            dashboard: config.dashboard.0,
            telemetry: config.telemetry,
            build: BUILD,
            log: config.data_dir.map(|data_dir| LogFolder {
                data_dir,
                limits: config.log.limits(config.durability),
            }),
            shutdown_timeout: config.shutdown_timeout.0,
            shard_count: None,
        }
    }
}

/// Converts bytes to whole mebibytes, at least one.
fn mib(bytes: usize) -> u32 {
    u32::try_from(bytes >> 20).unwrap_or(u32::MAX).max(1)
}
