//! Rows that queries read, each field declared beside its column.

use rusqlite::types::FromSql;
use rusqlite::{Connection, Params, Row};

/// Declares a row, its columns as a constant, and `read`, which takes them in the same order. A
/// field has one of three forms:
///
/// ```text
/// agent: String = "s.agent";                              value of the column
/// left_out: Option<&'static str> = "t.shed" => left_out;  that value mapped by a function
/// verdicts: Vec<RunVerdict> = later;                      default until another query fills it
/// ```
macro_rules! stored_row {
    ($(#[$of_row:meta])* $vis:vis struct $Row:ident: $COLUMNS:ident {
        $($(#[$of_field:meta])* $field_vis:vis $field:ident: $Type:ty
            = $column:tt $(=> $make:path)?;)*
    }) => {
        $(#[$of_row])*
        $vis struct $Row { $($(#[$of_field])* $field_vis $field: $Type,)* }

        pub(super) const $COLUMNS: &str = $crate::query::row::joined!($($column)*);

        impl $Row {
            pub(super) fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
                let mut at = 0..;
                Ok(Self {
                    $($field: $crate::query::row::field!(row, at, $column $(, $make)?),)*
                })
            }
        }
    };
}

macro_rules! joined {
    ($first:literal $($(later)* $other:literal)* $(later)*) => {
        concat!($first $(, ", ", $other)*)
    };
}

macro_rules! field {
    ($row:ident, $at:ident, later) => {
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
