//! Rule: a named check of one text, with its weight and severity.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::sync::Arc;

use super::answer::AnswerFault;
use super::reading::Reading;
use spanscore_detect::Severity;
use spanscore_detect::pack::{Finding, Hit, Pack, Scan};

/// Subject of a rule: the judged text, and the data compared with it.
pub(super) struct RuleSubject<'t> {
    /// Judged text.
    pub(super) reading: &'t Reading<'t>,
    /// User's input.
    pub(super) input: Option<&'t Reading<'t>>,
    /// Expected text.
    pub(super) expected: Option<&'t Reading<'t>>,
    /// Cost in US dollars.
    pub(super) cost: Option<f64>,
    /// Tokens of the prompts.
    pub(super) prompt_tokens: Option<f64>,
    /// Tokens of the replies.
    pub(super) completion_tokens: Option<f64>,
    /// True if messages are requested.
    pub(super) explain: bool,
    /// Findings of the detectors, one entry per pack.
    pub(super) scans: Vec<Arc<Scan>>,
    /// Packs of `scans`.
    pub(super) packs: &'t [Arc<Pack>],
    /// Finding kinds that do not count.
    pub(super) skip_kinds: &'t [String],
    /// Limit on listed findings of each kind.
    pub(super) findings_max: usize,
    /// Rules whose built-in detectors the config replaces.
    pub(super) replaced: &'t [&'static str],
    /// Cached result of [`fault`](Self::fault).
    pub(super) fault: OnceCell<Option<AnswerFault>>,
}

/// Verdict of one rule on one text.
#[derive(Clone, Debug, Default)]
pub(super) struct Verdict {
    /// True if the rule passed.
    pub(super) passed: bool,
    /// Score, 0 to 1; NaN if the source gives NaN.
    pub(super) score: f64,
    /// Message for a person; empty if not requested.
    pub(super) message: Cow<'static, str>,
    /// True if the message quotes the text; others have only numbers and words of the config.
    pub(super) quotes: bool,
    /// Reason why the rule could not judge.
    pub(super) skip: Option<Cow<'static, str>>,
    /// Reason why a part of the text was not searched, which could have failed the rule.
    pub(super) unsearched: Option<String>,
    /// True if a critical detector matched.
    pub(super) critical: bool,
    /// Findings with their places in the text.
    pub(super) findings: Vec<Finding>,
}

/// Function that checks one text.
pub(super) type RuleCheck = Box<dyn Fn(&RuleSubject<'_>) -> Verdict + Send + Sync>;

/// Named check with weight and severity.
pub(super) struct OutputRule {
    /// Name in results and settings.
    pub(super) name: Cow<'static, str>,
    /// Share in the mean.
    pub(super) weight: f64,
    /// Severity of a failure.
    pub(super) severity: Severity,
    /// Check of one text.
    pub(super) check: RuleCheck,
}

impl OutputRule {
    /// Builds a rule of normal severity.
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

    /// Sets the rule to critical.
    pub(super) fn critical(mut self) -> Self {
        self.severity = Severity::Critical;
        self
    }
}

impl RuleSubject<'_> {
    /// Returns the judged text.
    pub(super) fn text(&self) -> &str {
        &self.reading.text
    }

    /// Returns the verdict on what was found, which fails unless that is nothing.
    pub(super) fn named(&self, found: &[&str], none: &'static str, some: &str) -> Verdict {
        let message = if found.is_empty() {
            none.into()
        } else {
            self.say(|| format!("{some}: {}", found.join(", ")))
        };
        Verdict::binary(found.is_empty(), message)
    }

    /// Returns the text's fault as an answer, computed once.
    pub(super) fn fault(&self) -> Option<AnswerFault> {
        *self.fault.get_or_init(|| AnswerFault::of(self.reading, self.input))
    }

    /// Returns true if no detector of any rule matched, and all searched the whole text.
    pub(super) fn nothing_found(&self) -> bool {
        self.scans.iter().all(|scan| scan.is_empty())
    }

    /// Returns the kind of a rule's first detector that did not search the whole text.
    pub(super) fn gave_up(&self, rule: &str) -> Option<&str> {
        let mut packs = self.scans.iter().zip(self.packs);
        packs.find_map(|(scan, pack)| pack.gave_up(scan, rule))
    }

    /// Returns the hits of a rule's detectors, in the order of the packs.
    pub(super) fn hits<'s>(&'s self, rule: &'s str) -> impl Iterator<Item = Hit<'s>> {
        let first = usize::from(self.replaced.contains(&rule));
        self.scans
            .iter()
            .zip(self.packs)
            .skip(first)
            .flat_map(move |(scan, pack)| pack.hits(scan, rule))
            .filter(|hit| !self.skip_kinds.iter().any(|kind| kind == hit.kind))
    }

    /// Builds a message if requested.
    pub(super) fn say(&self, message: impl FnOnce() -> String) -> Cow<'static, str> {
        if self.explain { Cow::Owned(message()) } else { Cow::Borrowed("") }
    }
}

impl Verdict {
    /// Returns a verdict with a score of 1 or 0.
    pub(super) fn binary(passed: bool, message: Cow<'static, str>) -> Self {
        Self { passed, score: f64::from(u8::from(passed)), message, ..Self::default() }
    }

    /// Returns a verdict with a given score.
    pub(super) fn scored(passed: bool, score: f64, message: Cow<'static, str>) -> Self {
        Self { passed, score, message, ..Self::default() }
    }

    /// Returns the verdict of a rule that cannot judge: `passed` is the source's report, and never
    /// counts.
    pub(super) fn skipped(
        message: impl Into<Cow<'static, str>>,
        why: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { message: message.into(), skip: Some(why.into()), ..Self::default() }
    }
}
