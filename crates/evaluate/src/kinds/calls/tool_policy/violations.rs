//! Violations of a policy, and the outcome that they give.

use crate::shared::report;
use spanscore_base::model::{Explanation, Outcome, Want};
use spanscore_base::value::{Map, Value};

/// Limit on violations in the details.
const VIOLATIONS_MAX: usize = 50;

/// Name or glob in a rule without a declared tool: probably misspelt.
pub(super) struct UnmatchedRule<'r> {
    pub(super) rule: &'static str,
    pub(super) pattern: &'r str,
}

/// Violation of one rule.
pub(super) struct Violation<'v> {
    pub(super) rule: &'static str,
    pub(super) tool: &'v str,
    /// Required tool that had not succeeded before.
    pub(super) missing: Option<&'v str>,
    /// Number of the tool's calls, and their limit.
    pub(super) calls: Option<(usize, usize)>,
}

impl<'v> Violation<'v> {
    pub(super) fn new(rule: &'static str, tool: &'v str) -> Self {
        Self { rule, tool, missing: None, calls: None }
    }
}

impl Violation<'_> {
    fn sentence(&self) -> String {
        let tool = self.tool;
        match (self.rule, self.missing) {
            ("forbidden", _) => format!("{tool} is `forbidden`"),
            ("allowed", _) => format!("{tool} is not among the `allowed`"),
            ("required", _) => format!("{tool} is `required` and was not called"),
            ("max_calls", _) => {
                let (calls, most) = self.calls.unwrap_or_default();
                format!("{tool} was called {calls} times, `max_calls` allows {most}")
            }
            ("max_failed_calls", _) => {
                let (calls, most) = self.calls.unwrap_or_default();
                format!("{calls} calls of {tool} failed, `max_failed_calls` allows {most}")
            }
            (_, Some(missing)) => {
                format!("{tool} was called without {missing} before it (`required_before`)")
            }
            _ => format!("{tool} is not declared (`declared_only`)"),
        }
    }
}

/// Violations: their number, and the first ones if reasons are wanted.
pub(super) struct Violations<'v> {
    pub(super) count: usize,
    shown: Vec<Violation<'v>>,
    want: Want,
}

impl<'v> Violations<'v> {
    pub(super) fn new(want: Want) -> Self {
        Self { count: 0, shown: Vec::new(), want }
    }

    pub(super) fn add(&mut self, violation: Violation<'v>) {
        self.count += 1;
        if self.want.reasons() && self.shown.len() < VIOLATIONS_MAX {
            self.shown.push(violation);
        }
    }

    /// Returns the outcome; `unmatched` are rules without a tool in the trace.
    pub(super) fn answer(&self, call_count: usize, unmatched: &[UnmatchedRule<'_>]) -> Outcome {
        let Self { count, shown, want } = self;
        let explain = || {
            let mut words = self.sentences(call_count);
            for UnmatchedRule { rule, pattern } in unmatched {
                words.push(&format!("; no declared tool is called {pattern} (`{rule}`)"));
            }
            words
        };
        let details = || {
            let entry = |violation: &Violation<'_>| {
                Value::Map(Map::from([
                    ("rule", Value::from(violation.rule)),
                    ("tool", Value::from(violation.tool.to_owned())),
                    ("missing", violation.missing.map(str::to_owned).into()),
                ]))
            };
            let list = Value::List(shown.iter().map(entry).collect());
            let unmatched = report::name_list(unmatched.iter().map(|it| it.pattern));
            Map::from([
                ("violation_count", Value::from(*count)),
                ("violations", list),
                ("unmatched_patterns", unmatched),
            ])
        };
        report::scored(f64::from(u8::from(*count == 0)), *want, explain, details)
    }

    /// Describes the violations, merged by rule and tool with a count.
    fn sentences(&self, call_count: usize) -> Explanation {
        let Self { count, shown, .. } = self;
        if *count == 0 {
            return Explanation::plain(format!("{call_count} tool calls keep to the policy"));
        }
        let mut sentences: Vec<(String, usize)> = Vec::new();
        for violation in shown {
            let sentence = violation.sentence();
            match sentences.iter_mut().find(|(known, _)| *known == sentence) {
                Some((_, times)) => *times += 1,
                None => sentences.push((sentence, 1)),
            }
        }
        if let (1, [(sentence, _)]) = (*count, &sentences[..]) {
            return Explanation::plain(sentence.as_str());
        }
        let mut words = Explanation::plain(format!("{count} violations"));
        report::few(&mut words, sentences, |words, (sentence, times)| {
            words.push(&sentence);
            if times > 1 {
                words.push(&format!(" ({times} times)"));
            }
        });
        words
    }
}
