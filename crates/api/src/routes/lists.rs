//! Lists of runs, evaluations, sessions and calls, and one run.

use serde::Serialize;

use spanscore_store::query::{StoredPage, StoredTrajectory};

use super::RouteQuery;
use crate::problem::ApiProblem;
use crate::readers::answer;

/// Page of a list with its cursor.
#[derive(Serialize)]
struct ListAnswer<T> {
    #[serde(flatten)]
    page: StoredPage<T>,
    next: Option<String>,
    sampled: bool,
}

/// Run with a sentence on its completion.
#[derive(Serialize)]
struct RunAnswer {
    #[serde(flatten)]
    run: StoredTrajectory,
    completion_sentence: &'static str,
    /// URL in the backend with its spans.
    trace_url: Option<String>,
}

impl RouteQuery<'_> {
    pub(super) fn page<T: Serialize>(&self, page: StoredPage<T>) -> Result<Vec<u8>, ApiProblem> {
        let losses = self.reader.losses()?;
        let sampled = losses.shed_evaluations + losses.shed_trajectories > 0;
        let next = page.next.map(|place| self.question.cursor(place));
        answer(&ListAnswer { page, next, sampled })
    }
}

pub(super) fn traces(asking: &RouteQuery<'_>) -> Result<Vec<u8>, ApiProblem> {
    let it = asking.question;
    asking.page(asking.reader.runs(&it.filter, it.order, it.after, it.limit)?)
}

pub(super) fn evaluations(asking: &RouteQuery<'_>) -> Result<Vec<u8>, ApiProblem> {
    let it = asking.question;
    asking.page(asking.reader.evaluation_page(&it.filter, it.after, it.limit)?)
}

pub(super) fn sessions(asking: &RouteQuery<'_>) -> Result<Vec<u8>, ApiProblem> {
    let it = asking.question;
    asking.page(asking.reader.sessions(&it.filter, it.after, it.limit)?)
}

pub(super) fn calls(asking: &RouteQuery<'_>) -> Result<Vec<u8>, ApiProblem> {
    let it = asking.question;
    asking.page(asking.reader.call_page(&it.filter, it.after, it.limit)?)
}

pub(super) fn trace(asking: &RouteQuery<'_>) -> Result<Vec<u8>, ApiProblem> {
    let run = asking.reader.trajectory(asking.question.named())?;
    let completion_sentence = sentence(&run);
    let trace_url = asking.trace_link.map(|link| link.of(&run.trace_id));
    answer(&RunAnswer { run, completion_sentence, trace_url })
}

/// Returns a sentence on the completion for a person.
fn sentence(run: &StoredTrajectory) -> &'static str {
    match run.completion.as_str() {
        _ if run.revision.is_none() && run.evaluations.iter().any(|it| it.client.is_some()) => {
            "Judged by another process: its calls are not here, only the verdicts on it."
        }
        _ if run.revision.is_none() => {
            "Not complete yet: a verdict came before the end, and the run is still awaited."
        }
        "root_ended" => "Complete: its root ended, and nothing came for the quiet period.",
        "idle" => {
            "Taken as complete: its root has not ended, and nothing came for the idle timeout."
        }
        "age_max" => "Judged as far as it came: it was open longer than the maximum age.",
        "shutdown" => "Judged as far as it came: the collector was stopped.",
        "evicted" => "Judged as far as it came: a limit of memory or size pushed it out.",
        "end_of_input" => "Complete: the files that it was read from ended.",
        _ => "Not complete: the verdict holds whatever still comes.",
    }
}
