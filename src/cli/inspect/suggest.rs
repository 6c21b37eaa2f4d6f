//! `spanscore inspect --suggest`: suggests dialects for spans of unknown conventions.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::cli::{CommandError, Exit, output, recorded};
use crate::config::ResolvedConfig;
use spanscore_base::model::{Facts, ToolCall};
use spanscore_base::otlp::Signal;
use spanscore_base::settings::yaml;
use spanscore_engine::replay::Replay;
use spanscore_extract::dialect::Dialect;
use spanscore_extract::suggest::{DialectSuggestion, SPANS_MAX, SpanSamples, suggest};
use spanscore_extract::{Resolver, Table};

/// Dialects suggested for the spans of some files.
pub(in crate::cli) struct Suggested {
    /// Entries of `dialects:` as YAML; empty if nothing looks like a tool call.
    pub(in crate::cli) text: String,
    /// Number of spans without a dialect, and of all spans.
    unknown: usize,
    looked_at: usize,
    left_out: usize,
    /// True if a part of the files could not be read.
    pub(in crate::cli) is_broken: bool,
}

impl Suggested {
    /// Reads the files and collects spans without a dialect in the plan.
    pub(in crate::cli) fn new(
        plan: &ResolvedConfig,
        files: &[PathBuf],
    ) -> Result<Self, CommandError> {
        let resolver = recorded::resolver(plan, &Facts::all())?;
        let mut replay = Replay::new(&resolver, plan.config.limits, plan.config.sessions.key);
        let mut samples = SpanSamples::default();
        let is_broken = recorded::read_with(&mut replay, files, |signal, body| {
            // The replay reports broken requests.
            let _ = match signal {
                Signal::Traces => samples.add(body),
                Signal::Logs => samples.add_logs(body),
                Signal::Metrics => Ok(()),
            };
        })?;
        let known = replay.known_spans();
        Ok(Self {
            text: written(&suggest(&samples, &known)),
            unknown: samples.unknown_count(&known),
            looked_at: samples.count(),
            left_out: samples.left_out(),
            is_broken,
        })
    }

    /// Returns the suggested dialects.
    pub(in crate::cli) fn dialects(&self) -> Result<Vec<Dialect>, CommandError> {
        let node = yaml::read(&self.text).map_err(anyhow::Error::new)?;
        let dialects = node.get("dialects").map_or(Ok(Vec::new()), |node| node.read());
        Ok(dialects.map_err(anyhow::Error::new)?)
    }
}

/// Prints suggested dialects for some files, ready for a config.
pub(super) fn run(plan: &ResolvedConfig, files: &[PathBuf]) -> Result<Exit, CommandError> {
    let suggested = Suggested::new(plan, files)?;
    let exit = if suggested.is_broken { Exit::Failure } else { Exit::Success };
    let Suggested { text, unknown, looked_at, left_out, .. } = &suggested;
    if *left_out > 0 {
        output::note(format_args!(
            "spanscore: of {} spans only the first {SPANS_MAX} are looked at, or 64 MiB of them",
            left_out + looked_at
        ));
    }
    if text.is_empty() {
        output::note(format_args!(
            "spanscore: nothing to suggest: of {looked_at} spans {unknown} belong to no dialect, \
             and none of these looks like a tool call; `--explain` shows how each span was read"
        ));
        return Ok(exit);
    }
    output::line(format_args!("# {unknown} of {looked_at} spans belong to no dialect."))?;
    output::line(
        "# A guess, from the words of keys and what values look like: read it, and mend it.",
    )?;
    if let Some(found) = tried(plan, &suggested, files)? {
        output::line(format_args!("# {found}"))?;
    }
    output::text(text)?;
    Ok(exit)
}

fn written(suggestions: &[DialectSuggestion]) -> String {
    if suggestions.is_empty() {
        return String::new();
    }
    let mut text = String::from("dialects:\n");
    suggestions.iter().for_each(|suggestion| text.push_str(&suggestion.to_string()));
    text
}

/// Counts the calls that the suggested dialects find in the same files; `None` for input that
/// cannot be read twice.
fn tried(
    plan: &ResolvedConfig,
    suggested: &Suggested,
    files: &[PathBuf],
) -> Result<Option<String>, CommandError> {
    if files.iter().any(|file| file == Path::new("-")) {
        return Ok(None);
    }
    let own = suggested.dialects()?;
    let names: Vec<String> = own.iter().map(|dialect| dialect.name.clone()).collect();
    let dialects = plan.config.dialects.iter().cloned().chain(own).collect();
    let table = Table::compile(Dialect::with_builtin(dialects), &Facts::all());
    let resolver = Resolver::new(Arc::new(table.map_err(anyhow::Error::new)?));
    let mut replay = Replay::new(&resolver, plan.config.limits, plan.config.sessions.key);
    recorded::read(&mut replay, files)?;
    let mut count = 0;
    let mut arguments = 0;
    let mut results = 0;
    replay.for_each(|trajectory| {
        let is_own = |call: &&ToolCall<'_>| names.iter().any(|name| name == call.dialect);
        for call in trajectory.tool_calls.iter().filter(is_own) {
            count += 1;
            arguments += usize::from(call.arguments.is_recorded());
            results += usize::from(call.result.is_recorded());
        }
    });
    Ok(Some(format!(
        "With it {count} tool calls are found here, {arguments} with arguments, {results} with \
         results."
    )))
}
