//! Dates in texts, in common notations.

use std::collections::BTreeSet;

use hashbrown::HashSet;

/// Names of months, also recognized by their first three letters.
const MONTHS: [&str; 12] = [
    "january", "february", "march", "april", "may", "june", "july", "august", "september",
    "october", "november", "december",
];
/// Names of weekdays in order, starting with that of the Unix epoch.
const DAYS: [&str; 7] =
    ["thursday", "friday", "saturday", "sunday", "monday", "tuesday", "wednesday"];
/// Words for a day near the start of the run.
const NEAR: [&str; 5] = ["today", "tonight", "tomorrow", "yesterday", "now"];
/// Words that, next to `day`, shift a known date by one.
const SHIFTS: [&str; 8] =
    ["later", "earlier", "after", "before", "next", "previous", "following", "back"];
/// Words allowed in a text that is a date.
const BESIDE: [&str; 6] = ["z", "am", "pm", "utc", "gmt", "of"];
/// Limit on the words of a text that is a date with a time.
const DATE_WORDS_MAX: usize = 8;
/// Limit on the days from a known date to a later day named without its month: `the 6th`.
const NEXT_DAYS: i64 = 31;
/// Words before a lone day of the month, with or without an article.
const BEFORE_DAY: [&str; 11] =
    ["on", "until", "till", "by", "from", "to", "before", "after", "for", "through", "since"];
/// Words after a lone day of the month; before any other word it may count: `the 2nd try`.
const BEHIND_DAY: [&str; 28] = [
    "and", "or", "but", "to", "at", "in", "on", "for", "from", "by", "until", "till", "through",
    "with", "instead", "please", "thanks", "thank", "if", "is", "would", "will", "then", "i", "we",
    "not", "because", "since",
];
/// Limit on the days from a known date, or today, to a date that takes its year from it.
const SEASON_DAYS: i64 = 92;
const YEAR_DAYS: i64 = 365;
/// Limit on the days from a known date, or today, to a date with a named weekday.
const WEEKDAY_DAYS: i64 = 21;
const NANOSECONDS_PER_DAY: u64 = 86_400_000_000_000;

/// Date; the year is 0 if absent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Date {
    year: u32,
    month: u32,
    day: u32,
}

impl Date {
    fn new(year: u32, month: u32, day: u32) -> Option<Self> {
        let is_date = (1..=12).contains(&month) && (1..=31).contains(&day);
        is_date.then_some(Self { year, month, day })
    }

    fn bare(self) -> Self {
        Self { year: 0, ..self }
    }

    /// Returns the days since the Unix epoch in the Gregorian calendar.
    fn days(self) -> i64 {
        let year = i64::from(self.year) - i64::from(self.month <= 2);
        let era = year.div_euclid(400);
        let of_era = year.rem_euclid(400);
        let month = i64::from((self.month + 9) % 12);
        let of_year = (153 * month + 2) / 5 + i64::from(self.day) - 1;
        era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
    }
}

/// Dates found in texts.
#[derive(Default)]
pub(super) struct Dates {
    /// Dates with their year, and each also without it.
    known: HashSet<Date>,
    /// Days since the epoch of dates with a year.
    days: BTreeSet<i64>,
    /// Dates with a year, without the year.
    dated: HashSet<Date>,
    /// Days of a month without a month.
    ordinals: HashSet<u32>,
}

impl Dates {
    /// Adds the dates of a text; calls `part` with the index of each word of a date.
    pub(super) fn add(&mut self, words: &[&str], mut part: impl FnMut(usize)) {
        let mut at = 0;
        while at < words.len() {
            let (dates, length) = dates_at(&words[at..]);
            for date in dates.into_iter().flatten() {
                self.known.extend([date, date.bare()]);
                if date.year > 0 {
                    self.days.insert(date.days());
                    self.dated.insert(date.bare());
                }
                (at..at + length).for_each(&mut part);
            }
            if length == 0 && is_named_alone(words, at) {
                self.ordinals.extend(day(words[at]).filter(|day| (1..=31).contains(day)));
            }
            at += length.max(1);
        }
    }

    /// Returns true if a date is known or follows from a named day.
    pub(super) fn hold(&self, date: Date, words: &HashSet<String>, start_ns: u64) -> bool {
        if self.known.contains(&date) || date.year == 0 {
            return self.known.contains(&date);
        }
        let days = date.days();
        let today = (start_ns / NANOSECONDS_PER_DAY) as i64;
        let is_close = |days: i64, within: i64| {
            (today - days).abs() <= within
                || self.days.range(days - within..=days + within).next().is_some()
        };
        let is_yearless = self.known.contains(&date.bare()) && !self.dated.contains(&date.bare());
        let is_of_another_year = || {
            !is_close(days, SEASON_DAYS)
                && [-YEAR_DAYS, YEAR_DAYS].iter().any(|by| is_close(days + by, SEASON_DAYS))
        };
        if is_yearless && !is_of_another_year() {
            return true;
        }
        let has = |all: &[&str]| all.iter().any(|word| words.contains(*word));
        let day = DAYS[days.rem_euclid(7) as usize];
        let is_near = (today - 1..=today + 2).contains(&days) && has(&NEAR);
        let is_shifted = has(&["day"])
            && has(&SHIFTS)
            && [days - 1, days + 1].iter().any(|days| self.days.contains(days));
        let is_next = self.ordinals.contains(&date.day)
            && (0..NEXT_DAYS).any(|by| days - by == today || self.days.contains(&(days - by)));
        (has(&[day]) && is_close(days, WEEKDAY_DAYS)) || is_near || is_shifted || is_next
    }
}

/// Returns true if the word at an index can be a day without its month.
fn is_named_alone(words: &[&str], at: usize) -> bool {
    let before = words[..at].iter().rev().find(|word| **word != "the");
    words[at].ends_with(|c: char| c.is_ascii_alphabetic())
        && before.is_some_and(|word| BEFORE_DAY.contains(word))
        && words.get(at + 1).is_none_or(|word| BEHIND_DAY.contains(word))
}

/// Reads a text that is only a date, optionally with a time.
pub(super) fn of_text(words: &[&str]) -> Option<Date> {
    let (dates, length) = dates_at(words);
    let date = dates[0]?;
    let is_time =
        |word: &&str| BESIDE.contains(word) || word.starts_with(|c: char| c.is_ascii_digit());
    (words.len() <= DATE_WORDS_MAX && words[length..].iter().all(is_time)).then_some(date)
}

/// Reads the date that starts at the first word, as two dates if day and month are ambiguous; also
/// returns its number of words.
fn dates_at(words: &[&str]) -> ([Option<Date>; 2], usize) {
    let none = ([None, None], 0);
    let Some(first) = words.first() else { return none };
    let points: Vec<&str> = first.split('.').collect();
    if points.len() == 3 {
        return (numeric(&points), 1);
    }
    let second = words.get(1).copied().unwrap_or_default();
    let offset = usize::from(second == "of");
    let next = words.get(1 + offset).copied().unwrap_or_default();
    let year = words.get(2 + offset).and_then(|word| year(word));
    let written = match (month(first), month(next)) {
        (Some(month), _) if offset == 0 => day(second).map(|day| (month, day)),
        (None, Some(month)) => day(first).map(|day| (month, day)),
        _ => None,
    };
    if let Some((month, day)) = written {
        let length = 2 + offset + usize::from(year.is_some());
        return ([Date::new(year.unwrap_or(0), month, day), None], length);
    }
    if words.len() < 3 {
        return none;
    }
    let dates = numeric(&words[..3]);
    if dates[0].is_some() { (dates, 3) } else { none }
}

/// Reads three numbers as year, month, day; or day and month in either order, then year.
fn numeric(parts: &[&str]) -> [Option<Date>; 2] {
    let last = parts[2].split('t').next().unwrap_or_default();
    let number = |text: &str| text.parse::<u32>().ok().filter(|_| text.len() <= 2);
    if let (Some(year), Some(month), Some(day)) = (year(parts[0]), number(parts[1]), number(last)) {
        return [Date::new(year, month, day), None];
    }
    let (Some(one), Some(other), Some(year)) = (number(parts[0]), number(parts[1]), year(last))
    else {
        return [None, None];
    };
    match (Date::new(year, one, other), Date::new(year, other, one)) {
        (None, date) => [date, None],
        (date, other) => [date, other],
    }
}

fn year(word: &str) -> Option<u32> {
    let year = word.parse().ok().filter(|_| word.len() == 4)?;
    (1900..=2100).contains(&year).then_some(year)
}

fn month(word: &str) -> Option<u32> {
    let is_month = |name: &&str| *name == word || (word.len() == 3 && name.starts_with(word));
    let place =
        MONTHS.iter().position(|name| is_month(name) || (*name == "september" && word == "sept"));
    place.and_then(|place| u32::try_from(place + 1).ok())
}

fn day(word: &str) -> Option<u32> {
    let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let tail = &word[digits.len()..];
    let is_plain = ["", "st", "nd", "rd", "th"].contains(&tail);
    digits.parse().ok().filter(|_| is_plain && digits.len() <= 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(source: &str, argument: &str, is_known: bool) {
        let split = |text: &str| {
            let mut words = Vec::new();
            super::super::words(text, |word| words.push(word.to_owned()));
            words
        };
        let source = split(source);
        let argument = split(argument);
        let refs = |words: &[String]| -> Vec<String> { words.to_vec() };
        let source_words: Vec<&str> = source.iter().map(String::as_str).collect();
        let argument_words: Vec<&str> = argument.iter().map(String::as_str).collect();
        let mut dates = Dates::default();
        dates.add(&source_words, |_| {});
        let date = of_text(&argument_words).expect("a date");
        let named = refs(&source).into_iter().collect();
        // Sunday, 10 May 2026.
        let start_ns = 20_583 * NANOSECONDS_PER_DAY;
        assert_eq!(dates.hold(date, &named, start_ns), is_known, "{source:?} {argument:?}");
    }

    #[test]
    fn dates_are_the_same_in_any_form() {
        check("leaving May 20", "2026-05-20", true);
        check("leaving on the 20th of May 2026, early", "2026-05-20T15:00:00Z", true);
        check("leaving May 20", "2026-05-21", false);
        check("leaving on May 20, 2025", "2026-05-20", false);
        check("leaving May 20", "2025-05-20", false);
        check("born on 1956-05-02, leaving May 20", "2026-05-20", true);
        check("booked on 2024-05-02, leaving May 20", "2024-05-20", true);
        check("booked on 2024-05-02, leaving May 20", "2023-05-20", false);
        check("some Friday", "2026-09-18", false);
        check("05/20/2026", "2026-05-20", true);
        check("20.05.2026", "2026-05-20", true);
        check("created 2026-05-20", "May 20", true);
        check("next Friday", "2026-05-15", true);
        check("next Friday", "2026-05-16", false);
        check("booked for 2026-05-31, make it a day later", "2026-06-01", true);
        check("booked for 2026-05-31, make it a day later", "2026-06-02", false);
        check("move it to the 16th", "2026-05-16", true);
        check("move it to the 16th", "2026-05-17", false);
        check("move it to the 16th", "2026-09-16", false);
        check("booked for 2026-09-02, move it to the 16th", "2026-09-16", true);
        check("move it to the 6th, please", "2026-06-06", true);
        check("move it to the 6th, please", "2026-05-06", false);
        check("booked for 2026-05-31, move it to the 6th", "2026-06-06", true);
        check("booked for 2026-05-31, move it to the 16th and tell me", "2026-04-16", false);
        check("the 16th class", "2026-05-16", false);
        check("my 16th question", "2026-05-16", false);
        check("on 16th Avenue", "2026-05-16", false);
        check("of the two the 16th is better", "2026-05-16", false);
        check("leaving on the 20th of May 2025", "2026-05-20", false);
        check("tomorrow", "2026-05-11", true);
        check("tomorrow", "2026-06-11", false);
    }
}
