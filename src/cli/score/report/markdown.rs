//! Markdown for a comment on a pull request: verdict, table by evaluator, changes, failures.

use std::fmt::Write as _;

use super::summary::{COLUMNS, rows};
use super::{OPEN_BUT_BROKEN, Report};
use crate::cli::score::rows::ScoreRow;
use spanscore_base::statistics::ScoreEvidence;
use spanscore_base::visible;
use spanscore_emit::details;

/// Limit on listed failures, since comments have one too.
const ROWS_MAX: usize = 50;
/// Limit on a cell's explanation, characters.
const WORDS_MAX: usize = 400;

/// Formats the report.
pub(super) fn text(report: &Report<'_>, with_details: bool) -> anyhow::Result<String> {
    let mut out = String::new();
    let verdict = if report.verdict.reasons.is_empty() { "open" } else { "shut" };
    writeln!(out, "## spanscore: gate {verdict}\n")?;
    for reason in &report.verdict.reasons {
        writeln!(out, "- {}", cell(reason))?;
    }
    if report.is_broken && report.verdict.reasons.is_empty() {
        writeln!(out, "{OPEN_BUT_BROKEN}\n")?;
    }
    writeln!(
        out,
        "{}{}\n",
        if report.verdict.reasons.is_empty() { "" } else { "\n" },
        report.sentence()
    )?;
    let heads = COLUMNS.map(str::to_lowercase);
    writeln!(out, "| {} |", heads.join(" | "))?;
    writeln!(out, "|---|---:|---:|---:|---:|---:|---:|")?;
    for cells in rows(report) {
        writeln!(out, "| {} |", cells.map(|text| cell(&text)).join(" | "))?;
    }
    changes(report, &mut out)?;
    failures(report, with_details, &mut out)?;
    let mut silence = report.silence_lines().peekable();
    if silence.peek().is_some() {
        out.push('\n');
    }
    for line in silence {
        writeln!(out, "- {}", cell(&line))?;
    }
    Ok(out)
}

fn changes(report: &Report<'_>, out: &mut String) -> anyhow::Result<()> {
    if !report.verdict.has_baseline {
        return Ok(());
    }
    writeln!(out, "\n### Beside the baseline\n")?;
    if report.verdict.compared.is_empty() {
        writeln!(out, "No evaluator has scores in both runs.")?;
        return Ok(());
    }
    writeln!(out, "| evaluator | verdict | before | now | change | compared |")?;
    writeln!(out, "|---|---|---:|---:|---|---|")?;
    for it in &report.verdict.compared {
        let mark = match it.evidence {
            ScoreEvidence::Worse => "**worse**",
            other => other.as_str(),
        };
        let name = cell(&it.name);
        let change = it.change();
        let basis = it.basis();
        writeln!(out, "| {name} | {mark} | {:.3} | {:.3} | {change} | {basis} |", it.old, it.new)?;
    }
    for it in report.verdict.compared.iter().filter(|it| !it.broken.is_empty()) {
        let broken = crate::cli::score::baseline::listed(&it.broken);
        writeln!(out, "\n{}: passed before and not now: {}", cell(&it.name), cell(&broken))?;
    }
    Ok(())
}

fn failures(report: &Report<'_>, with_details: bool, out: &mut String) -> anyhow::Result<()> {
    let mut count = 0;
    let mut body = String::new();
    let mut details = String::new();
    report.not_passed(&mut |row| {
        count += 1;
        if count <= ROWS_MAX {
            write_row(&row, &mut body)?;
            if with_details && row.score.is_some() {
                write_details(&row, &mut details)?;
            }
        }
        Ok(())
    })?;
    if count == 0 {
        return Ok(());
    }
    writeln!(out, "\n### Not passed\n\n| what | evaluator | score | label | why |")?;
    writeln!(out, "|---|---|---:|---|---|\n{}", body.trim_end())?;
    if count > ROWS_MAX {
        writeln!(out, "\nand {} more", count - ROWS_MAX)?;
    }
    out.push_str(&details);
    Ok(())
}

fn write_row(row: &ScoreRow, out: &mut String) -> std::fmt::Result {
    let label = row.verdict().words();
    let words: String = row.words.chars().take(WORDS_MAX).collect();
    let subject = cell(&row.subject());
    let evaluator = cell(&row.evaluator);
    writeln!(out, "| {subject} | {evaluator} | {} | {label} | {} |", row.value(), cell(&words))
}

fn write_details(row: &ScoreRow, out: &mut String) -> std::fmt::Result {
    let mut text = String::new();
    details::write_text(&row.details, 0, &mut text);
    // A fence in the text would close this one.
    let text = text.replace("```", "'''");
    let subject = cell(&row.subject());
    let evaluator = cell(&row.evaluator);
    write!(out, "\n<details><summary>{subject} {evaluator}</summary>\n\n```diff\n{text}```\n")?;
    writeln!(out, "\n</details>")
}

/// Escapes text for a table cell, as foreign text must not be markup.
fn cell(text: &str) -> String {
    let mut out = String::new();
    for char in visible::line(text).to_string().chars() {
        match char {
            '|' => out.push_str("\\|"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '[' => out.push_str("\\["),
            '*' => out.push_str("\\*"),
            '@' => out.push_str("&#64;"),
            '!' => out.push_str("&#33;"),
            other => out.push(other),
        }
    }
    out
}
