//! Remedies for wrong command lines: words from other tools, files in place of a command, values
//! from the environment.
//!
//! The argument parser guesses by spelling, and would suggest `--record` for `--threshold`.

mod words;

use std::ffi::OsString;
use std::path::Path;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, Error};

use self::words::{COMMANDS, CONFIG, Foreign, OPTIONS, VALUES};
use spanscore_base::settings::nearest;
use spanscore_store::query::StoreField;

/// Adds the remedy to a wrong command line, instead of a guess by spelling.
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
            let tip = of_argument(&word, command, &words);
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
            let argument = text(ContextKind::InvalidArg).unwrap_or_default();
            let value = text(ContextKind::InvalidValue).unwrap_or_default();
            let argument = command.get_arguments().find(|known| known.to_string() == argument);
            let tip = argument.and_then(|argument| of_value(argument, &value, &words));
            if tip.is_some() {
                error.remove(ContextKind::SuggestedValue);
            }
            tip
        }
        ErrorKind::MissingRequiredArgument => of_missing(command, &words),
        ErrorKind::ArgumentConflict => {
            let word = text(ContextKind::InvalidSubcommand).unwrap_or_default();
            let is_recording = Path::new(&word).extension().is_some();
            is_recording.then(|| format!("write `spanscore score --config FILE {word}`"))
        }
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

/// Returns the remedy for an unknown argument of a command.
fn of_argument(word: &str, command: &Command, words: &[&str]) -> Option<String> {
    if !word.starts_with('-') {
        return of_word(word, command, words);
    }
    let is_of = |id: &str| command.get_name() == id || find(command, id).is_some();
    let fits = |(words, id, _): &&Foreign| words.contains(&word) && is_of(id);
    if let Some((_, _, remedy)) = OPTIONS.iter().find(fits) {
        return Some(remedy.replace("COMMAND", command.get_name()));
    }
    let field = word.trim_start_matches('-').replace('-', "_");
    if find(command, "conditions").is_some() && StoreField::from_word(&field).is_ok() {
        return Some(format!("write `--where {field}=VALUE`"));
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

/// Returns the remedy for a surplus word.
fn of_word(word: &str, command: &Command, words: &[&str]) -> Option<String> {
    let name = command.get_name();
    let is_recording = Path::new(word).extension().is_some() || Path::new(word).exists();
    let has = |id| find(command, id).is_some();
    Some(match name {
        "init" => format!("write `--output {word}`"),
        "open" if is_recording && !word.ends_with(".db") && !is_config(word) => {
            format!("recorded runs are shown by `spanscore score --open {word}`")
        }
        "open" => "name the collector's config with `--config FILE`".to_owned(),
        "calibrate" => format!("write `--data {word}`"),
        "compare" => "it takes two sides, the old and the new: `spanscore compare A B`".to_owned(),
        "export" if words.contains(&"dataset") => format!("write `--dataset {word}`"),
        _ if is_config(word) && has(CONFIG) => format!("name the config with `--config {word}`"),
        _ if word.contains('=') && has("conditions") => format!("write `--where {word}`"),
        "check" | "scores" | "backfill" | "export" | "tail" if is_recording => {
            format!("recorded traces are judged by `spanscore score {word}`")
        }
        _ => return None,
    })
}

/// Returns the remedy for an unknown command.
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

/// Returns the remedy for an invalid value of an argument.
fn of_value(argument: &Arg, value: &str, words: &[&str]) -> Option<String> {
    if let Some(variable) = of_environment(argument, words) {
        return Some(format!("the value is that of the variable `{variable}`"));
    }
    let possible = argument.get_possible_values();
    let ours = VALUES.iter().find(|(theirs, _)| theirs.contains(&value)).map(|(_, ours)| *ours);
    if let Some(ours) = ours.filter(|ours| possible.iter().any(|it| it.get_name() == *ours)) {
        return Some(format!("did you mean `{ours}`?"));
    }
    let unit = value.trim_start_matches(|c: char| c.is_ascii_digit());
    let number = &value[..value.len() - unit.len()];
    let long = argument.get_long().filter(|_| possible.is_empty() && !number.is_empty())?;
    // A whole number with a unit: `30d`, but neither `0` nor `10k`.
    matches!((unit, long), ("d", "days") | ("s", "wait"))
        .then(|| format!("write `--{long} {number}`"))
}

/// Returns the environment variable that a value came from, if it is not on the command line.
fn of_environment<'a>(argument: &'a Arg, words: &[&str]) -> Option<&'a str> {
    let variable = argument.get_env()?.to_str()?;
    let long = format!("--{}", argument.get_long()?);
    let is_written = words.iter().any(|word| word.starts_with(&long));
    let is_set = std::env::var_os(variable).is_some();
    (is_set && !is_written).then_some(variable)
}

/// Returns the remedy for missing files: the name of standard input, or the file that `--config`
/// took. For a missing word, lists the possible ones.
fn of_missing(command: &Command, words: &[&str]) -> Option<String> {
    let name = command.get_name();
    let listed = command.get_positionals().map(Arg::get_possible_values).find(|it| !it.is_empty());
    if let Some(listed) = listed.filter(|_| name == "completions") {
        let listed: Vec<&str> = listed.iter().map(|value| value.get_name()).collect();
        return Some(format!("write one of {}", listed.join(", ")));
    }
    match name {
        "compare" => return Some("it takes two sides: `spanscore compare OLD NEW`".to_owned()),
        "run" if words.iter().any(|word| matches!(*word, "-c" | "--config")) => {
            return Some(
                "a command stands behind the options: `spanscore run -- COMMAND`".to_owned(),
            );
        }
        _ => {}
    }
    if find(command, "sample").is_some() {
        return Some(
            "`spanscore send --sample` sends a sample run; standard input is `-`".to_owned(),
        );
    }
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
    use super::words::{LISTEN, PAGES};
    use super::*;
    use crate::cli::Cli;
    use clap::{CommandFactory, Parser};

    /// Checks the tip for a command line, and that no guess of the parser is left.
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
        check("check -f a.yaml", "the file stands without an option: `spanscore check FILE`");
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
        check("scores --service shop", "write `--where service=VALUE`");
        check("scores --failed", "write `--where label=fail`");
        check("scores --last 5", "write `--limit N`");
        check("tail -n 5", "write `--last N`");
        check("tail -f", "leave it out: `tail` follows by itself");
        check("export -o a.csv", "leave it out: `> FILE` keeps what is printed");
        check("gateway --topic a", "write `--set kafka.topic=NAME`");
        check("run --url http://a true", "leave it out: `run` tells the command its own address");
        check("score --url http://a", "recordings are files: `curl -o run.json URL`");
        check("score --jobs 8 a.json", "leave it out: all cores are used");
        check("score --fail-under 0.9 a.json", "write `--min-pass-rate 0.9`");
        check("mcp --port 1", "leave it out: it speaks over standard input and output");
        check("serve --dry-run", "`spanscore check FILE` checks a config");
        check("schema -o a.json", "leave it out: `> FILE` keeps what is printed");
    }

    #[test]
    fn commands_of_other_tools_get_ours() {
        check("evaluate a.json", "did you mean `spanscore score`?");
        check("scroe a.json", "did you mean `spanscore score`?");
        check("help scoer", "did you mean `spanscore score`?");
        // A folder of that name exists here, too.
        check("config", "did you mean `spanscore check`?");
        check("version", "did you mean `spanscore --version`?");
        check("a.json", "recorded traces are judged by `spanscore score a.json`");
        check("frobnicate", "`spanscore --help` lists the commands");
    }

    #[test]
    fn words_and_values_of_other_tools_get_ours() {
        check("scores label=fail", "write `--where label=fail`");
        check("scores a.json", "recorded traces are judged by `spanscore score a.json`");
        check("export dataset golden", "write `--dataset golden`");
        check("open scores.db", "name the collector's config with `--config FILE`");
        check("calibrate a.jsonl", "write `--data a.jsonl`");
        check("open a.json", "recorded runs are shown by `spanscore score --open a.json`");
        check("--config a.yaml b.json", "write `spanscore score --config FILE b.json`");
        check("compare 1 vs 2", "it takes two sides, the old and the new: `spanscore compare A B`");
        check("export traces", "did you mean `trajectories`?");
        check("send a.json --protocol http", "did you mean `http/protobuf`?");
        check("certs a --days 30d", "write `--days 30`");
        check("run --wait 5s true", "write `--wait 5`");
        check("score --compare a.jsonl a.json", "write `--baseline FILE`");
        check("score --explain a.json", "`--details` tells more");
        check("completions", "write one of bash, elvish, fish, powershell, zsh");
    }

    #[test]
    fn missing_files_are_told_by_their_place() {
        check("compare 1", "it takes two sides: `spanscore compare OLD NEW`");
        check("run -c true", "a command stands behind the options: `spanscore run -- COMMAND`");
        check("score --details", "standard input is `-`: `... | spanscore score -`");
        check(
            "score -c a.json",
            "`-c` names the config; recordings stand alone: `spanscore score a.json`",
        );
    }
}
