//! Dataset items: expectations for a run, derived from a stored one and edited.

use rusqlite::{Connection, params};
use serde::Deserialize;
use serde_json::Value;

use super::{StoreEditError, check_pinned, check_revision, check_room, check_text, pin};
use crate::query::dataset::{DatasetItem, expected_of, item_of};
use crate::query::trajectory::{StoredTrajectory, bytes_of, find, row_of};
use crate::store::StoreView;

/// Limit on datasets.
const DATASETS_MAX: i64 = 100;
/// Limit on the items of a dataset, since each retains its run.
pub(crate) const ITEMS_MAX: i64 = 1_000;
/// Longest name of a dataset or an item, bytes.
const NAME_BYTES_MAX: usize = 200;
/// Longest criteria, bytes of JSON.
const CRITERIA_BYTES_MAX: usize = 64 << 10;
/// Longest note, bytes.
const NOTE_BYTES_MAX: usize = 4_096;
/// Digits of the trace id that name an item without a case.
const KEY_DIGITS: usize = 12;

/// New item, derived from a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NewDatasetItem {
    /// Dataset; its first item creates it.
    pub dataset: String,
    /// Run, by the first digits of its trace id.
    pub trace_id: String,
    /// Name of the item. Default: the case of the run, or the first digits of its trace id if it
    /// has none or another run has that name.
    pub key: Option<String>,
    /// Note for people, and criteria instead of derived ones.
    pub change: DatasetItemChange,
}

/// Editable part of an item; missing parts stay unchanged.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatasetItemChange {
    /// Expectations, as in the config.
    pub criteria: Option<Value>,
    /// Note.
    pub note: Option<String>,
}

impl DatasetItemChange {
    /// Returns the criteria as text, after all checks.
    fn checked(&self) -> Result<Option<String>, StoreEditError> {
        check_text("note", self.note.as_deref().unwrap_or_default(), NOTE_BYTES_MAX)?;
        let Some(criteria) = &self.criteria else { return Ok(None) };
        if !criteria.is_object() {
            let what = "`criteria` is an object, such as `{\"tool_calls\": []}`".to_owned();
            return Err(StoreEditError::Value { name: "criteria", what });
        }
        let text = criteria.to_string();
        check_text("criteria", &text, CRITERIA_BYTES_MAX)?;
        Ok(Some(text))
    }
}

impl StoreView {
    /// Creates an item from a run.
    ///
    /// # Errors
    /// The run is missing, the name is taken, a value is invalid, a limit is reached, or
    /// the store cannot be written.
    pub fn add_item(&self, new: NewDatasetItem) -> Result<DatasetItem, StoreEditError> {
        check_name("dataset", &new.dataset)?;
        let criteria = new.change.checked()?;
        let pinned_max = self.pinned_max;
        self.edit(move |connection| {
            check_pinned(connection, pinned_max)?;
            insert(connection, &new, criteria)
        })
    }

    /// Changes an item; with a revision only if it is unchanged.
    ///
    /// # Errors
    /// It is missing or was changed, a value is invalid, or the store cannot be written.
    pub fn change_item(
        &self,
        (dataset, key): (&str, &str),
        change: DatasetItemChange,
        revision: Option<i64>,
    ) -> Result<DatasetItem, StoreEditError> {
        let criteria = change.checked()?;
        let dataset = dataset.to_owned();
        let key = key.to_owned();
        self.edit(move |connection| {
            let before = found(connection, &dataset, &key)?;
            check_revision(before.revision, revision)?;
            connection.execute(
                "UPDATE dataset_items SET criteria = ifnull(?3, criteria), note = ifnull(?4, note),
                 revision = revision + 1 WHERE dataset = ?1 AND key = ?2",
                params![dataset, key, criteria, change.note],
            )?;
            pin(connection, &bytes_of(&before.trace_id))?;
            found(connection, &dataset, &key)
        })
    }

    /// Deletes an item; with a revision only if it is unchanged.
    ///
    /// # Errors
    /// It is missing or was changed, or the store cannot be written.
    pub fn delete_item(
        &self,
        (dataset, key): (&str, &str),
        revision: Option<i64>,
    ) -> Result<(), StoreEditError> {
        let dataset = dataset.to_owned();
        let key = key.to_owned();
        self.edit(move |connection| {
            let before = found(connection, &dataset, &key)?;
            check_revision(before.revision, revision)?;
            let query = "DELETE FROM dataset_items WHERE dataset = ?1 AND key = ?2";
            connection.execute(query, [&dataset, &key])?;
            Ok(pin(connection, &bytes_of(&before.trace_id))?)
        })
    }
}

fn found(connection: &Connection, dataset: &str, key: &str) -> Result<DatasetItem, StoreEditError> {
    let missing = || StoreEditError::Missing { what: format!("item `{key}` in `{dataset}`") };
    item_of(connection, dataset, key)?.ok_or_else(missing)
}

fn insert(
    connection: &Connection,
    new: &NewDatasetItem,
    criteria: Option<String>,
) -> Result<DatasetItem, StoreEditError> {
    let NewDatasetItem { dataset, change, .. } = new;
    let (_, trace_id) = row_of(connection, &new.trace_id)?;
    let run = find(connection, &trace_id)?;
    let named = new.key.clone().filter(|key| !key.trim().is_empty());
    let key = named.map_or_else(|| key_of(connection, dataset, &run), Ok)?;
    check_name("key", &key)?;
    let rows = "SELECT count(*) FROM dataset_items WHERE dataset = ?1";
    check_room(connection, rows, [dataset], ("items of this dataset", ITEMS_MAX))?;
    let others = "SELECT count(DISTINCT dataset) FROM dataset_items WHERE dataset <> ?1";
    check_room(connection, others, [dataset], ("datasets", DATASETS_MAX))?;
    if item_of(connection, dataset, &key)?.is_some() {
        return Err(StoreEditError::Exists { what: format!("an item `{key}` in `{dataset}`") });
    }
    let criteria = match criteria {
        Some(criteria) => criteria,
        None if run.left_out == Some("calls") && run.calls.is_empty() => {
            let what = "calls of this run are not stored, as the store's queue was filled: write \
                        its `criteria`";
            return Err(StoreEditError::Value { name: "criteria", what: what.to_owned() });
        }
        None => expected_of(&run).to_string(),
    };
    check_text("criteria", &criteria, CRITERIA_BYTES_MAX)?;
    connection.execute(
        "INSERT INTO dataset_items (dataset, key, trace_id, criteria, note, revision)
         VALUES (?1, ?2, ?3, ?4, ?5, 1)",
        params![dataset, key, bytes_of(&trace_id), criteria, change.note],
    )?;
    pin(connection, &bytes_of(&trace_id))?;
    found(connection, dataset, &key)
}

/// Names the item of a run: its case, or digits of its trace id if another run has that name.
fn key_of(
    connection: &Connection,
    dataset: &str,
    run: &StoredTrajectory,
) -> Result<String, StoreEditError> {
    if let Some(case) = run.cases.first() {
        let named = item_of(connection, dataset, case)?;
        if named.is_none_or(|item| item.trace_id == run.trace_id) {
            return Ok(case.clone());
        }
    }
    Ok(run.trace_id[..KEY_DIGITS].to_owned())
}

/// Checks a name. It appears in addresses and files, so it must not have invisible characters.
fn check_name(name: &'static str, text: &str) -> Result<(), StoreEditError> {
    check_text(name, text, NAME_BYTES_MAX)?;
    if text.trim().is_empty() || text.contains(char::is_control) {
        let what = format!("`{name}` needs letters, and no control character");
        return Err(StoreEditError::Value { name, what });
    }
    Ok(())
}
