//! Merge of overlapping findings of one rule in one text.
//!
//! The input is the findings of all detectors, the output non-overlapping ones: of overlapping ones
//! the most specific kind stays, then the longest, then the first.

use spanscore_detect::pack::Finding;

/// General kinds, replaced by any other kind at the same place; the most general is last.
const GENERAL: [&str; 8] = [
    "API Key", "Cloud Token", "Password", "National Id", "Tax Id", "Bank Account", "Phone",
    "Assigned Secret",
];

/// Merges findings, and keeps at most `each_max` of each kind, in text order.
pub(super) fn merged(mut findings: Vec<Finding>, each_max: usize) -> Vec<Finding> {
    findings.sort_by_key(|finding| finding.range.start);
    let mut apart: Vec<Finding> = Vec::new();
    let mut end = 0;
    for finding in findings {
        let is_within = finding.range.start < end;
        end = end.max(finding.range.end);
        match apart.last_mut().filter(|_| is_within) {
            Some(last) if says_more(&finding, last) => *last = finding,
            Some(_) => {}
            None => apart.push(finding),
        }
    }
    let mut counts: Vec<(String, usize)> = Vec::new();
    apart.retain(|finding| {
        let at = counts.iter().position(|(kind, _)| *kind == finding.kind).unwrap_or_else(|| {
            counts.push((finding.kind.clone(), 0));
            counts.len() - 1
        });
        counts[at].1 += 1;
        counts[at].1 <= each_max
    });
    apart
}

fn says_more(finding: &Finding, other: &Finding) -> bool {
    let rank = |finding: &Finding| {
        let general = GENERAL.iter().position(|kind| *kind == finding.kind);
        (general.map_or(0, |at| at + 1), usize::MAX - finding.range.len())
    };
    rank(finding) < rank(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(kind: &str, range: std::ops::Range<usize>) -> Finding {
        Finding {
            rule: "no_pii".to_owned(),
            kind: kind.to_owned(),
            category: String::new(),
            range,
            preview: String::new(),
        }
    }

    #[track_caller]
    fn check(all: &[(&str, std::ops::Range<usize>)], each_max: usize, stay: &[(&str, usize)]) {
        let all = all.iter().map(|(kind, range)| finding(kind, range.clone())).collect();
        let found = merged(all, each_max);
        let found: Vec<(&str, usize)> =
            found.iter().map(|finding| (&*finding.kind, finding.range.start)).collect();
        assert_eq!(found, stay);
    }

    #[test]
    fn of_findings_that_overlap_the_most_specific_stays() {
        check(&[("Assigned Secret", 0..40), ("GitHub Token", 8..40)], 9, &[("GitHub Token", 8)]);
        check(
            &[("SSN", 4..15), ("Phone", 0..15), ("Phone", 20..30)],
            9,
            &[("SSN", 4), ("Phone", 20)],
        );
        check(&[("Phone", 5..15), ("Phone", 2..15)], 9, &[("Phone", 2)]);
        check(&[("Email", 0..5), ("Phone", 5..9)], 9, &[("Email", 0), ("Phone", 5)]);
    }

    #[test]
    fn places_count_once_for_the_limit() {
        let all = [("DOB", 0..9), ("DOB", 0..9), ("DOB", 10..19), ("DOB", 20..29), ("SSN", 30..40)];
        check(&all, 2, &[("DOB", 0), ("DOB", 10), ("SSN", 30)]);
    }
}
