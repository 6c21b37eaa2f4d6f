//! Rows of evaluations: the parts of a record that report formats and a baseline use.

mod name;

use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::path::Path;

use anyhow::{Context, anyhow};
use parking_lot::Mutex;

use self::name::RunName;
use spanscore_base::model::{Evaluation, GivenVerdict, shown_share};
use spanscore_base::value::{Value, json};
use spanscore_emit::record;
use spanscore_engine::batch::BatchOrder;
use spanscore_engine::batch::spool::{MEMORY_BYTES_MAX, Spool, SpoolPlace};

/// One evaluation, read from its record.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::cli) struct ScoreRow {
    pub(in crate::cli) id: String,
    /// Id of the evaluation that it replaces.
    pub(in crate::cli) revises: Option<String>,
    pub(in crate::cli) trace_id: String,
    pub(in crate::cli) span_id: Option<String>,
    pub(in crate::cli) evaluator: String,
    pub(in crate::cli) evaluator_version: String,
    /// `call`, `trace` or `session`.
    pub(in crate::cli) level: String,
    pub(in crate::cli) case: Option<String>,
    /// Name of the run in all reports: the case of its trace, numbered from the second run on.
    pub(in crate::cli) run: Option<String>,
    /// Time from the first start to the last end of the run's spans.
    pub(in crate::cli) seconds: f64,
    /// `scored`, `not_evaluable` or `failed`.
    pub(in crate::cli) outcome: String,
    pub(in crate::cli) score: Option<f64>,
    pub(in crate::cli) label: Option<String>,
    pub(in crate::cli) threshold: f64,
    /// Explanation; without a score after the reason or error.
    pub(in crate::cli) words: String,
    pub(in crate::cli) details: Value<'static>,
}

impl ScoreRow {
    /// Parses a record; `None` if the line is not one.
    pub(in crate::cli) fn read(line: &str) -> Option<Self> {
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
            id: text("evaluation_id").unwrap_or_default(),
            revises: text("revises"),
            trace_id: text("trace_id")?,
            span_id: text("span_id"),
            evaluator: text("evaluator")?,
            evaluator_version: text("evaluator_version").unwrap_or_default(),
            level: text("level").unwrap_or_default(),
            case: text("case"),
            run: text("run"),
            seconds: number("run_seconds").unwrap_or_default(),
            score: number("score"),
            label: text("label"),
            threshold: number("threshold").unwrap_or_default(),
            words,
            details: record.get("details").cloned().unwrap_or_default().into_owned(),
            outcome,
        })
    }

    /// Returns the verdict.
    pub(in crate::cli) fn verdict(&self) -> GivenVerdict {
        GivenVerdict::of(&self.outcome, self.label.as_deref())
    }

    /// Formats the score with three digits, or as `-`.
    pub(in crate::cli) fn value(&self) -> String {
        self.score.map_or_else(|| "-".to_owned(), |score| shown_share(score, 3))
    }

    /// Formats the subject for people: the name of the run, else the trace; with the span of a
    /// single call.
    pub(in crate::cli) fn subject(&self) -> String {
        let subject = self.run.as_ref().or(self.case.as_ref()).unwrap_or(&self.trace_id);
        match &self.span_id {
            Some(span_id) if self.level == "call" => format!("{subject} {span_id}"),
            _ => subject.clone(),
        }
    }
}

/// Size of a block of records that is written and read at once, bytes.
const BLOCK_BYTES: usize = 1 << 20;

/// Bit set of verdicts: the wanted ones, or those among the records of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct VerdictSet(u8);

impl VerdictSet {
    pub(super) const FAILS: Self =
        Self(Self::of(GivenVerdict::Fail).0 | Self::of(GivenVerdict::Failed).0);
    pub(super) const NOT_EVALUABLE: Self = Self::of(GivenVerdict::NotEvaluable);
    const ALL: Self = Self(u8::MAX);

    const fn of(verdict: GivenVerdict) -> Self {
        Self(1 << verdict as u8)
    }

    fn has_any(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// Position of the records of one trace or session, with their verdicts.
#[derive(Clone, Debug)]
pub(super) struct RowPlace {
    order: BatchOrder,
    place: SpoolPlace,
    verdicts: VerdictSet,
    name: RunName,
}

/// Spool of records, written by any thread; in memory while it is small.
pub(super) struct RowSpool {
    spool: Mutex<Spool>,
    /// Names of the evaluators, in the order of the config.
    evaluators: Vec<String>,
}

impl RowSpool {
    pub(super) fn new(evaluators: Vec<String>) -> Self {
        Self { spool: Mutex::new(Spool::new(MEMORY_BYTES_MAX)), evaluators }
    }

    /// Writes the records of some traces or sessions contiguously.
    pub(super) fn write<'e>(
        &self,
        groups: impl Iterator<Item = (BatchOrder, &'e [Evaluation])>,
    ) -> io::Result<Vec<RowPlace>> {
        let mut places = Vec::new();
        let mut text = String::new();
        let mut written = 0;
        for (order, evaluations) in groups {
            let start = text.len();
            let mut verdicts = VerdictSet::default();
            let name = RunName::of(evaluations, &self.evaluators);
            for evaluation in evaluations {
                record::write(evaluation, true, &mut text);
                name.begin(evaluation, &mut text);
                verdicts.0 |= VerdictSet::of(evaluation.verdict()).0;
            }
            let len = u32::try_from(text.len() - start).map_err(|_| ErrorKind::FileTooLarge)?;
            let place = SpoolPlace { offset: start as u64, len };
            places.push(RowPlace { order, place, verdicts, name });
            if text.len() >= BLOCK_BYTES {
                self.push(&mut text, &mut places[written..])?;
                written = places.len();
            }
        }
        self.push(&mut text, &mut places[written..])?;
        Ok(places)
    }

    /// Writes a block, and converts positions within it to positions in the spool.
    fn push(&self, text: &mut String, places: &mut [RowPlace]) -> io::Result<()> {
        let mut spool = self.spool.lock();
        let start = spool.push(text.as_bytes())?.offset;
        places.iter_mut().for_each(|row| row.place.offset += start);
        text.clear();
        Ok(())
    }

    /// Ends the writing; returns all rows in order.
    pub(super) fn finish(self, mut places: Vec<RowPlace>) -> io::Result<ScoreRows> {
        let mut spool = self.spool.into_inner();
        spool.finish()?;
        // Stable: records of a trace that was judged twice keep the order of judging.
        places.sort_by_key(|row| row.order);
        name::number(places.iter_mut().map(|row| (row.order, &mut row.name)));
        Ok(ScoreRows { spool, places })
    }
}

/// All rows, in order.
pub(super) struct ScoreRows {
    spool: Spool,
    places: Vec<RowPlace>,
}

impl ScoreRows {
    /// Returns true if a case was run more than once.
    pub(super) fn has_repeated_cases(&self) -> bool {
        self.places.iter().any(|row| row.name.is_again())
    }

    /// Visits the lines of all records, grouped by trace or session.
    pub(super) fn lines(
        &self,
        visit: impl FnMut(&str) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        self.blocks(VerdictSet::ALL, visit)
    }

    /// Visits the lines of traces and sessions with a wanted verdict, reading only blocks that
    /// contain one.
    fn blocks(
        &self,
        wanted: VerdictSet,
        mut visit: impl FnMut(&str) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut bytes = Vec::new();
        let mut named = String::new();
        let mut rest = self.places.as_slice();
        while let Some(first) = rest.first() {
            let SpoolPlace { offset, mut len } = first.place;
            let after = rest.iter().skip(1).take_while(|next| {
                let joins = next.place.offset == offset + u64::from(len)
                    && (len as usize).saturating_add(next.place.len as usize) <= BLOCK_BYTES;
                len += if joins { next.place.len } else { 0 };
                joins
            });
            let (block, more) = rest.split_at(1 + after.count());
            rest = more;
            if block.iter().any(|row| row.verdicts.has_any(wanted)) {
                bytes.clear();
                let read = self.spool.read(SpoolPlace { offset, len }, &mut bytes);
                read.context("cannot read a temporary file")?;
                let text = std::str::from_utf8(&bytes)?;
                named.clear();
                for row in block.iter().filter(|row| row.verdicts.has_any(wanted)) {
                    let at = (row.place.offset - offset) as usize;
                    let lines = text.get(at..at + row.place.len as usize).unwrap_or_default();
                    row.name.finish(lines, &mut named);
                }
                visit(&named)?;
            }
        }
        Ok(())
    }

    /// Visits all rows.
    pub(super) fn for_each(
        &self,
        mut visit: impl FnMut(ScoreRow) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        self.lines(|lines| lines.lines().filter_map(ScoreRow::read).try_for_each(&mut visit))
    }

    /// Visits the rows with these verdicts.
    pub(super) fn of_verdict(
        &self,
        wanted: VerdictSet,
        mut visit: impl FnMut(ScoreRow) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        self.blocks(wanted, |lines| {
            let rows = lines.lines().filter_map(ScoreRow::read);
            rows.filter(|row| VerdictSet::of(row.verdict()).has_any(wanted))
                .try_for_each(&mut visit)
        })
    }

    /// Visits the rows of one evaluator, skipping lines of others unparsed.
    pub(super) fn of_evaluator(
        &self,
        name: &str,
        mut visit: impl FnMut(ScoreRow) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mark = record::evaluator_mark(name);
        let mark = memchr::memmem::Finder::new(mark.as_bytes());
        self.lines(|lines| {
            let own = lines.lines().filter(|line| mark.find(line.as_bytes()).is_some());
            let mut rows = own.filter_map(ScoreRow::read).filter(|row| row.evaluator == name);
            rows.try_for_each(&mut visit)
        })
    }
}

/// Longest line of a baseline, bytes: one record with long details.
const LINE_BYTES_MAX: u64 = 64 << 20;

/// Visits the rows of a file written by `--format jsonl`.
pub(in crate::cli) fn read_baseline(
    path: &Path,
    mut visit: impl FnMut(ScoreRow),
) -> anyhow::Result<()> {
    let name = path.display();
    let file = File::open(path).with_context(|| format!("cannot read {name}"))?;
    let mut reader = BufReader::new(file);
    let mut line = String::new();
    let mut count = 0;
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
            let help =
                if ["\"resourceSpans\"", "\"resourceLogs\""].iter().any(|it| line.contains(it)) {
                    " but a recording: it writes the scores of one with `-o scores.jsonl`"
                } else {
                    ""
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
