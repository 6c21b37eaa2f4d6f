//! Waits requested by providers, in headers and in texts.

use std::time::Duration;

use serde_json::Value;
use spanscore_net::client;

/// Headers of limits: the remainder of each, and its reset time.
/// <https://platform.openai.com/docs/guides/rate-limits>,
/// <https://docs.anthropic.com/en/api/rate-limits>
/// <https://inference-docs.cerebras.ai/support/rate-limits>
const LIMITS: [(&str, &str); 11] = [
    ("x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"),
    ("x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"),
    ("anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-reset"),
    ("anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-reset"),
    ("anthropic-ratelimit-input-tokens-remaining", "anthropic-ratelimit-input-tokens-reset"),
    ("anthropic-ratelimit-output-tokens-remaining", "anthropic-ratelimit-output-tokens-reset"),
    ("x-ratelimit-remaining-requests-minute", "x-ratelimit-reset-requests-minute"),
    ("x-ratelimit-remaining-tokens-minute", "x-ratelimit-reset-tokens-minute"),
    ("x-ratelimit-remaining-requests-day", "x-ratelimit-reset-requests-day"),
    ("x-ratelimit-remaining", "x-ratelimit-reset"),
    ("ratelimit-remaining", "ratelimit-reset"),
];
/// Thresholds from which a reset is Unix time in seconds, or in milliseconds.
const UNIX_SECONDS: f64 = 1e9;
const UNIX_MILLIS: f64 = 1e12;
/// Phrases before a wait, in lower case.
const BEFORE: [&str; 6] =
    ["try again in ", "retry after ", "retry in ", "please wait ", "reset after ", "available in "];

/// Returns the wait requested by an answer's headers: `retry-after-ms`, `retry-after`, or the
/// latest reset of an exhausted limit, if it refuses for that. `now` counts from the Unix epoch.
pub(in crate::judge) fn in_headers<'h>(
    status: u16,
    header: impl Fn(&str) -> Option<&'h str>,
    now: Duration,
) -> Option<Duration> {
    let millis = header("retry-after-ms").and_then(|value| value.trim().parse::<f64>().ok());
    let told = millis.and_then(|millis| Duration::try_from_secs_f64(millis / 1_000.0).ok());
    let told = told.or_else(|| client::retry_after(header("retry-after")?));
    let resets = LIMITS.iter().filter_map(|(remaining, reset)| {
        let is_used_up = header(remaining)?.trim().parse::<f64>().is_ok_and(|left| left <= 0.0);
        until(header(reset).filter(|_| is_used_up)?, now)
    });
    let draft = || in_draft(header("ratelimit")?, now);
    told.or_else(|| resets.chain(draft()).max().filter(|_| status == 429))
}

/// Reads the header of the IETF's draft, `"api";r=0;t=55` or `limit=10, remaining=0, reset=4`.
/// <https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/>
fn in_draft(value: &str, now: Duration) -> Option<Duration> {
    // The newer form has policies with a name, the older one limit alone.
    let policies = if value.contains(';') { value.split(',') } else { value.split('\n') };
    let resets = policies.filter_map(|policy| {
        let mut is_used_up = false;
        let mut reset = None;
        for (key, number) in policy.split([',', ';']).filter_map(|part| part.split_once('=')) {
            match key.trim() {
                "r" | "remaining" => is_used_up = number.trim() == "0",
                "t" | "reset" => reset = until(number, now),
                _ => {}
            }
        }
        reset.filter(|_| is_used_up)
    });
    resets.max()
}

/// Reads a wait told under a key of its own: a duration, seconds, a date, or Unix time.
pub(super) fn told(value: &Value, now: Duration) -> Option<Duration> {
    until(&value.as_str().map_or_else(|| value.to_string(), str::to_owned), now)
}

/// Reads the reset of a limit: a duration, seconds, a date, or Unix time.
fn until(value: &str, now: Duration) -> Option<Duration> {
    let since = |at: f64| Duration::try_from_secs_f64((at - now.as_secs_f64()).max(0.0)).ok();
    match value.trim().parse::<f64>() {
        Ok(millis) if millis >= UNIX_MILLIS => since(millis / 1_000.0),
        Ok(seconds) if seconds >= UNIX_SECONDS => since(seconds),
        Ok(seconds) => Duration::try_from_secs_f64(seconds).ok(),
        Err(_) => duration(value).or_else(|| client::retry_after(value)),
    }
}

/// Finds the wait requested in an error's text, which is in lower case.
pub(super) fn in_words(text: &str) -> Option<Duration> {
    BEFORE.iter().find_map(|words| leading(text.split_once(words)?.1).map(|(wait, _)| wait))
}

/// Reads a duration such as `2s`, `1m26.4s` or `20 seconds`.
pub(super) fn duration(text: &str) -> Option<Duration> {
    leading(text.trim()).filter(|(_, rest)| rest.is_empty()).map(|(wait, _)| wait)
}

/// Reads the duration at the start of a text; returns it with the rest.
fn leading(text: &str) -> Option<(Duration, &str)> {
    let mut seconds = None;
    let mut rest = text;
    while let Some((part, behind)) = part(rest) {
        seconds = Some(seconds.unwrap_or(0.0) + part);
        rest = behind;
    }
    Some((Duration::try_from_secs_f64(seconds?).ok()?, rest))
}

/// Reads a number with its unit, in seconds.
fn part(text: &str) -> Option<(f64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let number: f64 = text[..end].parse().ok()?;
    let rest = text[end..].trim_start();
    let (unit, rest) = rest.split_at(rest.find(|c: char| !c.is_alphabetic()).unwrap_or(rest.len()));
    let scale = match unit {
        "ms" | "milliseconds" => 0.001,
        "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
        "m" | "min" | "minute" | "minutes" => 60.0,
        "h" | "hour" | "hours" => 3_600.0,
        "d" | "day" | "days" => 86_400.0,
        _ => return None,
    };
    Some((number * scale, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Unix time of the checks, seconds.
    const NOW: u64 = 1_800_000_000;

    fn check(headers: &[(&str, &str)], expected: Option<f64>) {
        let header = |name: &str| headers.iter().find(|(own, _)| *own == name).map(|(_, it)| *it);
        let now = Duration::from_secs(NOW);
        let of = |status| in_headers(status, header, now).map(|wait| wait.as_secs_f64());
        assert_eq!(of(429), expected, "{headers:?}");
        let is_told = headers.iter().any(|(name, _)| name.starts_with("retry-after"));
        assert_eq!(of(503), expected.filter(|_| is_told), "{headers:?}");
    }

    #[test]
    fn waits_are_read_in_each_form_that_providers_have() {
        check(&[], None);
        check(&[("retry-after-ms", "1500"), ("retry-after", "7")], Some(1.5));
        check(&[("retry-after", "1.5")], Some(1.5));
        check(&[("retry-after", "-1")], None);
        check(&[("retry-after", "1e300")], None);
        let openai = |requests, tokens| {
            [
                ("x-ratelimit-remaining-requests", requests),
                ("x-ratelimit-reset-requests", "2s"),
                ("x-ratelimit-remaining-tokens", tokens),
                ("x-ratelimit-reset-tokens", "6m0.5s"),
            ]
        };
        check(&openai("0", "90"), Some(2.0));
        check(&openai("0", "0"), Some(360.5));
        check(&openai("9", "90"), None);
        for (reset, expected) in
            [("2", 2.0), ("1800000004", 4.0), ("1800000002500", 2.5), ("120ms", 0.12), ("9", 9.0)]
        {
            check(&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", reset)], Some(expected));
        }
        check(&[("ratelimit-remaining", "0"), ("ratelimit-reset", "soon")], None);
        check(&[("ratelimit", r#""day";r=5;t=900, "api";r=0;t=55"#)], Some(55.0));
        check(&[("ratelimit", r#""day";t=55;r=0, "api";r=9;t=900"#)], Some(55.0));
        check(&[("ratelimit", "limit=10, remaining=0, reset=4")], Some(4.0));
        check(&[("ratelimit", "limit=10, remaining=2, reset=4")], None);
    }

    #[test]
    fn waits_are_found_in_words() {
        let check = |text: &str, expected: Option<f64>| {
            assert_eq!(in_words(text).map(|wait| wait.as_secs_f64()), expected, "{text}");
        };
        check("limit 30000, requested 3000. please try again in 1.8s. visit", Some(1.8));
        check("please try again in 1m26.4s.", Some(86.4));
        check("please retry after 86400 seconds. please go", Some(86_400.0));
        check("please try again in 1d2h3m.", Some(93_780.0));
        check("please retry after 2 days", Some(172_800.0));
        check("please try again in a moment", None);
        check("your quota will reset after 8h44m7s.", Some(31_447.0));
        check("request was throttled. expected available in 7 seconds.", Some(7.0));
        check("available in 2 regions", None);
        check("slow down", None);
    }
}
