//! The `console` exporter: one line per evaluation, grouped by trace, for people.
//!
//! Names and explanations come from strangers. They are cut at [`TEXT_CHARS_MAX`] and made
//! [`visible`], so that no trace can control the terminal.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use smart_default::SmartDefault;

use super::content::{ContentFilter, ShownContent};
use super::counters::{LogLimiter, Loss};
use super::queue::{Deliver, Delivery, EvaluationBatch, QueueLimits, count_of};
use super::settings::{Exporter, ExporterKind};
use super::{ExporterStartError, Starting, details, record};
use spanscore_base::model::{Evaluation, Label, Outcome, shown_share};
use spanscore_base::panics::Panicked;
use spanscore_base::visible;

/// Longest name or explanation on a line, in characters before escapes; the cut is marked.
pub const TEXT_CHARS_MAX: usize = 300;

/// Kind `console`.
pub static KIND: ExporterKind = ExporterKind {
    name: "console",
    aliases: &[],
    about: "Prints the evaluations of each trace as soon as they exist.",
    single: false,
    schema: || schemars::schema_for!(ConsoleSettings),
    read: |node| Ok(Arc::new(node.read::<ConsoleSettings>()?)),
};

/// Prints evaluations on standard output.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct ConsoleSettings {
    /// Format of the output: `text` (default) for people, `jsonl` for one JSON object per line.
    pub format: ConsoleFormat,
    /// Colours of `text`: `auto` (default) on a terminal unless `NO_COLOR` is set, `always` or
    /// `never`.
    pub color: Color,
    /// Content in the output that may quote arguments and results: `full` (default), `redacted`
    /// (without the personal data and credentials that are found) or `none`. `include_content` is
    /// another name of this setting.
    #[serde(alias = "include_content")]
    #[default(ShownContent::Full)]
    pub(crate) content: ShownContent,
    /// Prints details below each evaluation of `text`: expected and actual calls beside each other,
    /// and the other inputs of the score. Requires `content`. Default `false`.
    pub details: bool,
    /// Keeps an evaluation in the log below `data_dir`, if the process has one, until it is
    /// printed. Default `false`.
    pub must_deliver: bool,
}

/// Format of the console.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ConsoleFormat {
    /// One line per evaluation, grouped by trace.
    #[default]
    Text,
    /// One JSON object per line.
    Jsonl,
}

/// Colours of the console.
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

impl Exporter for ConsoleSettings {
    fn start(&self, starting: &mut Starting<'_>) -> Result<(), ExporterStartError> {
        let details = self.details || self.format == ConsoleFormat::Jsonl;
        starting.show(self.content.is_shown(), details);
        let limits = QueueLimits::local(Duration::ZERO).must_deliver(self.must_deliver);
        let filter = starting.content_filter(self.content);
        starting.queue(limits, None, Console::new(self, filter));
        Ok(())
    }
}

/// Style of printed evaluations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Style {
    /// True for colours.
    pub color: bool,
    /// True if explanations may quote arguments and results.
    pub content: bool,
    /// True if details follow each evaluation.
    pub details: bool,
}

/// Returns true if text on standard output is coloured: on request, or with `auto` on a terminal
/// without `NO_COLOR` (<https://no-color.org>).
pub fn is_colored(color: Color) -> bool {
    match color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => {
            let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
            !refused && std::io::stdout().is_terminal()
        }
    }
}

/// Appends evaluations as text: a head line per trace, then one aligned line per evaluation.
/// Consecutive evaluations of one trace share a head.
pub fn write_text(evaluations: &[Evaluation], style: Style, out: &mut String) {
    let same_trace = |a: &Evaluation, b: &Evaluation| a.target.trace_id == b.target.trace_id;
    for group in evaluations.chunk_by(same_trace) {
        // Writing to a `String` cannot fail.
        let _ = write_group(group, style, out);
    }
}

fn write_group(group: &[Evaluation], style: Style, out: &mut String) -> std::fmt::Result {
    let Some(first) = group.first() else { return Ok(()) };
    let paint = |code| if style.color { code } else { "" };
    let trace = first.target.trace_id.to_string();
    write!(out, "{}trace {}{}", paint(BOLD), &trace[..8], paint(RESET))?;
    let service = Some(first.target.resource.service_name.as_str()).filter(|name| !name.is_empty());
    for part in [service, first.target.agent_name.as_deref()].into_iter().flatten() {
        out.push_str("  ");
        push_line(part, out);
    }
    write!(out, "  {}{}{}", paint(DIM), first.target.completion.as_str(), paint(RESET))?;
    if first.target.is_partial {
        out.push_str("  partial");
    }
    if first.revision > 0 {
        write!(out, "  revision {}", first.revision)?;
    }
    out.push('\n');
    let width = group.iter().map(|e| e.evaluator.name.chars().count()).max().unwrap_or(0);
    group.iter().try_for_each(|evaluation| write_one(evaluation, width, style, out))
}

/// Indentation of the details, in columns.
const DETAILS_INDENT: usize = 6;

const BOLD: &str = "\x1b[1m";
const DIM: &str = "\x1b[2m";
const RESET: &str = "\x1b[0m";

fn write_one(
    evaluation: &Evaluation,
    width: usize,
    style: Style,
    out: &mut String,
) -> std::fmt::Result {
    let (mark, code, verdict) = match (&evaluation.outcome, evaluation.label()) {
        (Outcome::Scored(score), Some(Label::Pass)) => ('✓', "\x1b[32m", Some(score.value)),
        (Outcome::Scored(score), _) => ('✗', "\x1b[31m", Some(score.value)),
        (Outcome::NotEvaluable { .. }, _) => ('-', "\x1b[33m", None),
        (Outcome::Failed { .. }, _) => ('!', "\x1b[35m", None),
    };
    let (code, reset) = if style.color { (code, RESET) } else { ("", "") };
    match verdict {
        Some(score) => write!(out, "  {code}{mark} {}{reset}", shown_share(score, 2))?,
        None => write!(out, "  {code}{mark}  n/a{reset}")?,
    }
    write!(out, "  {:<width$}", visible::line(&evaluation.evaluator.name).to_string())?;
    if evaluation.revision > 0 {
        write!(out, "  revision {}", evaluation.revision)?;
        if let Some(verdict) = evaluation.supersedes {
            write!(out, ", was {}", verdict.words())?;
        }
    }
    if evaluation.evaluator.level == spanscore_base::model::Level::Call {
        write!(out, "  span {}", evaluation.span_id)?;
    }
    let explanation = explanation(evaluation, style.content);
    if !explanation.is_empty() {
        out.push_str("  ");
        push_line(&explanation, out);
    }
    out.push('\n');
    if style.details
        && let Outcome::Scored(score) = &evaluation.outcome
    {
        details::write_text(&score.details, DETAILS_INDENT, out);
    }
    Ok(())
}

fn explanation(evaluation: &Evaluation, content: bool) -> String {
    if !content {
        return record::plain_explanation(evaluation);
    }
    match &evaluation.outcome {
        Outcome::Scored(score) => score.explanation.to_string(),
        Outcome::NotEvaluable { reason, explanation } if explanation.is_empty() => {
            reason.as_str().replace('_', " ")
        }
        Outcome::NotEvaluable { explanation, .. } => format!("not evaluable: {explanation}"),
        Outcome::Failed { error, .. } => format!("failed: {error}"),
    }
}

/// Appends text on one line, cut at [`TEXT_CHARS_MAX`].
pub(super) fn push_line(text: &str, out: &mut String) {
    let cut = text.char_indices().nth(TEXT_CHARS_MAX).map(|(at, _)| at);
    // Writing to a `String` cannot fail.
    let _ = write!(out, "{}", visible::line(&text[..cut.unwrap_or(text.len())]));
    if cut.is_some() {
        out.push('…');
    }
}

/// The `console` exporter, which writes to standard output on a blocking thread.
pub(crate) struct Console {
    format: ConsoleFormat,
    style: Style,
    filter: ContentFilter,
    broken: LogLimiter,
}

impl Console {
    pub(crate) fn new(settings: &ConsoleSettings, filter: ContentFilter) -> Self {
        let style = Style {
            color: is_colored(settings.color),
            content: settings.content.is_shown(),
            details: settings.details && settings.content.is_shown(),
        };
        Self { format: settings.format, style, filter, broken: LogLimiter::default() }
    }

    async fn render(&self, batch: &EvaluationBatch) -> Result<String, Panicked> {
        let format = self.format;
        let style = self.style;
        let text = self.filter.make(batch, move |filter, batch| {
            let mut out = String::new();
            for evaluations in batch {
                let redacted = filter.apply_all(evaluations);
                match format {
                    ConsoleFormat::Text => write_text(&redacted, style, &mut out),
                    ConsoleFormat::Jsonl => {
                        redacted.iter().for_each(|e| record::write_line(e, style.content, &mut out))
                    }
                }
            }
            out
        });
        text.await
    }
}

impl Deliver for Console {
    async fn deliver(&self, batch: EvaluationBatch) -> Delivery {
        let count = count_of(&batch);
        let Ok(text) = self.render(&batch).await else { return Delivery::broken(count) };
        let write = move || {
            let mut stdout = std::io::stdout().lock();
            stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush())
        };
        let written = tokio::task::spawn_blocking(write).await;
        match written.map_err(std::io::Error::other).flatten() {
            Ok(()) => Delivery { sent: count, lost: Vec::new() },
            Err(error) => {
                if self.broken.may_log() {
                    tracing::warn!(%error, "failed to write evaluations to standard output");
                }
                Delivery { sent: 0, lost: vec![(Loss::Io, count)] }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::sample;

    fn text(evaluations: &[Evaluation], color: bool, content: bool) -> String {
        let mut out = String::new();
        write_text(evaluations, Style { color, content, details: false }, &mut out);
        out
    }

    #[test]
    fn each_trace_has_a_head_and_a_line_per_evaluation() {
        let mut other = sample::scored(1.0);
        Arc::make_mut(&mut other.target).trace_id.0[0] = 0xff;
        other.revision = 0;
        let all = [sample::scored(0.5), sample::not_evaluable(), sample::failed(), other];
        insta::assert_snapshot!(text(&all, false, true), @r#"
        trace 0af76519  shop  refunds  root_ended  revision 1
          ✗ 0.50  tool_call_args/refund  revision 1  1 of 2 calls as expected (order "A-17")
          -  n/a  tool_call_args/refund  revision 1  not evaluable: A-17 has no arguments
          !  n/a  tool_call_args/refund  revision 1  failed: no criteria for order A-17
        trace fff76519  shop  refunds  root_ended
          ✓ 1.00  tool_call_args/refund  1 of 2 calls as expected (order "A-17")
        "#);
    }

    #[test]
    fn content_and_colour_are_left_out_unless_asked_for() {
        let all = [sample::scored(0.5), sample::not_evaluable(), sample::failed()];
        let plain = text(&all, false, false);
        assert!(!plain.contains("A-17") && !plain.contains('\x1b'), "{plain}");
        assert!(text(&all, true, false).contains("\x1b[31m✗ 0.50\x1b[0m"));
    }

    #[test]
    fn text_of_strangers_cannot_steer_the_terminal() {
        let mut evaluation = sample::scored(0.5);
        let name = "a\x1b[2J\nb\u{9b}31m\u{202e}c";
        Arc::make_mut(&mut evaluation.target).agent_name = Some(name.into());
        let text = text(&[evaluation], false, true);
        assert!(text.contains(r"  a\u{1b}[2J\nb\u{9b}31m\u{202e}c  "), "{text}");
        assert_eq!(text.lines().count(), 2, "{text}");
    }

    #[test]
    fn long_explanations_are_cut_one_past_the_limit() {
        let cut = |chars: usize| {
            let mut out = String::new();
            push_line(&"x".repeat(chars), &mut out);
            out.ends_with('…')
        };
        assert!(!cut(TEXT_CHARS_MAX) && cut(TEXT_CHARS_MAX + 1));
    }
}
