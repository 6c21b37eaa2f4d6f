//! Evaluations as rows: what the report formats and a baseline read of a record.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use anyhow::{Context, anyhow};

use crate::emit::record;
use crate::model::Evaluation;
use crate::pipeline::batch::BatchOrder;
use crate::pipeline::batch::spool::{MEMORY_BYTES_MAX, Spool, SpoolPlace};
use crate::value::{Value, json};

/// One evaluation, as its record tells it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ScoreRow {
    pub(super) trace_id: String,
    pub(super) span_id: Option<String>,
    pub(super) evaluator: String,
    /// `call`, `trace` or `session`.
    pub(super) level: String,
    pub(super) case: Option<String>,
    /// `scored`, `not_evaluable` or `failed`.
    pub(super) outcome: String,
    pub(super) score: Option<f64>,
    pub(super) label: Option<String>,
    pub(super) threshold: f64,
    /// The explanation; of what was not scored the reason or the error before it.
    pub(super) words: String,
    pub(super) details: Value<'static>,
}

/// What became of an evaluation, for counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RowVerdict {
    Pass,
    Fail,
    NotEvaluable,
    Failed,
}

impl RowVerdict {
    /// The word in tables.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::NotEvaluable => "not evaluable",
            Self::Failed => "failed",
        }
    }
}

impl ScoreRow {
    /// Reads a record; `None` where it is none.
    pub(super) fn read(line: &str) -> Option<Self> {
        let record = json::parse(line).ok()?;
        let text = |key: &str| record.get(key).and_then(Value::as_str).map(str::to_owned);
        let number = |key: &str| record.get(key).and_then(Value::as_number).map(|it| it.as_f64());
        let outcome = text("outcome")?;
        let explanation = text("explanation").unwrap_or_default();
        let words = match outcome.as_str() {
            "scored" => explanation,
            "not_evaluable" => format!("{}: {explanation}", text("reason").unwrap_or_default()),
            _ => {
                let of = |key| text(key).unwrap_or_default();
                format!("{}: {}", of("error_type"), of("error"))
            }
        };
        Some(Self {
            trace_id: text("trace_id")?,
            span_id: text("span_id"),
            evaluator: text("evaluator")?,
            level: text("level").unwrap_or_default(),
            case: text("case"),
            score: number("score"),
            label: text("label"),
            threshold: number("threshold").unwrap_or_default(),
            words,
            details: record.get("details").cloned().unwrap_or_default().into_owned(),
            outcome,
        })
    }

    /// What became of it.
    pub(super) fn verdict(&self) -> RowVerdict {
        match (self.outcome.as_str(), self.label.as_deref()) {
            ("scored", Some("pass")) => RowVerdict::Pass,
            ("scored", _) => RowVerdict::Fail,
            ("not_evaluable", _) => RowVerdict::NotEvaluable,
            _ => RowVerdict::Failed,
        }
    }

    /// The score with three digits, or `-`.
    pub(super) fn value(&self) -> String {
        self.score.map_or_else(|| "-".to_owned(), |score| format!("{score:.3}"))
    }

    /// What it was about, for people: the case, else the trace; with the span of a single call.
    pub(super) fn subject(&self) -> String {
        let subject = self.case.as_ref().unwrap_or(&self.trace_id);
        match &self.span_id {
            Some(span_id) if self.level == "call" => format!("{subject} {span_id}"),
            _ => subject.clone(),
        }
    }
}

/// All rows, in memory while they are few.
pub(super) struct ScoreRows {
    spool: Spool,
    places: Vec<(BatchOrder, SpoolPlace)>,
}

impl ScoreRows {
    pub(super) fn new() -> Self {
        Self { spool: Spool::new(MEMORY_BYTES_MAX), places: Vec::new() }
    }

    /// Adds the evaluations of one trace or session.
    pub(super) fn push(
        &mut self,
        order: BatchOrder,
        evaluations: &[Evaluation],
    ) -> std::io::Result<()> {
        let mut lines = String::new();
        evaluations.iter().for_each(|it| record::write_line(it, true, &mut lines));
        let place = self.spool.push(lines.as_bytes())?;
        self.places.push((order, place));
        Ok(())
    }

    /// Ends the writing.
    pub(super) fn finish(&mut self) -> std::io::Result<()> {
        // One trace may be judged twice: in the order in which that was done.
        self.places.sort_by_key(|(order, _)| *order);
        self.spool.finish()
    }

    /// Shows the lines of all records, those of one trace or session together.
    pub(super) fn lines(
        &self,
        mut visit: impl FnMut(&str) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut bytes = Vec::new();
        for (_, place) in &self.places {
            bytes.clear();
            self.spool.read(*place, &mut bytes).context("cannot read a temporary file")?;
            visit(std::str::from_utf8(&bytes)?)?;
        }
        Ok(())
    }

    /// Shows all rows.
    pub(super) fn for_each(
        &self,
        mut visit: impl FnMut(ScoreRow) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        self.lines(|lines| lines.lines().filter_map(ScoreRow::read).try_for_each(&mut visit))
    }
}

/// Longest line of a baseline, in bytes: one record, whose details may be long.
const LINE_BYTES_MAX: u64 = 64 << 20;

/// Shows the rows of a file that `--format jsonl` wrote, one after the other.
pub(super) fn read_baseline(path: &Path, mut visit: impl FnMut(ScoreRow)) -> anyhow::Result<()> {
    let name = path.display();
    let file = File::open(path).with_context(|| format!("cannot read {name}"))?;
    let (mut reader, mut line, mut count) = (BufReader::new(file), String::new(), 0);
    for number in 1_u64.. {
        line.clear();
        let read = reader.by_ref().take(LINE_BYTES_MAX).read_line(&mut line);
        if read.with_context(|| format!("cannot read {name}"))? == 0 {
            break;
        }
        if line.trim().is_empty() {
            continue;
        }
        let row = ScoreRow::read(&line).ok_or_else(|| {
            let help = match ["\"resourceSpans\"", "\"resourceLogs\""]
                .iter()
                .any(|it| line.contains(it))
            {
                true => " but a recording: it writes the scores of one with `-o scores.jsonl`",
                false => "",
            };
            anyhow!("{name}:{number}: not a record of `spanscore score --format jsonl`{help}")
        })?;
        visit(row);
        count += 1;
    }
    if count == 0 {
        return Err(anyhow!(
            "{name} holds no scores: `spanscore score --format jsonl -o {name} ...` writes them"
        ));
    }
    Ok(())
}
