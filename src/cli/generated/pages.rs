//! `spanscore docs`: the pages of the documentation, embedded by the build.

use clap::Args;

use crate::cli::{CommandError, Exit, misused, output};
use spanscore_base::settings::meant_or_known;

/// Pages as pairs of a name and a text in Markdown, in the order of their names.
static PAGES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/pages.rs"));

/// Page that tells which others there are.
const INDEX: &str = "README";

/// Prints a page of the documentation; without a name the index
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  spanscore docs
  spanscore docs gate
  spanscore docs evaluators | less")]
pub(in crate::cli) struct DocsArgs {
    /// The page, such as `gate`
    #[arg(default_value = INDEX, hide_default_value = true)]
    page: String,
}

pub(in crate::cli) fn run(args: &DocsArgs) -> Result<Exit, CommandError> {
    let word = args.page.trim_start_matches("docs/").trim_end_matches(".md");
    let Some((_, text)) = PAGES.iter().find(|(name, _)| *name == word) else {
        let names: Vec<&str> = PAGES.iter().map(|(name, _)| *name).collect();
        let help = meant_or_known(word, &names);
        return misused(format!("there is no page `{word}`; {help}"));
    };
    output::text(text)?;
    Ok(Exit::Success)
}
