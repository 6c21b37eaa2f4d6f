//! Arguments and fields with counts or page numbers.

/// Longest examined key, bytes: each number under it copies and hashes it, and a key of megabytes
/// may precede a million numbers.
pub(crate) const KEY_BYTES_MAX: usize = 128;
/// Keys with metadata of an answer instead of its content.
const COUNTERS: [&str; 26] = [
    "status", "statuscode", "httpstatus", "code", "count", "totalcount", "totalresults",
    "numresults", "totalpages", "page", "pages", "pagenumber", "pagesize", "perpage", "limit",
    "offset", "top", "topk", "maxresults", "length", "size", "year", "timeout", "retries",
    "durationms", "latencyms",
];

/// Returns true for a key with counts or page numbers.
pub(crate) fn is_counter(key: &str) -> bool {
    if key.len() > KEY_BYTES_MAX {
        return false;
    }
    let plain: String = key.chars().filter(|c| c.is_alphanumeric()).collect();
    let plain = plain.to_lowercase();
    COUNTERS.contains(&plain.as_str()) || key.to_lowercase().ends_with("_count")
}
