//! Detectors of texts: expressions that are bound to the beginning, the end or the lines of one.

use std::collections::BTreeMap;

use memchr::memmem;

use super::FailureFinding;
use super::config::{FailurePackConfig, Says, TextDetectorConfig, TextPlace};
use super::opened::{Begin, Binding, FoldedText, OpenedBuilder, OpenedExpressions, OpenedPart};
use crate::limits::{DETECTOR_STEPS_PER_BYTE, DETECTORS_MAX};
use crate::pack::compile::{AFTER, BEFORE, TextForm};
use crate::pack::config::with_named;
use crate::pack::engine::General;
use crate::pack::expression::{bounded, plain_of};
use crate::pack::openings::alternatives;
use spanscore_base::model::WorkBudget;
use spanscore_base::settings::SettingsError;

/// Precedence of outcomes of a text that is not ordinary.
const ORDER: [Says; 3] = [Says::Refused, Says::Interrupted, Says::Failed];

/// Detectors of texts.
pub(super) struct TextDetectors {
    /// Detectors that report a failure, a refusal or an interruption.
    telling: DetectorGroup,
    /// Detectors of ordinary results, which overrule all others: run only where one of those hits.
    ordinary: DetectorGroup,
}

/// Detectors in order of precedence.
struct DetectorGroup {
    detectors: Vec<TextDetector>,
    expressions: OpenedExpressions,
}

struct TextDetector {
    says: Says,
    kind: String,
    category: String,
    /// Literals in small letters of which the text has one.
    needs: Vec<memmem::Finder<'static>>,
    not_near: Option<General>,
    count_min: u32,
}

impl TextDetectors {
    pub(super) fn new(
        packs: &[FailurePackConfig],
        wanted: fn(TextPlace) -> bool,
    ) -> Result<Self, SettingsError> {
        let group = |outcomes: &[Says]| {
            let mut detectors = Vec::new();
            let mut builder = OpenedBuilder::default();
            for says in outcomes {
                for pack in packs {
                    let texts = pack.texts.iter().enumerate();
                    for (index, config) in
                        texts.filter(|(_, text)| wanted(text.at) && text.says == *says)
                    {
                        let added = add(config, &pack.expressions, detectors.len(), &mut builder);
                        detectors.push(added.map_err(|error| {
                            let TextDetectorConfig { kind, .. } = config;
                            let at = index + 1;
                            let name = &pack.name;
                            let error_message = &error.message;
                            let message =
                                format!("text `{kind}` ({at}) of pack `{name}`: {error_message}");
                            SettingsError { message, ..error }
                        })?);
                    }
                }
            }
            if detectors.len() > DETECTORS_MAX {
                let message = format!("more than {DETECTORS_MAX} detectors in the packs");
                return Err(SettingsError::new(message));
            }
            Ok(DetectorGroup { detectors, expressions: builder.build() })
        };
        Ok(Self { telling: group(&ORDER)?, ordinary: group(&[Says::Ordinary])? })
    }

    /// Compiles all expressions, so that each mistake is found.
    pub(super) fn compile(&self) -> Result<(), SettingsError> {
        let groups = [&self.telling, &self.ordinary];
        let compiled = groups.into_iter().try_for_each(|group| group.expressions.compile());
        compiled.map_err(|error| SettingsError::new(format!("not an expression: {error}")))
    }

    /// Returns the kinds of detectors that a text opens.
    #[cfg(test)]
    pub(super) fn opened(&self, text: &str) -> Vec<&str> {
        let DetectorGroup { detectors, expressions } = &self.telling;
        let candidates = expressions.candidates(&FoldedText::of(text));
        candidates.iter().map(|it| &*detectors[expressions.branch(it).expression].kind).collect()
    }

    /// Judges a text; `None` where it says nothing, or the steps ran out.
    pub(super) fn judge(&self, text: &str, effort: &WorkBudget) -> Option<FailureFinding<'_>> {
        let text = FoldedText::of(text);
        let told = self.telling.first(&text, effort)?;
        Some(self.ordinary.first(&text, effort).unwrap_or(told))
    }

    /// Returns true if a text is an ordinary one.
    pub(super) fn is_ordinary(&self, text: &str, effort: &WorkBudget) -> bool {
        self.ordinary.first(&FoldedText::of(text), effort).is_some()
    }
}

/// Compiles a detector, and adds its expression.
fn add(
    config: &TextDetectorConfig,
    named: &BTreeMap<String, String>,
    index: usize,
    builder: &mut OpenedBuilder,
) -> Result<TextDetector, SettingsError> {
    if config.kind.is_empty() || config.pattern.is_empty() {
        return Err(SettingsError::new("`kind` and `pattern` are needed"));
    }
    let pattern = by_bytes(&with_named(&config.pattern, named)?);
    let behind = "[\\s.!)\\]}>\"'`*]{0,8}$";
    let pattern = match config.at {
        TextPlace::Start => pattern,
        TextPlace::Whole | TextPlace::End => format!("(?:{pattern}){behind}"),
        TextPlace::Line | TextPlace::Last => format!("(?m:^)[ \\t>#*|]{{0,8}}(?:{pattern})"),
    };
    let parse = if config.at == TextPlace::End { plain_of } else { bounded };
    let hir = parse(&pattern, TextForm::Normalised)?;
    let case_sensitive = config.case_sensitive;
    let count_min = config.count_min.unwrap_or(1).max(1);
    let begin = match config.at {
        TextPlace::Start | TextPlace::Whole => Begin::Text,
        TextPlace::Line | TextPlace::Last => Begin::Line,
        TextPlace::End => Begin::Anywhere,
    };
    let needs: Vec<String> = config.needs.iter().map(|need| need.to_lowercase()).collect();
    for alternative in alternatives(&hir, case_sensitive, count_min > 1, &needs) {
        builder.add(index, alternative, Binding { begin, case_sensitive });
    }
    let not_near = |pattern: &String| {
        let pattern = by_bytes(&with_named(pattern, named)?);
        let hir = bounded(&pattern, TextForm::Normalised)?;
        let whole = alternatives(&hir, case_sensitive, true, &[]).remove(0);
        let built = General::new(&whole.hir, false);
        built.map_err(|error| SettingsError::new(format!("`{pattern}`: {error}")))
    };
    let finder = |need: &String| memmem::Finder::new(need).into_owned();
    Ok(TextDetector {
        says: config.says,
        kind: config.kind.clone(),
        category: config.category.clone(),
        needs: needs.iter().map(finder).collect(),
        not_near: config.not_near.as_ref().map(not_near).transpose()?,
        count_min,
    })
}

/// Rewrites "anything on this line" in a pattern to count bytes, not characters: an expression of a
/// tenth of the size.
fn by_bytes(pattern: &str) -> String {
    pattern.replace(r"[^\n]", r"(?-u:[^\n])")
}

impl DetectorGroup {
    /// Returns the finding of the first detector that hits.
    fn first(&self, text: &FoldedText<'_>, effort: &WorkBudget) -> Option<FailureFinding<'_>> {
        let expression = |candidate: &OpenedPart| self.expressions.branch(candidate).expression;
        let candidates = self.expressions.candidates(text);
        for parts in candidates.chunk_by(|a, b| expression(a) == expression(b)) {
            let detector = &self.detectors[expression(&parts[0])];
            if detector.hits(&self.expressions, parts, text, effort)? {
                let TextDetector { says, kind, category, .. } = detector;
                return Some(FailureFinding { says: *says, kind, category });
            }
        }
        None
    }
}

impl TextDetector {
    /// Returns true if its expression has enough matches in these parts; `None` where the steps ran
    /// out.
    fn hits(
        &self,
        expressions: &OpenedExpressions,
        parts: &[OpenedPart],
        text: &FoldedText<'_>,
        effort: &WorkBudget,
    ) -> Option<bool> {
        let mut count = 0;
        for candidate in parts {
            let branch = expressions.branch(candidate);
            let bytes = branch.text(text);
            let mut rest = candidate.clone();
            if !effort.spend(rest.part.len() * DETECTOR_STEPS_PER_BYTE) {
                return None;
            }
            while rest.part.start <= rest.part.end
                && let Some(found) = branch.find(bytes, &rest)
            {
                rest.part.start = found.end.max(found.start + 1);
                count += u32::from(self.accepts(bytes, found));
                if count >= self.count_min && self.has_needs(text) {
                    return Some(true);
                }
                if rest.is_anchored {
                    break;
                }
            }
        }
        Some(false)
    }

    fn accepts(&self, text: &[u8], found: std::ops::Range<usize>) -> bool {
        let Some(not_near) = &self.not_near else { return true };
        let start = found.start.saturating_sub(BEFORE);
        let around = &text[start..(found.end + AFTER).min(text.len())];
        not_near.look().find(&regex_automata::Input::new(around)).is_none()
    }

    fn has_needs(&self, text: &FoldedText<'_>) -> bool {
        self.needs.is_empty() || self.needs.iter().any(|need| need.find(text.small()).is_some())
    }
}
