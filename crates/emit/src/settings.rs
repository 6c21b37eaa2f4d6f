//! Kinds of exporters, and the `exporters:` map that a user writes.
//!
//! The map is keyed `kind` or `kind/name`. [`read`] turns it into exporters that are ready to
//! start and checks everything that needs no I/O; errors name the place and the nearest valid
//! word.
//!
//! A new kind is a file with its settings, its `impl Exporter` and an [`ExporterKind`], registered
//! by a line in [`KINDS`].

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use schemars::Schema;

use super::{ExporterStartError, Starting};
use spanscore_base::settings::{Node, NodeKind, SettingsError, meant_or};
use spanscore_base::value::Value;

/// Most exporters that one process runs; each has a queue.
pub const EXPORTERS_MAX: usize = 64;

/// All kinds, in the order of the documentation.
pub static KINDS: &[&ExporterKind] = &[
    &super::console::KIND,
    &super::file::KIND,
    &super::native::phoenix::KIND,
    &super::native::langfuse::KIND,
    &super::native::opik::KIND,
    &super::prometheus::KIND,
    &super::kafka::KIND,
    &super::otlp::GRPC,
    &super::otlp::HTTP,
];

/// Kind of exporter.
pub struct ExporterKind {
    /// Name in the config.
    pub name: &'static str,
    /// Other names.
    pub aliases: &'static [&'static str],
    /// Description in one sentence.
    pub about: &'static str,
    /// True if one process runs at most one of it.
    pub single: bool,
    /// JSON Schema of its settings.
    pub schema: fn() -> Schema,
    /// Reads and checks its settings.
    pub read: fn(&Node) -> Result<Arc<dyn Exporter>, SettingsError>,
}

impl ExporterKind {
    fn words(&self) -> impl Iterator<Item = &'static str> {
        self.aliases.iter().chain([&self.name]).copied()
    }
}

/// Checked settings of one exporter.
pub trait Exporter: fmt::Debug + Send + Sync {
    /// Declares the parts of an evaluation that it shows, and starts its delivery.
    ///
    /// # Errors
    /// The reason that it cannot start.
    fn start(&self, starting: &mut Starting<'_>) -> Result<(), ExporterStartError>;

    /// Returns an unmet requirement on this machine, with the remedy.
    fn missing(&self) -> Option<SettingsError> {
        None
    }

    /// Returns a needed part that this build lacks, with the remedy.
    fn missing_part(&self) -> Option<&'static str> {
        None
    }

    /// Returns the capacity of its queue in bytes, if its settings have one.
    fn queue_bytes(&self) -> Option<usize> {
        None
    }
}

/// One configured exporter.
#[derive(Clone)]
pub struct ExporterSettings {
    /// `kind` or `kind/name` as written: the `exporter` label of its metrics.
    pub name: String,
    /// Settings, which can start it.
    pub exporter: Arc<dyn Exporter>,
    /// Settings as written, with secrets, for comparison in a reload.
    written: Node,
}

impl ExporterSettings {
    /// Returns true if both are written alike.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.name == other.name && self.written.to_value() == other.written.to_value()
    }
}

impl fmt::Debug for ExporterSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, exporter, written: _ } = self;
        let mut shown = f.debug_struct("ExporterSettings");
        shown.field("name", name).field("exporter", exporter).finish_non_exhaustive()
    }
}

/// Reads the `exporters:` map, in the order written; `false` in place of settings disables an
/// exporter.
///
/// # Errors
/// The first mistake, with its place.
pub fn read(exporters: &Node) -> Result<Vec<ExporterSettings>, SettingsError> {
    match exporters.kind {
        NodeKind::Map(_) | NodeKind::Null => {}
        _ => {
            let error = SettingsError::new("`exporters` takes a map keyed `kind` or `kind/name`");
            let help = "write `console:` or `file/scores: {path: scores.jsonl}`, without `- `";
            return Err(error.with_help(help).at(exporters.place));
        }
    }
    let mut read = Vec::new();
    let mut singles = Vec::new();
    for (key, node) in exporters.entries() {
        let kind = kind_of(&key.text).map_err(|error| error.at(key.place))?;
        if is_off(node) {
            continue;
        }
        let exporter = read_one(kind, node).map_err(|e| e.at(node.place).at(key.place))?;
        let name = key.text.clone();
        let written = node.clone();
        read.push(ExporterSettings { name, exporter, written });
        if kind.single && singles.contains(&kind.name) {
            let error = SettingsError::new(format!("only one `{}` exporter can run", kind.name));
            return Err(error.at(key.place));
        }
        singles.push(kind.name);
    }
    if read.len() > EXPORTERS_MAX {
        let error = SettingsError::new(format!("more than {EXPORTERS_MAX} exporters"));
        return Err(error.at(exporters.place));
    }
    Ok(read)
}

/// Returns true for `false` in place of settings, which disables an exporter.
fn is_off(node: &Node) -> bool {
    matches!(node.kind, NodeKind::Scalar(Value::Bool(false)))
}

fn read_one(kind: &ExporterKind, node: &Node) -> Result<Arc<dyn Exporter>, SettingsError> {
    let empty = Node { kind: NodeKind::Map(Vec::new()), place: node.place };
    let is_plain = matches!(node.kind, NodeKind::Null | NodeKind::Scalar(Value::Bool(true)));
    if is_plain {
        return (kind.read)(&empty);
    }
    (kind.read)(&with_last_content(node))
}

/// Removes the earlier of `content` and `include_content`: they may come from different files, and
/// the later one holds.
fn with_last_content(node: &Node) -> Cow<'_, Node> {
    let place = |key: &str| node.get(key).map(|value| (value.place.line, value.place.column));
    let (Some(content), Some(included)) = (place("content"), place("include_content")) else {
        return Cow::Borrowed(node);
    };
    let mut node = node.clone();
    node.set(if content < included { "content" } else { "include_content" }, None);
    Cow::Owned(node)
}

fn kind_of(name: &str) -> Result<&'static ExporterKind, SettingsError> {
    let word = name.split_once('/').map_or(name, |(word, _)| word);
    let found = KINDS.iter().find(|kind| kind.words().any(|known| known == word));
    found.copied().ok_or_else(|| unknown_kind(word))
}

/// Exporters of other systems, first the OpenTelemetry Collector's, and what is here instead.
const COLLECTOR_KINDS: [(&str, &str); 8] = [
    ("debug", "here it is `console`"),
    ("logging", "here it is `console`"),
    ("stdout", "here it is `console`"),
    ("junit", "a report of recorded runs is `spanscore score --format junit FILE`"),
    ("csv", "`file: {path: scores.jsonl}` writes JSON Lines; `spanscore export --format csv`"),
    ("sqlite", "the database is the section `store`"),
    ("prometheusremotewrite", "here `prometheus` is scraped; or send metrics with `otlp_http`"),
    ("loadbalancing", "put the Collector with it in front: docs/fleet.md"),
];

fn unknown_kind(kind: &str) -> SettingsError {
    let words = KINDS.iter().flat_map(|kind| kind.words());
    let error = SettingsError::new(format!("unknown exporter `{kind}`"));
    if let Some((_, here)) = COLLECTOR_KINDS.iter().find(|(word, _)| *word == kind) {
        return error.with_help(*here);
    }
    let known: Vec<_> = KINDS.iter().map(|kind| kind.name).collect();
    error.with_help(meant_or(kind, words, || format!("known are {}", known.join(", "))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanscore_base::value::json;

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
        check(r#"{"console": false, "prometheus": true}"#, "prometheus");
        check("{}", "");
        check(r#"{"console": null, "prometheus": {}}"#, "console prometheus");
        check(r#"{"otlp/a": {"endpoint": "http://localhost:4317"}}"#, "otlp/a");
        check(r#"{"otlphttp": {"endpoint": "http://localhost:4318"}}"#, "otlphttp");
    }

    #[test]
    fn mistakes_name_the_nearest_word_or_the_remedy() {
        check(
            "[]",
            "`exporters` takes a map keyed `kind` or `kind/name` (write `console:` or \
             `file/scores: {path: scores.jsonl}`, without `- `)",
        );
        let debug = "unknown exporter `debug` (here it is `console`)";
        check(r#"{"debug": null}"#, debug);
        check(r#"{"consol": {}}"#, "unknown exporter `consol` (did you mean `console`?)");
        let known: Vec<_> = KINDS.iter().map(|kind| kind.name).collect();
        let unknown = format!("unknown exporter `nats` (known are {})", known.join(", "));
        check(r#"{"nats": {}}"#, &unknown);
        check(r#"{"file": {}}"#, "`path` is missing (name the file to write)");
        check(r#"{"console": {"format": "json"}}"#, "unknown value `json` (did you mean `jsonl`?)");
    }

    #[test]
    fn kafka_is_checked_in_every_build_and_missing_where_it_is_not_built_in() {
        check(r#"{"kafka/a": {}}"#, "kafka/a");
        check(r#"{"kafka": {"encoding": "json", "producer": {"compression": "zstd"}}}"#, "kafka");
        let node = Node::from_value(&json::parse(r#"{"kafka": {}}"#).unwrap_or_default());
        let missing = read(&node).map(|read| read[0].exporter.missing_part());
        assert_eq!(missing, Ok(spanscore_kafka::missing_client()));
        let with = |setting: &str, expected: &str| {
            check(&format!(r#"{{"kafka": {{{setting}}}}}"#), expected);
        };
        let empty = "`brokers` is empty (name one or more brokers as `host:port`)";
        with(r#""brokers": []"#, empty);
        with(r#""topic": """#, "`topic` is empty");
        with(r#""timeout": "1ms""#, "`timeout` must be at least 10ms");
        with(r#""producer": {"queue_mib": 0}"#, "`queue_mib` must be 1 to 2047");
        with(r#""encoding": "avro""#, "unknown value `avro` (known are otlp_proto, json)");
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
        let overflow = "`overflow_mib` must be 0 or at least 64";
        with(r#""sending_queue": {"overflow_mib": 63}"#, overflow);
        check(r#"{"file": {"path": "x", "overflow_mib": 1}}"#, overflow);
        with(r#""sending_queue": {"overflow_mib": 0}"#, "otlp");
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
