//! Annotations: a person's verdict on a run, a call, a session or an evaluation.

use rusqlite::{Connection, OptionalExtension, params};
use serde::Deserialize;

use super::{StoreEditError, check_pinned, check_revision, check_room, check_text, pin};
use crate::query::annotation::{StoredAnnotation, by_id};
use crate::query::trajectory::{bytes_of, row_of};
use crate::store::StoreView;
use crate::writer::now_ms;

/// Limit on annotations of one run.
const OF_RUN_MAX: i64 = 100;
/// Limit on all annotations, since each retains its run.
const ALL_MAX: i64 = 100_000;
/// Longest name and author, bytes.
const NAME_BYTES_MAX: usize = 100;
/// Longest comment, bytes.
const COMMENT_BYTES_MAX: usize = 4_096;
/// Default name of an annotation.
const NAME: &str = "review";

/// New verdict of a person.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NewAnnotation {
    /// Identity: repeating the annotation changes nothing; a different one is refused.
    pub id: [u8; 16],
    /// Run, by the first digits of its trace id; for a session one of its runs, `None` for the
    /// last.
    pub trace_id: Option<String>,
    /// Judged session, if any.
    pub session_id: Option<String>,
    /// Judged evaluation, if any.
    pub evaluation_id: Option<String>,
    /// Judged call, from 1, if any.
    pub call: Option<i64>,
    /// Name of the judged aspect. Default `review`.
    pub name: Option<String>,
    /// Author.
    pub author: String,
    /// The verdict.
    pub verdict: AnnotationChange,
}

impl NewAnnotation {
    fn name(&self) -> &str {
        self.name.as_deref().filter(|name| !name.trim().is_empty()).unwrap_or(NAME)
    }

    /// Returns true if a stored annotation has the same subject and verdict.
    fn is(&self, known: &StoredAnnotation) -> bool {
        let evaluation = |id: &Option<String>| id.as_deref().map(bytes_of);
        let verdict = AnnotationChange {
            label: known.label.clone(),
            score: known.score,
            comment: known.comment.clone(),
        };
        let trace_id = self.trace_id.as_deref().unwrap_or_default().to_ascii_lowercase();
        known.trace_id.starts_with(&trace_id)
            && known.session_id == self.session_id
            && evaluation(&known.evaluation_id) == evaluation(&self.evaluation_id)
            && (known.call, &*known.name, &*known.author) == (self.call, self.name(), &*self.author)
            && verdict == self.verdict
    }
}

/// Verdict; missing parts stay unchanged.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnnotationChange {
    /// `pass` or `fail`; an empty text removes it.
    pub label: Option<String>,
    /// 0 to 1.
    pub score: Option<f64>,
    /// Comment.
    pub comment: Option<String>,
}

impl AnnotationChange {
    fn check(&self) -> Result<(), StoreEditError> {
        let bad = |name, what: &str| Err(StoreEditError::Value { name, what: what.to_owned() });
        if !matches!(self.label.as_deref(), None | Some("" | "pass" | "fail")) {
            return bad("label", "`label` is `pass` or `fail`");
        }
        if self.score.is_some_and(|score| !(0.0..=1.0).contains(&score)) {
            return bad("score", "`score` is a number from 0 to 1");
        }
        check_text("comment", self.comment.as_deref().unwrap_or_default(), COMMENT_BYTES_MAX)
    }

    /// Fills missing parts from the previous verdict.
    fn over(self, before: &StoredAnnotation) -> Self {
        Self {
            label: self.label.or_else(|| before.label.clone()),
            score: self.score.or(before.score),
            comment: self.comment.or_else(|| before.comment.clone()),
        }
    }

    /// Removes empty texts; an empty verdict is an error.
    fn tidied(self) -> Result<Self, StoreEditError> {
        let full = |text: Option<String>| text.filter(|text| !text.trim().is_empty());
        let tidied =
            Self { label: full(self.label), score: self.score, comment: full(self.comment) };
        if tidied == Self::default() {
            let what = "an annotation needs a `label`, a `score` or a `comment`".to_owned();
            return Err(StoreEditError::Value { name: "label", what });
        }
        Ok(tidied)
    }
}

impl StoreView {
    /// Stores an annotation; returns it, and true if it is new.
    ///
    /// # Errors
    /// Its subject is missing, a value is invalid, a limit is reached, or the store cannot
    /// be written.
    pub fn annotate(&self, new: NewAnnotation) -> Result<(StoredAnnotation, bool), StoreEditError> {
        new.verdict.check()?;
        check_text("author", &new.author, NAME_BYTES_MAX)?;
        check_text("name", new.name.as_deref().unwrap_or_default(), NAME_BYTES_MAX)?;
        let new = NewAnnotation { verdict: new.verdict.tidied()?, ..new };
        let pinned_max = self.pinned_max;
        self.edit(move |connection| {
            if let Some(known) = by_id(connection, &new.id)? {
                let what = "another annotation under this key".to_owned();
                let is_same = new.is(&known);
                return is_same.then_some((known, false)).ok_or(StoreEditError::Exists { what });
            }
            check_pinned(connection, pinned_max)?;
            Ok((insert(connection, &new)?, true))
        })
    }

    /// Changes the verdict of an annotation; with a revision only if it is unchanged.
    ///
    /// # Errors
    /// It is missing or was changed, a value is invalid, or the store cannot be written.
    pub fn change_annotation(
        &self,
        id: &str,
        change: AnnotationChange,
        revision: Option<i64>,
    ) -> Result<StoredAnnotation, StoreEditError> {
        change.check()?;
        let id = id.to_owned();
        self.edit(move |connection| {
            let before = found(connection, &id)?;
            check_revision(before.revision, revision)?;
            let AnnotationChange { label, score, comment } = change.over(&before).tidied()?;
            connection.execute(
                "UPDATE annotations SET label = ?2, score = ?3, comment = ?4, changed = ?5,
                 revision = revision + 1 WHERE id = ?1",
                params![bytes_of(&id), label, score, comment, time_of_change(connection)?],
            )?;
            pin(connection, &bytes_of(&before.trace_id))?;
            found(connection, &id)
        })
    }

    /// Deletes an annotation; with a revision only if it is unchanged.
    ///
    /// # Errors
    /// It is missing or was changed, or the store cannot be written.
    pub fn delete_annotation(&self, id: &str, revision: Option<i64>) -> Result<(), StoreEditError> {
        let id = id.to_owned();
        self.edit(move |connection| {
            let before = found(connection, &id)?;
            check_revision(before.revision, revision)?;
            connection.execute("DELETE FROM annotations WHERE id = ?1", [bytes_of(&id)])?;
            Ok(pin(connection, &bytes_of(&before.trace_id))?)
        })
    }
}

fn found(connection: &Connection, id: &str) -> Result<StoredAnnotation, StoreEditError> {
    let missing = || StoreEditError::Missing { what: "such annotation".to_owned() };
    by_id(connection, &bytes_of(id))?.ok_or_else(missing)
}

fn insert(
    connection: &Connection,
    new: &NewAnnotation,
) -> Result<StoredAnnotation, StoreEditError> {
    let AnnotatedRow { run, trace_id, session } = annotated(connection, new)?;
    let target = match session {
        Some(_) => "session",
        None => check_target(connection, run, new)?,
    };
    let of_run = "SELECT count(*) FROM annotations WHERE trajectory = ?1";
    check_room(connection, of_run, [run], ("annotations of this run", OF_RUN_MAX))?;
    let all = "SELECT count(*) FROM annotations";
    check_room(connection, all, [], ("annotations", ALL_MAX))?;
    let AnnotationChange { label, score, comment } = &new.verdict;
    connection.execute(
        "INSERT INTO annotations (id, target, trajectory, evaluation, position, name, label,
         score, comment, author, created, changed, revision, session)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, 1, ?13)",
        params![
            new.id,
            target,
            run,
            new.evaluation_id.as_deref().map(bytes_of),
            new.call.map(|call| call - 1),
            new.name(),
            label,
            score,
            comment,
            new.author,
            now_ms(),
            time_of_change(connection)?,
            session,
        ],
    )?;
    pin(connection, &bytes_of(&trace_id))?;
    by_id(connection, &new.id)?.ok_or(StoreEditError::Unavailable)
}

/// Returns the time of a change, later than that of all others, so that followers can detect new
/// ones.
fn time_of_change(connection: &Connection) -> rusqlite::Result<i64> {
    let query = "SELECT max(?1, 1 + ifnull((SELECT max(changed) FROM annotations), 0))";
    connection.query_row(query, [now_ms()], |row| row.get(0))
}

/// Run retained by an annotation, and the judged session.
struct AnnotatedRow {
    run: i64,
    trace_id: String,
    session: Option<i64>,
}

/// Finds the run of an annotation, and its session if that is the subject. Clients may have
/// sessions with the same id: the named run's session is meant, otherwise the last one with its
/// last run.
fn annotated(connection: &Connection, new: &NewAnnotation) -> Result<AnnotatedRow, StoreEditError> {
    let bad = |name, what: &str| Err(StoreEditError::Value { name, what: what.to_owned() });
    let run = new.trace_id.as_deref().map(|trace_id| row_of(connection, trace_id)).transpose()?;
    let (run, session_id) = match (run, &new.session_id) {
        (Some((run, trace_id)), None) => return Ok(AnnotatedRow { run, trace_id, session: None }),
        (run, Some(session_id)) => (run.map(|(run, _)| run), session_id),
        (None, None) => return bad("trace_id", "name a run by `trace_id`, or a `session_id`"),
    };
    if new.evaluation_id.is_some() || new.call.is_some() {
        let what = "evaluations and calls are those of a run: leave `session_id` out, and name it \
                    by `trace_id`";
        return bad("session_id", what);
    }
    let last = "SELECT t.seq, lower(hex(t.trace_id)), n.seq FROM sessions n
        JOIN trajectories t ON t.session = n.seq
        WHERE n.session_id = ?1 AND t.seq = ifnull(?2, t.seq)
        ORDER BY n.last DESC, t.time DESC, t.seq DESC LIMIT 1";
    let found = connection.query_row(last, params![session_id, run], |row| {
        Ok(AnnotatedRow { run: row.get(0)?, trace_id: row.get(1)?, session: row.get(2)? })
    });
    let with = if run.is_some() { "this run" } else { "a run" };
    let what = || format!("session `{session_id}` with {with}");
    found.optional()?.ok_or_else(|| StoreEditError::Missing { what: what() })
}

/// Returns the kind of an annotation's subject, if the subject exists.
fn check_target(
    connection: &Connection,
    run: i64,
    new: &NewAnnotation,
) -> Result<&'static str, StoreEditError> {
    let is_there = |query: &str, value: &dyn rusqlite::ToSql| {
        connection.query_row(query, params![run, value], |_| Ok(())).optional()
    };
    let (target, found, what) = match (&new.evaluation_id, new.call) {
        (Some(_), Some(_)) => {
            let what = "an annotation is about one evaluation or one call: leave one out";
            return Err(StoreEditError::Value { name: "call", what: what.to_owned() });
        }
        (None, None) => return Ok("trace"),
        (Some(id), None) => {
            let query = "SELECT 1 FROM evaluations WHERE trajectory = ?1 AND id = ?2";
            ("evaluation", is_there(query, &bytes_of(id))?, format!("evaluation `{id}` of it"))
        }
        (None, Some(call)) => {
            let query = "SELECT 1 FROM calls WHERE trajectory = ?1 AND position = ?2";
            ("call", is_there(query, &call.saturating_sub(1))?, format!("call {call} of it"))
        }
    };
    found.map(|()| target).ok_or(StoreEditError::Missing { what })
}
