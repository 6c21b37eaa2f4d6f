//! JUnit XML in the form common to CI systems (the schemas of Jenkins' xUnit plugin and of Apache
//! Ant): an evaluator is a suite, an evaluation a case. Times are those of the judged runs, from
//! the first start to the last end of their spans.
//!
//! A score below its threshold is a failure, a failed evaluator an error, a result that is not
//! evaluable skipped.

use std::fmt::Write as _;

use super::Report;
use super::out::ReportOut;
use crate::cli::CommandError;
use crate::cli::score::baseline::listed;
use crate::cli::score::repeats::RepeatedRuns;
use crate::cli::score::rows::ScoreRow;
use crate::cli::score::tally::OutcomeTally;
use spanscore_base::model::GivenVerdict;
use spanscore_base::visible;
use spanscore_emit::details;

/// Writes the whole file.
pub(super) fn write(
    report: &Report<'_>,
    with_details: bool,
    out: &mut ReportOut,
) -> Result<(), CommandError> {
    let all = report.tallies.all;
    out.raw("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n")?;
    let head = format!(
        "<testsuites name=\"spanscore\" tests=\"{}\" failures=\"{}\" errors=\"{}\" \
         time=\"{:.3}\">\n",
        all.count(),
        all.fail,
        all.failed,
        all.seconds()
    );
    out.raw(&head)?;
    for (index, (name, tally)) in report.tallies.by_evaluator.iter().enumerate() {
        out.raw(&suite_head(index, name, tally))?;
        let repeated = report.repeated.iter().find(|runs| runs.evaluator == *name);
        out.raw(&properties(repeated))?;
        report.rows.of_evaluator(name, |row| {
            let mut case = String::new();
            write_case(&row, with_details, &mut case)?;
            out.raw(&case)
        })?;
        out.raw("    <system-out/>\n    <system-err/>\n  </testsuite>\n")?;
    }
    Ok(out.raw("</testsuites>\n")?)
}

fn suite_head(index: usize, name: &str, tally: &OutcomeTally) -> String {
    let time = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S");
    format!(
        "  <testsuite name=\"{}\" id=\"{index}\" package=\"spanscore\" hostname=\"localhost\" \
         timestamp=\"{time}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" \
         time=\"{:.3}\">\n",
        escaped(name),
        tally.count(),
        tally.fail,
        tally.failed,
        tally.not_evaluable,
        tally.seconds()
    )
}

/// Writes the figures of cases with several runs.
fn properties(repeated: Option<&RepeatedRuns>) -> String {
    let Some(repeated) = repeated else { return "    <properties/>\n".to_owned() };
    let k = repeated.k;
    let mut values = vec![("repeated cases".to_owned(), repeated.cases.to_string())];
    for (name, estimate) in [("pass^", repeated.all), ("pass@", repeated.any)] {
        values.push((format!("{name}{k}"), format!("{:.3}", estimate.mean)));
        if let Some((low, high)) = estimate.interval {
            values.push((format!("{name}{k} 95 %"), format!("{low:.3} to {high:.3}")));
        }
    }
    if !repeated.flaky.is_empty() {
        values.push(("flaky".to_owned(), listed(&repeated.flaky)));
    }
    let line = |(name, value): (String, String)| {
        format!("      <property name=\"{}\" value=\"{}\"/>\n", escaped(&name), escaped(&value))
    };
    let lines: String = values.into_iter().map(line).collect();
    format!("    <properties>\n{lines}    </properties>\n")
}

fn write_case(row: &ScoreRow, with_details: bool, out: &mut String) -> std::fmt::Result {
    let name = escaped(&row.subject());
    let class = escaped(&row.evaluator);
    let seconds = row.seconds;
    write!(out, "    <testcase name=\"{name}\" classname=\"{class}\" time=\"{seconds:.3}\"")?;
    let words = escaped(&row.words);
    let score = row.value();
    match row.verdict() {
        GivenVerdict::Pass => return out.write_str("/>\n"),
        GivenVerdict::NotEvaluable => {
            write!(out, ">\n      <skipped message=\"{words}\"/>\n")?;
        }
        GivenVerdict::Failed => {
            write!(out, ">\n      <error message=\"{words}\" type=\"failed\"/>\n")?;
        }
        GivenVerdict::Fail => {
            let threshold = row.threshold;
            write!(out, ">\n      <failure message=\"{score}: {words}\" type=\"fail\">")?;
            let mut text = format!("trace {}\nthreshold {threshold}\n", row.trace_id);
            if with_details {
                details::write_text(&row.details, 0, &mut text);
            }
            for line in text.lines() {
                writeln!(out, "{}", escaped(line))?;
            }
            out.write_str("</failure>\n")?;
        }
    }
    out.write_str("    </testcase>\n")
}

/// Escapes text for attributes and elements, replacing characters that XML cannot represent.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in visible::line(text).to_string().chars() {
        match char {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            other if other.is_control() => out.push('\u{fffd}'),
            other => out.push(other),
        }
    }
    out
}
