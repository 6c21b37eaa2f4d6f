//! Scoring: combination of the rules' verdicts.
//!
//! Every rule judges every text; its worst verdict counts. Skipped rules are excluded from the
//! mean. The details describe each rule's result in the source's words.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::sync::Arc;

use super::iris::js;
use super::reading::Reading;
use super::rule::{OutputRule, RuleSubject, Verdict};
use super::settings::Bundle;
use super::{OutputRules, texts};
use crate::shared::{report, step_limit};
use spanscore_base::model::WorkBudget;
use spanscore_base::model::{Explanation, Label, Outcome, Reason, ToolCall, Trajectory, Want};
use spanscore_base::value::{Map, Value};
use spanscore_detect::Severity;
use spanscore_detect::pack::{Finding, Pack, Scan};

/// Rules that process one byte of a text in one step; most only read the detectors' findings.
const RULES_PER_STEP: usize = 4;

/// Bytes of the user's input compared with a text in one step.
const COMPARED_PER_STEP: usize = 4;

/// Result of one rule over all texts.
struct Result<'r> {
    rule: &'r OutputRule,
    verdict: Verdict,
    /// Name of each finding's text, in order.
    places: Vec<String>,
}

/// Judges one trajectory.
pub(super) fn judge(rules: &OutputRules, trajectory: &Trajectory<'_>, want: Want) -> Outcome {
    let input = rules.input(trajectory);
    judge_calls(rules, (trajectory, &trajectory.tool_calls), input.as_ref(), want)
}

/// Judges one trajectory with the given calls.
pub(super) fn judge_calls(
    rules: &OutputRules,
    (trajectory, calls): (&Trajectory<'_>, &[ToolCall<'_>]),
    input: Option<&Reading<'_>>,
    want: Want,
) -> Outcome {
    let texts = rules.texts(trajectory, calls);
    if let Some((place, text)) =
        texts.list.iter().find(|(_, text)| text.len() > rules.text_bytes_max)
    {
        let bytes = text.len();
        let max = rules.text_bytes_max;
        let place = if place.is_empty() { "the text" } else { place };
        return not_evaluable(
            Reason::TextTooLarge,
            format!("{place} has {bytes} bytes; `text_bytes_max` is {max}"),
        );
    }
    if let (true, Some(reason)) = (texts.list.is_empty(), texts.missing) {
        return not_evaluable(reason, format!("nothing to judge: {}", reason.as_str()));
    }
    let explain = want.explanation || want.details;
    let results = rules.results(trajectory, &texts.list, input, explain);
    let failed = results.iter().any(|result| result.is_failed());
    // The unsearched rest could have failed any rule; a failure already found is final.
    if trajectory.effort.is_spent() && !failed {
        return not_evaluable(Reason::TrajectoryTooLarge, step_limit::words());
    }
    // A missing text could have failed any rule; a failure already found is final.
    if let (Some(reason), false) = (texts.missing, failed) {
        return not_evaluable(reason, "not every text that matters is recorded".to_owned());
    }
    // A partly searched text must not pass either.
    let unsearched = results.iter().find_map(|result| result.verdict.unsearched.as_ref());
    if let (Some(why), false) = (unsearched, failed) {
        let explanation = format!("not all of the text was searched: {why}");
        return not_evaluable(Reason::TextTooLarge, explanation);
    }
    rules.outcome(&results, want)
}

fn not_evaluable(reason: Reason, explanation: String) -> Outcome {
    Outcome::NotEvaluable { reason, explanation }
}

impl Result<'_> {
    fn is_failed(&self) -> bool {
        !self.verdict.passed && self.verdict.skip.is_none()
    }

    fn is_critical(&self) -> bool {
        self.rule.severity == Severity::Critical || self.verdict.critical
    }

    /// Merges the verdict on another text: the worse one counts.
    fn join(&mut self, mut other: Verdict, place: &str) {
        self.places.extend(other.findings.iter().map(|_| place.to_owned()));
        let mut findings = std::mem::take(&mut self.verdict.findings);
        findings.append(&mut other.findings);
        let rank = |verdict: &Verdict| match (&verdict.skip, verdict.passed) {
            (Some(_), _) => (2, 0.0),
            (None, passed) => (u8::from(passed), verdict.score),
        };
        let critical = self.verdict.critical || other.critical;
        let unsearched = self.verdict.unsearched.take().or(other.unsearched.take());
        if rank(&other) < rank(&self.verdict) {
            self.verdict = other;
        }
        self.verdict.critical = critical;
        self.verdict.unsearched = unsearched;
        self.verdict.findings = findings;
    }
}

impl OutputRules {
    fn results<'r>(
        &'r self,
        trajectory: &Trajectory<'_>,
        list: &[(Cow<'_, str>, Cow<'_, str>)],
        input: Option<&Reading<'_>>,
        explain: bool,
    ) -> Vec<Result<'r>> {
        let mut results: Vec<Result<'r>> = Vec::with_capacity(self.rules.len());
        for (index, (place, text)) in list.iter().enumerate() {
            let compared = input.map_or(0, |input| input.text.len()) / COMPARED_PER_STEP;
            let steps = text.len() * (1 + self.rules.len() / RULES_PER_STEP) + compared;
            if !trajectory.effort.spend(steps) {
                break;
            }
            let subject = RuleSubject {
                reading: &Reading::new(&**text),
                input,
                expected: self.expected.as_ref(),
                cost: trajectory.cost,
                prompt_tokens: trajectory.usage.input_tokens.map(|tokens| tokens as f64),
                completion_tokens: trajectory.usage.output_tokens.map(|tokens| tokens as f64),
                explain,
                scans: self.scans(text, &trajectory.effort),
                packs: &self.packs,
                skip_kinds: &self.skip_kinds,
                findings_max: self.findings_max,
                replaced: &self.replaced,
                fault: OnceCell::new(),
            };
            for (slot, rule) in self.rules.iter().enumerate() {
                let verdict = (rule.check)(&subject);
                if index == 0 {
                    let places = verdict.findings.iter().map(|_| place.to_string()).collect();
                    results.push(Result { rule, verdict, places });
                } else {
                    results[slot].join(verdict, place);
                }
            }
        }
        results
    }

    /// Returns the user's input, if any rule reads it.
    pub(super) fn input<'t>(&self, trajectory: &'t Trajectory<'_>) -> Option<Reading<'t>> {
        let input = if self.reads_input { texts::content(&trajectory.user_input) } else { None };
        input.map(Reading::new)
    }

    fn scans(&self, text: &str, effort: &WorkBudget) -> Vec<Arc<Scan>> {
        let scan = |pack: &Arc<Pack>| {
            let scan = pack.scan_cached(text, effort.left());
            effort.spend(scan.steps());
            scan
        };
        self.packs.iter().map(scan).collect()
    }

    fn outcome(&self, results: &[Result<'_>], want: Want) -> Outcome {
        let evaluated = results.iter().filter(|result| result.verdict.skip.is_none());
        let count = evaluated.clone().count();
        if count == 0 && !self.iris {
            let explanation = "no rule had what it needs".to_owned();
            return not_evaluable(Reason::InsufficientData, explanation);
        }
        if let Some(why) = self.untold(results) {
            return not_evaluable(Reason::InsufficientData, why);
        }
        let mut sum = 0.0;
        let mut weights = 0.0;
        for Result { rule, verdict, .. } in evaluated {
            let score = if verdict.score.is_finite() { verdict.score } else { 0.0 };
            sum += score * rule.weight;
            weights += rule.weight;
        }
        let raw = if weights > 0.0 { sum / weights } else { 0.0 };
        let raw = if raw.is_finite() { raw } else { 0.0 };
        let (value, shown) = if self.iris { (rounded(raw), js::round3(raw)) } else { (raw, raw) };
        let critical = results.iter().any(|result| result.is_failed() && result.is_critical());
        let label = (critical || count == 0).then_some(Label::Fail);
        let explain = || explanation(results, count);
        report::labelled(label, value, want, explain, || self.details(results, shown, count))
    }

    /// Returns the reason why the bundle `relevance` is inconclusive: no rule could compare with
    /// the question, and the absence of a refusal is weak evidence.
    fn untold(&self, results: &[Result<'_>]) -> Option<String> {
        const COMPARING: [&str; 3] = ["keyword_overlap", "topic_consistency", "answers_question"];
        let is_comparing = |result: &&Result<'_>| COMPARING.contains(&&*result.rule.name);
        let compared = || results.iter().filter(is_comparing);
        let tells = self.iris
            || self.bundle != Bundle::Relevance
            || compared().next().is_none()
            || compared().any(|result| result.verdict.skip.is_none())
            || results.iter().any(Result::is_failed);
        let why = || compared().find_map(|result| result.verdict.skip.as_deref());
        (!tells).then(|| why().unwrap_or("nothing to compare").to_owned())
    }

    fn details(&self, results: &[Result<'_>], score: f64, count: usize) -> Map<'static> {
        let skipped = results.len() - count;
        let rules =
            results.iter().map(|result| Value::Map(rule_details(result))).collect::<Vec<_>>();
        let findings: Vec<Value<'static>> = results
            .iter()
            .flat_map(|result| result.verdict.findings.iter().zip(&result.places))
            .map(|(finding, place)| Value::Map(finding_details(finding, place)))
            .collect();
        Map::from_entries(vec![
            ("bundle".into(), Value::from(<&str>::from(self.bundle))),
            ("score".into(), score.into()),
            ("rule_results".into(), rules.into()),
            ("findings".into(), findings.into()),
            ("suggestions".into(), self.suggestions(results, count).into()),
            ("rules_evaluated".into(), count.into()),
            ("rules_skipped".into(), skipped.into()),
            ("insufficient_data".into(), (count == 0).into()),
        ])
    }

    fn suggestions(&self, results: &[Result<'_>], count: usize) -> Vec<Value<'static>> {
        if results.is_empty() {
            return vec![Value::from("No rules configured for this eval type")];
        }
        let line =
            |result: &Result<'_>, text: &str| Value::from(format!("[{}] {text}", result.rule.name));
        let skipped = || results.iter().filter_map(|r| r.verdict.skip.as_ref().map(|why| (r, why)));
        if count == 0 {
            let first = "Insufficient context to evaluate. \
                         Provide: expected, input, costUsd, or tokenUsage.";
            let rest = skipped().map(|(result, why)| line(result, why));
            return std::iter::once(Value::from(first)).chain(rest).collect();
        }
        let mut lines: Vec<Value<'static>> = results
            .iter()
            .filter(|result| result.is_failed())
            .map(|result| line(result, &result.verdict.message))
            .collect();
        if self.iris && count < results.len() {
            let names: Vec<&str> = skipped().map(|(result, _)| &*result.rule.name).collect();
            let count = names.len();
            lines.push(
                format!("{count} rule(s) skipped (missing context): {}", names.join(", ")).into(),
            );
        } else {
            lines.extend(skipped().map(|(result, why)| line(result, &format!("skipped: {why}"))));
        }
        lines
    }
}

/// Rounds to three decimals, as the source reports. A mean rounded up stays just below the result,
/// because the source compares the unrounded mean with the threshold.
fn rounded(raw: f64) -> f64 {
    let value = js::round3(raw);
    if raw < value { value.next_down() } else { value }
}

fn explanation(results: &[Result<'_>], count: usize) -> Explanation {
    let failed = || results.iter().filter(|result| result.is_failed());
    let skipped = results.len() - count;
    let passed = count - failed().count();
    let mut words = Explanation::plain(format!("{passed} of {count} rules passed"));
    if skipped > 0 {
        words.push(&format!(", {skipped} skipped"));
    }
    for (index, Result { rule, verdict, .. }) in failed().enumerate() {
        words.push(if index == 0 { "; failed: " } else { ", " });
        words.push(&rule.name);
        let message = format!(" ({})", verdict.message);
        if verdict.quotes { words.hide(&message, "") } else { words.push(&message) }
    }
    words
}

fn rule_details(Result { rule, verdict, .. }: &Result<'_>) -> Map<'static> {
    let score = if verdict.score.is_nan() { Value::Null } else { verdict.score.into() };
    let mut entries: Vec<(Cow<'static, str>, Value<'static>)> = vec![
        ("ruleName".into(), rule.name.clone().into()),
        ("passed".into(), verdict.passed.into()),
        ("score".into(), score),
        ("message".into(), verdict.message.clone().into()),
    ];
    if rule.severity == Severity::Critical {
        entries.push(("severity".into(), Value::from("critical")));
    }
    if let Some(why) = &verdict.skip {
        entries.push(("skipped".into(), true.into()));
        entries.push(("skipReason".into(), why.clone().into()));
    }
    Map::from_entries(entries)
}

fn finding_details(finding: &Finding, place: &str) -> Map<'static> {
    let mut entries: Vec<(Cow<'static, str>, Value<'static>)> = vec![
        ("rule".into(), finding.rule.clone().into()),
        ("kind".into(), finding.kind.clone().into()),
        ("category".into(), finding.category.clone().into()),
        ("start".into(), finding.range.start.into()),
        ("end".into(), finding.range.end.into()),
        ("preview".into(), finding.preview.clone().into()),
    ];
    if !place.is_empty() {
        entries.push(("text".into(), place.to_owned().into()));
    }
    Map::from_entries(entries)
}
