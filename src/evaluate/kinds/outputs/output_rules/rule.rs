//! What a rule is: a named check of one text, with its weight and severity.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::sync::Arc;

use super::answer::AnswerFault;
use super::reading::Reading;
use crate::detect::Severity;
use crate::detect::pack::{Finding, Hit, Pack, Scan};

/// The text that is judged, with what it is compared with.
pub(super) struct RuleSubject<'t> {
    /// The text.
    pub(super) reading: &'t Reading<'t>,
    /// What the user asked.
    pub(super) input: Option<&'t Reading<'t>>,
    /// What was expected.
    pub(super) expected: Option<&'t Reading<'t>>,
    /// Cost in US dollars.
    pub(super) cost: Option<f64>,
    /// Tokens of the prompts.
    pub(super) prompt_tokens: Option<f64>,
    /// Tokens of the replies.
    pub(super) completion_tokens: Option<f64>,
    /// Whether messages are wanted.
    pub(super) explain: bool,
    /// What the detectors found, one entry per pack.
    pub(super) scans: Vec<Arc<Scan>>,
    /// The packs of `scans`.
    pub(super) packs: &'t [Arc<Pack>],
    /// Kinds that do not count.
    pub(super) skip_kinds: &'t [String],
    /// Findings listed of each kind.
    pub(super) findings_max: usize,
    /// Rules whose built-in detectors the config replaces.
    pub(super) replaced: &'t [&'static str],
    /// What [`fault`](Self::fault) found.
    pub(super) fault: OnceCell<Option<AnswerFault>>,
}

/// What one rule says of one text.
#[derive(Clone, Debug, Default)]
pub(super) struct Verdict {
    /// Whether the rule passed.
    pub(super) passed: bool,
    /// 0 to 1; NaN where the source gives NaN.
    pub(super) score: f64,
    /// For a person; empty when not wanted.
    pub(super) message: Cow<'static, str>,
    /// Whether the message quotes the text. All others hold numbers, and what the config says.
    pub(super) quotes: bool,
    /// Why the rule could not judge.
    pub(super) skip: Option<Cow<'static, str>>,
    /// Why not all of the text was searched: it could have failed the rule.
    pub(super) unsearched: Option<String>,
    /// Whether a detector hit that is critical by itself.
    pub(super) critical: bool,
    /// What was found, with its place in the text.
    pub(super) findings: Vec<Finding>,
}

/// Judges one text.
pub(super) type RuleCheck = Box<dyn Fn(&RuleSubject<'_>) -> Verdict + Send + Sync>;

/// A named check.
pub(super) struct OutputRule {
    /// The name in results and settings.
    pub(super) name: Cow<'static, str>,
    /// Its share in the mean.
    pub(super) weight: f64,
    /// Whether its failure decides.
    pub(super) severity: Severity,
    /// The check.
    pub(super) check: RuleCheck,
}

impl OutputRule {
    /// A rule of normal severity.
    pub(super) fn new(
        name: &'static str,
        weight: f64,
        check: impl Fn(&RuleSubject<'_>) -> Verdict + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: Cow::Borrowed(name),
            weight,
            severity: Severity::Normal,
            check: Box::new(check),
        }
    }

    /// The same rule as a critical one.
    pub(super) fn critical(mut self) -> Self {
        self.severity = Severity::Critical;
        self
    }
}

impl RuleSubject<'_> {
    /// The text.
    pub(super) fn text(&self) -> &str {
        &self.reading.text
    }

    /// What is wrong with the text as an answer, looked for once.
    pub(super) fn fault(&self) -> Option<AnswerFault> {
        *self.fault.get_or_init(|| AnswerFault::of(self.reading, self.input))
    }

    /// Whether no detector of any rule found anything, and all searched to the end.
    pub(super) fn nothing_found(&self) -> bool {
        self.scans.iter().all(|scan| scan.is_empty())
    }

    /// The kind of the first detector of a rule that did not search all of the text.
    pub(super) fn gave_up(&self, rule: &str) -> Option<&str> {
        let mut packs = self.scans.iter().zip(self.packs);
        packs.find_map(|(scan, pack)| pack.gave_up(scan, rule))
    }

    /// What the detectors of a rule found, in the order of the packs.
    pub(super) fn hits<'s>(&'s self, rule: &'s str) -> impl Iterator<Item = Hit<'s>> {
        let first = usize::from(self.replaced.contains(&rule));
        self.scans
            .iter()
            .zip(self.packs)
            .skip(first)
            .flat_map(move |(scan, pack)| pack.hits(scan, rule))
            .filter(|hit| !self.skip_kinds.iter().any(|kind| kind == hit.kind))
    }

    /// A message, made only when it is wanted.
    pub(super) fn say(&self, message: impl FnOnce() -> String) -> Cow<'static, str> {
        if self.explain { Cow::Owned(message()) } else { Cow::Borrowed("") }
    }
}

impl Verdict {
    /// 1 or 0.
    pub(super) fn binary(passed: bool, message: Cow<'static, str>) -> Self {
        Self { passed, score: f64::from(u8::from(passed)), message, ..Self::default() }
    }

    /// A score beside the verdict.
    pub(super) fn scored(passed: bool, score: f64, message: Cow<'static, str>) -> Self {
        Self { passed, score, message, ..Self::default() }
    }

    /// The rule cannot judge: passed is what the source reports, and is never counted.
    pub(super) fn skipped(
        message: impl Into<Cow<'static, str>>,
        why: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { message: message.into(), skip: Some(why.into()), ..Self::default() }
    }
}
