//! Side of a comparison from a score file: JSON Lines of `score` or the file exporter.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use hashbrown::{HashMap, HashSet};

use crate::cli::output;
use crate::cli::score::rows::{ScoreRow, read_baseline};
use spanscore_base::model::GivenVerdict;
use spanscore_store::query::{CaseFigures, ComparedSide, StoredGroup};

/// Limit on revisions in a file, and on traces with a case.
const MARKS_MAX: usize = 1_000_000;
/// Limit on pairs of a case and an evaluator, and of a trace without a case and an evaluator.
const CASES_MAX: usize = 200_000;
/// Limit on evaluators, counting each version.
const EVALUATORS_MAX: usize = 10_000;

/// Reads a score file.
pub(super) fn side(path: &Path) -> anyhow::Result<ComparedSide> {
    let mut marks = FileMarks::default();
    read_baseline(path, |row| marks.add(row))?;
    if marks.revised.len() >= MARKS_MAX || marks.cases.len() >= MARKS_MAX {
        let name = path.display();
        anyhow::bail!("{name} holds over {MARKS_MAX} revisions or named traces: split it");
    }
    let mut figures = FileFigures::default();
    read_baseline(path, |row| figures.add(row, &marks))?;
    if figures.versions.len() >= EVALUATORS_MAX {
        let name = path.display();
        anyhow::bail!("{name} holds over {EVALUATORS_MAX} evaluators and versions: split it");
    }
    let left_out = figures.left_out;
    if left_out > 0 {
        output::note(format_args!(
            "spanscore: {left_out} rows of {} are not compared one by one: over {CASES_MAX} cases \
             or traces",
            path.display()
        ));
    }
    Ok(figures.finish())
}

/// Facts of a file that later rows add about earlier ones.
#[derive(Default)]
struct FileMarks {
    /// Evaluations replaced by later ones.
    revised: HashSet<String>,
    /// Cases by trace, one for all its evaluators: the first by name, as in a store.
    cases: HashMap<String, String>,
}

impl FileMarks {
    fn add(&mut self, row: ScoreRow) {
        if let Some(id) = row.revises
            && self.revised.len() < MARKS_MAX
        {
            self.revised.insert(id);
        }
        let Some(case) = row.case else { return };
        let is_full = self.cases.len() >= MARKS_MAX;
        match self.cases.get_mut(&row.trace_id) {
            Some(known) if case < *known => *known = case,
            Some(_) => {}
            None if is_full => {}
            None => {
                self.cases.insert(row.trace_id, case);
            }
        }
    }
}

/// Totals of a file.
#[derive(Default)]
struct FileFigures {
    /// By evaluator and level; the mean is a sum until the end.
    groups: BTreeMap<[String; 2], StoredGroup>,
    versions: BTreeSet<(String, String)>,
    /// By case and evaluator.
    cases: BTreeMap<[String; 2], CaseFigures>,
    /// By trace and evaluator, for traces without a case.
    traces: BTreeMap<[String; 2], CaseFigures>,
    /// Rows beyond either limit.
    left_out: u64,
}

impl FileFigures {
    fn add(&mut self, row: ScoreRow, marks: &FileMarks) {
        if marks.revised.contains(&row.id) || self.versions.len() >= EVALUATORS_MAX {
            return;
        }
        self.versions.insert((row.evaluator.clone(), row.evaluator_version.clone()));
        let group = self.groups.entry([row.evaluator.clone(), row.level.clone()]).or_default();
        let score = row.score.unwrap_or_default();
        match row.verdict() {
            GivenVerdict::Pass => group.passed += 1,
            GivenVerdict::Fail => group.failed += 1,
            GivenVerdict::NotEvaluable => group.not_evaluable += 1,
            GivenVerdict::Failed => group.broken += 1,
        }
        if matches!(row.verdict(), GivenVerdict::Pass | GivenVerdict::Fail) {
            group.mean = Some(group.mean.unwrap_or_default() + score);
            group.squares += score * score;
            self.add_case(row, marks);
        }
    }

    /// Adds to the case, or to the trace: the same recording may have been judged twice.
    fn add_case(&mut self, row: ScoreRow, marks: &FileMarks) {
        let is_passing = row.verdict() == GivenVerdict::Pass;
        let named = marks.cases.get(&row.trace_id);
        let figures = if named.is_some() { &mut self.cases } else { &mut self.traces };
        let key = [named.unwrap_or(&row.trace_id).clone(), row.evaluator];
        if figures.len() >= CASES_MAX && !figures.contains_key(&key) {
            self.left_out += 1;
            return;
        }
        let figures = figures.entry(key).or_default();
        figures.passed += i64::from(is_passing);
        figures.failed += i64::from(!is_passing);
        if !is_passing {
            figures.failed_trace = Some(row.trace_id);
        }
    }

    fn finish(self) -> ComparedSide {
        let groups = self.groups.into_iter().map(|(keys, group)| {
            let count = (group.passed + group.failed) as f64;
            let mean = group.mean.map(|sum| sum / count);
            StoredGroup { keys: keys.to_vec(), mean, ..group }
        });
        let cases = self.cases.into_iter().chain(self.traces);
        let cases =
            cases.map(|([case, evaluator], figures)| CaseFigures { case, evaluator, ..figures });
        ComparedSide {
            evaluators: groups.collect(),
            versions: self.versions,
            cases: cases.collect(),
            ..ComparedSide::default()
        }
    }
}
