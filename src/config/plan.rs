//! Sections of a config, and the resolved plan for the pipeline.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::IgnoredAny;
use smart_default::SmartDefault;

use super::listeners::{Listener, otlp_ports};
use super::memory::{ShareSettings, divide, store_queue, stored_content};
use super::{container, listeners, schema, sections};
use spanscore_api::DashboardSection;
use spanscore_ask::judge::{JudgeSettings, JudgingSettings, check_judges};
use spanscore_assemble::{LimitsSettings, MemorySetting, SessionsSettings, TracesSettings};
use spanscore_base::model::{Facts, Level, MemoryLimits};
use spanscore_base::settings::{HumanDuration, Node, SettingsError};
use spanscore_emit::forward::ForwardSettings;
use spanscore_emit::settings::ExporterSettings;
use spanscore_engine::settings::evaluators::{self, Surroundings};
use spanscore_engine::settings::{ConfigError, JudgeIdentities, Loaded, read_all, report};
use spanscore_evaluate::engine::run::Configured;
use spanscore_evaluate::{FailureJudge, FailureSettings};
use spanscore_extract::Table;
use spanscore_extract::dialect::{Dialect, Role};
use spanscore_log::{Durability, LogSettings};
use spanscore_receive::settings::ReceiversSettings;
use spanscore_store::StoreSection;
use spanscore_telemetry::TelemetrySettings;

/// The config of spanscore.
///
/// A section without an entry is as in the built-in config (`config/collector.yaml`). Values may
/// refer to the environment: `${env:NAME}` or `${env:NAME:-default}`. `$$` is a dollar sign.
#[derive(Debug, PartialEq, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Receivers of data. Default: OTLP over gRPC and HTTP on the loopback address.
    pub receivers: ReceiversSettings,
    /// Dialects: rules that read tool calls from the spans of an instrumentation, in addition to
    /// the built-in dialects. A dialect with the name of a built-in one replaces it.
    pub dialects: Vec<Dialect>,
    /// Completion of traces: the wait for late spans before a trace is judged.
    pub traces: TracesSettings,
    /// Completion of sessions. Only evaluators with `level: session` need sessions.
    pub sessions: SessionsSettings,
    /// Limits on memory and work.
    pub limits: LimitsSettings,
    /// Rules that recognise failed calls by their result, for all evaluators without their own
    /// `failures`.
    pub failures: FailureSettings,
    /// Language models that score traces, by a name of your choice.
    pub judges: BTreeMap<String, JudgeSettings>,
    /// Queue of requests to judges, and its limits.
    pub judging: JudgingSettings,
    /// Evaluators of traces: a map with keys `kind` or `kind/name`, such as
    /// `tool_call_args/refund`.
    #[schemars(schema_with = "schema::evaluators")]
    pub evaluators: IgnoredAny,
    /// Exporters of evaluations: a map with keys `kind` or `kind/name`, such as
    /// `otlp_grpc/backend`.
    #[schemars(schema_with = "schema::exporters")]
    pub exporters: IgnoredAny,
    /// Backends that received requests are forwarded to, unchanged: a map with keys `kind` or
    /// `kind/name`, such as `otlp_grpc/tempo`.
    #[schemars(schema_with = "schema::forward")]
    pub forward: IgnoredAny,
    /// Store of judged runs and their evaluations, for the dashboard, `spanscore scores` and
    /// `spanscore show`. `false` turns it off.
    pub store: StoreSection,
    /// Query API and dashboard of the store. `false` turns it off, and so does `store: false`.
    pub dashboard: DashboardSection,
    /// Metrics, spans, health and logs of the process itself.
    pub telemetry: TelemetrySettings,
    /// Folder for everything that must survive the process: the log of received requests, the
    /// store, and queues of exporters. Without it, nothing survives the process.
    pub data_dir: Option<PathBuf>,
    /// Moment at which a request is acknowledged: `none` at once, `os` (default) after the write,
    /// `disk` after the sync to disk. Requires `data_dir`.
    pub durability: Durability,
    /// Limits on the log of received requests in `data_dir`.
    pub log: LogSettings,
    /// Longest shutdown. Open traces are judged, and exporters send what is queued. Default `20s`.
    #[default(HumanDuration::from_secs(20))]
    pub shutdown_timeout: HumanDuration,
}

/// Checked and resolved config: only external conditions can make it fail later.
pub struct ResolvedConfig {
    /// The sections, without the evaluators.
    pub config: Config,
    /// The evaluators in the order of the config.
    pub evaluators: Vec<Configured>,
    /// The exporters in the order of the config.
    pub exporters: Vec<ExporterSettings>,
    /// The forwards in the order of the config.
    pub forward: Vec<ForwardSettings>,
    /// Memory quotas.
    pub memory: MemoryLimits,
    /// Memory limit of the container, bytes, if `limits.memory_mib` follows it.
    pub container_memory: Option<u64>,
}

impl ResolvedConfig {
    /// Checks a config; fails with all mistakes found.
    pub fn new(loaded: &Loaded) -> Result<Self, ConfigError> {
        if let Some(error) = evaluators::bare_definition(&loaded.node) {
            return Err(report(vec![error], &loaded.sources));
        }
        let mut errors = Vec::new();
        let mut config = read_all(&loaded.node, &mut errors, |node| node.read::<Config>());
        let container_memory = config.as_mut().and_then(|config| fit_memory(&mut config.limits));
        if let Some(config) = &config {
            check_dialects(config, &loaded.node, &mut errors);
            check_failures(config, &loaded.node, &mut errors);
            check_receivers(config, &loaded.node, &mut errors);
            listeners::check(config, &loaded.node, &mut errors);
            check_log(config, &loaded.node, &mut errors);
            if let Some(node) = loaded.node.get("judges") {
                errors.extend(check_judges(&config.judges, node));
            }
        }
        let entries = loaded.node.get("evaluators");
        let defaults = loaded.node.get("failures");
        let judges = config.as_ref().map(|config| {
            let of = |(name, judge): (&String, &JudgeSettings)| (name.clone(), judge.identity());
            config.judges.iter().map(of).collect::<JudgeIdentities>()
        });
        let judges = judges.as_ref();
        let around = Surroundings { failures: defaults, judges, sources: &loaded.sources };
        let evaluators = evaluators::configure(entries, around, &mut errors);
        let exporters = match loaded.node.get("exporters") {
            Some(node) => read_all(node, &mut errors, spanscore_emit::settings::read),
            None => Some(Vec::new()),
        };
        let forward = match loaded.node.get("forward") {
            Some(node) => read_all(node, &mut errors, spanscore_emit::forward::read_forwards),
            None => Some(Vec::new()),
        };
        if let (Some(config), Some(forward)) = (&config, &forward) {
            check_circles(config, forward, &loaded.node, &mut errors);
        }
        let memory = match (&config, &exporters, &forward) {
            (Some(config), Some(exporters), Some(forward)) => {
                let Config { receivers, limits, sessions, .. } = config;
                let otlp = receivers.otlp.as_ref();
                let container = container_memory;
                let settings =
                    ShareSettings { otlp, limits, container, sessions, exporters, forward };
                divide(settings, &loaded.node).map_err(|error| errors.push(error)).ok()
            }
            _ => None,
        };
        match (config, exporters, forward, memory) {
            (Some(mut config), Some(exporters), Some(forward), Some(memory))
                if errors.is_empty() =>
            {
                if let Some(store) = &mut config.store.0 {
                    store.content = stored_content(&loaded.node, memory.total).unwrap_or_default();
                    store.queue_bytes = store_queue(memory.total);
                }
                Ok(Self { config, evaluators, exporters, forward, memory, container_memory })
            }
            _ => {
                sections::explain(&mut errors);
                Err(report(errors, &loaded.sources))
            }
        }
    }

    /// Reports mistakes found elsewhere in settings of evaluators: each with the evaluator's name,
    /// the keys below its entry, and the message.
    pub fn mistakes(
        loaded: &Loaded,
        found: impl IntoIterator<Item = (String, Vec<String>, String)>,
    ) -> ConfigError {
        let errors = found.into_iter().map(|(evaluator, keys, message)| {
            let keys =
                ["evaluators", &evaluator].into_iter().chain(keys.iter().map(String::as_str));
            // A missing setting has the place of its parent.
            let place = loaded.node.along(keys).place;
            SettingsError::new(format!("`{evaluator}`: {message}")).at(place)
        });
        report(errors.collect(), &loaded.sources)
    }
}

/// Replaces `limits.memory_mib: auto` by the value for the container; returns the container's
/// limit, if any.
fn fit_memory(limits: &mut LimitsSettings) -> Option<u64> {
    if limits.memory_mib != MemorySetting::Auto {
        return None;
    }
    let container = container::memory_limit();
    let mib = container.map_or(limits.memory_mib.mib(), container::memory_mib);
    limits.memory_mib = MemorySetting::Mib(mib);
    container
}

/// Checks that the dialects fit in one table; a test checks the built-in ones.
fn check_dialects(config: &Config, node: &Node, errors: &mut Vec<SettingsError>) {
    if config.dialects.is_empty() {
        return;
    }
    let dialects = Dialect::with_builtin(config.dialects.clone());
    if let Err(error) = Table::compile(dialects, &Facts::all()) {
        errors.push(SettingsError::new(error.to_string()).at(node.along(["dialects"]).place));
    }
}

/// Checks that the detectors compile, even if no evaluator uses them; a test checks the built-in
/// ones.
fn check_failures(config: &Config, node: &Node, errors: &mut Vec<SettingsError>) {
    if config.failures == FailureSettings::default() {
        return;
    }
    if let Err(error) = FailureJudge::new(&config.failures) {
        errors.push(error.at(node.along(["failures"]).place));
    }
}

/// Checks that there is a receiver: a collector without one probably lacks the name of a protocol.
fn check_receivers(config: &Config, node: &Node, errors: &mut Vec<SettingsError>) {
    if let Some(Err(text)) = config.receivers.file.as_ref().map(|file| file.check()) {
        errors.push(SettingsError::new(text).at(node.along(["receivers", "file"]).place));
    }
    if let Some(Err((key, error))) = config.receivers.kafka.as_ref().map(|kafka| kafka.check()) {
        errors.push(error.at(node.along(["receivers", "kafka", key]).place));
    }
    let is_listening = otlp_ports(config).next().is_some();
    if is_listening || config.receivers.file.is_some() || config.receivers.kafka.is_some() {
        return;
    }
    let error = SettingsError::new("no receiver is on").with_help(
        "name what is on, as in `otlp: {protocols: {grpc: , http: }}`, or leave out `receivers`",
    );
    errors.push(error.at(node.along(["receivers"]).place));
}

/// Checks that settings of the log have a folder for it.
fn check_log(config: &Config, node: &Node, errors: &mut Vec<SettingsError>) {
    if let Some(folder) = &config.data_dir {
        if folder.as_os_str().is_empty() {
            let error = SettingsError::new("`data_dir` is empty");
            let help = "name a folder, or leave it out: nothing is then kept on disk";
            errors.push(error.with_help(help).at(node.along(["data_dir"]).place));
        }
        if folder.starts_with("~") {
            let error =
                SettingsError::new("`~` is not the home folder here, but a folder of that name");
            let help = "write `data_dir: ${env:HOME}/...`";
            errors.push(error.with_help(help).at(node.along(["data_dir"]).place));
        }
        return;
    }
    let named = ["durability", "log"].iter().filter_map(|key| Some((key, node.get(key)?)));
    errors.extend(named.map(|(key, value)| {
        let error = SettingsError::new(format!("`{key}` needs `data_dir`, the folder of the log"));
        error.with_help("add `data_dir: /var/lib/spanscore`, or another folder").at(value.place)
    }));
}

/// Checks that no forward leads back to a receiver, which would be an endless loop.
fn check_circles(
    config: &Config,
    forward: &[ForwardSettings],
    node: &Node,
    errors: &mut Vec<SettingsError>,
) {
    for Listener { endpoint: address, .. } in otlp_ports(config) {
        for circle in forward.iter().filter(|it| it.leads_to(address)) {
            let text = format!("`{}` leads back to the receiver at {address}", circle.name);
            let error = SettingsError::new(text).with_help("name the backend behind spanscore");
            errors.push(error.at(node.along(["forward", &circle.name]).place));
        }
    }
}

impl ResolvedConfig {
    /// Returns warnings, for people, about valid settings that are probably mistakes.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = listeners::warnings(&self.config);
        let receiver = self.config.receivers.kafka.as_ref();
        let missing = receiver.and_then(|_| spanscore_kafka::missing_client());
        warnings.extend(missing.map(|missing| format!("`receivers.kafka`: {missing}")));
        warnings.extend(self.exporters.iter().filter_map(
            |ExporterSettings { name, exporter, .. }| {
                exporter.missing_part().map(|missing| format!("`exporters.{name}`: {missing}"))
            },
        ));
        warnings
    }

    /// Returns a summary of the plan, for people: titles with their lines.
    pub fn summary(&self) -> Vec<(&'static str, Vec<String>)> {
        let evaluators = self.evaluators.iter().map(|configured| {
            let info = &configured.info;
            let sample = match configured.sample {
                1.0 => String::new(),
                share => {
                    let targets = if info.level == Level::Session { "sessions" } else { "traces" };
                    format!(", {}% of {targets}", share * 100.0)
                }
            };
            format!(
                "{} (each {}, passes from {}{sample})",
                info.name,
                info.level.as_str(),
                info.threshold
            )
        });
        let otlp = self.config.receivers.otlp.as_ref().map(|otlp| &otlp.protocols);
        let grpc =
            otlp.and_then(|otlp| Some(format!("OTLP/gRPC {}", otlp.grpc.as_ref()?.endpoint)));
        let http =
            otlp.and_then(|otlp| Some(format!("OTLP/HTTP {}", otlp.http.as_ref()?.endpoint)));
        let files = self.config.receivers.file.iter().flat_map(|file| &file.include);
        let files = files.map(|pattern| format!("files {pattern}"));
        let topics = self.config.receivers.kafka.iter().flat_map(|kafka| kafka.topics());
        let topics = topics.map(|topic| format!("Kafka {topic}"));
        let exporters = self.exporters.iter().map(|exporter| exporter.name.clone());
        let mut summary = vec![
            ("receivers", grpc.into_iter().chain(http).chain(files).chain(topics).collect()),
            ("evaluators", evaluators.collect()),
            ("exporters", exporters.collect()),
            ("forward", self.forward.iter().map(|it| it.name.clone()).collect()),
        ];
        if !self.config.judges.is_empty() {
            let judges = self.config.judges.iter();
            let judges = judges.map(|(name, judge)| format!("{name} ({})", judge.model));
            summary.insert(1, ("judges", judges.collect()));
        }
        if !self.config.dialects.is_empty() {
            let dialects = self.config.dialects.iter().map(reading).collect();
            summary.insert(1, ("dialects", dialects));
        }
        summary
    }
}

/// Describes the spans and facts that a user's dialect reads.
fn reading(dialect: &Dialect) -> String {
    let mut facts: Vec<&str> = Vec::new();
    for word in dialect.sources().filter_map(|(role, _)| fact(role)) {
        if !facts.contains(&word) {
            facts.push(word);
        }
    }
    let finds = if dialect.detect.is_some() { "spans of tool calls" } else { "no spans of calls" };
    format!("{} ({finds}; reads {})", dialect.name, facts.join(", "))
}

/// Returns the fact that a source provides; `None` for those of every dialect, or of little
/// interest.
fn fact(role: Role) -> Option<&'static str> {
    Some(match role {
        Role::Name => "name",
        Role::Id => "id",
        Role::Arguments => "arguments",
        Role::Result => "result",
        Role::SessionId => "session",
        Role::AgentName => "agent",
        Role::UserInput => "user input",
        Role::FinalOutput => "final output",
        Role::OutputMessages => "messages of models",
        Role::ToolDefinitions => "tool definitions",
        _ => return None,
    })
}
