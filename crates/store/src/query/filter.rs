//! Filter of evaluations, shared by lists, figures and pages.
//!
//! Values of one field are alternatives, fields must all match, and a value with a leading `!`
//! excludes.

use rusqlite::Connection;
use rusqlite::types::Value as SqlValue;

use super::StoreQueryError;
use super::field::StoreField;

/// Longest text to search for, bytes.
pub const TEXT_BYTES_MAX: usize = 200;

/// Conditions on evaluations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoreFilter {
    /// Earliest end of the judged target, Unix milliseconds.
    pub from_ms: Option<i64>,
    /// End of the range, exclusive.
    pub to_ms: Option<i64>,
    /// Lowest score.
    pub score_gte: Option<f64>,
    /// Upper bound of the score, exclusive.
    pub score_lt: Option<f64>,
    /// True to include superseded revisions.
    pub with_superseded: bool,
    /// Part of the run's title, or of an explanation.
    pub text: Option<String>,
    /// Rows before which none matches, found by [`StoreFilter::within`].
    first: Option<FirstRows>,
    fields: Vec<(StoreField, String)>,
}

/// Text of a condition with its values.
pub(super) type SqlCondition = (String, Vec<SqlValue>);

impl StoreFilter {
    /// Adds a value of a field; with a leading `!` it is excluded.
    pub fn add(&mut self, field: StoreField, value: impl Into<String>) {
        self.fields.push((field, value.into()));
    }

    /// Adds a value that somebody asks for.
    ///
    /// # Errors
    /// The field never has such a value; names those that it has.
    pub fn ask(
        &mut self,
        field: StoreField,
        value: impl Into<String>,
    ) -> Result<(), StoreQueryError> {
        let value = value.into();
        field.check(&value)?;
        self.add(field, value);
        Ok(())
    }

    /// Asks for a part of the title or of an explanation; an empty one asks for nothing.
    ///
    /// # Errors
    /// The text is too long.
    pub fn ask_text(&mut self, text: &str) -> Result<(), StoreQueryError> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(StoreQueryError::Text { bytes: text.len() });
        }
        self.text = Some(text.to_owned()).filter(|text| !text.is_empty());
        Ok(())
    }

    /// Returns the values of a field, as added.
    pub fn values(&self, field: StoreField) -> impl Iterator<Item = &str> {
        self.fields.iter().filter(move |(it, _)| *it == field).map(|(_, value)| value.as_str())
    }

    /// Returns the filter without its values of a field.
    pub(super) fn without(&self, field: StoreField) -> Self {
        let mut filter = self.clone();
        filter.fields.retain(|(it, _)| *it != field);
        filter
    }

    /// Returns the filter with the rows at which a search may begin. `time` is at most a minute
    /// ahead of `stored`, which orders the row numbers. A run may end up to a day after it was
    /// first stored.
    pub(super) fn within(&self, connection: &Connection) -> rusqlite::Result<Self> {
        let mut filter = self.clone();
        if let Some(from) = self.from_ms {
            filter.first = Some(FirstRows {
                evaluation: first_since(connection, "evaluations", from - FUTURE_MAX_MS)?,
                run: first_since(connection, "trajectories", from - RUN_GROWTH_MAX_MS)?,
            });
        }
        Ok(filter)
    }

    /// Returns true if sums of evaluations contain all its fields.
    pub(super) fn fits_sums(&self) -> bool {
        self.fits(StoreField::sums_column)
    }

    /// Returns true if sums of tools contain all its fields.
    pub(super) fn fits_tool_sums(&self) -> bool {
        self.fits(StoreField::tool_sums_column)
    }

    fn fits(&self, column: impl Fn(StoreField) -> Option<&'static str>) -> bool {
        self.score_gte.is_none()
            && self.score_lt.is_none()
            && !self.with_superseded
            && self.text.is_none()
            && self.fields.iter().all(|(field, _)| column(*field).is_some())
    }

    /// Returns the condition over rows of evaluations.
    pub(super) fn of_rows(&self) -> SqlCondition {
        let mut parts = ConditionParts::default();
        self.of_evaluation(|field| Some(field.column()), &mut parts);
        parts.bound("e.time >= ?", self.from_ms);
        parts.bound("e.time < ?", self.to_ms);
        parts.bound("e.seq >= ?", self.first.map(|first| first.evaluation));
        if self.is_failing() {
            // As in the index of failing ones: SQLite recognises no other wording.
            parts.sql.push("e.outcome IN (1, 3)".to_owned());
            parts.bound("e.stored >= ?", self.from_ms.map(|from| from - FUTURE_MAX_MS));
        }
        if let Some(text) = &self.text {
            let test = format!("(t.title {LIKE} OR e.explanation {LIKE})");
            parts.add(test, [like(text), like(text)]);
        }
        parts.joined()
    }

    /// Returns the condition over rows of runs: one of its evaluations matches the fields of
    /// evaluations, and the run matches the others. `tool` is the template of the tool test.
    pub(super) fn of_runs(&self, tool: &'static str) -> SqlCondition {
        let mut parts = ConditionParts::default();
        parts.bound("t.time >= ?", self.from_ms);
        parts.bound("t.time < ?", self.to_ms);
        parts.bound("t.seq >= ?", self.first.map(|first| first.run));
        self.fields(|field| field.run_column(tool), &mut parts);
        let mut of_evaluation = ConditionParts::default();
        self.of_evaluation(StoreField::verdict_column, &mut of_evaluation);
        let is_bare = of_evaluation.sql.iter().all(|test| test == CURRENT);
        if !is_bare && !of_evaluation.sql.is_empty() {
            let (test, values) = of_evaluation.joined();
            parts.add(format!("EXISTS (SELECT 1 {VERDICTS} AND {test})"), values);
        }
        if let Some(text) = &self.text {
            let said = format!("EXISTS (SELECT 1 {VERDICTS} AND e.explanation {LIKE})");
            parts.add(format!("(t.title {LIKE} OR {said})"), [like(text), like(text)]);
        }
        parts.joined()
    }

    /// Returns the condition of one field, over a column of its values.
    pub(super) fn of_field(&self, field: StoreField, column: &'static str) -> SqlCondition {
        let mut parts = ConditionParts::default();
        self.fields(|it| (it == field).then_some(column), &mut parts);
        parts.joined()
    }

    /// Returns the condition over the evaluations of one run.
    pub(super) fn of_verdicts(&self) -> SqlCondition {
        let mut parts = ConditionParts::default();
        self.of_evaluation(StoreField::verdict_column, &mut parts);
        parts.joined()
    }

    fn of_evaluation(
        &self,
        column: impl Fn(StoreField) -> Option<&'static str>,
        parts: &mut ConditionParts,
    ) {
        if !self.with_superseded {
            parts.sql.push(CURRENT.to_owned());
        }
        parts.bound("e.score >= ?", self.score_gte);
        parts.bound("e.score < ?", self.score_lt);
        self.fields(column, parts);
    }

    /// Returns the sums of evaluations as a table `r`, and the condition over them.
    pub(super) fn of_sums(&self) -> (String, SqlCondition) {
        self.of_any_sums("rollups", StoreField::sums_column)
    }

    /// Returns the sums of tools as a table `r`, and the condition over them.
    pub(super) fn of_tool_sums(&self) -> (String, SqlCondition) {
        self.of_any_sums("tool_rollups", StoreField::tool_sums_column)
    }

    /// Returns sums within the time bounds, with the values of both texts. A bucket counts
    /// completely if it begins in the minute of a bound. Minutes and hours are read one after the
    /// other: with an OR, SQLite would look up each row by key, in nearly twice the time.
    fn of_any_sums(
        &self,
        table: &str,
        column: impl Fn(StoreField) -> Option<&'static str>,
    ) -> (String, SqlCondition) {
        let mut parts = ConditionParts::default();
        let mut from = format!("{table} r");
        if self.from_ms.is_some() || self.to_ms.is_some() {
            let minute = |bound: Option<i64>, end| bound.map_or(end, |ms| ms.div_euclid(60_000));
            let first = minute(self.from_ms, 0);
            let end = minute(self.to_ms, i64::MAX);
            let hour = |minute: i64| minute.div_euclid(60) + i64::from(minute.rem_euclid(60) > 0);
            let within = |span: i64| {
                format!("SELECT * FROM {table} WHERE span = {span} AND bucket >= ? AND bucket < ?")
            };
            from = format!("({} UNION ALL {}) r", within(60), within(3_600));
            let bounds = [first, end, hour(first), hour(end)];
            parts.values.extend(bounds.map(SqlValue::Integer));
        }
        self.fields(column, &mut parts);
        (from, parts.joined())
    }

    /// Returns true if it matches only current evaluations that failed, or whose evaluator broke.
    pub(super) fn is_failing(&self) -> bool {
        let is_all = |field, word: &str| {
            let mut values = self.values(field).peekable();
            values.peek().is_some() && values.all(|value| value == word)
        };
        let fails = is_all(StoreField::Label, "fail") || is_all(StoreField::Outcome, "failed");
        fails && !self.with_superseded
    }

    fn fields(
        &self,
        column: impl Fn(StoreField) -> Option<&'static str>,
        parts: &mut ConditionParts,
    ) {
        let mut done = Vec::new();
        for (field, _) in &self.fields {
            let Some(column) = column(*field).filter(|_| !done.contains(field)) else { continue };
            done.push(*field);
            for is_excluded in [false, true] {
                let some = self.values(*field).filter(|it| it.starts_with('!') == is_excluded);
                let some: Vec<&str> = some.map(|it| it.strip_prefix('!').unwrap_or(it)).collect();
                if some.is_empty() {
                    continue;
                }
                let is_id = matches!(field, StoreField::TraceId | StoreField::EvaluatorVersion);
                let test = if is_id {
                    vec![format!("{column} LIKE ? || '%'"); some.len()].join(" OR ")
                } else {
                    tested(column, &format!("IN ({})", vec!["?"; some.len()].join(", ")))
                };
                let test = format!("{}({test})", if is_excluded { "NOT " } else { "" });
                parts.add(test, some.into_iter().map(|it| SqlValue::Text(it.to_owned())));
            }
        }
    }
}

/// First possibly matching rows.
#[derive(Clone, Copy, Debug, PartialEq)]
struct FirstRows {
    evaluation: i64,
    run: i64,
}

/// Condition for evaluations without a later revision.
const CURRENT: &str = "e.current = 1";
/// Evaluations of the run `t`.
const VERDICTS: &str =
    "FROM evaluations e JOIN evaluators v ON v.id = e.evaluator WHERE e.trajectory = t.seq";
/// Substring test.
const LIKE: &str = "LIKE ? ESCAPE '\\'";
/// Longest time by which an end may be ahead of its storing, milliseconds.
const FUTURE_MAX_MS: i64 = 60_000;
/// Longest time for which a run may continue after it was first stored, milliseconds.
const RUN_GROWTH_MAX_MS: i64 = 24 * 3_600_000;

/// Conjunction of tests, with their values.
#[derive(Default)]
struct ConditionParts {
    sql: Vec<String>,
    values: Vec<SqlValue>,
}

impl ConditionParts {
    fn add(&mut self, test: String, values: impl IntoIterator<Item = SqlValue>) {
        self.sql.push(test);
        self.values.extend(values);
    }

    fn bound(&mut self, test: &str, value: Option<impl Into<SqlValue>>) {
        if let Some(value) = value {
            self.add(test.to_owned(), [value.into()]);
        }
    }

    fn joined(self) -> SqlCondition {
        let sql = if self.sql.is_empty() { "1".to_owned() } else { self.sql.join(" AND ") };
        (sql, self.values)
    }
}

/// Inserts a test into its template, or appends it to a plain column.
fn tested(column: &str, test: &str) -> String {
    if column.contains("{}") { column.replace("{}", test) } else { format!("{column} {test}") }
}

/// Returns the pattern of a substring.
fn like(text: &str) -> SqlValue {
    let text = text.replace('\\', r"\\").replace('%', r"\%").replace('_', r"\_");
    SqlValue::Text(format!("%{text}%"))
}

/// Finds the first row stored at a time or later: `stored` never falls as `seq` grows.
fn first_since(connection: &Connection, table: &str, since_ms: i64) -> rusqlite::Result<i64> {
    // Each bound separately: asked for both at once, SQLite would read the whole table.
    let bounds = format!(
        "SELECT ifnull((SELECT min(seq) FROM {table}), 0),
         ifnull((SELECT max(seq) FROM {table}), 0)"
    );
    let bounds = connection.query_row(&bounds, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let (mut low, mut high): (i64, i64) = bounds;
    let stored = format!("SELECT stored FROM {table} WHERE seq >= ?1 ORDER BY seq LIMIT 1");
    let mut stored = connection.prepare_cached(&stored)?;
    while low < high {
        let middle = low + (high - low) / 2;
        let is_before = stored.query_row([middle], |row| row.get::<_, i64>(0))? < since_ms;
        if is_before {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(low)
}
