//! Rows in the printed formats.

use clap::ValueEnum;
use serde::Serialize;
use serde_json::{Map, Value};

use super::csv;
use crate::cli::{CommandError, output};
use spanscore_base::visible;

/// Output format of rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub(super) enum RowFormat {
    /// A table, for people
    #[default]
    Table,
    /// One JSON object per line
    Jsonl,
    /// A table for spreadsheets
    Csv,
}

/// Converts a row to an object.
pub(super) fn object(row: &impl Serialize) -> Result<Map<String, Value>, CommandError> {
    match serde_json::to_value(row).map_err(anyhow::Error::new)? {
        Value::Object(map) => Ok(map),
        _ => Ok(Map::new()),
    }
}

/// Prints an object whose first field is the kind of row.
pub(super) fn print_record(row: &str, record: &impl Serialize) -> Result<(), CommandError> {
    let mut named = Map::from_iter([("row".to_owned(), Value::from(row))]);
    named.extend(object(record)?);
    output::record(Value::Object(named))
}

/// Prints rows as JSON Lines or for spreadsheets.
pub(super) fn print_rows(rows: &[impl Serialize], format: RowFormat) -> Result<(), CommandError> {
    let objects: Vec<_> = rows.iter().map(object).collect::<Result<_, _>>()?;
    print_objects(&objects, format)
}

/// Prints objects as JSON Lines or for spreadsheets.
pub(super) fn print_objects(
    objects: &[Map<String, Value>],
    format: RowFormat,
) -> Result<(), CommandError> {
    if let Some(first) = objects.first() {
        print_names(first, format)?;
    }
    objects.iter().try_for_each(|it| print_object(it, format))
}

/// Prints the header of a spreadsheet table.
pub(super) fn print_names(
    object: &Map<String, Value>,
    format: RowFormat,
) -> Result<(), CommandError> {
    match format {
        RowFormat::Csv => output::line(csv::line(object.keys().cloned())),
        _ => Ok(()),
    }
}

/// Prints one object, without a header.
pub(super) fn print_object(
    object: &Map<String, Value>,
    format: RowFormat,
) -> Result<(), CommandError> {
    match format {
        RowFormat::Csv => output::line(csv::line(object.values().map(cell))),
        _ => output::record(Value::Object(object.clone())),
    }
}

/// Returns the text of a cell: one line without control characters.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => visible::line(text).to_string(),
        other => visible::line(other).to_string(),
    }
}
