//! Arguments and fields whose numbers count or page.

/// Longest key that is looked at, bytes: each number under it copies and hashes it, and one of
/// megabytes may stand over a million numbers.
pub(crate) const KEY_BYTES_MAX: usize = 128;
/// Keys whose numbers say something of the answer, not of what it is about.
const COUNTERS: [&str; 26] = [
    "status", "statuscode", "httpstatus", "code", "count", "totalcount", "totalresults",
    "numresults", "totalpages", "page", "pages", "pagenumber", "pagesize", "perpage", "limit",
    "offset", "top", "topk", "maxresults", "length", "size", "year", "timeout", "retries",
    "durationms", "latencyms",
];

/// Returns true for a key whose numbers count or page.
pub(crate) fn is_counter(key: &str) -> bool {
    if key.len() > KEY_BYTES_MAX {
        return false;
    }
    let plain: String = key.chars().filter(|c| c.is_alphanumeric()).collect();
    let plain = plain.to_lowercase();
    COUNTERS.contains(&plain.as_str()) || key.to_lowercase().ends_with("_count")
}
