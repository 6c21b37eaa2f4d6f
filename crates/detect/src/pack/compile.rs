//! Compiled detector: its gate, its search, and the checks of a match.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use super::super::limits::REFUSED_MAX;
use super::expression::{Expression, ExpressionSearcher};
use super::match_bounds::MatchBounds;
use super::named;
use super::opening::ahead::Ahead;
use super::opening::number::Point;
use super::read::ReadText;
use super::windows::TextWindow;
use crate::Severity;
use crate::prefilter::profile::Profile;
use crate::prefilter::sieve::Anchors;
use crate::tree::TreeMatch;
use crate::validate::Validator;

/// Bytes before a match that are searched for context.
pub(crate) const BEFORE: usize = 48;
/// Bytes after a match that are searched for context.
pub(crate) const AFTER: usize = 32;

/// Form of the text in which the detector searches.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum TextForm {
    /// Without invisible characters; look-alike letters, full-width letters and accents become
    /// plain letters.
    #[default]
    Normalised,
    /// As received.
    AsIs,
    /// In small letters.
    Lower,
    /// In capitals.
    Upper,
}

/// Gate of a detector: conditions on a text that must all hold for the detector to run.
#[derive(Default)]
pub(crate) struct Gate {
    /// One of these anchors occurs.
    pub(crate) needs: Option<Box<Anchors>>,
    /// A byte beyond ASCII may replace it.
    pub(crate) or_non_ascii: bool,
    /// One of these anchors occurs too.
    pub(crate) also_needs: Option<Box<Anchors>>,
    /// Digits are close together; the detector runs only there.
    pub(crate) digits: bool,
    /// Least number of digits within thirty-two bytes.
    pub(crate) digits_min: u8,
    /// An `@` occurs.
    pub(crate) at_sign: bool,
    /// Twenty consecutive bytes have no white space.
    pub(crate) long_token: bool,
    /// True if each match is within a [long token](crate::bytes::tokens), so that the expression
    /// runs only there.
    pub(crate) in_token: bool,
    /// True for a built-in detector: one of `needs` is in each match or its context, and the digits
    /// of a telephone number are close together.
    pub(crate) built_in: bool,
    /// True if each match is an address with colons and consists of whole words.
    pub(crate) colons: bool,
}

impl Gate {
    /// Returns true if a text with this profile meets all conditions other than anchors.
    pub(crate) fn fits(&self, profile: &Profile) -> bool {
        (!self.digits || !profile.digits.is_empty())
            && self.digits_min <= profile.digits_max
            && (!self.at_sign || profile.at_sign)
            && (!self.long_token || profile.long_token)
    }

    /// Returns true if one of `also_needs` occurs, or the detector has none.
    pub(crate) fn meets_also_needs(&self, anchors: &Anchors) -> bool {
        self.also_needs.as_deref().is_none_or(|asked| meet(anchors, asked))
    }
}

/// Returns true if two sets of anchors intersect.
pub(crate) fn meet(some: &Anchors, others: &Anchors) -> bool {
    some.iter().zip(others).any(|(a, b)| a & b != 0)
}

/// Compiled detector: see [`DetectorConfig`](super::config::DetectorConfig) for the parts.
pub(crate) struct Detector {
    pub(crate) rule: String,
    pub(crate) kind: String,
    pub(crate) category: String,
    pub(crate) severity: Severity,
    pub(crate) form: TextForm,
    pub(crate) gate: Gate,
    pub(crate) literal: Option<Vec<u8>>,
    pub(crate) pattern: Option<Expression>,
    pub(crate) validate: Option<Validator>,
    pub(crate) near: Option<Arc<Expression>>,
    pub(crate) not_near: Option<Arc<Expression>>,
    /// Rejects a finding that it touches.
    pub(crate) denied: Option<Arc<Expression>>,
    /// Words that may directly precede the finding.
    pub(crate) named_as: Option<Arc<Expression>>,
    pub(crate) obfuscated: bool,
    pub(crate) count_min: u32,
    /// Match bounds around each of `gate.needs`, by anchor, and the possible next bytes. Empty if
    /// unknown; then the expression runs over the whole text.
    pub(crate) reaches: Vec<(u16, MatchBounds, Arc<Ahead>)>,
    /// Match bounds around the first digit, for a number detector, or around an `@`, for a detector
    /// that needs one.
    pub(crate) point: Option<Point>,
}

impl Detector {
    /// Returns the least number of adjacent digits in each match; 0 if unknown, as for a config's
    /// packs.
    pub(super) fn digits_min(&self) -> usize {
        match self.validate {
            Some(Validator::Phone) if self.gate.built_in => 7,
            Some(Validator::PhoneSpoken) if self.gate.built_in => 8,
            _ => 0,
        }
    }

    /// Passes each finding in these windows, in order, to `take` until it returns [`Flow::Break`].
    /// Matches refused by context, check or `take` are counted in `refused`. Returns false if there
    /// were more than [`REFUSED_MAX`], and the rest was not searched.
    pub(super) fn find(
        &self,
        text: &ReadText<'_>,
        windows: impl Iterator<Item = TextWindow>,
        refused: &mut u32,
        take: &mut impl FnMut(Range<usize>) -> Flow,
    ) -> bool {
        let Some(pattern) = &self.pattern else { return true };
        let mut pattern = pattern.searcher();
        let mut at = 0;
        for TextWindow { begins, end } in windows {
            at = at.max(*begins.start());
            while at <= *begins.end()
                && let Some(found) = pattern.find(text, at..=*begins.end(), end)
            {
                at = found.whole.end.max(found.whole.start + 1);
                if let ControlFlow::Break(is_searched) = self.give(text, found, refused, take) {
                    return is_searched;
                }
            }
        }
        true
    }

    /// Passes a match to `take`; breaks with true if the text counts as searched.
    fn give(
        &self,
        text: &ReadText<'_>,
        found: TreeMatch,
        refused: &mut u32,
        take: &mut impl FnMut(Range<usize>) -> Flow,
    ) -> ControlFlow<bool> {
        let part = found.group.unwrap_or(found.whole);
        let flow = if self.accepts(text, &part) { take(part) } else { Flow::Refuse };
        match flow {
            Flow::Break => ControlFlow::Break(true),
            Flow::Refuse if *refused == REFUSED_MAX => ControlFlow::Break(false),
            Flow::Refuse => {
                *refused += 1;
                ControlFlow::Continue(())
            }
            Flow::Continue => ControlFlow::Continue(()),
        }
    }

    fn accepts(&self, text: &ReadText<'_>, found: &Range<usize>) -> bool {
        let bytes = text.normal();
        let start = found.start.saturating_sub(BEFORE);
        let around = text.part(start..(found.end + AFTER).min(bytes.len()));
        self.validate.is_none_or(|validator| {
            std::str::from_utf8(&bytes[found.clone()]).is_ok_and(|text| validator.accepts(text))
        }) && self.near.as_ref().is_none_or(|near| near.is_match(&around))
            && !self.not_near.as_ref().is_some_and(|not_near| not_near.is_match(&around))
            && !self.denied.as_ref().is_some_and(|denied| {
                touches(denied, &around, &(found.start - start..found.end - start))
            })
            && self.named_as.as_ref().is_none_or(|allowed| {
                let word = named::thing_before(bytes, found.start);
                word.is_none_or(|word| allowed.is_match(&text.part(word)))
            })
    }
}

/// Returns true if a match touches or overlaps a part of a text.
fn touches(expression: &Expression, text: &ReadText<'_>, part: &Range<usize>) -> bool {
    let mut searcher: ExpressionSearcher<'_> = expression.searcher();
    let end = text.normal().len();
    let mut at = 0;
    while at <= part.end
        && let Some(found) = searcher.find(text, at..=end, end)
    {
        let found = found.whole;
        if found.start <= part.end && found.end >= part.start {
            return true;
        }
        at = found.end.max(found.start + 1);
    }
    false
}

/// Verdict on a match.
pub(crate) enum Flow {
    /// No finding.
    Refuse,
    /// A finding; the search continues.
    Continue,
    /// A finding; the search ends.
    Break,
}
