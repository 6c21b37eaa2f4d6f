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
    let mut printer = RowPrinter { format, count: 0 };
    rows.iter().try_for_each(|row| printer.print(row))
}

/// Printer of rows as JSON Lines or for spreadsheets.
pub(super) struct RowPrinter {
    pub(super) format: RowFormat,
    /// Number of printed rows.
    pub(super) count: usize,
}

impl RowPrinter {
    /// Prints a row; the first one of a spreadsheet below a header.
    pub(super) fn print(&mut self, row: &impl Serialize) -> Result<(), CommandError> {
        let object = object(row)?;
        let is_first = self.count == 0;
        self.count += 1;
        if self.format != RowFormat::Csv {
            return output::record(Value::Object(object));
        }
        if is_first {
            output::line(csv::line(object.keys().cloned()))?;
        }
        output::line(csv::line(object.values().map(cell)))
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
