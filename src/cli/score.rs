//! `spanscore score`: judges recorded traces; the gate of a CI run.

mod silence;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use comfy_table::Table;

use self::silence::Silence;
use super::judged::{self, RepliesArgs};
use super::source::ConfigArgs;
use super::{CommandError, Exit, output, recorded};
use crate::emit::{details, record};
use crate::model::{Evaluation, Label, Outcome};
use crate::pipeline::replay::Replay;
use crate::visible;

/// Judges recorded traces and prints the scores
///
/// Reads OTLP/JSON (one request, or one per line) and binary protobuf requests, plain, gzip or
/// zstd. Traces that are spread over several files are put together. Evaluators come from the
/// config, as in `serve`; its receivers and exporters are not used.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  spanscore score examples/traces/refund_agent.json
  spanscore score --config eval.yaml --format jsonl run/*.json > scores.jsonl
  cat traces.jsonl | spanscore score --fail-on fail,failed,not_evaluable -
  spanscore score --config eval.yaml --fail-on fail,unused_case,unused_evaluator run/*.json

What was not judged is said below the scores (with --format jsonl on standard error): evaluators
that gave no answer, cases of a dataset that no trace named, traces without an agent.

Exit code 2 when an evaluation did what --fail-on names, else 1 when not everything could be read or
a trace is over a limit.")]
pub(super) struct ScoreArgs {
    /// Files to read; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    config: ConfigArgs,
    /// How scores are printed
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// After the table, for each score what it came from: expected and actual calls beside each
    /// other
    #[arg(long)]
    details: bool,
    #[command(flatten)]
    replies: RepliesArgs,
    /// What shuts the gate
    #[arg(long, value_enum, value_delimiter = ',', value_name = "OUTCOME",
          default_values_t = [FailOn::Fail, FailOn::Failed, FailOn::Nothing])]
    fail_on: Vec<FailOn>,
}

/// How a command prints.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub(super) enum Format {
    /// For people
    #[default]
    Table,
    /// One JSON object a line
    Jsonl,
}

/// What shuts the gate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
#[value(rename_all = "snake_case")]
enum FailOn {
    /// A score below its threshold
    Fail,
    /// An evaluator that broke
    Failed,
    /// A trace that could not be judged
    NotEvaluable,
    /// No evaluation at all, so that an empty recording is no success
    Nothing,
    /// An evaluator that gave no answer: its `when` selected no trace
    UnusedEvaluator,
    /// A case of a dataset that no trace named
    UnusedCase,
    /// A trace without a span of a tool, an agent or a model
    NoAgent,
    /// A trace that certainly lacks something, such as a span whose children are there
    Partial,
    /// The gate stays open whatever comes
    Never,
}

pub(super) fn run(args: &ScoreArgs) -> Result<Exit, CommandError> {
    let plan = args.config.plan()?;
    let (limits, session_key) = (plan.config.limits, plan.config.sessions.key);
    let facts = recorded::facts(&plan);
    let resolver = recorded::resolver(&plan, &facts)?;
    let judges = plan.config.judges;
    let evaluators = recorded::judge(plan.evaluators);
    let mut replay = Replay::new(&resolver, limits, session_key);
    let is_broken = recorded::read(&mut replay, &args.files);
    let mut printer = ScorePrinter::new(args.format, args.details);
    let mut judgement = replay.judge(&evaluators, recorded::now_ns());
    let (places, asked) = judgement.take_asked();
    let answers = judged::ask(&judges, &args.replies, asked)?;
    judgement.put(places.into_iter().zip(answers).collect());
    for evaluation in &judgement.evaluations {
        printer.take(evaluation)?;
    }
    let silence = Silence::of(&evaluators, &judgement);
    let tally = printer.finish(&silence)?;
    let is_shut = tally.shuts(&args.fail_on, &silence);
    // That nothing was judged says little where not everything could be read.
    Ok(if is_broken && (!is_shut || tally.count() == 0) {
        Exit::Failure
    } else if is_shut {
        Exit::Gate
    } else {
        Exit::Success
    })
}

/// Prints evaluations as they come, or together in the end.
struct ScorePrinter {
    table: Option<Table>,
    /// What follows the table, where it is asked for.
    details: Option<String>,
    tally: OutcomeTally,
}

/// How many evaluations came out how.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct OutcomeTally {
    pass: usize,
    fail: usize,
    not_evaluable: usize,
    failed: usize,
    /// Of all, those of traces that certainly lacked something.
    partial: usize,
}

impl ScorePrinter {
    fn new(format: Format, details: bool) -> Self {
        let header = ["TRACE", "EVALUATOR", "SCORE", "LABEL", "EXPLANATION"];
        let table = (format == Format::Table).then(|| output::table(header));
        let details = details.then(String::new);
        Self { table, details, tally: OutcomeTally::default() }
    }

    fn take(&mut self, evaluation: &Evaluation) -> Result<(), CommandError> {
        self.tally.add(evaluation);
        match &mut self.table {
            Some(table) => {
                table.add_row(row(evaluation).map(|cell| visible::line(cell).to_string()));
                if let Some(details) = &mut self.details {
                    write_details(evaluation, details);
                }
                Ok(())
            }
            None => {
                let mut record = String::new();
                record::write_line(evaluation, true, &mut record);
                output::text(&record)
            }
        }
    }

    /// Prints what is left, and what was not judged: as records do not say that, beside them.
    fn finish(self, silence: &Silence) -> Result<OutcomeTally, CommandError> {
        if let Some(table) = &self.table {
            if self.tally.count() > 0 {
                output::line(table.trim_fmt())?;
            }
            if let Some(details) = self.details.filter(|details| !details.is_empty()) {
                output::line(format_args!("\n{details}"))?;
            }
            output::line(self.tally.sentence())?;
        }
        for line in silence.lines() {
            let line = visible::line(line);
            if self.table.is_some() {
                output::line(line)?;
            } else {
                output::note(format_args!("spanscore: {line}"));
            }
        }
        Ok(self.tally)
    }
}

/// Appends what a score came from, below a head.
fn write_details(evaluation: &Evaluation, out: &mut String) {
    let Outcome::Scored(score) = &evaluation.outcome else { return };
    let [trace, evaluator, value, label, _] = row(evaluation);
    let head = format!("{trace}  {evaluator}  {value} {label}");
    out.push_str(&format!("{}\n", visible::line(head)));
    details::write_text(&score.details, 2, out);
}

/// Hexadecimal digits of a trace id that are shown in a table.
const TRACE_DIGITS: usize = 8;

fn row(evaluation: &Evaluation) -> [String; 5] {
    let trace: String = evaluation.target.trace_id.to_string().chars().take(TRACE_DIGITS).collect();
    let (score, label, words) = match &evaluation.outcome {
        Outcome::Scored(score) => {
            let label = evaluation.label().map_or("", Label::as_str);
            (format!("{:.3}", score.value), label, score.explanation.to_string())
        }
        Outcome::NotEvaluable { reason, explanation } => {
            let words = format!("{}: {explanation}", reason.as_str());
            ("-".to_owned(), "not evaluable", words)
        }
        Outcome::Failed { error_type, error } => {
            ("-".to_owned(), "failed", format!("{error_type}: {error}"))
        }
    };
    [trace, evaluation.evaluator.name.clone(), score, label.to_owned(), words]
}

impl OutcomeTally {
    fn add(&mut self, evaluation: &Evaluation) {
        self.partial += usize::from(evaluation.target.is_partial);
        match (&evaluation.outcome, evaluation.label()) {
            (Outcome::NotEvaluable { .. }, _) => self.not_evaluable += 1,
            (Outcome::Failed { .. }, _) => self.failed += 1,
            (Outcome::Scored(_), Some(Label::Pass)) => self.pass += 1,
            (Outcome::Scored(_), _) => self.fail += 1,
        }
    }

    fn count(self) -> usize {
        self.pass + self.fail + self.not_evaluable + self.failed
    }

    fn shuts(self, fail_on: &[FailOn], silence: &Silence) -> bool {
        let happened = |what: &FailOn| match what {
            FailOn::Fail => self.fail > 0,
            FailOn::Failed => self.failed > 0,
            FailOn::NotEvaluable => self.not_evaluable > 0,
            FailOn::Nothing => self.count() == 0,
            FailOn::UnusedEvaluator => !silence.evaluators.is_empty(),
            FailOn::UnusedCase => !silence.cases.is_empty(),
            FailOn::NoAgent => !silence.traces.is_empty(),
            FailOn::Partial => self.partial > 0,
            FailOn::Never => false,
        };
        !fail_on.contains(&FailOn::Never) && fail_on.iter().any(happened)
    }

    fn sentence(self) -> String {
        if self.count() == 0 {
            return "nothing was judged: no trace that any evaluator sees".to_owned();
        }
        let plural = if self.count() == 1 { "" } else { "s" };
        let partial = match self.partial {
            0 => String::new(),
            count => format!("; {count} of traces that lack something"),
        };
        format!(
            "{} evaluation{plural}: {} pass, {} fail, {} not evaluable, {} failed{partial}",
            self.count(),
            self.pass,
            self.fail,
            self.not_evaluable,
            self.failed
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(tally: OutcomeTally, fail_on: &[FailOn], shuts: bool) {
        assert_eq!(tally.shuts(fail_on, &Silence::default()), shuts, "{tally:?} {fail_on:?}");
    }

    #[test]
    fn the_gate_shuts_for_what_is_named() {
        let none = OutcomeTally::default();
        let mixed = OutcomeTally { pass: 3, fail: 1, ..none };
        let blind = OutcomeTally { pass: 1, not_evaluable: 2, ..none };
        let usual = [FailOn::Fail, FailOn::Failed, FailOn::Nothing];
        check(mixed, &usual, true);
        check(blind, &usual, false);
        check(none, &usual, true);
        check(OutcomeTally { failed: 1, ..none }, &usual, true);
        check(blind, &[FailOn::NotEvaluable], true);
        check(mixed, &[FailOn::Failed], false);
        check(mixed, &[FailOn::Fail, FailOn::Never], false);
        let silent = Silence { cases: vec!["x".to_owned()], ..Silence::default() };
        assert!(mixed.shuts(&[FailOn::UnusedCase], &silent));
        assert!(!mixed.shuts(&[FailOn::UnusedEvaluator, FailOn::NoAgent], &silent));
    }
}
