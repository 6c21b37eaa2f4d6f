//! Argument errors of tools, found by `tool_call_validity`, by tool and text.

use hashbrown::{HashMap, HashSet};
use rusqlite::params_from_iter;
use rusqlite::types::Value as SqlValue;
use serde::Serialize;

use super::field::StoreField;
use super::filter::StoreFilter;
use super::list::ROWS;
use super::{StoreQueryError, StoreReader};

/// Evaluator kind that finds them.
const KIND: &str = "tool_call_validity";
/// Limit on evaluations below 1 that are read, newest first.
const READ_MAX: usize = 2_000;
/// Limit on errors in an answer.
const ERRORS_MAX: usize = 50;

/// Argument error, counted over calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ArgumentError {
    /// Tool.
    pub tool: String,
    /// Error with the path of the argument, without its value.
    pub error: String,
    /// Calls with it.
    pub count: u64,
    /// Newest affected run.
    pub trace_id: String,
}

impl StoreReader {
    /// Counts argument errors by tool and text, the most frequent first, in the newest failing
    /// evaluations of `tool_call_validity`.
    ///
    /// # Errors
    /// The query takes too long, or the file cannot be read.
    pub fn argument_errors(
        &self,
        filter: &StoreFilter,
    ) -> Result<Vec<ArgumentError>, StoreQueryError> {
        let connection = self.begin();
        let (condition, values) = filter.without(StoreField::Tool).within(connection)?.of_rows();
        let query = format!(
            "SELECT lower(hex(t.trace_id)), d.details FROM {ROWS}
             JOIN evaluation_details d ON d.seq = e.seq
             WHERE e.evaluator IN (SELECT id FROM evaluators WHERE kind = ?) AND e.score < 1
             AND {condition} ORDER BY e.stored DESC, e.seq DESC LIMIT {READ_MAX}"
        );
        let values = std::iter::once(SqlValue::Text(KIND.to_owned())).chain(values);
        let mut query = connection.prepare(&query)?;
        let mut rows = query.query(params_from_iter(values))?;
        let mut found: HashMap<(String, String), ArgumentError> = HashMap::new();
        while let Some(row) = rows.next()? {
            let trace_id: String = row.get(0)?;
            let details: serde_json::Value =
                serde_json::from_str(&row.get::<_, String>(1)?).unwrap_or_default();
            for call in details["results"].as_array().into_iter().flatten() {
                let tool = call["name"].as_str().unwrap_or_default();
                if !asks_for(filter, tool) {
                    continue;
                }
                let errors = call["errors"].as_array().into_iter().flatten();
                let errors: HashSet<&str> = errors.filter_map(serde_json::Value::as_str).collect();
                for error in errors {
                    let key = (tool.to_owned(), error.to_owned());
                    let first = || ArgumentError {
                        tool: tool.to_owned(),
                        error: error.to_owned(),
                        count: 0,
                        trace_id: trace_id.clone(),
                    };
                    found.entry(key).or_insert_with(first).count += 1;
                }
            }
        }
        let mut errors: Vec<ArgumentError> = found.into_values().collect();
        errors.sort_by(|a, b| {
            b.count.cmp(&a.count).then_with(|| (&a.tool, &a.error).cmp(&(&b.tool, &b.error)))
        });
        errors.truncate(ERRORS_MAX);
        Ok(errors)
    }
}

/// Returns true if a filter matches a tool.
fn asks_for(filter: &StoreFilter, tool: &str) -> bool {
    let (excluded, asked): (Vec<&str>, Vec<&str>) =
        filter.values(StoreField::Tool).partition(|value| value.starts_with('!'));
    (asked.is_empty() || asked.contains(&tool))
        && !excluded.iter().any(|value| value.strip_prefix('!') == Some(tool))
}
