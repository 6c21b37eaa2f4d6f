//! Words of other tools on the command line, and ours.

/// Option of other tools: its spellings, the equivalent argument of a command or the command's
/// name, and the remedy.
pub(super) type Foreign = (&'static [&'static str], &'static str, &'static str);

/// Argument that names the config.
pub(super) const CONFIG: &str = "config";
/// Remedy for a port of the receivers.
pub(super) const LISTEN: &str = "write `--set \
     receivers.otlp.protocols.http.endpoint=127.0.0.1:PORT` (for gRPC: `grpc`)";
/// Remedy for a port of the pages.
pub(super) const PAGES: &str = "write `--set dashboard.endpoint=127.0.0.1:PORT`";
/// Spellings of an address to listen on.
const LISTENING: &[&str] = &[
    "--port", "-p", "--listen", "--host", "--bind", "--address", "--grpc-port", "--http-port",
    "--otlp-port",
];
/// Spellings of an output file.
const WRITING: &[&str] = &["-o", "--out", "--output", "--output-file", "--dir"];
/// Spellings of Kafka addresses.
const BROKERS: &[&str] = &["--brokers", "--broker", "--bootstrap-server", "--bootstrap-servers"];

/// Options of other tools; the first match counts.
pub(super) const OPTIONS: &[Foreign] = &[
    (&["-f", "--follow"], "tail", "leave it out: `tail` follows by itself"),
    (&["-n", "--lines", "--count", "--limit"], "last", "write `--last N`"),
    (&["-n", "--last", "--top", "--first", "--count"], "limit", "write `--limit N`"),
    (
        &["--order", "--sort", "--sort-by"],
        "worst",
        "`--worst N` lists the worst, and `export runs --order` sorts runs",
    ),
    (
        &["--failed", "--fails", "--failures", "--failing"],
        "conditions",
        "write `--where label=fail`",
    ),
    (WRITING, "certs", "the folder stands without an option: `spanscore certs DIR`"),
    (WRITING, "store", "leave it out: `> FILE` keeps what is printed"),
    (WRITING, "schema", "leave it out: `> FILE` keeps what is printed"),
    (WRITING, "docs", "leave it out: `> FILE` keeps what is printed"),
    (&["--list", "--all", "-l"], "docs", "leave it out: `spanscore docs` lists the pages"),
    (&["--list", "--all", "-l"], "kind", "leave it out: without a name all are listed"),
    (
        &["--port", "--host", "--transport", "--http"],
        "mcp",
        "leave it out: it speaks over standard input and output",
    ),
    (&["--san", "--domain", "--dns", "--name", "--ip"], "certs", "write `--host NAME`"),
    (
        &["--dry-run", "--check", "--validate", "-t"],
        "watch",
        "`spanscore check FILE` checks a config",
    ),
    (&["--strict"], "print", "leave it out: an unknown setting is always a mistake"),
    (
        &["--timeout"],
        "wait",
        "write `timeout 60 spanscore run ...`; `--wait` is the time after the end",
    ),
    (
        &["--command", "--cmd", "--exec"],
        "wait",
        "the command stands behind `--`: `spanscore run -- COMMAND`",
    ),
    (&["--output-format", "--reporter", "--report"], "format", "write `--format`"),
    (
        &["--quiet", "-q", "--silent", "--no-progress"],
        "format",
        "`--format summary` prints the least",
    ),
    (
        &["--parallel", "--jobs", "-j", "--workers", "--threads", "--concurrency"],
        "golden",
        "leave it out: all cores are used",
    ),
    (
        &["--no-fail", "--exit-zero", "--exit-code", "--soft-fail", "--allow-failures"],
        "fail_on",
        "`--fail-on` says what shuts the gate, `--fail-on never` leaves it open",
    ),
    (&["--dry-run"], "backfill", "leave it out: `backfill` changes nothing"),
    (&["--all"], "changed", "write `--changed`, or `--again`"),
    (
        &["--labels", "--labelled", "--labeled", "--dataset", "--file"],
        "data",
        "write `--data FILE`",
    ),
    (&["--template", "--preset"], "init", "`--from RECORDING` proposes what fits recorded runs"),
    (
        &["--insecure", "--no-tls", "--plaintext"],
        "sample",
        "leave it out: `http://` is in the clear",
    ),
    (&["--verbose", "--debug", "-v"], "print", "`--print` shows the whole config"),
    (BROKERS, "gateway", "write `--set kafka.brokers='[HOST:9092]'`"),
    (&["--topic"], "gateway", "write `--set kafka.topic=NAME`"),
    (&["--endpoint", "--url"], "wait", "leave it out: `run` tells the command its own address"),
    (
        &["--file", "--files", "--input", "--in", "--path", "--trace", "--traces", "-f", "-i"],
        "files",
        "files stand without an option: `spanscore COMMAND FILE`",
    ),
    (
        &["--file", "--path", "-f", "-i"],
        "file",
        "the file stands without an option: `spanscore COMMAND FILE`",
    ),
    (&["--file", "--path", "-f", "--db", "--database"], "store", "here it is `--store FILE`"),
    (&["--file", "-f"], CONFIG, "name the config with `--config FILE`"),
    (&["--url", "--host", "--target", "--address", "--port"], "endpoint", "write `--endpoint URL`"),
    (&["--url"], "files", "recordings are files: `curl -o run.json URL`"),
    (LISTENING, "open", PAGES),
    (LISTENING, "watch", LISTEN),
    (&["--details", "--verbose", "--debug", "-v"], "details", "`--details` tells more"),
    (&["--details", "--verbose", "--debug", "-v"], "explain", "`--explain` tells more"),
    (
        &["--verbose", "--debug", "--log-level", "-v"],
        "watch",
        "write `--set telemetry.logs.level=debug`",
    ),
    (&["--threshold", "--min-score"], CONFIG, "write `--set evaluators.NAME.threshold=0.8`"),
    (
        &["--pass-rate", "--fail-under", "--min-pass"],
        "min_pass_rate",
        "write `--min-pass-rate 0.9`",
    ),
    (&["--dataset", "--expected", "--eval-set", "--cases"], "golden", "write `--golden FILE`"),
    (
        &["--evaluator", "--evaluators", "--metric", "--metrics", "--eval", "-e", "-m"],
        "golden",
        "they stand in a config: `--config FILE`, or `--set 'evaluators={tool_error: }'`",
    ),
    (&["--compare"], "baseline", "write `--baseline FILE`"),
    (&["--save", "--out-file"], "output", "write `--output FILE`"),
    (&["--explain"], "details", "`--details` tells more"),
    (&["--json"], "format", "write `--format jsonl`"),
    (&["--json", "--format"], "kind", "`spanscore schema` prints all settings as a JSON Schema"),
    (&["--recursive", "-r", "-R"], "files", "leave it out: folders are walked"),
    (&["--data-dir", "--data_dir"], CONFIG, "write `--set data_dir=DIR`"),
    (&["--filter"], "conditions", "write `--where FIELD=VALUE`"),
    (&["--last", "--days", "--from"], "since", "write `--since 1h`"),
    (&["--judge", "--model", "--api-key"], CONFIG, "judges stand in a config: `--config FILE`"),
];

/// Commands of other tools, and ours.
pub(super) const COMMANDS: &[(&[&str], &str)] = &[
    (&["evaluate", "eval", "evals", "judge", "test", "grade", "assess"], "score"),
    (&["start", "up", "collector", "server", "listen", "daemon"], "serve"),
    (&["version"], "--version"),
    (&["ui", "dashboard", "web", "view", "viewer"], "open"),
    (&["list", "ls", "metrics", "kinds"], "evaluators"),
    (&["traces", "trace", "dump", "parse", "explain", "debug", "print"], "inspect"),
    (&["logs", "follow"], "tail"),
    (&["doctor", "lint", "verify", "config", "validate-config", "test-config"], "check"),
    (&["replay", "push", "upload", "import", "ingest"], "send"),
    (&["history", "results", "report", "runs"], "scores"),
    (&["diff"], "compare"),
    (&["exec"], "run"),
    (&["generate", "baseline"], "learn"),
    (&["new", "setup", "configure"], "init"),
];

/// Values of other tools, and ours.
pub(super) const VALUES: &[(&[&str], &str)] = &[
    (&["traces", "trajectory"], "trajectories"),
    (&["spans", "tools", "tool_calls"], "calls"),
    (&["scores", "results", "all"], "evaluations"),
    (&["http"], "http/protobuf"),
    (&["error", "errors"], "failed"),
    (&["xml"], "junit"),
    (&["md"], "markdown"),
];
