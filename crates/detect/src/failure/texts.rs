//! Text detectors: expressions anchored to the beginning, the end or the lines of a text.

use std::collections::BTreeMap;
use std::ops::Range;

use super::FailureFinding;
use super::config::{FailurePackConfig, Says, TextDetectorConfig, TextPlace};
use super::literals::{FoundLiteral, LiteralSet};
use super::opened::{FoldedText, NewExpression, Onward, OpenedExpressions};
use crate::limits::{DETECTORS_MAX, STEPS_PER_BYTE};
use crate::pack::compile::{AFTER, BEFORE, TextForm};
use crate::pack::config::with_named;
use crate::pack::expression::{bounded, plain_of};
use crate::tree::SearchTree;
use crate::tree::beside::Begin;
use spanscore_base::model::WorkBudget;
use spanscore_base::settings::SettingsError;

/// Precedence of outcomes other than ordinary.
const ORDER: [Says; 3] = [Says::Refused, Says::Interrupted, Says::Failed];

/// Text detectors of failures and of ordinary results.
pub(super) struct TextDetectors {
    /// Detectors that report a failure, a refusal or an interruption.
    telling: DetectorGroup,
    /// Detectors of ordinary results, which overrule all others. They run only after a hit of
    /// those, since their literals are words of all texts.
    ordinary: DetectorGroup,
    ordinary_literals: LiteralSet,
}

/// Detectors in order of precedence.
#[derive(Default)]
struct DetectorGroup {
    detectors: Vec<TextDetector>,
    expressions: OpenedExpressions,
}

struct TextDetector {
    says: Says,
    kind: String,
    category: String,
    /// Literals in lower case of which the text has one.
    needs: Vec<String>,
    not_near: Option<SearchTree>,
    count_min: u32,
}

impl TextDetectors {
    pub(super) fn new(
        packs: &[FailurePackConfig],
        literals: &mut LiteralSet,
        wanted: fn(TextPlace) -> bool,
    ) -> Result<Self, SettingsError> {
        let group = |outcomes: &[Says], literals: &mut LiteralSet| {
            let mut group = DetectorGroup::default();
            for says in outcomes {
                for pack in packs {
                    let texts = pack.texts.iter().zip(1..);
                    for (config, index) in
                        texts.filter(|(text, _)| wanted(text.at) && text.says == *says)
                    {
                        group.add(config, &pack.expressions, literals).map_err(|error| {
                            let place = format!("text `{}` ({index})", config.kind);
                            let message =
                                format!("{place} of pack `{}`: {}", pack.name, error.message);
                            SettingsError { message, ..error }
                        })?;
                    }
                }
            }
            if group.detectors.len() > DETECTORS_MAX {
                let message = format!("more than {DETECTORS_MAX} detectors in the packs");
                return Err(SettingsError::new(message));
            }
            Ok(group)
        };
        let mut ordinary_literals = LiteralSet::default();
        Ok(Self {
            telling: group(&ORDER, literals)?,
            ordinary: group(&[Says::Ordinary], &mut ordinary_literals)?,
            ordinary_literals,
        })
    }

    /// Returns the kinds of detectors opened by a text.
    #[cfg(test)]
    pub(super) fn opened(&self, text: &str, literals: &LiteralSet) -> Vec<&str> {
        let DetectorGroup { detectors, expressions } = &self.telling;
        let opened = expressions.opened(&FoldedText::of(text), literals);
        opened.into_iter().map(|index| &*detectors[index].kind).collect()
    }

    /// Returns the kinds of detectors whose expression matches a text: of those it opens, and of
    /// all.
    #[cfg(test)]
    pub(super) fn matched(&self, text: &str, literals: &LiteralSet) -> [Vec<&str>; 2] {
        let text = &FoldedText::of(text);
        let mut both = [Vec::new(), Vec::new()];
        let groups = [(&self.telling, literals), (&self.ordinary, &self.ordinary_literals)];
        for (DetectorGroup { detectors, expressions }, literals) in groups {
            for (kinds, found) in both.iter_mut().zip(expressions.matched(text, literals)) {
                let found = found.into_iter().map(|index| &detectors[index]);
                kinds.extend(found.filter(|it| it.has_needs(text)).map(|it| &*it.kind));
            }
        }
        both
    }

    /// Judges a text; `None` without a finding, or out of steps.
    pub(super) fn judge(
        &self,
        text: &FoldedText<'_>,
        literals: &LiteralSet,
        effort: &WorkBudget,
    ) -> Option<FailureFinding<'_>> {
        let told = self.telling.first(text, text.literals(literals), effort)?;
        Some(self.ordinary(text, effort).unwrap_or(told))
    }

    /// Returns the finding that makes a text an ordinary one.
    pub(super) fn ordinary(
        &self,
        text: &FoldedText<'_>,
        effort: &WorkBudget,
    ) -> Option<FailureFinding<'_>> {
        self.ordinary.first(text, &self.ordinary_literals.places(text.small()), effort)
    }
}

/// Rewrites `[^\n]` in a pattern to match a byte instead of a character, which makes an expression
/// a tenth of the size.
fn by_bytes(pattern: &str) -> String {
    pattern.replace(r"[^\n]", r"(?-u:[^\n])")
}

impl DetectorGroup {
    fn add(
        &mut self,
        config: &TextDetectorConfig,
        named: &BTreeMap<String, String>,
        literals: &mut LiteralSet,
    ) -> Result<(), SettingsError> {
        if config.kind.is_empty() || config.pattern.is_empty() {
            return Err(SettingsError::new("`kind` and `pattern` are needed"));
        }
        let pattern = by_bytes(&with_named(&config.pattern, named)?);
        let behind = "[\\s.!)\\]}>\"'`*]{0,8}$";
        let pattern = match config.at {
            TextPlace::Start => pattern,
            TextPlace::Whole | TextPlace::End => format!("(?:{pattern}){behind}"),
            TextPlace::Line | TextPlace::Last => format!("[ \\t>#*|]{{0,8}}(?:{pattern})"),
        };
        let begin = match config.at {
            TextPlace::Start | TextPlace::Whole => Begin::Text,
            TextPlace::Line | TextPlace::Last => Begin::Line,
            TextPlace::End => Begin::Anywhere,
        };
        let parse = if config.at == TextPlace::End { plain_of } else { bounded };
        let case_sensitive = config.case_sensitive;
        let hir = &parse(&pattern, TextForm::Normalised)?;
        let count_min = config.count_min.unwrap_or(1).max(1);
        let needs: Vec<String> = config.needs.iter().map(|need| need.to_lowercase()).collect();
        let is_whole = count_min > 1;
        let is_of_short = false;
        let new =
            NewExpression { hir, begin, case_sensitive, is_whole, is_of_short, needs: &needs };
        self.expressions.add(new, literals);
        let not_near = |pattern: &String| {
            let pattern = by_bytes(&with_named(pattern, named)?);
            Ok(SearchTree::of(&bounded(&pattern, TextForm::Normalised)?, !case_sensitive))
        };
        self.detectors.push(TextDetector {
            says: config.says,
            kind: config.kind.clone(),
            category: config.category.clone(),
            needs,
            not_near: config.not_near.as_ref().map(not_near).transpose()?,
            count_min,
        });
        Ok(())
    }

    /// Returns the finding of the first detector that hits; `None` if none does, or out of steps.
    fn first(
        &self,
        text: &FoldedText<'_>,
        literals: &[FoundLiteral],
        effort: &WorkBudget,
    ) -> Option<FailureFinding<'_>> {
        let mut hit = None;
        let mut counts = (usize::MAX, 0);
        let steps = self.expressions.search(text, literals, |index, read, at| {
            let detector = &self.detectors[index];
            let before = if counts.0 == index { counts.1 } else { 0 };
            counts = (index, before + u32::from(detector.accepts(read, at)));
            if counts.1 < detector.count_min || !detector.has_needs(text) {
                return Onward::Next;
            }
            hit = Some(detector);
            Onward::Stop
        });
        let is_paid = effort.spend(text.small().len() * STEPS_PER_BYTE + steps);
        let TextDetector { says, kind, category, .. } = hit.filter(|_| is_paid)?;
        Some(FailureFinding { says: *says, kind, category })
    }
}

impl TextDetector {
    /// Returns true if no `not_near` expression matches near the finding.
    fn accepts(&self, text: &str, found: Range<usize>) -> bool {
        let Some(not_near) = &self.not_near else { return true };
        let start = text.floor_char_boundary(found.start.saturating_sub(BEFORE));
        let end = text.ceil_char_boundary((found.end + AFTER).min(text.len()));
        !not_near.is_match(&text[start..end])
    }

    fn has_needs(&self, text: &FoldedText<'_>) -> bool {
        self.needs.is_empty() || self.needs.iter().any(|need| text.small().contains(&**need))
    }
}
