//! Checked settings of a collector, in the form of each stage.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use spanscore_api::DashboardSettings;
use spanscore_ask::judge::{JudgeSettings, JudgingSettings};
use spanscore_assemble::{LimitsSettings, SessionKeyFields, SessionsSettings, TracesSettings};
use spanscore_base::model::MemoryLimits;
use spanscore_emit::forward::ForwardSettings;
use spanscore_emit::settings::ExporterSettings;
use spanscore_evaluate::engine::run::Configured;
use spanscore_extract::dialect::Dialect;
use spanscore_log::LogLimits;
use spanscore_receive::settings::ReceiversSettings;
use spanscore_store::StoreSettings;
use spanscore_telemetry::{BuildFacts, TelemetrySettings};

/// Settings of a collector: a checked config.
pub struct CollectorSettings {
    /// Receivers.
    pub receivers: ReceiversSettings,
    /// Dialects: conventions of instrumentations for recording tool calls.
    pub dialects: Vec<Dialect>,
    /// Completion of traces.
    pub traces: TracesSettings,
    /// Completion of sessions.
    pub sessions: SessionsSettings,
    /// Limits of retained data.
    pub limits: LimitsSettings,
    /// Memory limit of each stage.
    pub memory: MemoryLimits,
    /// Models available to evaluators.
    pub judges: BTreeMap<String, JudgeSettings>,
    /// Waiting times and limits of inquiries.
    pub judging: JudgingSettings,
    /// Evaluators.
    pub evaluators: Vec<Configured>,
    /// Exporters of scores.
    pub exporters: Vec<ExporterSettings>,
    /// Forwards of requests to other backends.
    pub forward: Vec<ForwardSettings>,
    /// Store of runs and evaluations; `None` if disabled.
    pub store: Option<StoreSettings>,
    /// Query interface of the store; `None` if disabled.
    pub dashboard: Option<DashboardSettings>,
    /// Our own logs, metrics and health.
    pub telemetry: TelemetrySettings,
    /// Build of the program.
    pub build: BuildFacts,
    /// Write-ahead log of requests; `None` without `data_dir`.
    pub log: Option<LogFolder>,
    /// Time limit of a shutdown as a whole.
    pub shutdown_timeout: Duration,
    /// Number of shards; one per core when `None`.
    pub shard_count: Option<usize>,
}

/// Folder and limits of the write-ahead log.
#[derive(Clone, Debug)]
pub struct LogFolder {
    /// Folder of all persistent state.
    pub data_dir: PathBuf,
    /// Size, and durability of an acknowledged record.
    pub limits: LogLimits,
}

/// Settings of a store and its pages.
#[derive(Clone)]
pub struct PagesSettings {
    /// Store.
    pub store: StoreSettings,
    /// Dialects for pasted spans.
    pub dialects: Vec<Dialect>,
    /// Limits of a pasted request.
    pub limits: LimitsSettings,
    /// Fields that make up the key of a session.
    pub session_key: SessionKeyFields,
}
