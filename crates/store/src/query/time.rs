//! Points in time in human form: `1h`, `-7d`, `yesterday`, RFC 3339.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SpanRelativeTo, Timestamp};

use super::StoreQueryError;

/// Milliseconds of a day.
const DAY_MS: i64 = 24 * 3_600_000;

/// Reads a point in time, Unix milliseconds; days begin at midnight UTC.
///
/// # Errors
/// The text is not a time.
pub fn point_in_time(text: &str, now_ms: i64) -> Result<i64, StoreQueryError> {
    let today = now_ms.div_euclid(DAY_MS) * DAY_MS;
    match text.trim() {
        "now" => return Ok(now_ms),
        "today" => return Ok(today),
        "yesterday" => return Ok(today - DAY_MS),
        _ => {}
    }
    let text = text.trim();
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(time.as_millisecond());
    }
    // UTC without a zone, as for days.
    if let Some(time) = text.parse::<DateTime>().ok().and_then(|it| it.to_zoned(TimeZone::UTC).ok())
    {
        return Ok(time.timestamp().as_millisecond());
    }
    let ago = text.trim_start_matches('-').parse::<jiff::Span>().ok().map(jiff::Span::abs);
    let ago = ago.and_then(|ago| ago.to_duration(SpanRelativeTo::days_are_24_hours()).ok());
    let ms = ago.and_then(|ago| i64::try_from(ago.as_millis()).ok());
    ms.map(|ms| now_ms.saturating_sub(ms)).ok_or_else(|| StoreQueryError::Time(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-27T10:00:00Z.
    const NOW: i64 = 1_795_773_600_000;

    #[test]
    fn times_are_read_in_every_form() {
        let check =
            |text, ago| assert_eq!(point_in_time(text, NOW).ok(), Some(NOW - ago), "{text}");
        check("now", 0);
        check("1h", 3_600_000);
        check("-90m", 5_400_000);
        check("7d", 7 * DAY_MS);
        check("1h ago", 3_600_000);
        check("2026-11-27T09:00", 3_600_000);
        check("2026-11-27 09:00:00", 3_600_000);
        check("today", 10 * 3_600_000);
        check("yesterday", 34 * 3_600_000);
        check("2026-11-26", 34 * 3_600_000);
        check("2026-11-27T09:00:00Z", 3_600_000);
    }

    #[test]
    fn what_is_no_time_is_refused_with_the_forms_that_are() {
        let error = point_in_time("last week", NOW).map_err(|error| error.to_string());
        assert!(error.is_err_and(|text| text.contains("last week") && text.contains("yesterday")));
    }
}
