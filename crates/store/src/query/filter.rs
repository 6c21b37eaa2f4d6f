//! Filter of evaluations: one for lists, figures and pages.
//!
//! Values of one field are alternatives, fields must all hold, and a value that begins with `!`
//! excludes.

use rusqlite::types::Value as SqlValue;

use spanscore_base::settings::nearest;

use super::StoreQueryError;

/// Field of an evaluation that can be filtered and grouped by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoreField {
    /// Full name of the evaluator.
    Evaluator,
    /// Its kind.
    Kind,
    /// Its version: a change of its settings changes it.
    EvaluatorVersion,
    /// `call`, `trace` or `session`.
    Level,
    /// `service.name`.
    Service,
    /// Agent.
    Agent,
    /// `service.version`.
    Version,
    /// `deployment.environment.name`.
    Environment,
    /// Day, in UTC.
    Day,
    /// Hour, in UTC.
    Hour,
    /// `scored`, `not_evaluable` or `failed`.
    Outcome,
    /// `pass` or `fail`.
    Label,
    /// Reason of what is not evaluable, type of an error.
    Reason,
    /// Tool of the judged call.
    Tool,
    /// Case of a dataset.
    Case,
    /// Session.
    SessionId,
    /// Trace, by its first digits.
    TraceId,
    /// Cause that completed the trace.
    Completion,
}

impl StoreField {
    /// All fields with their words.
    const WORDS: [(&'static str, Self); 18] = [
        ("evaluator", Self::Evaluator),
        ("kind", Self::Kind),
        ("evaluator_version", Self::EvaluatorVersion),
        ("level", Self::Level),
        ("service", Self::Service),
        ("agent", Self::Agent),
        ("version", Self::Version),
        ("environment", Self::Environment),
        ("day", Self::Day),
        ("hour", Self::Hour),
        ("outcome", Self::Outcome),
        ("label", Self::Label),
        ("reason", Self::Reason),
        ("tool", Self::Tool),
        ("case", Self::Case),
        ("session_id", Self::SessionId),
        ("trace_id", Self::TraceId),
        ("completion", Self::Completion),
    ];

    /// Reads the word of a field.
    ///
    /// # Errors
    /// There is no such field; names the nearest.
    pub fn from_word(word: &str) -> Result<Self, StoreQueryError> {
        let found = Self::WORDS.iter().find(|(known, _)| *known == word);
        found.map(|(_, field)| *field).ok_or_else(|| {
            let names = Self::WORDS.map(|(name, _)| name);
            let help = match nearest(word, names) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!("known are {}", names.join(", ")),
            };
            StoreQueryError::Field { word: word.to_owned(), help }
        })
    }

    /// Returns the word of the field.
    pub fn as_str(self) -> &'static str {
        let found = Self::WORDS.iter().find(|(_, field)| *field == self);
        found.map_or("", |(word, _)| word)
    }

    /// Returns the expression of it over the rows of [`ROWS`](super::list::ROWS).
    pub(super) fn column(self) -> &'static str {
        match self {
            Self::Evaluator => "v.name",
            Self::Kind => "v.kind",
            Self::EvaluatorVersion => "lower(hex(v.version))",
            Self::Level => "v.level",
            Self::Service => "s.service",
            Self::Agent => "s.agent",
            Self::Version => "s.version",
            Self::Environment => "s.environment",
            Self::Day => "strftime('%Y-%m-%d', e.time / 1000, 'unixepoch')",
            Self::Hour => "strftime('%Y-%m-%dT%H:00Z', e.time / 1000, 'unixepoch')",
            Self::Outcome => {
                "CASE WHEN e.outcome < 2 THEN 'scored' WHEN e.outcome = 2 THEN 'not_evaluable'
                 ELSE 'failed' END"
            }
            Self::Label => "CASE e.outcome WHEN 0 THEN 'pass' WHEN 1 THEN 'fail' ELSE '' END",
            Self::Reason => "ifnull(e.reason, '')",
            Self::Tool => "ifnull(l.name, '')",
            Self::Case => {
                "ifnull((SELECT min(c.name) FROM cases c WHERE c.trajectory = e.trajectory), '')"
            }
            Self::SessionId => "ifnull(n.session_id, '')",
            Self::TraceId => "lower(hex(t.trace_id))",
            Self::Completion => "e.completion",
        }
    }

    /// Returns the expression of it over sums; `None` if sums do not tell it.
    pub(super) fn sums_column(self) -> Option<&'static str> {
        match self {
            Self::Day => Some("strftime('%Y-%m-%d', r.bucket * r.span, 'unixepoch')"),
            Self::Hour => Some("strftime('%Y-%m-%dT%H:00Z', r.bucket * r.span, 'unixepoch')"),
            Self::Evaluator
            | Self::Kind
            | Self::EvaluatorVersion
            | Self::Level
            | Self::Service
            | Self::Agent
            | Self::Version
            | Self::Environment => Some(self.column()),
            _ => None,
        }
    }
}

/// Conditions on evaluations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoreFilter {
    /// Earliest end of the judged target, Unix milliseconds.
    pub from_ms: Option<i64>,
    /// End of the range, exclusive.
    pub to_ms: Option<i64>,
    /// Lowest score.
    pub score_gte: Option<f64>,
    /// Score that all are below.
    pub score_lt: Option<f64>,
    /// True if superseded revisions are shown, too.
    pub with_superseded: bool,
    fields: Vec<(StoreField, String)>,
}

/// Text of a condition with its values.
pub(super) type SqlCondition = (String, Vec<SqlValue>);

impl StoreFilter {
    /// Adds a value of a field; with a leading `!` it is excluded.
    pub fn add(&mut self, field: StoreField, value: impl Into<String>) {
        self.fields.push((field, value.into()));
    }

    /// Returns true if sums tell all fields.
    pub(super) fn fits_sums(&self) -> bool {
        self.score_gte.is_none()
            && self.score_lt.is_none()
            && !self.with_superseded
            && self.fields.iter().all(|(field, _)| field.sums_column().is_some())
    }

    /// Returns the condition over rows of evaluations.
    pub(super) fn of_rows(&self) -> SqlCondition {
        let mut sql = Vec::new();
        let mut values = Vec::new();
        if !self.with_superseded {
            sql.push("e.current = 1".to_owned());
        }
        let bounds = [
            ("e.time >= ?", self.from_ms.map(SqlValue::Integer)),
            ("e.time < ?", self.to_ms.map(SqlValue::Integer)),
            ("e.score >= ?", self.score_gte.map(SqlValue::Real)),
            ("e.score < ?", self.score_lt.map(SqlValue::Real)),
        ];
        for (condition, bound) in bounds {
            if let Some(bound) = bound {
                sql.push(condition.to_owned());
                values.push(bound);
            }
        }
        self.fields(|field| Some(field.column()), &mut sql, &mut values);
        joined(sql, values)
    }

    /// Returns the condition over sums.
    pub(super) fn of_sums(&self) -> SqlCondition {
        let mut sql = Vec::new();
        let mut values = Vec::new();
        for (condition, bound) in [
            ("r.bucket * r.span * 1000 >= ?", self.from_ms),
            ("r.bucket * r.span * 1000 < ?", self.to_ms),
        ] {
            if let Some(bound) = bound {
                sql.push(condition.to_owned());
                // A bucket counts whole if it begins in the minute of the bound.
                values.push(SqlValue::Integer(bound.div_euclid(60_000) * 60_000));
            }
        }
        self.fields(StoreField::sums_column, &mut sql, &mut values);
        joined(sql, values)
    }

    fn fields(
        &self,
        column: impl Fn(StoreField) -> Option<&'static str>,
        sql: &mut Vec<String>,
        values: &mut Vec<SqlValue>,
    ) {
        let mut done = Vec::new();
        for (field, _) in &self.fields {
            let Some(column) = column(*field).filter(|_| !done.contains(field)) else { continue };
            done.push(*field);
            let own = || self.fields.iter().filter(|(it, _)| it == field).map(|(_, value)| value);
            for is_excluded in [false, true] {
                let some = own().filter(|value| value.starts_with('!') == is_excluded);
                let some: Vec<&str> = some.map(|value| value.trim_start_matches('!')).collect();
                if some.is_empty() {
                    continue;
                }
                let test = if *field == StoreField::TraceId {
                    vec![format!("{column} LIKE ? || '%'"); some.len()].join(" OR ")
                } else {
                    format!("{column} IN ({})", vec!["?"; some.len()].join(", "))
                };
                sql.push(format!("{}({test})", if is_excluded { "NOT " } else { "" }));
                values.extend(some.into_iter().map(|value| SqlValue::Text(value.to_owned())));
            }
        }
    }
}

fn joined(sql: Vec<String>, values: Vec<SqlValue>) -> SqlCondition {
    let sql = if sql.is_empty() { "1".to_owned() } else { sql.join(" AND ") };
    (sql, values)
}
