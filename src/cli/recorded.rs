//! Reading of recorded requests, for commands that show files.

use std::fmt::Display;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::{CommandError, output};
use crate::cli::output::progress::Progress;
use crate::config::{Config, ResolvedConfig};
use spanscore_assemble::CutTrace;
use spanscore_base::model::{Facts, Want};
use spanscore_base::otlp::Signal;
use spanscore_base::visible;
use spanscore_engine::batch::{BatchPlan, BatchProgress};
use spanscore_engine::replay::Replay;
use spanscore_evaluate::engine::run::{Configured, Evaluators};
use spanscore_extract::dialect::Dialect;
use spanscore_extract::{Resolver, Table};
use spanscore_net::clock::now_ns;
use spanscore_recordings::read_requests;

/// Compiles the dialects of a plan for the given facts.
pub(super) fn resolver(plan: &ResolvedConfig, facts: &Facts) -> Result<Resolver, CommandError> {
    resolver_of(plan.config.dialects.clone(), facts)
}

/// Compiles the dialects of a config and the built-in ones, for the given facts.
pub(super) fn resolver_of(own: Vec<Dialect>, facts: &Facts) -> Result<Resolver, CommandError> {
    let dialects = Dialect::with_builtin(own);
    let table = Table::compile(dialects, facts).map_err(anyhow::Error::new)?;
    Ok(Resolver::new(Arc::new(table)))
}

/// Returns the facts that the evaluators of a plan read.
pub(super) fn facts(plan: &ResolvedConfig) -> Facts {
    facts_of(&plan.evaluators)
}

/// Returns the facts that these evaluators read.
pub(super) fn facts_of(evaluators: &[Configured]) -> Facts {
    evaluators.iter().fold(Facts::default(), |facts, e| facts.union(&e.facts()))
}

/// Builds the evaluators of a plan, with explanations and details.
pub(super) fn judge(evaluators: Vec<Configured>) -> Evaluators {
    Evaluators::new(evaluators, Want::ALL)
}

/// Returns the plan to judge files with these evaluators, on all cores.
pub(super) fn batch_plan<'a>(
    config: &Config,
    resolver: &'a Resolver,
    evaluators: &'a Evaluators,
) -> BatchPlan<'a> {
    BatchPlan {
        resolver,
        limits: config.limits,
        session_key: config.sessions.key,
        evaluators,
        now_ns: now_ns(),
        cores: std::thread::available_parallelism().map_or(1, usize::from),
    }
}

/// Reads every file into a replay. Unreadable parts, and records beyond a limit of a trace, are
/// reported on standard error with file and line, and reading continues; returns true if there were
/// any.
///
/// # Errors
/// Files that together hold more than `limits.memory_mib`.
pub(super) fn read(replay: &mut Replay<'_>, files: &[PathBuf]) -> Result<bool, CommandError> {
    read_with(replay, files, |_, _| {})
}

/// Reads every file like [`read`]; `visit` receives each readable request.
pub(super) fn read_with(
    replay: &mut Replay<'_>,
    files: &[PathBuf],
    mut visit: impl FnMut(Signal, &[u8]),
) -> Result<bool, CommandError> {
    let progress = BatchProgress::default();
    Progress::show(files, &progress, || read_counted(replay, files, &mut visit, &progress))
}

fn read_counted(
    replay: &mut Replay<'_>,
    files: &[PathBuf],
    visit: &mut dyn FnMut(Signal, &[u8]),
    progress: &BatchProgress,
) -> Result<bool, CommandError> {
    let mut unread = UnreadNotes::default();
    let mut requests_read = 0;
    let mut read_before = 0;
    for path in files {
        let mut requests = read_requests(path);
        let mut index = 0;
        while let Some(request) = requests.next() {
            progress.read.store(read_before + requests.bytes_read(), Relaxed);
            index += 1;
            let place = || format!("{} request {index}", path.display());
            let problem = match request {
                Err(error) => Some(error.to_string()),
                Ok((signal, body)) => {
                    visit(signal, &body);
                    match replay.add(signal, &body) {
                        Err(error) => Some(format!("{}: {error}", place())),
                        Ok(extracted) if extracted.rejected_total() > 0 => {
                            Some(format!("{}: {}", place(), extracted.message()))
                        }
                        Ok(_) => None,
                    }
                }
            };
            if let Some(problem) = problem {
                unread.note(problem);
            }
            if replay.is_full() {
                return Err(too_much(&place()));
            }
        }
        read_before += requests.bytes_read();
        requests_read += index;
    }
    if requests_read == 0 {
        output::note("spanscore: what was read is empty");
    }
    let is_broken = unread.finish();
    Ok(report_cut_traces(replay.cut_traces()) || is_broken)
}

/// Limit on unreadable parts reported one by one.
const UNREAD_NOTES_MAX: usize = 20;

/// Notes on unreadable parts of files: the first few, then a number.
#[derive(Default)]
pub(super) struct UnreadNotes {
    count: usize,
}

impl UnreadNotes {
    pub(super) fn note(&mut self, problem: impl Display) {
        self.count += 1;
        if self.count <= UNREAD_NOTES_MAX {
            output::note(format_args!("spanscore: {}", visible::line(problem)));
        }
    }

    /// Reports the number of the others; returns false if there were none at all.
    pub(super) fn finish(&self) -> bool {
        let hidden = self.count.saturating_sub(UNREAD_NOTES_MAX);
        if hidden > 0 {
            output::note(format_args!("spanscore: {hidden} more parts could not be read"));
        }
        self.count > 0
    }
}

/// Builds the error for files beyond `limits.memory_mib`.
fn too_much(place: &str) -> CommandError {
    CommandError::Runtime(anyhow::anyhow!(
        "the files up to {} need more memory than `limits.memory_mib`: name fewer \
         files, or raise it, such as with --set limits.memory_mib=4096 (`spanscore \
         score` has no such limit)",
        visible::line(place)
    ))
}

/// Limit on traces named one by one.
const NAMED_TRACES_MAX: usize = 20;

/// Reports the traces cut by a limit; returns false if there are none.
pub(super) fn report_cut_traces(traces: impl Iterator<Item = CutTrace>) -> bool {
    let mut count = 0;
    for cut in traces {
        count += 1;
        if count > NAMED_TRACES_MAX {
            continue;
        }
        output::note(format_args!(
            "spanscore: trace {}: {} of {} spans and log events are left out; \
             to judge it whole, raise `limits.{}`",
            cut.trace_id,
            cut.left_out,
            cut.left_out.saturating_add(cut.kept as u64),
            cut.limit.setting()
        ));
    }
    if count > 0 {
        let (noun, verb) = if count == 1 { ("trace", "is") } else { ("traces", "are") };
        output::note(format_args!(
            "spanscore: {count} {noun} beyond a limit {verb} judged with what was kept"
        ));
    }
    count > 0
}
