//! Figures in total and by group, with those of the previous period; and time series.

use std::collections::BTreeMap;

use serde::Serialize;

use spanscore_store::query::{CappedCount, GroupFigures, StoreFilter, StoreLosses, StoredGroup};

use super::{RouteQuery, rfc3339};
use crate::problem::ApiProblem;
use crate::readers::answer;

/// Limit on the buckets of a series.
pub(crate) const BUCKETS_MAX: i64 = 300;
/// Limit on series.
const SERIES_MAX: usize = 20;
/// Widths of buckets, seconds; beyond them whole weeks.
const WIDTHS: [i64; 9] = [60, 300, 900, 1_800, 3_600, 10_800, 21_600, 43_200, 86_400];
const WEEK: i64 = 7 * 86_400;
const MINUTE_MS: i64 = 60_000;
/// Age up to which sums have minute resolution, milliseconds.
const MINUTES_KEPT_MS: i64 = 48 * 3_600_000;
/// Default length of a series, milliseconds.
const SERIES_DEFAULT_MS: i64 = 24 * 3_600_000;

#[derive(Serialize)]
struct SummaryAnswer {
    from: Option<String>,
    to: Option<String>,
    figures: GroupFigures,
    previous: Option<GroupFigures>,
    runs: CappedCount,
    calls: i64,
    call_errors: i64,
    groups: Vec<GroupItem>,
    from_sums: bool,
    losses: StoreLosses,
}

#[derive(Serialize)]
struct GroupItem {
    keys: BTreeMap<&'static str, String>,
    #[serde(flatten)]
    figures: GroupFigures,
}

impl RouteQuery<'_> {
    /// Returns the field values of a group.
    fn keys(&self, group: &StoredGroup) -> BTreeMap<&'static str, String> {
        let fields = self.question.group_by.iter().map(|field| field.as_str());
        fields.zip(group.keys.iter().cloned()).collect()
    }
}

pub(super) fn summary(asking: &RouteQuery<'_>) -> Result<Vec<u8>, ApiProblem> {
    let RouteQuery { reader, question, .. } = asking;
    let filter = &question.filter;
    let groups = match &question.group_by[..] {
        [] => Vec::new(),
        by => reader.groups(filter, by)?,
    };
    let from_sums = reader.has_sums(filter, &question.group_by);
    // Groups of sums are few and complete.
    let all = if from_sums && !groups.is_empty() {
        StoredGroup::merged(&groups)
    } else {
        reader.groups(filter, &[])?.into_iter().next()
    };
    let groups =
        groups.iter().map(|it| GroupItem { keys: asking.keys(it), figures: GroupFigures::new(it) });
    let previous = before(filter, question.now_ms);
    let previous = previous.map(|filter| reader.groups(&filter, &[])).transpose()?;
    let (calls, call_errors) = reader.count_calls(filter)?;
    answer(&SummaryAnswer {
        from: filter.from_ms.map(rfc3339),
        to: filter.to_ms.map(rfc3339),
        figures: all.as_ref().map(GroupFigures::new).unwrap_or_default(),
        previous: previous.map(|groups| GroupFigures::of_all(&groups)),
        runs: reader.count_runs(filter)?,
        calls,
        call_errors,
        groups: groups.collect(),
        from_sums,
        losses: reader.losses()?,
    })
}

/// Returns the filter for the previous period of the same length.
fn before(filter: &StoreFilter, now_ms: i64) -> Option<StoreFilter> {
    let from = filter.from_ms?;
    let length = filter.to_ms.unwrap_or(now_ms).saturating_sub(from);
    let mut before = filter.clone();
    before.from_ms = Some(from.saturating_sub(length));
    before.to_ms = Some(from);
    Some(before)
}

#[derive(Serialize)]
struct SeriesAnswer {
    from: String,
    to: String,
    bucket_s: i64,
    series: Vec<FigureSeries>,
    from_sums: bool,
}

#[derive(Serialize)]
struct FigureSeries {
    keys: BTreeMap<&'static str, String>,
    points: Vec<SeriesPoint>,
}

#[derive(Serialize)]
struct SeriesPoint {
    time: String,
    #[serde(flatten)]
    figures: GroupFigures,
}

pub(super) fn series(asking: &RouteQuery<'_>) -> Result<Vec<u8>, ApiProblem> {
    let RouteQuery { reader, question, .. } = asking;
    let now_ms = question.now_ms;
    let mut filter = question.filter.clone();
    let to = filter.to_ms.unwrap_or(now_ms);
    let from = filter.from_ms.unwrap_or(to.saturating_sub(SERIES_DEFAULT_MS));
    if from >= to {
        return Err(ApiProblem::value("from", "`from` is not before `to`"));
    }
    let from_sums = reader.has_sums(&filter, &question.group_by);
    let bucket_s = width(from, to, from_sums && from < now_ms - MINUTES_KEPT_MS);
    let width_ms = bucket_s * 1_000;
    let start = from.div_euclid(width_ms) * width_ms;
    filter.from_ms = Some(from);
    // Sums have minute resolution: the current minute belongs to an open period.
    let end = (now_ms.div_euclid(MINUTE_MS) + 1) * MINUTE_MS;
    filter.to_ms = Some(filter.to_ms.unwrap_or(end));
    let mut curves: BTreeMap<String, FigureSeries> = BTreeMap::new();
    for group in reader.series(&filter, &question.group_by, (start, width_ms))? {
        let Some(bucket) = group.keys.last().and_then(|it| it.parse::<i64>().ok()) else {
            continue;
        };
        let key = group.keys.first().filter(|_| group.keys.len() > 1).cloned().unwrap_or_default();
        let empty = || FigureSeries { keys: asking.keys(&group), points: Vec::new() };
        let time = rfc3339(start.saturating_add(bucket.saturating_mul(width_ms)));
        let point = SeriesPoint { time, figures: GroupFigures::new(&group) };
        curves.entry(key).or_insert_with(empty).points.push(point);
    }
    let mut series: Vec<FigureSeries> = curves.into_values().collect();
    let count = |it: &FigureSeries| it.points.iter().map(|point| point.figures.count).sum::<i64>();
    series.sort_by_key(|it| std::cmp::Reverse(count(it)));
    series.truncate(SERIES_MAX);
    // Bucket numbers were sorted as texts.
    series.iter_mut().for_each(|it| it.points.sort_by(|a, b| a.time.cmp(&b.time)));
    answer(&SeriesAnswer { from: rfc3339(from), to: rfc3339(to), bucket_s, series, from_sums })
}

/// Returns the narrowest width of at most [`BUCKETS_MAX`] buckets, seconds.
fn width(from_ms: i64, to_ms: i64, is_hourly: bool) -> i64 {
    let least = if is_hourly { 3_600 } else { 60 };
    // The first bucket may begin before the period.
    let fits = |width: i64| (to_ms - from_ms) / 1_000 < width * (BUCKETS_MAX - 1);
    let found = WIDTHS.into_iter().find(|width| *width >= least && fits(*width));
    found.unwrap_or_else(|| {
        let weeks = (to_ms - from_ms) / 1_000 / (WEEK * (BUCKETS_MAX - 1)) + 1;
        weeks * WEEK
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_at_most_three_hundred() {
        let hour = 3_600_000;
        let check = |span_ms: i64, is_hourly: bool, expected: i64| {
            let found = width(7, 7 + span_ms, is_hourly);
            assert_eq!(found, expected, "{span_ms}");
            assert!(span_ms / (found * 1_000) < BUCKETS_MAX);
        };
        check(hour, false, 60);
        check(299 * 60_000 - 1, false, 60);
        check(299 * 60_000, false, 300);
        check(24 * hour, false, 300);
        check(hour, true, 3_600);
        check(7 * 24 * hour, true, 3_600);
        check(400 * 24 * hour, true, WEEK);
        check(40_000 * 24 * hour, true, 20 * WEEK);
    }
}
