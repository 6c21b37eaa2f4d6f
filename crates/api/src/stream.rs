//! Server-sent events: new runs, evaluations and annotations of the store.
//!
//! A stream follows rows by number, and annotations by time of change. So a returning client
//! resumes, and a slow one misses rows instead of filling memory: a `gap` reports them.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{RawQuery, State};
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode};
use serde::Serialize;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;
use tokio_stream::wrappers::ReceiverStream;

use spanscore_base::model::Sender;
use spanscore_store::StoreCount;
use spanscore_store::query::{EvaluationRow, LastRows, RunRow, StoreFilter, StoredAnnotation};

use crate::problem::ApiProblem;
use crate::question::{ApiQuery, Takes};
use crate::shares::{AskedBy, SharedHold};
use crate::state::{Api, now_ms};

/// Limit on concurrent streams.
pub(crate) const STREAMS_MAX: usize = 64;
/// Limit on missed rows for a resumption without a gap.
pub(crate) const RESUME_MAX: i64 = 1_000;
/// Interval of checks of the store.
const TICK: Duration = Duration::from_secs(1);
/// Limit on runs, evaluations and annotations of one check.
const EVENTS_MAX: usize = 25;
/// Limit on unread events of a client.
const UNREAD_MAX: usize = 64;
/// Age at which the shared last rows are queried again.
const HEAD_AGE_MAX: Duration = Duration::from_millis(500);

/// Parameters of the stream.
pub(crate) const TAKES: Takes = Takes { filter: true, others: &[], groups_max: 0 };

/// Last rows of the store, shared by the streams.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StreamHead {
    rows: Option<(Instant, LastRows)>,
}

/// Answers with a stream.
pub(crate) async fn stream(
    State(api): State<Arc<Api>>,
    RawQuery(query): RawQuery,
    AskedBy(asker): AskedBy,
    headers: HeaderMap,
) -> Response {
    let question = match ApiQuery::read(&query.unwrap_or_default(), TAKES, now_ms()) {
        Ok(question) => question,
        Err(problem) => return api.refuse(problem),
    };
    let Some(place) = api.streams.take(asker, 1) else {
        let text = format!("{STREAMS_MAX} streams are open, or your part of them: close one");
        return api.refuse(ApiProblem::new(StatusCode::TOO_MANY_REQUESTS, "too_busy", text));
    };
    let after = headers.get("last-event-id").and_then(|id| read_id(id.to_str().ok()?));
    let (sender, receiver) = mpsc::channel(UNREAD_MAX);
    let filter = Arc::new(question.filter);
    let follower = StreamFollower { api, filter, sender, asker, _place: place };
    tokio::spawn(follower.run(after));
    Sse::new(ReceiverStream::new(receiver)).into_response()
}

/// Task that feeds one stream.
struct StreamFollower {
    api: Arc<Api>,
    filter: Arc<StoreFilter>,
    sender: mpsc::Sender<Result<Event, Infallible>>,
    /// Peer charged for its queries.
    asker: Sender,
    /// Place of the stream, released at its end.
    _place: SharedHold,
}

/// Rows of one check, and the number of omitted ones.
struct NewRows {
    runs: Vec<(i64, RunRow)>,
    evaluations: Vec<(i64, EvaluationRow)>,
    annotations: Vec<(i64, StoredAnnotation)>,
    missed: MissedRows,
}

/// Numbers of rows missed by a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct MissedRows {
    runs: i64,
    evaluations: i64,
    annotations: i64,
}

impl StreamFollower {
    /// Runs until the client disconnects.
    async fn run(self, resumed: Option<LastRows>) {
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut after = resumed;
        let mut limit = RESUME_MAX as usize;
        loop {
            ticks.tick().await;
            if let Ok(head) = self.head().await {
                let mut begun = after.unwrap_or(head);
                // Event ids include it: one beyond the last would hide all later annotations.
                begun.annotation = begun.annotation.min(head.annotation);
                // Annotations are few: all are sent, even after a long absence.
                let far = missed(begun, head);
                let from = far.map_or(begun, |_| LastRows { annotation: begun.annotation, ..head });
                match self.news((from, head), far, limit).await {
                    Ok(true) => {
                        after = Some(head);
                        limit = EVENTS_MAX;
                    }
                    // The store is busy: these rows are queried again.
                    Ok(false) => after = Some(begun),
                    Err(Disconnected) => return,
                }
            }
            if self.stats().await.is_err() {
                return;
            }
        }
    }

    /// Returns the last rows of the store.
    async fn head(&self) -> Result<LastRows, ApiProblem> {
        let known = self.api.head.lock().rows;
        if let Some((_, rows)) = known.filter(|(at, _)| at.elapsed() < HEAD_AGE_MAX) {
            return Ok(rows);
        }
        let rows = self.api.readers.ask(self.asker, |reader| Ok(reader.last_rows()?)).await?;
        self.api.head.lock().rows = Some((Instant::now(), rows));
        Ok(rows)
    }

    /// Sends new rows; false if the store could not be queried.
    async fn news(
        &self,
        (after, head): (LastRows, LastRows),
        far: Option<MissedRows>,
        limit: usize,
    ) -> Result<bool, Disconnected> {
        if after == head && far.is_none() {
            return Ok(true);
        }
        let known = far.unwrap_or_default();
        let filter = Arc::clone(&self.filter);
        let asked = self.api.readers.ask(self.asker, move |reader| {
            let (runs, all_runs) = reader.runs_between(&filter, (after.run, head.run), limit)?;
            let between = (after.evaluation, head.evaluation);
            let (evaluations, all) = reader.evaluations_between(&filter, between, limit)?;
            let between = (after.annotation, head.annotation);
            let (annotations, said) = reader.annotations_between(&filter, between, limit)?;
            let missed = MissedRows {
                runs: known.runs + all_runs - runs.len() as i64,
                evaluations: known.evaluations + all - evaluations.len() as i64,
                annotations: said - annotations.len() as i64,
            };
            Ok(NewRows { runs, evaluations, annotations, missed })
        });
        let Ok(news) = asked.await else { return Ok(false) };
        if far.is_some() || news.missed != MissedRows::default() {
            self.gap(news.missed).await?;
        }
        for (run, row) in &news.runs {
            let id = LastRows { run: *run, ..after };
            self.send(event("trajectory", row).id(write_id(id))).await?;
        }
        for (evaluation, row) in &news.evaluations {
            let id = LastRows { evaluation: *evaluation, run: head.run, ..after };
            self.send(event("evaluation", row).id(write_id(id))).await?;
        }
        for (annotation, row) in &news.annotations {
            let id = LastRows { annotation: *annotation, ..head };
            self.send(event("annotation", row).id(write_id(id))).await?;
        }
        Ok(true)
    }

    async fn gap(&self, missed: MissedRows) -> Result<(), Disconnected> {
        let MissedRows { runs, evaluations, annotations } = missed;
        let gap = json!({
            "missed": runs + evaluations + annotations,
            "runs": runs,
            "evaluations": evaluations,
            "annotations": annotations,
        });
        self.send(event("gap", &gap)).await
    }

    async fn stats(&self) -> Result<(), Disconnected> {
        let count = |it| self.api.store.counters().get(it);
        let stats = json!({
            "evaluations": count(StoreCount::Evaluations),
            "trajectories": count(StoreCount::Trajectories),
            "shed_evaluations": count(StoreCount::ShedEvaluations),
            "shed_trajectories": count(StoreCount::ShedTrajectories),
        });
        self.send(event("stats", &stats)).await
    }

    async fn send(&self, event: Event) -> Result<(), Disconnected> {
        self.sender.send(Ok(event)).await.map_err(|_| Disconnected)
    }
}

/// The client has closed its stream.
struct Disconnected;

/// Returns the numbers of rows missed by a returning client, if too many.
fn missed(after: LastRows, head: LastRows) -> Option<MissedRows> {
    let evaluations = head.evaluation - after.evaluation;
    let runs = head.run - after.run;
    // Falling numbers belong to a new file.
    let is_near = |rows: i64| (0..=RESUME_MAX).contains(&rows);
    let is_resumed = is_near(evaluations) && is_near(runs);
    let missed = MissedRows { runs: runs.max(0), evaluations: evaluations.max(0), annotations: 0 };
    (!is_resumed).then_some(missed)
}

fn event(name: &str, data: &impl Serialize) -> Event {
    Event::default().event(name).data(serde_json::to_string(data).unwrap_or_default())
}

fn write_id(rows: LastRows) -> String {
    format!("{}.{}.{}", rows.evaluation, rows.run, rows.annotation)
}

/// Reads an id. One of an older collector has no annotations, and none are repeated.
fn read_id(id: &str) -> Option<LastRows> {
    let mut numbers = id.splitn(3, '.').map(|number| number.parse().ok());
    Some(LastRows {
        evaluation: numbers.next()??,
        run: numbers.next()??,
        annotation: numbers.next().unwrap_or(Some(i64::MAX))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_goes_on_after_a_thousand_rows_and_no_more() {
        let rows = |evaluation, run| LastRows { evaluation, run, annotation: 0 };
        let check = |after, head, expected: Option<(i64, i64)>| {
            let found = missed(after, head).map(|it| (it.evaluations, it.runs));
            assert_eq!(found, expected);
        };
        check(rows(5, 5), rows(1_005, 5), None);
        check(rows(5, 5), rows(1_006, 5), Some((1_001, 0)));
        check(rows(5, 5), rows(5, 2_000), Some((0, 1_995)));
        check(rows(5, 5), rows(2, 2), Some((0, 0)));
        assert_eq!(read_id(&write_id(rows(7, 9))), Some(rows(7, 9)));
        assert_eq!(read_id("7.9").map(|it| it.annotation), Some(i64::MAX));
        assert_eq!((read_id("7"), read_id("a.b"), read_id("1.2.x")), (None, None, None));
    }
}
