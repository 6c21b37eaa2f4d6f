//! Evaluators that fit recorded runs: applicable ones, and limits that these runs keep.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::cli::inspect::suggest::Suggested;
use crate::cli::learn::{GoldenCase, calls};
use crate::cli::{CommandError, misused, output, recorded};
use crate::config::{self, ConfigPart, ResolvedConfig};
use spanscore_base::model::{Facts, Trajectory, Want};
use spanscore_base::value::Value;
use spanscore_base::visible;
use spanscore_engine::replay::Replay;
use spanscore_evaluate::engine::run::{Against, Configured};
use spanscore_evaluate::{KINDS, Kind};

/// Limit on tools with proposed call limits.
const TOOLS_MAX: usize = 50;

/// Proposed evaluators and dialects of some recordings.
pub(super) struct Proposal {
    dialects: Option<String>,
    trials: Vec<Trial>,
    seen: GoldenCase,
    /// True if a part of the recordings could not be read.
    pub(super) is_broken: bool,
}

/// Kind without settings, and its verdicts on the runs.
struct Trial {
    kind: &'static Kind,
    evaluator: Configured,
    scored: usize,
    passed: usize,
    /// Explanation of the first run that it could not judge.
    lacks: Option<String>,
}

impl Proposal {
    /// Judges the runs of some files by every kind without required settings.
    pub(super) fn new(plan: &ResolvedConfig, files: &[PathBuf]) -> Result<Self, CommandError> {
        if files.iter().any(|file| file == Path::new("-")) {
            return misused("--from reads a recording twice: name a file instead of `-`");
        }
        let suggested = Suggested::new(plan, files)?;
        let resolver = recorded::resolver_of(suggested.dialects()?, &Facts::all())?;
        let mut replay = Replay::new(&resolver, plan.config.limits, plan.config.sessions.key);
        for path in files {
            // Unreadable parts were reported by the search for dialects.
            for (signal, body) in spanscore_recordings::read_requests(path).flatten() {
                let _ = replay.add(signal, &body);
            }
        }
        let mut trials: Vec<Trial> = KINDS.iter().filter_map(|kind| Trial::new(kind)).collect();
        let mut seen = GoldenCase::default();
        let broken = replay.for_each_unbroken(|trajectory| {
            seen.add(calls(trajectory));
            trials.iter_mut().for_each(|trial| trial.add(trajectory));
        });
        for trace in broken {
            output::note(format_args!("spanscore: run {trace} is left out: its root span failed"));
        }
        if seen.runs == 0 {
            let told = "no run to learn from: `spanscore inspect --explain` shows what is there";
            return Err(CommandError::Runtime(anyhow::anyhow!(told)));
        }
        let dialects = (!suggested.text.is_empty()).then_some(suggested.text);
        Ok(Self { dialects, trials, seen, is_broken: suggested.is_broken })
    }
}

impl Trial {
    /// Returns a trial of a kind that needs no settings and asks no judge.
    fn new(kind: &'static Kind) -> Option<Self> {
        if kind.needs_criteria {
            return None;
        }
        let text = format!("evaluators: {{{}: }}", kind.name);
        let part = ConfigPart::Text { name: kind.name.to_owned(), text };
        let loaded = config::load(&[part], &|_| None).ok()?;
        let evaluator = ResolvedConfig::new(&loaded).ok()?.evaluators.pop()?;
        (!evaluator.asks).then_some(Self { kind, evaluator, scored: 0, passed: 0, lacks: None })
    }

    fn add(&mut self, trajectory: &Trajectory<'_>) {
        let Against::Settings(evaluator) = &self.evaluator.against else { return };
        let Some(code) = evaluator.as_code() else { return };
        let outcome = code.evaluate(trajectory, Want::ALL);
        if let Some(score) = outcome.score() {
            self.scored += 1;
            self.passed += usize::from(score.value >= self.evaluator.info.threshold);
        } else {
            self.lacks.get_or_insert_with(|| outcome.words().to_owned());
        }
    }
}

impl fmt::Display for Proposal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs = self.seen.runs;
        if let Some(dialects) = &self.dialects {
            writeln!(f, "\n# A guess, from the words of keys and what values look like: mend it.")?;
            f.write_str(dialects)?;
        }
        writeln!(f, "\n# Each was tried on {runs} recorded {}.\nevaluators:", noun(runs))?;
        for trial in self.trials.iter().filter(|trial| trial.scored > 0) {
            comment(f, trial.kind.about)?;
            writeln!(f, "  # Here {} of {} passed.", trial.passed, trial.scored)?;
            writeln!(f, "  {}:", trial.kind.name)?;
        }
        self.limits(f)?;
        for trial in self.trials.iter().filter(|trial| trial.scored == 0) {
            f.write_str("\n")?;
            comment(f, trial.kind.about)?;
            comment(f, &format!("Here it judged none: {}", trial.lacks.as_deref().unwrap_or("-")))?;
            writeln!(f, "  # {}:", trial.kind.name)?;
        }
        writeln!(
            f,
            "\n# Expectations for each case, with arguments and order, from good runs:\n\
             #   spanscore learn -o golden.jsonl RUNS"
        )
    }
}

impl Proposal {
    /// Writes the greatest number of calls of each tool in a run.
    fn limits(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut most = self.seen.most_calls().take(TOOLS_MAX).peekable();
        if most.peek().is_none() {
            return Ok(());
        }
        f.write_str("  # At most as many calls of each tool as a recorded run made.\n")?;
        f.write_str("  tool_call_count/seen:\n    criteria:\n      tool_calls_count:\n")?;
        for (tool, most) in most {
            // JSON text is valid YAML.
            let tool = visible::json(Value::from(tool)).to_string();
            writeln!(f, "        {tool}: [\"<=\", {most}]")?;
        }
        Ok(())
    }
}

fn noun(runs: usize) -> &'static str {
    if runs == 1 { "run" } else { "runs" }
}

/// Widest line of a comment, characters.
const WIDTH: usize = 100;

/// Writes a text as a comment inside of `evaluators:`, wrapped to the width.
fn comment(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    let text = visible::line(text).to_string();
    let mut line = String::from("  #");
    for word in text.split_whitespace() {
        if line.chars().count() + word.chars().count() >= WIDTH {
            writeln!(f, "{line}")?;
            line.replace_range(3.., "");
        }
        line.push(' ');
        line.push_str(word);
    }
    writeln!(f, "{line}")
}
