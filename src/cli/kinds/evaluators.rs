//! `spanscore evaluators`: lists the kinds of evaluators and their settings.

use clap::Args;

use super::settings::settings;
use crate::cli::{CommandError, Exit, output};
use crate::config::shared_schema;
use spanscore_base::settings::meant_or;
use spanscore_evaluate::kinds::kind_elsewhere;
use spanscore_evaluate::{KINDS, Kind, kind};

/// Lists the kinds of evaluators, or the settings of one kind
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  spanscore evaluators
  spanscore evaluators tool_call_args")]
pub(in crate::cli) struct EvaluatorsArgs {
    /// Kind whose settings are shown
    kind: Option<String>,
}

pub(in crate::cli) fn run(args: &EvaluatorsArgs) -> Result<Exit, CommandError> {
    match &args.kind {
        None => output::line(list())?,
        Some(word) => output::text(&describe(find(word)?))?,
    }
    Ok(Exit::Success)
}

/// Finds a kind by its name here, or in another system.
fn find(word: &str) -> Result<&'static Kind, CommandError> {
    kind(word).or_else(|| kind_elsewhere(word).map(|(kind, _)| kind)).ok_or_else(|| {
        let names = KINDS.iter().map(|kind| kind.name);
        let help = meant_or(word, names, || "`spanscore evaluators` lists them".to_owned());
        CommandError::Usage(format!("unknown kind of evaluator `{word}`; {help}"))
    })
}

fn list() -> String {
    let mut table = output::table(["KIND", "JUDGES", "CRITERIA", "THRESHOLD"]);
    for kind in KINDS {
        let criteria = if kind.needs_criteria { "needed" } else { "" };
        table.add_row([kind.name, kind.about, criteria, &kind.threshold.to_string()]);
    }
    table.trim_fmt()
}

/// Describes one kind: settings, shared settings, example.
fn describe(kind: &Kind) -> String {
    let mut out = format!("{}\n\n  {}\n", kind.name, kind.about);
    if !kind.also_known_as.is_empty() {
        let names = kind.also_known_as.iter().map(|(name, origin)| format!("{name} ({origin})"));
        out.push_str(&format!("\nElsewhere: {}\n", names.collect::<Vec<_>>().join(", ")));
    }
    out.push_str("\nSettings\n");
    let own = (kind.schema)().to_value();
    settings(&own, &own, 1, &mut out);
    out.push_str(&format!("\nShared settings (default threshold {})\n", kind.threshold));
    let shared = shared_schema();
    settings(&shared, &shared, 1, &mut out);
    out.push_str("\nExample\n");
    for line in kind.example.trim_end().lines() {
        out.push_str(&format!("  {line}\n"));
    }
    out
}
