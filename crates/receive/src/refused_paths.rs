//! Log of requests to unknown paths, which reveals misconfigured senders.
//!
//! Paths are untrusted and unbounded in number, so one line a minute names at most [`PATHS_MAX`] of
//! them, truncated and escaped.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use spanscore_base::visible;

/// Shortest interval of lines.
const INTERVAL: Duration = Duration::from_secs(60);
/// Limit on the paths in a line.
const PATHS_MAX: usize = 10;
/// Longest path in a line, bytes before escaping.
const PATH_BYTES_MAX: usize = 100;

/// Unknown paths since the last line.
#[derive(Debug, Default)]
pub(crate) struct RefusedPaths(Mutex<PathsSince>);

#[derive(Debug, Default)]
struct PathsSince {
    logged: Option<Instant>,
    paths: Vec<String>,
    /// Requests to any of them, and to those beyond the limit.
    requests: u64,
}

impl RefusedPaths {
    /// Adds a request to an unknown path, and logs if due.
    pub(crate) fn add(&self, path: &str) {
        if let Some(SeenPaths { paths, requests }) = self.add_at(path, Instant::now()) {
            tracing::warn!(
                paths = %visible::line(paths.join(" ")),
                requests,
                "requests came to paths that are not known here: see \
                 receivers.otlp.protocols.http.traces_url_path"
            );
        }
    }

    /// Adds a path; returns the line to log now, if due.
    fn add_at(&self, path: &str, now: Instant) -> Option<SeenPaths> {
        let mut since = self.0.lock();
        let path = cut(path);
        if since.paths.len() < PATHS_MAX && !since.paths.contains(&path) {
            since.paths.push(path);
        }
        since.requests += 1;
        if since.logged.is_some_and(|logged| now.saturating_duration_since(logged) < INTERVAL) {
            return None;
        }
        let PathsSince { paths, requests, .. } =
            std::mem::replace(&mut *since, PathsSince { logged: Some(now), ..Default::default() });
        Some(SeenPaths { paths, requests })
    }
}

/// Content of a line.
#[derive(Debug, PartialEq, Eq)]
struct SeenPaths {
    paths: Vec<String>,
    requests: u64,
}

/// Returns the start of a path.
fn cut(path: &str) -> String {
    match path.get(..path.floor_char_boundary(PATH_BYTES_MAX)) {
        Some(start) if start.len() < path.len() => format!("{start}…"),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_paths_a_minute_are_named_and_the_others_counted() {
        let refused = RefusedPaths::default();
        let start = Instant::now();
        let first = refused.add_at("/a", start);
        assert_eq!(first, Some(SeenPaths { paths: vec!["/a".into()], requests: 1 }));
        for number in 0..1000 {
            assert_eq!(refused.add_at(&format!("/{number}"), start), None);
            assert_eq!(refused.add_at("/0", start + INTERVAL / 2), None);
        }
        let long = "/".repeat(PATH_BYTES_MAX + 1);
        let then = refused.add_at(&long, start + INTERVAL).unwrap();
        assert_eq!((then.paths.len(), then.requests), (PATHS_MAX, 2001));
        assert_eq!(then.paths[9], "/9");
        let alone = refused.add_at(&long, start + 2 * INTERVAL).unwrap();
        assert_eq!(alone.paths, ["/".repeat(PATH_BYTES_MAX) + "…"]);
    }
}
