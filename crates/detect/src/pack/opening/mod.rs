//! Opening of a detector: literals of which a match has one, the match bounds around them, and the
//! possible next bytes.
//!
//! Computing that from an expression takes milliseconds. So openings of built-in packs are stored
//! ([`written`]); those of a config's packs are computed at compilation.

pub(crate) mod ahead;
pub(crate) mod number;
mod tail;
mod token;
pub(super) mod written;

use std::sync::Arc;

use regex_syntax::hir::Hir;

use super::compile::{AFTER, BEFORE, TextForm};
use super::config::{DetectorConfig, PackConfig, Syntax, with_named};
use super::expression::{CompileTime, parsed};
use super::match_bounds::{self, MatchBounds};
use super::needs::OwnNeeds;
use ahead::Ahead;
use number::Point;
use tail::tail;
use token::is_in_token;

use crate::normalise::shadow::fold_pattern;
use spanscore_base::settings::SettingsError;

/// Conditions for a match of a detector at a place in a text.
#[derive(Clone, Default, PartialEq)]
pub(super) struct Opening {
    /// Literals of which one must occur, in lower case; may be empty.
    pub(super) needs: Vec<String>,
    /// True if a byte beyond ASCII may replace them.
    pub(super) or_non_ascii: bool,
    /// True if each match is within a long token.
    pub(super) in_token: bool,
    /// Match bounds around literals, by their numbers, and the possible next bytes; empty if
    /// unknown.
    pub(super) literals: Vec<(usize, MatchBounds, Arc<Ahead>)>,
    /// First bytes of a match, except at the beginning of a text.
    pub(super) begin: Ahead,
    /// First bytes of its contexts: `near`, `not_near`, `denied`, `named_as`.
    pub(super) contexts: [Ahead; 4],
    /// First digit of a number detector, or `@` of a detector that needs one.
    pub(super) point: Option<Point>,
}

impl Opening {
    /// Computes the opening of a detector, with at most this many literals.
    pub(super) fn of(
        config: &DetectorConfig,
        pack: &PackConfig,
        (when, room): (CompileTime, usize),
    ) -> Result<Self, SettingsError> {
        let plain = plain(config.pattern.as_deref(), config, pack)?;
        let mut opening = Self::gate(config, pack, plain.as_ref(), (when, room))?;
        let has_needs = !opening.needs.is_empty();
        opening.begin = plain.as_ref().map_or(Ahead::ANY, Ahead::of_matches);
        let contexts = [&config.near, &config.not_near, &config.denied, &config.named_as];
        for (ahead, context) in opening.contexts.iter_mut().zip(contexts) {
            let plain = self::plain(context.as_deref(), config, pack)?;
            *ahead = plain.as_ref().map_or(Ahead::ANY, Ahead::of_matches);
        }
        opening.point = plain.as_ref().and_then(|hir| match config {
            DetectorConfig { digits: true, .. } => Point::digit(hir),
            DetectorConfig { at_sign: true, .. } if !has_needs => Point::at_sign(hir),
            _ => None,
        });
        if let Some(hir) = &plain
            && has_needs
            && !opening.or_non_ascii
            && !config.digits
        {
            opening.read_literals(hir, when);
        }
        Ok(opening)
    }

    fn gate(
        config: &DetectorConfig,
        pack: &PackConfig,
        plain: Option<&Hir>,
        (when, room): (CompileTime, usize),
    ) -> Result<Self, SettingsError> {
        // A literal is its own anchor.
        let is_anchor =
            |text: &&String| text.is_ascii() && text.len() >= 2 && !text.starts_with('^');
        let literal = config.literal.iter().filter(is_anchor);
        let mut needs: Vec<String> = config.needs.iter().chain(literal).cloned().collect();
        let mut or_non_ascii = false;
        let in_token = needs.is_empty() && config.long_token && plain.is_some_and(is_in_token);
        let is_open = !(config.digits || config.at_sign || in_token);
        if needs.is_empty() && is_open && pack.syntax == Syntax::Linear {
            // They only save time: beyond the limit of literals the expression is always tried.
            if let Some(own) = own_needs(config, pack)?.filter(|own| own.literals.len() <= room) {
                (needs, or_non_ascii) = (own.literals, own.or_non_ascii);
            }
        }
        let folded = |need: String| fold_pattern(&need.to_lowercase());
        needs = needs.into_iter().map(folded).collect();
        // Literals of other detectors are selected one by one, so that ordinary words open none.
        // They may be in the context instead of the match.
        let completed = config.rule.starts_with("no_") && when == CompileTime::Needed;
        if let Some(hir) = plain.filter(|_| completed && config.near.is_none())
            && !needs.is_empty()
        {
            let literals: Vec<&str> =
                needs.iter().map(|need| need.trim_start_matches('^')).collect();
            let mut more = match_bounds::completion(hir, &literals);
            more.retain(|literal| literal.len() >= 2 && !literal.starts_with('^'));
            more.sort();
            more.dedup();
            needs.extend(more.into_iter().map(folded));
        }
        let mut known = std::collections::BTreeSet::new();
        needs.retain(|need| known.insert(need.clone()));
        if when == CompileTime::Needed {
            needs = without_longer(&needs);
        }
        Ok(Self { needs, or_non_ascii, in_token, ..Self::default() })
    }

    fn read_literals(&mut self, hir: &Hir, when: CompileTime) {
        let literals: Vec<&str> =
            self.needs.iter().map(|need| need.trim_start_matches('^')).collect();
        if let Some(found) = match_bounds::reaches(hir, &literals) {
            let tail = tail(hir, &literals);
            let ahead = tail.map(|tail| Ahead::of(&tail, &literals)).unwrap_or_default();
            let ahead = |index: usize| Arc::new(ahead.get(index).copied().unwrap_or(Ahead::ANY));
            let literal = |(index, reach)| (index, reach, ahead(index));
            self.literals = found.into_iter().map(literal).collect();
            return;
        }
        // The literals of built-in detectors are in the match or its context; those of others may
        // be anywhere.
        let longest = hir.properties().maximum_len();
        if let Some(longest) = longest.filter(|_| when == CompileTime::Needed) {
            let [before, after] = [AFTER, BEFORE].map(|beside| longest + beside);
            let reach = MatchBounds { before, after, past: BEFORE };
            let any = Arc::new(Ahead::ANY);
            let literal = |index| (index, reach, Arc::clone(&any));
            self.literals = (0..self.needs.len()).map(literal).collect();
        }
    }
}

/// Returns the literals that contain no other of them: a text with a longer one has the shorter one
/// too, which opens the detector there.
fn without_longer(needs: &[String]) -> Vec<String> {
    let holds = |long: &str, short: &str| match short.strip_prefix('^') {
        Some(word) => long.strip_prefix('^').is_some_and(|long| long.starts_with(word)),
        None => long.trim_start_matches('^').contains(short),
    };
    let is_shortest = |need: &&String| !needs.iter().any(|it| it != *need && holds(need, it));
    needs.iter().filter(is_shortest).cloned().collect()
}

/// Parses an expression of a detector for the normalised text, if it reads that.
fn plain(
    expression: Option<&str>,
    config: &DetectorConfig,
    pack: &PackConfig,
) -> Result<Option<Hir>, SettingsError> {
    let is_plain = config.text == TextForm::Normalised && pack.syntax == Syntax::Linear;
    let Some(expression) = expression.filter(|_| is_plain) else { return Ok(None) };
    Ok(parsed(&fold_pattern(&with_named(expression, &pack.expressions)?), config.text).ok())
}

/// Returns the literals that the expression of a detector requires.
fn own_needs(
    config: &DetectorConfig,
    pack: &PackConfig,
) -> Result<Option<OwnNeeds>, SettingsError> {
    let Some(pattern) = &config.pattern else { return Ok(None) };
    let pattern = with_named(pattern, &pack.expressions)?;
    let folded = match config.text {
        TextForm::Normalised => fold_pattern(&pattern),
        TextForm::AsIs | TextForm::Lower | TextForm::Upper => pattern,
    };
    Ok(OwnNeeds::of_expression(&folded, config.text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(needs: &[&str], kept: &[&str]) {
        let needs: Vec<String> = needs.iter().map(|need| (*need).to_owned()).collect();
        assert_eq!(without_longer(&needs), kept);
    }

    #[test]
    fn a_literal_that_holds_another_is_left_out() {
        check(&["judge", "judges", "the judge", "rater"], &["judge", "rater"]);
        check(&["^rate", "^rater", "rated", "^first rate"], &["^rate", "rated", "^first rate"]);
        check(&["rate", "^rate", "^crate"], &["rate"]);
        check(&["abc", "abd"], &["abc", "abd"]);
    }
}
