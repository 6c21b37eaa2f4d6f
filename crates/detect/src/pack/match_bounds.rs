//! Match bounds around a literal: the bytes before and after it that a match may span.
//!
//! In: an expression and literals of which each match has one. Out: for each literal, the greatest
//! span of a match before its start, and from there on. So the expression needs to run only there,
//! whatever else the text contains.

use std::collections::BTreeMap;
use std::ops::Range;

use regex_syntax::hir::{Hir, HirKind};

use super::needs::{SPELLED_MAX, joined, place_of, required, shortened, spelled, starts, worth};

/// Greatest span of a match before the start of a literal, and from there to its end, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MatchBounds {
    pub(crate) before: usize,
    pub(crate) after: usize,
    /// Bytes after the start of the literal in which a match may begin too.
    pub(crate) past: usize,
}

/// Match bounds by the index of the literal.
type Reaches = BTreeMap<usize, MatchBounds>;

/// Computes the match bounds around these literals, in lower case; `None` if a match may have none
/// of them.
pub(super) fn reaches(hir: &Hir, literals: &[&str]) -> Option<Reaches> {
    in_texts(spelled(hir).as_deref(), literals).or_else(|| in_parts(hir, literals))
}

/// Returns literals that, with the given ones, cover every alternative of an expression; empty if
/// unknown.
pub(super) fn completion(hir: &Hir, literals: &[&str]) -> Vec<String> {
    if reaches(hir, literals).is_some() {
        return Vec::new();
    }
    let own = required(hir);
    let found = match hir.kind() {
        HirKind::Capture(capture) => completion(&capture.sub, literals),
        HirKind::Alternation(parts) => {
            parts.iter().flat_map(|part| completion(part, literals)).collect()
        }
        HirKind::Concat(parts) => {
            // The part with most of the literals.
            let part = parts.iter().max_by_key(|part| covered(part, literals));
            match part.filter(|part| covered(part, literals) > 0) {
                Some(part) => completion(part, literals),
                None => Vec::new(),
            }
        }
        _ => Vec::new(),
    };
    // An empty result means an alternative without a literal.
    let is_complete = !found.is_empty() && {
        let all: Vec<&str> = literals.iter().copied().chain(found.iter().map(|l| &**l)).collect();
        reaches(hir, &all).is_some()
    };
    match own {
        Some(own) if !is_complete || worth(&own) > worth(&found) => own,
        _ => found,
    }
}

/// Counts the alternatives of a part that contain one of the literals.
fn covered(hir: &Hir, literals: &[&str]) -> usize {
    match hir.kind() {
        HirKind::Capture(capture) => covered(&capture.sub, literals),
        HirKind::Alternation(parts) => parts.iter().map(|part| covered(part, literals)).sum(),
        HirKind::Concat(parts) => {
            let most = parts.iter().map(|part| covered(part, literals)).max().unwrap_or(0);
            most.max(usize::from(reaches(hir, literals).is_some()))
        }
        _ => usize::from(reaches(hir, literals).is_some()),
    }
}

fn in_texts(texts: Option<&[String]>, literals: &[&str]) -> Option<Reaches> {
    let mut all = Reaches::new();
    for text in texts? {
        let mut any = false;
        for (index, literal) in literals.iter().enumerate() {
            if let Some(at) = place_of(literal, text) {
                let reach = MatchBounds { before: at, after: text.len() - at, past: 0 };
                join(&mut all, index, reach);
                any = true;
            }
        }
        if !any {
            return None;
        }
    }
    Some(all)
}

fn join(all: &mut Reaches, index: usize, reach: MatchBounds) {
    let entry = all.entry(index).or_default();
    entry.before = entry.before.max(reach.before);
    entry.after = entry.after.max(reach.after);
}

fn in_parts(hir: &Hir, literals: &[&str]) -> Option<Reaches> {
    match hir.kind() {
        HirKind::Capture(capture) => reaches(&capture.sub, literals),
        HirKind::Repetition(repetition) if repetition.min > 0 => {
            let longest = hir.properties().maximum_len()?;
            let once = reaches(&repetition.sub, literals)?;
            let whole = |(index, reach): (usize, MatchBounds)| {
                (index, MatchBounds { after: reach.after.max(longest), ..reach })
            };
            Some(once.into_iter().map(whole).collect())
        }
        HirKind::Alternation(parts) => {
            let mut all = Reaches::new();
            for part in parts {
                let found = reaches(part, literals)?;
                found.into_iter().for_each(|(index, reach)| join(&mut all, index, reach));
            }
            Some(all)
        }
        HirKind::Concat(parts) => Some(chosen(parts, literals)?.reaches),
        _ => None,
    }
}

/// Adjacent parts that contain a literal in each match.
pub(super) struct ChosenParts {
    /// Their range among the parts.
    pub(super) parts: Range<usize>,
    /// Texts that they form together, if there are several parts.
    pub(super) texts: Option<Vec<String>>,
    /// True if the last part ends with the texts.
    pub(super) whole: bool,
    reaches: Reaches,
}

/// Returns the prefixes of a part together with expandable parts before it, and the index of the
/// first of these.
fn started(parts: &[Hir], end: usize) -> Option<(usize, Vec<String>)> {
    if spelled(&parts[end]).is_some() {
        return None;
    }
    let mut run = starts(&parts[end])?;
    if let Some(before) = end.checked_sub(1).and_then(|before| spelled(&parts[before])) {
        run = shortened(run, SPELLED_MAX / before.len());
    }
    let mut start = end;
    while let Some(before) = start.checked_sub(1)
        && let Some(longer) = spelled(&parts[before]).and_then(|texts| joined(&texts, &run))
    {
        (run, start) = (longer, before);
    }
    Some((start, run))
}

/// Picks the part, or adjacent parts with joint texts, that give the narrowest bounds.
pub(super) fn chosen(parts: &[Hir], literals: &[&str]) -> Option<ChosenParts> {
    let lengths: Option<Vec<usize>> =
        parts.iter().map(|part| part.properties().maximum_len()).collect();
    let lengths = lengths?;
    let widened = |found: Reaches, range: &Range<usize>| -> Reaches {
        let before: usize = lengths[..range.start].iter().sum();
        let after: usize = lengths[range.end..].iter().sum();
        let wide = |(index, reach): (usize, MatchBounds)| {
            let before = reach.before + before;
            let after = reach.after + after;
            (index, MatchBounds { before, after, ..reach })
        };
        found.into_iter().map(wide).collect()
    };
    let single = (0..parts.len()).filter_map(|index| {
        let parts_of = index..index + 1;
        let reaches = widened(reaches(&parts[index], literals)?, &parts_of);
        Some(ChosenParts { parts: parts_of, texts: None, reaches, whole: true })
    });
    let together = (0..parts.len()).flat_map(|start| {
        let mut run = Some(vec![String::new()]);
        (start..parts.len()).map_while(move |end| {
            run = joined(run.as_ref()?, &spelled(&parts[end])?);
            run.clone().map(|run| (start..end + 1, run))
        })
    });
    let together = together.filter(|(range, _)| range.len() > 1).filter_map(|(parts, texts)| {
        let reaches = widened(in_texts(Some(&texts), literals)?, &parts);
        Some(ChosenParts { parts, texts: Some(texts), reaches, whole: true })
    });
    let started = (0..parts.len()).filter_map(|end| {
        let (start, texts) = started(parts, end)?;
        let parts = start..end + 1;
        let mut reaches = widened(in_texts(Some(&texts), literals)?, &parts);
        reaches.values_mut().for_each(|reach| reach.after += lengths[end]);
        Some(ChosenParts { parts, texts: Some(texts), reaches, whole: false })
    });
    single.chain(together).chain(started).min_by_key(|found| {
        let lengths = found.reaches.values().map(|reach| reach.before + reach.after);
        lengths.max().unwrap_or_default()
    })
}

#[cfg(test)]
mod tests {
    use super::super::compile::TextForm;
    use super::super::expression::parsed;
    use super::*;

    #[track_caller]
    fn check(pattern: &str, literals: &[&str], wanted: &[(usize, usize, usize)]) {
        let found =
            reaches(&parsed(pattern, TextForm::Normalised).unwrap(), literals).unwrap_or_default();
        let found: Vec<_> =
            found.into_iter().map(|(index, reach)| (index, reach.before, reach.after)).collect();
        assert_eq!(found, wanted, "{pattern}");
    }

    #[test]
    fn a_match_reaches_as_far_as_its_parts_are_long() {
        check("ab{0,3} key[0-9]{1,4}", &["key"], &[(0, 5, 7)]);
        check("(?:forget|ignor(?:e|ing)) all", &["ignor", "forget"], &[(0, 0, 12), (1, 0, 10)]);
        check(r"\b(?:x|y)_(token|key)\b", &["_token", "_key"], &[(0, 1, 6), (1, 1, 4)]);
        check(
            "(?:system|role)[ -]prompts?",
            &["system prompt", "prompt"],
            &[(0, 0, 14), (1, 7, 7)],
        );
        check("(?:abc){2}", &["abc"], &[(0, 0, 6)]);
    }

    #[test]
    fn literals_are_completed_for_alternatives_without_one() {
        let check = |pattern: &str, literals: &[&str], wanted: &[&str]| {
            assert_eq!(
                completion(&parsed(pattern, TextForm::Normalised).unwrap(), literals),
                wanted,
                "{pattern}"
            );
        };
        check("(?:akia|r8_x)[0-9]{4}", &["akia"], &["r8_x"]);
        check("[a-z]{2} (?:first|second|third) [a-z]{2}", &["second"], &["first", "third"]);
        check("key", &["key"], &[]);
    }

    #[test]
    fn a_match_without_a_literal_has_no_reach() {
        check("key|[0-9]{4}", &["key"], &[]);
        check("(?:key)?x", &["key"], &[]);
    }
}
