//! Datasets: items with a run's expectations, in the form that `expect.file` reads.

use rusqlite::types::Value as SqlValue;
use rusqlite::{Connection, OptionalExtension, Row};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::page::{Page, PagePlace, StoredPage, first_count};
use super::row::{all, stored_row};
use super::trajectory::{StoredCall, StoredTrajectory, input_of};
use super::{StoreQueryError, StoreReader};

/// Columns of [`DatasetItem`].
const COLUMNS: &str = "d.dataset, d.key, lower(hex(d.trace_id)), d.criteria, d.note, d.revision,
    (SELECT max(t.seq) FROM trajectories t WHERE t.trace_id = d.trace_id)";

stored_row! {
    /// Dataset of a list.
    #[derive(Clone, Debug, PartialEq, Serialize)]
    pub struct DatasetRow: DATASET_COLUMNS {
        /// Name.
        pub dataset: String = "dataset";
        /// Number of its items.
        pub items: i64 = "count(*)";
    }
}

/// Item of a dataset.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DatasetItem {
    /// Dataset.
    pub dataset: String,
    /// Name of the item, the case of its run.
    pub key: String,
    /// Run that it was derived from.
    pub trace_id: String,
    /// User's input, if stored unchanged.
    pub user_input: Option<String>,
    /// Expectations, as in the config.
    pub criteria: Value,
    /// Note for people.
    pub note: Option<String>,
    /// 1, then counting up.
    pub revision: i64,
}

impl DatasetItem {
    /// Returns the row of a dataset's file.
    pub fn row(&self) -> Value {
        json!({
            "id": self.key,
            "user_input": self.user_input,
            "criteria": self.criteria,
            "trace_id": self.trace_id,
            "note": self.note,
        })
    }

    fn read(connection: &Connection, row: &Row<'_>) -> rusqlite::Result<Self> {
        let criteria: String = row.get(3)?;
        let run: Option<i64> = row.get(6)?;
        let input = run.map(|run| input_of(connection, run)).transpose()?.flatten();
        let words = input.as_ref().filter(|it| it.get("truncated").is_none());
        let words = words.and_then(|it| it.get("value")?.as_str());
        Ok(Self {
            dataset: row.get(0)?,
            key: row.get(1)?,
            trace_id: row.get(2)?,
            user_input: words.filter(|text| !is_redacted(text)).map(str::to_owned),
            criteria: serde_json::from_str(&criteria).unwrap_or_default(),
            note: row.get(4)?,
            revision: row.get(5)?,
        })
    }
}

impl StoreReader {
    /// Lists datasets by name.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn datasets(&self) -> Result<Vec<DatasetRow>, StoreQueryError> {
        let connection = self.begin();
        let query = format!(
            "SELECT {DATASET_COLUMNS} FROM dataset_items GROUP BY dataset ORDER BY dataset"
        );
        Ok(all(connection, &query, [], DatasetRow::read)?)
    }

    /// Lists the items of a dataset page by page, by creation.
    ///
    /// # Errors
    /// The query takes too long, or the file cannot be read.
    pub fn dataset_items(
        &self,
        dataset: &str,
        after: Option<PagePlace>,
        limit: usize,
    ) -> Result<StoredPage<DatasetItem>, StoreQueryError> {
        let connection = self.begin();
        let from = "dataset_items d";
        let condition = ("d.dataset = ?".to_owned(), vec![SqlValue::Text(dataset.to_owned())]);
        let count = first_count(connection, from, &condition, after)?;
        let page = Page { columns: COLUMNS, rank: "-d.seq", seq: "-d.seq", from, order: None };
        let read = |row: &Row<'_>| DatasetItem::read(connection, row);
        Ok(StoredPage { count, ..page.read(connection, condition, after, limit, read)? })
    }
}

/// Finds an item.
pub(crate) fn item_of(
    connection: &Connection,
    dataset: &str,
    key: &str,
) -> rusqlite::Result<Option<DatasetItem>> {
    let query =
        format!("SELECT {COLUMNS} FROM dataset_items d WHERE d.dataset = ?1 AND d.key = ?2");
    let read = |row: &Row<'_>| DatasetItem::read(connection, row);
    connection.query_row(&query, [dataset, key], read).optional()
}

/// Derives the criteria of a run: its calls.
pub(crate) fn expected_of(run: &StoredTrajectory) -> Value {
    json!({ "tool_calls": run.calls.iter().map(expected_call).collect::<Vec<_>>() })
}

/// Derives an expected call. Arguments that are not stored completely are left open.
fn expected_call(call: &StoredCall) -> Value {
    let given = call.arguments.as_ref().filter(|it| it.get("truncated").is_none());
    match given.and_then(|it| it.get("value")?.as_object()).filter(|map| !is_rekeyed(map)) {
        Some(arguments) => json!({ "name": call.tool, "arguments": expected_entries(arguments) }),
        None => json!({ "name": call.tool }),
    }
}

/// Derives an expected value: a redacted one may be anything, and a value that resembles a matcher
/// is escaped.
fn expected(value: &Value) -> Value {
    match value {
        Value::String(text) if is_redacted(text) => json!({ "$is": "any" }),
        Value::Object(map) if map.len() == 1 && map.contains_key("$is") => {
            json!({ "$is": { "equals": value } })
        }
        Value::Object(map) if is_rekeyed(map) => json!({ "$is": "any" }),
        Value::Object(map) => expected_entries(map).into(),
        Value::Array(items) => items.iter().map(expected).collect(),
        other => other.clone(),
    }
}

fn expected_entries(map: &Map<String, Value>) -> Map<String, Value> {
    map.iter().map(|(key, it)| (key.clone(), expected(it))).collect()
}

/// Returns true if a key of an object was redacted, so that the original key is unknown.
fn is_rekeyed(map: &Map<String, Value>) -> bool {
    map.keys().any(|key| is_redacted(key))
}

/// Returns true if a text holds a redaction mark: `[EMAIL_1]`, `[EMAIL]` of a sender without
/// numbers, `[WITHHELD]`. Any bracketed capitals count: a value left open can be closed by hand,
/// but a redacted one never matches again.
fn is_redacted(text: &str) -> bool {
    text.split('[').skip(1).any(|rest| {
        let is_name = |name: &str| {
            name.starts_with(|it: char| it.is_ascii_uppercase())
                && name.chars().all(|it| matches!(it, 'A'..='Z' | '0'..='9' | '_'))
                && name.chars().filter(char::is_ascii_uppercase).count() > 1
        };
        rest.split_once(']').is_some_and(|(name, _)| is_name(name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expected_values_are_those_seen_but_for_replaced_ones_and_seeming_matchers() {
        let check = |value: Value, wanted: Value| assert_eq!(expected(&value), wanted);
        check(json!({"a": [1, "x"]}), json!({"a": [1, "x"]}));
        check(json!({"to": "[EMAIL_1]"}), json!({"to": {"$is": "any"}}));
        check(json!(["say [CREDIT_CARD_12]!"]), json!([{"$is": "any"}]));
        check(json!("[WITHHELD]"), json!({"$is": "any"}));
        check(json!("to [EMAIL]"), json!({"$is": "any"}));
        check(json!("[IPV4_1]"), json!({"$is": "any"}));
        check(json!({"a": {"[EMAIL_1]": 1, "b": 2}}), json!({"a": {"$is": "any"}}));
        check(json!("[1] [_1] [x_1] [A_] [X] [EMAIL"), json!("[1] [_1] [x_1] [A_] [X] [EMAIL"));
        check(json!({"$is": "any"}), json!({"$is": {"equals": {"$is": "any"}}}));
        check(json!({"$is": 1, "b": 2}), json!({"$is": 1, "b": 2}));
    }
}
