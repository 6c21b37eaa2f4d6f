//! Remedies for wrong command lines: words that people bring from other tools, files where a
//! command stands, values that come from the environment.
//!
//! The parser of arguments guesses by letters, and would send `--threshold` to `--record`.

use std::ffi::OsString;
use std::path::Path;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, Error};

use spanscore_base::settings::nearest;

/// Option of other tools: its spellings, the argument that stands for it where a command has that,
/// or the name of the command, and what to write.
type Foreign = (&'static [&'static str], &'static str, &'static str);

const CONFIG: &str = "config";
const LISTEN: &str = "write `--set receivers.otlp.protocols.http.endpoint=127.0.0.1:PORT` (for \
     gRPC: `grpc`)";
const PAGES: &str = "write `--set dashboard.endpoint=127.0.0.1:PORT`";
/// Spellings of an address to listen on.
const LISTENING: &[&str] = &["--port", "-p", "--listen", "--host", "--bind", "--address"];

/// Options of other tools; the first that fits counts.
const OPTIONS: &[Foreign] = &[
    (
        &["--file", "--files", "--input", "--in", "--path", "--trace", "--traces", "-f", "-i"],
        "files",
        "files stand without an option: `spanscore COMMAND FILE`",
    ),
    (&["--file", "--path", "-f", "-i"], "file", "the file stands without an option: `FILE`"),
    (&["--file", "--path", "-f", "--db", "--database"], "store", "here it is `--store FILE`"),
    (&["--file", "-f"], CONFIG, "name the config with `--config FILE`"),
    (&["--url", "--host", "--target", "--address", "--port"], "endpoint", "write `--endpoint URL`"),
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
    (&["--pass-rate"], "min_pass_rate", "write `--min-pass-rate 0.9`"),
    (&["--dataset", "--expected", "--eval-set", "--cases"], "golden", "write `--golden FILE`"),
    (
        &["--evaluator", "--evaluators", "--metric", "--metrics", "--eval", "-e", "-m"],
        "golden",
        "they stand in a config: `--config FILE`, or `--set 'evaluators={tool_error: }'`",
    ),
    (&["--json"], "format", "write `--format jsonl`"),
    (&["--recursive", "-r", "-R"], "files", "leave it out: folders are walked"),
    (&["--data-dir", "--data_dir"], CONFIG, "write `--set data_dir=DIR`"),
    (
        &["--service", "--agent", "--label", "--evaluator", "--case", "--filter"],
        "conditions",
        "write `--where FIELD=VALUE`",
    ),
    (&["--last", "--days", "--from"], "since", "write `--since 1h`"),
    (&["--judge", "--model", "--api-key"], CONFIG, "judges stand in a config: `--config FILE`"),
];

/// Commands of other tools, and ours.
const COMMANDS: &[(&[&str], &str)] = &[
    (&["evaluate", "eval", "evals", "judge", "test", "grade", "assess"], "score"),
    (&["start", "up", "collector", "server", "listen", "daemon"], "serve"),
    (&["version"], "--version"),
    (&["ui", "dashboard", "web", "view", "viewer"], "open"),
    (&["list", "ls", "metrics", "kinds"], "evaluators"),
    (&["traces", "dump", "parse", "explain"], "inspect"),
    (&["logs", "follow"], "tail"),
    (&["lint", "verify", "config", "validate-config", "test-config"], "check"),
    (&["replay", "push", "upload", "import", "ingest"], "send"),
    (&["history", "results", "report", "runs"], "scores"),
    (&["diff"], "compare"),
    (&["exec"], "run"),
    (&["generate", "baseline"], "learn"),
    (&["new", "setup", "configure"], "init"),
];

/// Adds the remedy of a wrong command line, in place of a guess by letters.
pub(in crate::cli) fn explained(mut error: Error, mut root: Command, args: &[OsString]) -> Error {
    root.build();
    let words: Vec<&str> = args.iter().skip(1).filter_map(|word| word.to_str()).collect();
    let name = words.iter().find_map(|word| Some(root.find_subcommand(word)?.get_name()));
    let name = name.unwrap_or_default().to_owned();
    let command = root.find_subcommand(&name).unwrap_or(&root);
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(word)) => Some(word.clone()),
        _ => None,
    };
    let tip = match error.kind() {
        ErrorKind::UnknownArgument => {
            let word = text(ContextKind::InvalidArg).unwrap_or_default();
            let tip = of_argument(&word, command);
            let usage = command.clone().render_usage();
            for guess in [ContextKind::SuggestedArg, ContextKind::TrailingArg] {
                error.remove(guess);
            }
            error.insert(ContextKind::Usage, ContextValue::StyledStr(usage));
            error.remove(ContextKind::Suggested);
            tip
        }
        ErrorKind::InvalidSubcommand => {
            let word = text(ContextKind::InvalidSubcommand).unwrap_or_default();
            error.remove(ContextKind::SuggestedSubcommand);
            Some(of_command(&word, &root))
        }
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
            let argument = text(ContextKind::InvalidArg);
            argument.and_then(|argument| of_environment(&argument, command, &words))
        }
        ErrorKind::MissingRequiredArgument => of_missing(command, &words),
        _ => None,
    };
    if let Some(tip) = tip {
        let tip = ContextValue::StyledStrs(vec![StyledStr::from(tip)]);
        error.insert(ContextKind::Suggested, tip);
    }
    error
}

fn find<'c>(command: &'c Command, id: &str) -> Option<&'c Arg> {
    command.get_arguments().find(|argument| argument.get_id() == id)
}

/// Returns the remedy for an argument that a command does not know.
fn of_argument(word: &str, command: &Command) -> Option<String> {
    if !word.starts_with('-') {
        let is_output = command.get_name() == "init";
        return match (is_config(word), find(command, CONFIG)) {
            _ if is_output => Some(format!("write `--output {word}`")),
            (true, Some(_)) => Some(format!("name the config with `--config {word}`")),
            _ => None,
        };
    }
    let is_of = |id: &str| command.get_name() == id || find(command, id).is_some();
    let fits = |(words, id, _): &&Foreign| words.contains(&word) && is_of(id);
    if let Some((_, _, remedy)) = OPTIONS.iter().find(fits) {
        return Some(remedy.replace("COMMAND", command.get_name()));
    }
    if word == "--version" || word == "-V" {
        return Some("write `spanscore --version`".to_owned());
    }
    let written = word.trim_start_matches('-');
    let formats = find(command, "format").map(Arg::get_possible_values).unwrap_or_default();
    if formats.iter().any(|format| format.get_name() == written) {
        return Some(format!("write `--format {written}`"));
    }
    let own = || command.get_arguments().filter_map(Arg::get_long);
    let longer = own().find(|long| written.len() > 1 && long.starts_with(written));
    let meant = longer.or_else(|| nearest(written, own()));
    meant.map(|meant| format!("did you mean `--{meant}`?"))
}

/// Returns the remedy for a first word that is no command.
fn of_command(word: &str, root: &Command) -> String {
    if is_config(word) {
        return format!(
            "`spanscore --config {word}` runs the collector with a config, `spanscore check \
             {word}` checks it"
        );
    }
    let lower = word.to_lowercase();
    let foreign = COMMANDS.iter().find(|(words, _)| words.contains(&&*lower));
    let path = Path::new(word);
    if path.extension().is_some() || (foreign.is_none() && path.exists()) {
        return format!("recorded traces are judged by `spanscore score {word}`");
    }
    let names = root.get_subcommands().flat_map(Command::get_name_and_visible_aliases);
    match foreign.map(|(_, ours)| *ours).or_else(|| nearest(&lower, names)) {
        Some(meant) => format!("did you mean `spanscore {meant}`?"),
        None => "`spanscore --help` lists the commands".to_owned(),
    }
}

fn is_config(word: &str) -> bool {
    let ending = Path::new(word).extension().unwrap_or_default();
    ending == "yaml" || ending == "yml"
}

/// Tells that a value came from the environment and not from the command line.
fn of_environment(argument: &str, command: &Command, words: &[&str]) -> Option<String> {
    let argument = command.get_arguments().find(|known| known.to_string() == argument)?;
    let variable = argument.get_env()?.to_str()?;
    let long = format!("--{}", argument.get_long()?);
    let is_written = words.iter().any(|word| word.starts_with(&long));
    let is_set = std::env::var_os(variable).is_some();
    (is_set && !is_written).then(|| format!("the value is that of the variable `{variable}`"))
}

/// Returns the remedy where files are missing: standard input has a name, and `--config` takes the
/// file behind it.
fn of_missing(command: &Command, words: &[&str]) -> Option<String> {
    let name = command.get_name();
    let help = find(command, "files")?.get_help()?.to_string();
    let is_config = |pair: &[&str]| matches!(pair, ["-c" | "--config", file] if !is_config(file));
    match words.windows(2).find(|pair| is_config(pair)) {
        Some(pair) => Some(format!(
            "`{}` names the config; recordings stand alone: `spanscore {name} {}`",
            pair[0], pair[1]
        )),
        None => help
            .contains("standard input")
            .then(|| format!("standard input is `-`: `... | spanscore {name} -`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::{CommandFactory, Parser};

    /// Checks the tip for a command line, and that none of the parser's guesses stays.
    fn check(line: &str, tip: &str) {
        let args: Vec<OsString> =
            ["spanscore"].into_iter().chain(line.split(' ')).map(OsString::from).collect();
        let error = Cli::try_parse_from(&args).expect_err(line);
        let told = explained(error, Cli::command(), &args).render().to_string();
        let tips: Vec<&str> =
            told.lines().filter_map(|it| it.trim().strip_prefix("tip: ")).collect();
        assert_eq!(tips, [tip], "{line}: {told}");
    }

    #[test]
    fn options_of_other_tools_get_ours() {
        check("score --file a.json", "files stand without an option: `spanscore score FILE`");
        check("check -f a.yaml", "the file stands without an option: `FILE`");
        check("send --url http://b a.json", "write `--endpoint URL`");
        check("serve --port 4317", LISTEN);
        check("--port 4317", LISTEN);
        check("open --port 8080", PAGES);
        check("score -v a.json", "`--details` tells more");
        check("inspect --details a.json", "`--explain` tells more");
        check("score --threshold 0.8 a", "write `--set evaluators.NAME.threshold=0.8`");
        check("score --out b a.json", "did you mean `--output`?");
        check("score --fial-on fail a.json", "did you mean `--fail-on`?");
        check("serve a.yaml", "name the config with `--config a.yaml`");
        check("init a.yaml", "write `--output a.yaml`");
        check("scores --service shop", "write `--where FIELD=VALUE`");
    }

    #[test]
    fn commands_of_other_tools_get_ours() {
        check("evaluate a.json", "did you mean `spanscore score`?");
        check("scroe a.json", "did you mean `spanscore score`?");
        check("help scoer", "did you mean `spanscore score`?");
        // A folder of that name is here, too.
        check("config", "did you mean `spanscore check`?");
        check("version", "did you mean `spanscore --version`?");
        check("a.json", "recorded traces are judged by `spanscore score a.json`");
        check("frobnicate", "`spanscore --help` lists the commands");
    }

    #[test]
    fn missing_files_are_told_by_their_place() {
        check("score --details", "standard input is `-`: `... | spanscore score -`");
        check(
            "score -c a.json",
            "`-c` names the config; recordings stand alone: `spanscore score a.json`",
        );
    }
}
