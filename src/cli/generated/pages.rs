//! `spanscore docs`: the pages of the documentation, embedded by the build.

use clap::Args;

use crate::cli::{CommandError, Exit, misused, output};
use spanscore_base::settings::meant_or;

/// Pages as pairs of a name and a text in Markdown, in the order of their names.
static PAGES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/pages.rs"));

/// Page that lists the others.
const INDEX: &str = "README";

/// Limit on pages suggested for a word.
const PAGES_LISTED_MAX: usize = 4;

/// Prints a page of the documentation, or the index
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  spanscore docs
  spanscore docs gate
  spanscore docs evaluators | less")]
pub(in crate::cli) struct DocsArgs {
    /// Name of the page, such as `gate`. Default: the index
    #[arg(default_value = INDEX, hide_default_value = true)]
    page: String,
}

pub(in crate::cli) fn run(args: &DocsArgs) -> Result<Exit, CommandError> {
    let word = args.page.trim_start_matches("docs/").trim_end_matches(".md");
    let Some((_, text)) = PAGES.iter().find(|(name, _)| *name == word) else {
        let names: Vec<&str> = PAGES.iter().map(|(name, _)| *name).collect();
        let help = meant_or(word, names.iter().copied(), || pages_about(word, &names));
        return misused(format!("there is no page `{word}`; {help}"));
    };
    output::text(text)?;
    Ok(Exit::Success)
}

/// Lists the pages that mention a word most; without any, all pages.
fn pages_about(word: &str, names: &[&str]) -> String {
    let word = word.to_lowercase();
    let count = |text: &str| text.to_lowercase().matches(&word).count();
    let mut found: Vec<_> = PAGES.iter().map(|(name, text)| (count(text), *name)).collect();
    found.retain(|(count, _)| *count > 0);
    found.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    let found: Vec<&str> = found.into_iter().map(|(_, name)| name).take(PAGES_LISTED_MAX).collect();
    match found[..] {
        [] => format!("known are {}", names.join(", ")),
        _ => format!("these tell of it: {}", found.join(", ")),
    }
}
