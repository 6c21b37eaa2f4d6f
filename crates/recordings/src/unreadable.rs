//! Names of files often given instead of a recording, each with the remedy.

use serde_json::{Map, Value as Json};

/// First bytes of files without requests.
const FORMATS: &[(&[u8], &str)] = &[
    (
        b"PK\x03\x04",
        "a zip archive: unpack it first; a log of Inspect in the form `.eval` becomes readable by \
         `inspect log convert --to json`",
    ),
    (b"PAR1", "a Parquet file: write its rows as JSON Lines first"),
    (b"ARROW1", "an Arrow file: write its rows as JSON Lines first"),
    (
        b"SQLite format 3\0",
        "a SQLite file, no recording: the store of a collector is read by `spanscore scores \
         --store FILE`",
    ),
    (b"\xff\xfe", UTF_16),
    (b"\xfe\xff", UTF_16),
];
const UTF_16: &str = "text in UTF-16, as PowerShell's `>` writes it: save it as UTF-8";

/// Error of a text that neither is nor begins like JSON.
const TEXT: &str = "text, and no recording: OTLP/JSON or binary protobuf is read, and transcripts";
const CONFIG: &str = "a config, and no recording: name it with `--config`";
const DATASET: &str = "a row of a dataset, and no recorded run: record what the agent does for it \
     (`spanscore run -- COMMAND`)";
const REPLY: &str = "a reply of a model, and no run: of a conversation the list of its messages \
     is read";

/// Shapes of JSON objects, by keys that are all present.
const SHAPES: &[(&[&str], &str)] = &[
    (
        &["run_type", "inputs"],
        "a run of LangSmith, which is not read: its SDK sends OTLP with \
         LANGSMITH_OTEL_ENABLED=true, for `spanscore record` or a collector",
    ),
    (
        &["info", "data"],
        "a trace of MLflow, which is not read: it sends OTLP with \
         OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, for `spanscore record` or a collector",
    ),
    (&["traceId", "localEndpoint"], "a span of Zipkin, which is not read: export OTLP instead"),
    (
        &["traceId", "spanId"],
        "a span of OTLP/JSON without what is around it: write {\"resourceSpans\": \
         [{\"scopeSpans\": [{\"spans\": [...]}]}]}",
    ),
    (&["resource_spans"], SNAKE),
    (&["resource_logs"], SNAKE),
    (&["choices", "usage"], REPLY),
    (&["object", "output"], REPLY),
    (&["object", "choices"], REPLY),
    (&["eval_cases"], "an eval set, and no recording: name it with `--golden`"),
    (&["evaluators"], CONFIG),
    (&["receivers"], CONFIG),
    (
        &["id", "criteria"],
        "a case of a dataset, and no recording: a config names it as `expect.file`",
    ),
    (&["conversations"], DATASET),
    (&["prompt", "completion"], DATASET),
    (&["prompt", "response"], DATASET),
    (&["question", "answer"], DATASET),
    (&["user_input", "response"], DATASET),
    (&["input", "actual_output"], DATASET),
    (&["input", "expected_output"], DATASET),
];
const SNAKE: &str = "not OTLP/JSON, whose keys are in camel case: `resourceSpans`, `traceId`; in \
     Python `MessageToJson` writes them without `preserving_proto_field_name`";

/// Returns the name of a file by its first bytes, if it is no recording.
pub(super) fn format(start: &[u8]) -> Option<&'static str> {
    FORMATS.iter().find(|(magic, _)| start.starts_with(magic)).map(|(_, what)| *what)
}

/// Returns the name of a text by its file name, if it does not begin like JSON.
pub(super) fn text(name: &str) -> &'static str {
    match name.rsplit('.').next().unwrap_or_default() {
        "yaml" | "yml" => CONFIG,
        "csv" | "tsv" => "a table, and no recording: OTLP/JSON or binary protobuf is read",
        _ => TEXT,
    }
}

/// Returns the name of a JSON object by its keys.
pub(super) fn object(map: &Map<String, Json>) -> Option<&'static str> {
    let fits = |(keys, _): &&(&[&str], &str)| keys.iter().all(|key| map.contains_key(*key));
    SHAPES.iter().find(fits).map(|(_, what)| *what)
}
