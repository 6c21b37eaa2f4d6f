//! Stored annotations, newest first.

use rusqlite::types::Value as SqlValue;
use rusqlite::{Connection, OptionalExtension};
use serde::Serialize;

use super::page::{Page, PagePlace, StoredPage, first_count};
use super::row::{all, stored_row};
use super::{StoreQueryError, StoreReader};

/// Annotations with their runs.
const ANNOTATIONS: &str = "annotations a JOIN trajectories t ON t.seq = a.trajectory";

stored_row! {
    /// Stored verdict of a person.
    #[derive(Clone, Debug, PartialEq, Serialize)]
    pub struct StoredAnnotation: COLUMNS {
        /// Identity.
        pub annotation_id: String = "lower(hex(a.id))";
        /// `trace`, `call`, `evaluation` or `session`.
        pub target: String = "a.target";
        /// Trace, 32 digits; for a session the named one, else the last one at the time.
        pub trace_id: String = "lower(hex(t.trace_id))";
        /// Judged session.
        pub session_id: Option<String> =
            "(SELECT n.session_id FROM sessions n WHERE n.seq = a.session)";
        /// Judged evaluation.
        pub evaluation_id: Option<String> = "nullif(lower(hex(a.evaluation)), '')";
        /// Its evaluator.
        pub evaluator: Option<String> =
            "(SELECT v.name FROM evaluations e JOIN evaluators v ON v.id = e.evaluator
             WHERE e.trajectory = a.trajectory AND e.id = a.evaluation LIMIT 1)";
        /// Judged call, from 1.
        pub call: Option<i64> = "a.position + 1";
        /// Name of the judged aspect.
        pub name: String = "a.name";
        /// `pass` or `fail`.
        pub label: Option<String> = "a.label";
        /// 0 to 1.
        pub score: Option<f64> = "a.score";
        /// Comment.
        pub comment: Option<String> = "a.comment";
        /// Author.
        pub author: String = "a.author";
        /// Creation time, RFC 3339.
        pub created: String = "strftime('%Y-%m-%dT%H:%M:%fZ', a.created / 1000.0, 'unixepoch')";
        /// Time of the last change.
        pub changed: String = "strftime('%Y-%m-%dT%H:%M:%fZ', a.changed / 1000.0, 'unixepoch')";
        /// 1, then counting up.
        pub revision: i64 = "a.revision";
    }
}

/// Filter of annotations; `None` matches all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AnnotationFilter {
    /// First digits of the trace id.
    pub trace_id: Option<String>,
    /// `pass` or `fail`.
    pub label: Option<String>,
    /// Author.
    pub author: Option<String>,
    /// Name of the judged aspect.
    pub name: Option<String>,
    /// Evaluator of the judged evaluation.
    pub evaluator: Option<String>,
    /// Judged session.
    pub session_id: Option<String>,
}

/// Finds an annotation.
pub(crate) fn by_id(
    connection: &Connection,
    id: &[u8],
) -> rusqlite::Result<Option<StoredAnnotation>> {
    let query = format!("SELECT {COLUMNS} FROM {ANNOTATIONS} WHERE a.id = ?1");
    connection.query_row(&query, [id], StoredAnnotation::read).optional()
}

/// Lists the annotations of one run and of its session, by creation. Those of a session are found
/// by its runs, which have an index.
pub(super) fn of_run(connection: &Connection, run: i64) -> rusqlite::Result<Vec<StoredAnnotation>> {
    let query = format!(
        "SELECT {COLUMNS} FROM {ANNOTATIONS} WHERE a.seq IN (
         SELECT seq FROM annotations WHERE trajectory = ?1 UNION
         SELECT o.seq FROM trajectories r CROSS JOIN trajectories m ON m.session = r.session
         CROSS JOIN annotations o ON o.trajectory = m.seq
         WHERE r.seq = ?1 AND o.session = r.session) ORDER BY a.seq"
    );
    all(connection, &query, [run], StoredAnnotation::read)
}

impl StoreReader {
    /// Lists annotations page by page, newest first.
    ///
    /// # Errors
    /// The query takes too long, or the file cannot be read.
    pub fn annotations(
        &self,
        filter: &AnnotationFilter,
        after: Option<PagePlace>,
        limit: usize,
    ) -> Result<StoredPage<StoredAnnotation>, StoreQueryError> {
        let connection = self.begin();
        let begins = filter.trace_id.as_ref().map(|id| format!("{}%", id.to_ascii_lowercase()));
        let of_evaluator = "EXISTS (SELECT 1 FROM evaluations e JOIN evaluators v
            ON v.id = e.evaluator WHERE e.trajectory = a.trajectory AND e.id = a.evaluation
            AND v.name = ?)";
        let tests = [
            ("lower(hex(t.trace_id)) LIKE ?", &begins),
            ("a.label = ?", &filter.label),
            ("a.author = ?", &filter.author),
            ("a.name = ?", &filter.name),
            (of_evaluator, &filter.evaluator),
            ("a.session IN (SELECT seq FROM sessions WHERE session_id = ?)", &filter.session_id),
        ];
        let asked = tests.iter().filter_map(|(test, value)| Some((*test, (*value).clone()?)));
        let (sql, values): (Vec<&str>, Vec<SqlValue>) =
            asked.map(|(test, value)| (test, SqlValue::Text(value))).unzip();
        let sql = if sql.is_empty() { "1".to_owned() } else { sql.join(" AND ") };
        let condition = (sql, values);
        let count = first_count(connection, ANNOTATIONS, &condition, after)?;
        let page =
            Page { columns: COLUMNS, rank: "a.seq", seq: "a.seq", from: ANNOTATIONS, order: None };
        let page = page.read(connection, condition, after, limit, StoredAnnotation::read)?;
        Ok(StoredPage { count, ..page })
    }
}
