//! Schema of the file: tables, views, and migrations.
//!
//! `user_version` is the number of migrations applied. Each is one transaction. A file of a newer
//! program is refused. Views are recreated after every migration.

use rusqlite::Connection;

/// Migrations, the first of which makes an empty file one of version 1.
const STEPS: [&str; 4] = [
    include_str!("tables.sql"),
    include_str!("clients.sql"),
    include_str!("definitions.sql"),
    include_str!("runs.sql"),
];
/// Views for readers.
const VIEWS: &str = include_str!("views.sql");
/// Names of the views.
const VIEW_NAMES: [&str; 5] =
    ["v_trajectories", "v_evaluations", "v_calls", "v_sessions", "v_annotations"];

/// Version of files written by this program.
pub const VERSION: u32 = STEPS.len() as u32;

/// Reads the version of a file.
pub(crate) fn version(connection: &Connection) -> rusqlite::Result<u32> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// Migrates an older or empty file to [`VERSION`].
pub(crate) fn migrate(connection: &mut Connection) -> rusqlite::Result<()> {
    migrate_to(connection, STEPS.len())
}

/// Migrates an older or empty file to a version.
pub(crate) fn migrate_to(connection: &mut Connection, to: usize) -> rusqlite::Result<()> {
    let found = version(connection)?;
    for (at, step) in STEPS[..to].iter().enumerate().skip(found as usize) {
        let transaction = connection.transaction()?;
        for name in VIEW_NAMES {
            transaction.execute(&format!("DROP VIEW IF EXISTS {name}"), [])?;
        }
        transaction.execute_batch(step)?;
        transaction.execute_batch(VIEWS)?;
        transaction.pragma_update(None, "user_version", at as u32 + 1)?;
        transaction.commit()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_of_each_older_version_becomes_one_of_this_with_its_rows() {
        for version in 1..STEPS.len() {
            let mut file = Connection::open_in_memory().unwrap();
            migrate_to(&mut file, version).unwrap();
            file.execute_batch(
                "INSERT INTO sources VALUES (1, 'shop', '', '', '');
                 INSERT INTO trajectories (trace_id, client_group, span_id, source, time, stored,
                 duration_us, revision, completion, partial, spans, calls, errors, passed, failed,
                 not_evaluable, broken) VALUES (x'01', x'', x'', 1, 0, 0, 0, 0, '', 0, 0, 0, 0, 0,
                 0, 0, 0)",
            )
            .unwrap();
            migrate(&mut file).unwrap();
            let query = "SELECT count(*) FROM v_trajectories v JOIN trajectories t USING (seq)
                WHERE t.definitions IS NULL AND t.models IS NULL AND t.answer = 'unknown'
                AND v.started = v.time";
            let rows: u32 = file.query_row(query, [], |row| row.get(0)).unwrap();
            assert_eq!((rows, super::version(&file).unwrap()), (1, VERSION), "{version}");
        }
    }
}
