//! Workflow commands of GitHub Actions (docs: "Workflow commands"), and markdown in the job summary
//! if `GITHUB_STEP_SUMMARY` names its file.

use std::fs::OpenOptions;
use std::io::Write;

use anyhow::Context;

use super::Report;
use super::markdown;
use super::out::ReportOut;
use crate::cli::CommandError;
use spanscore_base::model::GivenVerdict;
use spanscore_base::visible;

/// Limit on annotations; GitHub shows ten of a kind for each step.
const ANNOTATIONS_MAX: usize = 50;

/// Writes the annotations.
pub(super) fn write(report: &Report<'_>, out: &mut ReportOut) -> Result<(), CommandError> {
    let mut count = 0;
    report.not_passed(&mut |row| {
        count += 1;
        if count > ANNOTATIONS_MAX {
            return Ok(());
        }
        let command = match row.verdict() {
            GivenVerdict::NotEvaluable => "warning",
            _ => "error",
        };
        let verdict = row.verdict().words();
        let title = format!("{} {verdict}: {}", row.evaluator, row.subject());
        let score = row.score.map(|_| format!("score {}: ", row.value())).unwrap_or_default();
        let words = format!("{score}{}", row.words);
        out.raw(&annotation(command, &title, &words))
    })?;
    if count > ANNOTATIONS_MAX {
        let more = format!("{} more did not pass", count - ANNOTATIONS_MAX);
        out.raw(&annotation("notice", "spanscore", &more))?;
    }
    for it in &report.verdict.compared {
        out.raw(&annotation("notice", "spanscore baseline", &it.sentence()))?;
    }
    let command = if report.verdict.reasons.is_empty() { "notice" } else { "error" };
    let sentence = format!("{}; {}", report.gate_line(), report.sentence());
    out.raw(&annotation(command, "spanscore", &sentence))?;
    if let Some(path) = std::env::var_os("GITHUB_STEP_SUMMARY").filter(|path| !path.is_empty()) {
        let text = markdown::text(report, true)?;
        let appended = OpenOptions::new().append(true).create(true).open(&path);
        appended
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .with_context(|| format!("cannot write {}", path.to_string_lossy()))?;
    }
    Ok(())
}

/// Formats `::error title=...::message`, with escaped delimiters.
fn annotation(command: &str, title: &str, message: &str) -> String {
    let escaped = |text: &str| visible::line(text).to_string().replace('%', "%25");
    let title = escaped(title).replace(':', "%3A").replace(',', "%2C");
    format!("::{command} title={title}::{}\n", escaped(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stranger_s_text_cannot_be_a_command() {
        let line = annotation("error", "a,b: 5%", "x\n::set-output name=y::z\r%0A");
        assert_eq!(line.lines().count(), 1, "{line}");
        assert!(line.starts_with("::error title=a%2Cb%3A 5%25::x") && line.ends_with("%250A\n"));
    }
}
