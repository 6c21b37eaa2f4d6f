//! Settings of the exporters, as a user writes them under `exporters:`.
//!
//! The map is keyed `kind` or `kind/name`. [`read`] turns it into typed settings and checks what
//! can be checked without opening anything; mistakes name their place and the nearest valid word.

mod otlp;

use schemars::{JsonSchema, Schema};
use serde::Deserialize;

pub use otlp::{
    BatchSettings, EvaluationForm, OtlpExporterSettings, Placement, QueueSettings, RetrySettings,
    Secret, Sizer,
};

use crate::client::Protocol;
use crate::settings::{Node, NodeKind, SettingsError, nearest};

/// Most exporters that one process runs; each holds a queue of its own.
pub const EXPORTERS_MAX: usize = 64;

/// A kind of exporter, for documentation and the schema of the config.
pub struct ExporterKind {
    /// The word in the config.
    pub name: &'static str,
    /// Other words for it.
    pub aliases: &'static [&'static str],
    /// What it does, in one sentence.
    pub about: &'static str,
    /// JSON Schema of its settings.
    pub schema: fn() -> Schema,
}

/// All kinds, in the order of the documentation.
pub static KINDS: &[ExporterKind] = &[
    ExporterKind {
        name: "console",
        aliases: &[],
        about: "Prints each trace's evaluations as soon as they are made.",
        schema: || schemars::schema_for!(ConsoleSettings),
    },
    ExporterKind {
        name: "file",
        aliases: &[],
        about: "Appends one JSON object a line for each evaluation to a file.",
        schema: || schemars::schema_for!(FileSettings),
    },
    ExporterKind {
        name: "prometheus",
        aliases: &[],
        about: "Shows counts and a histogram of the scores on the metrics endpoint.",
        schema: || schemars::schema_for!(PrometheusSettings),
    },
    ExporterKind {
        name: "otlp_grpc",
        aliases: &["otlp"],
        about: "Sends evaluations as OTLP log events, spans and metrics over gRPC.",
        schema: || schemars::schema_for!(OtlpExporterSettings),
    },
    ExporterKind {
        name: "otlp_http",
        aliases: &["otlphttp"],
        about: "Sends evaluations as OTLP log events, spans and metrics over HTTP.",
        schema: || schemars::schema_for!(OtlpExporterSettings),
    },
];

/// One configured exporter.
#[derive(Clone, Debug, PartialEq)]
pub struct ExporterSettings {
    /// `kind` or `kind/name` as written: the `exporter` label of its metrics.
    pub name: String,
    /// What it is.
    pub kind: KindSettings,
}

/// Settings by kind.
#[derive(Clone, Debug, PartialEq)]
pub enum KindSettings {
    /// `console`.
    Console(ConsoleSettings),
    /// `file`.
    File(FileSettings),
    /// `prometheus`.
    Prometheus(PrometheusSettings),
    /// `otlp_grpc` and `otlp_http`.
    Otlp(Protocol, Box<OtlpExporterSettings>),
}

/// Prints evaluations on standard output.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ConsoleSettings {
    /// `text` for people, `jsonl` for one JSON object a line.
    pub format: ConsoleFormat,
    /// Whether to colour text: `auto` colours on a terminal unless `NO_COLOR` is set.
    pub color: Color,
    /// Whether explanations and details, which may quote arguments and results, are shown.
    /// The console stays on this machine, so they are.
    pub include_content: bool,
}

impl Default for ConsoleSettings {
    fn default() -> Self {
        Self { format: ConsoleFormat::Text, color: Color::Auto, include_content: true }
    }
}

/// How the console prints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ConsoleFormat {
    /// One readable line per evaluation, grouped by trace.
    #[default]
    Text,
    /// One JSON object a line.
    Jsonl,
}

/// When text is coloured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Color {
    /// On a terminal, unless `NO_COLOR` is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Appends evaluations to a file as JSON Lines. A file that another program has moved away or
/// deleted is opened anew at its path with the next batch.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FileSettings {
    /// The file; it is made if it does not exist, its folder is not.
    pub path: String,
    /// When the file is set aside for a new one.
    pub rotation: RotationSettings,
    /// Whether explanations and details, which may quote arguments and results, are written.
    /// The file stays on this machine, so they are.
    pub include_content: bool,
}

impl Default for FileSettings {
    fn default() -> Self {
        Self { path: String::new(), rotation: RotationSettings::default(), include_content: true }
    }
}

/// Rotation of a file by size.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RotationSettings {
    /// Size in MiB (1024 * 1024 bytes) beyond which the file becomes `<path>.1`; 0 never rotates:
    /// for a file that another program rotates.
    pub max_megabytes: u64,
    /// How many files that were set aside are kept; the oldest is deleted.
    pub max_backups: u32,
}

impl Default for RotationSettings {
    fn default() -> Self {
        Self { max_megabytes: 100, max_backups: 10 }
    }
}

/// Shows score metrics on the metrics endpoint of the process.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PrometheusSettings {
    /// Most combinations of evaluator, service and agent that have series of their own; those
    /// beyond are counted together, with empty `service` and `agent` and `overflow="true"`.
    pub series_max: usize,
}

impl Default for PrometheusSettings {
    fn default() -> Self {
        Self { series_max: 1000 }
    }
}

/// Reads the `exporters:` map, in the order written.
pub fn read(exporters: &Node) -> Result<Vec<ExporterSettings>, SettingsError> {
    match exporters.kind {
        NodeKind::Map(_) | NodeKind::Null => {}
        _ => {
            let error = SettingsError::new("`exporters` takes a map keyed `kind` or `kind/name`");
            return Err(error.at(exporters.place));
        }
    }
    let read: Vec<_> = exporters
        .entries()
        .map(|(key, node)| read_one(&key.text, node).map_err(|e| e.at(node.place).at(key.place)))
        .collect::<Result<_, _>>()?;
    let is_scraped =
        |exporter: &&ExporterSettings| matches!(exporter.kind, KindSettings::Prometheus(_));
    if let Some(second) = read.iter().filter(is_scraped).nth(1) {
        let key = exporters.entries().map(|(key, _)| key).find(|key| key.text == second.name);
        let error = SettingsError::new("only one `prometheus` exporter can run");
        return Err(error.at(key.map_or(exporters.place, |key| key.place)));
    }
    if read.len() > EXPORTERS_MAX {
        let error = SettingsError::new(format!("more than {EXPORTERS_MAX} exporters"));
        return Err(error.at(exporters.place));
    }
    Ok(read)
}

fn read_one(name: &str, node: &Node) -> Result<ExporterSettings, SettingsError> {
    let empty = Node { kind: NodeKind::Map(Vec::new()), place: node.place };
    let node = if node.kind == NodeKind::Null { &empty } else { node };
    let kind = name.split_once('/').map_or(name, |(kind, _)| kind);
    let kind = match kind {
        "console" => KindSettings::Console(node.read()?),
        "file" => KindSettings::File(read_file(node)?),
        "prometheus" => KindSettings::Prometheus(node.read()?),
        "otlp_grpc" | "otlp" => read_otlp(Protocol::Grpc, node)?,
        "otlp_http" | "otlphttp" => read_otlp(Protocol::HttpProtobuf, node)?,
        _ => return Err(unknown_kind(kind)),
    };
    Ok(ExporterSettings { name: name.to_owned(), kind })
}

fn read_file(node: &Node) -> Result<FileSettings, SettingsError> {
    let file: FileSettings = node.read()?;
    if file.path.is_empty() {
        return Err(SettingsError::new("`path` is missing").with_help("name the file to write"));
    }
    Ok(file)
}

fn read_otlp(protocol: Protocol, node: &Node) -> Result<KindSettings, SettingsError> {
    let otlp: OtlpExporterSettings = node.read()?;
    otlp.check(protocol).map_err(|(key, error)| match node.get(key) {
        Some(value) => error.at(value.place),
        None => error,
    })?;
    Ok(KindSettings::Otlp(protocol, Box::new(otlp)))
}

fn unknown_kind(kind: &str) -> SettingsError {
    let words = || KINDS.iter().flat_map(|k| k.aliases.iter().chain([&k.name])).copied();
    let error = SettingsError::new(format!("unknown exporter `{kind}`"));
    match nearest(kind, words()) {
        Some(meant) => error.with_help(format!("did you mean `{meant}`?")),
        None => {
            let known: Vec<_> = KINDS.iter().map(|kind| kind.name).collect();
            error.with_help(format!("known are {}", known.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::json;

    fn check(text: &str, expected: &str) {
        let node = Node::from_value(&json::parse(text).unwrap_or_default());
        let found = match read(&node) {
            Ok(read) => read.into_iter().map(|e| e.name).collect::<Vec<_>>().join(" "),
            Err(error) => error.to_string(),
        };
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn kinds_aliases_and_names_are_read_in_order() {
        check("{}", "");
        check(r#"{"console": null, "prometheus": {}}"#, "console prometheus");
        check(r#"{"otlp/a": {"endpoint": "http://localhost:4317"}}"#, "otlp/a");
        check(r#"{"otlphttp": {"endpoint": "http://localhost:4318"}}"#, "otlphttp");
    }

    #[test]
    fn mistakes_name_the_nearest_word_or_the_remedy() {
        check("[]", "`exporters` takes a map keyed `kind` or `kind/name`");
        check(r#"{"consol": {}}"#, "unknown exporter `consol` (did you mean `console`?)");
        check(
            r#"{"kafka": {}}"#,
            "unknown exporter `kafka` (known are console, file, prometheus, otlp_grpc, otlp_http)",
        );
        check(r#"{"file": {}}"#, "`path` is missing (name the file to write)");
        check(r#"{"console": {"format": "json"}}"#, "unknown value `json` (did you mean `jsonl`?)");
    }

    #[test]
    fn settings_of_a_backend_that_cannot_work_are_refused() {
        let with = |setting: &str, expected: &str| {
            let text = format!(r#"{{"otlp": {{"endpoint": "http://h:4317", {setting}}}}}"#);
            check(&text, expected);
        };
        with(r#""timeout": "1s""#, "otlp");
        with(r#""timeout": "0s""#, "`timeout` must be longer than zero");
        with(r#""forms": []"#, "`forms` names no form: write event, span or metric");
        with(r#""forms": ["log"]"#, "unknown value `log` (known are event, span, metric)");
        let characters = "header `a b` holds characters that no header may hold";
        with(r#""headers": {"a b": "x"}"#, characters);
        with(r#""tls": {"key_file": "k"}"#, "`cert_file` and `key_file` go together");
        let consumers = "`num_consumers` must be 1 to 1000";
        with(r#""sending_queue": {"num_consumers": 1000}"#, "otlp");
        with(r#""sending_queue": {"num_consumers": 1001}"#, consumers);
        let interval = "`initial_interval` must be above zero and at most `max_interval`";
        with(r#""retry_on_failure": {"initial_interval": "31s"}"#, interval);
    }

    #[test]
    fn secrets_are_never_printed() {
        let text = r#"{"otlp": {"endpoint": "http://h", "headers": {"authorization": "key-1"}}}"#;
        let node = Node::from_value(&json::parse(text).unwrap_or_default());
        let printed = format!("{:?}", read(&node));
        assert!(printed.contains("[redacted]") && !printed.contains("key-1"), "{printed}");
    }
}
