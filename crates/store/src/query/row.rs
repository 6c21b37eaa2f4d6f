//! Rows that queries read, each field declared beside its column.

use rusqlite::types::FromSql;
use rusqlite::{Connection, Params, Row};

/// Declares a row: each field with its column, and the function that makes the field of that where
/// it is not the value itself; a field without a column has its default until another query fills
/// it. The columns are a constant, in the order in which `read` takes them.
macro_rules! stored_row {
    ($(#[$of_row:meta])* $vis:vis struct $Row:ident: $COLUMNS:ident {
        $($(#[$of_field:meta])* $field_vis:vis $field:ident: $Type:ty
            $(= $column:literal $(=> $make:path)?)?;)*
    }) => {
        $(#[$of_row])*
        $vis struct $Row { $($(#[$of_field])* $field_vis $field: $Type,)* }

        pub(super) const $COLUMNS: &str = $crate::query::row::joined!($($($column)?)*);

        impl $Row {
            pub(super) fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
                let mut at = 0..;
                Ok(Self {
                    $($field: $crate::query::row::field!(row, at $(, $column $(, $make)?)?),)*
                })
            }
        }
    };
}

macro_rules! joined {
    ($first:literal $($other:literal)*) => { concat!($first $(, ", ", $other)*) };
}

macro_rules! field {
    ($row:ident, $at:ident) => {
        Default::default()
    };
    ($row:ident, $at:ident, $column:literal) => {
        $crate::query::row::next($row, &mut $at)?
    };
    ($row:ident, $at:ident, $column:literal, $make:path) => {
        $make($crate::query::row::next($row, &mut $at)?)
    };
}

pub(super) use {field, joined, stored_row};

/// Reads all rows of a query.
pub(super) fn all<T>(
    connection: &Connection,
    query: &str,
    values: impl Params,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    connection.prepare(query)?.query_map(values, read)?.collect()
}

/// Returns the value of the next column.
pub(super) fn next<T: FromSql>(
    row: &Row<'_>,
    at: &mut std::ops::RangeFrom<usize>,
) -> rusqlite::Result<T> {
    row.get(at.next().unwrap_or(0))
}
