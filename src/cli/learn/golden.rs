//! What good runs have in common: the calls that all of them make in one order, the parts of the
//! arguments that do not vary, how often each tool is called.

use std::collections::BTreeMap;

use crate::value::{Map, Value};

/// One call of a run: its name, and its arguments where they are recorded.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct GoldenCall {
    pub(super) name: String,
    pub(super) arguments: Option<Value<'static>>,
}

/// What the runs of one case have in common.
#[derive(Clone, Debug, Default)]
pub(super) struct GoldenCase {
    /// Calls that every run makes in this order, with the arguments that they share.
    calls: Vec<GoldenCall>,
    /// Fewest and most calls of each tool in a run.
    counts: BTreeMap<String, (usize, usize)>,
    /// Runs that it was learned from.
    pub(super) runs: usize,
    /// The runs call the same tools in the same order.
    pub(super) is_one_order: bool,
}

/// Calls of a run that are compared; longer ones are cut, since the comparison is quadratic.
pub(super) const CALLS_MAX: usize = 2000;

impl GoldenCase {
    /// Adds a run.
    pub(super) fn add(&mut self, mut run: Vec<GoldenCall>) {
        run.truncate(CALLS_MAX);
        let mut own: BTreeMap<&str, usize> = BTreeMap::new();
        run.iter().for_each(|call| *own.entry(&call.name).or_default() += 1);
        let is_first = self.runs == 0;
        for (name, count) in &own {
            let unseen = if is_first { (*count, *count) } else { (0, *count) };
            let known = self.counts.entry((*name).to_owned()).or_insert(unseen);
            *known = (known.0.min(*count), known.1.max(*count));
        }
        for (name, (least, _)) in &mut self.counts {
            *least = (*least).min(own.get(name.as_str()).copied().unwrap_or(0));
        }
        self.runs += 1;
        if is_first {
            (self.calls, self.is_one_order) = (run, true);
            return;
        }
        let common = common(&self.calls, &run);
        self.is_one_order &= common.len() == self.calls.len() && common.len() == run.len();
        let calls = common.into_iter().map(|(known, new)| GoldenCall {
            name: self.calls[known].name.clone(),
            arguments: shared(self.calls[known].arguments.as_ref(), run[new].arguments.as_ref()),
        });
        self.calls = calls.collect();
    }

    /// The row of a dataset: criteria for `tool_trajectory` and for `tool_call_count`.
    pub(super) fn row(&self, case: &str) -> Value<'static> {
        let calls = self.calls.iter().map(|call| {
            let mut entry = Map::new();
            entry.insert("name", Value::from(call.name.clone()));
            if let Some(arguments) = &call.arguments {
                entry.insert("arguments", arguments.clone());
            }
            Value::Map(entry)
        });
        let counts = self.counts.iter().map(|(name, (least, most))| {
            let operator = if least == most { "=" } else { "<=" };
            let rule = Value::List(vec![Value::from(operator), Value::from(*most)]);
            (name.clone().into(), rule)
        });
        let within = |key: &'static str, value| {
            Value::Map([(key, value)].into_iter().collect::<Map<'static>>())
        };
        let mut row = Map::new();
        row.insert("id", Value::from(case.to_owned()));
        row.insert("trajectory", within("tool_calls", Value::List(calls.collect())));
        let counts = Value::Map(Map::from_entries(counts.collect()));
        row.insert("counts", within("tool_calls_count", counts));
        row.insert("runs", Value::from(self.runs));
        Value::Map(row)
    }
}

/// The longest sequence of names that both have, as pairs of places.
fn common(a: &[GoldenCall], b: &[GoldenCall]) -> Vec<(usize, usize)> {
    let width = b.len() + 1;
    let mut longest = vec![0_u32; (a.len() + 1) * width];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            longest[i * width + j] = if a[i].name == b[j].name {
                longest[(i + 1) * width + j + 1] + 1
            } else {
                longest[(i + 1) * width + j].max(longest[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j, mut pairs) = (0, 0, Vec::new());
    while i < a.len() && j < b.len() {
        if a[i].name == b[j].name {
            pairs.push((i, j));
            (i, j) = (i + 1, j + 1);
        } else if longest[(i + 1) * width + j] >= longest[i * width + j + 1] {
            i += 1;
        } else {
            j += 1;
        }
    }
    pairs
}

/// The entries that both have with equal values: what varies is left out, and so left open.
fn shared(a: Option<&Value<'static>>, b: Option<&Value<'static>>) -> Option<Value<'static>> {
    let (Value::Map(a), Value::Map(b)) = (a?, b?) else { return None };
    let same = a.iter().filter(|(key, value)| b.get(key) == Some(value));
    let entries: Vec<_> = same.map(|(key, value)| (key.to_owned().into(), value.clone())).collect();
    (!entries.is_empty()).then(|| Value::Map(Map::from_entries(entries)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::json;

    fn check(runs: &[&[(&str, &str)]], is_one_order: bool, expected: &str) {
        let mut case = GoldenCase::default();
        for run in runs {
            let call = |(name, arguments): &(&str, &str)| GoldenCall {
                name: (*name).to_owned(),
                arguments: json::parse(arguments).ok().map(Value::into_owned),
            };
            case.add(run.iter().map(call).collect());
        }
        assert_eq!(case.row("c"), json::parse(expected).expect("JSON"));
        assert_eq!(case.is_one_order, is_one_order);
    }

    #[test]
    fn what_varies_between_runs_is_left_open() {
        check(
            &[
                &[("find", r#"{"order": 7, "at": "10:00"}"#), ("pay", r#"{"id": "a"}"#)],
                &[("find", r#"{"order": 7, "at": "10:05"}"#), ("pay", r#"{"id": "b"}"#)],
            ],
            true,
            r#"{"id":"c","trajectory":{"tool_calls":[
                {"name":"find","arguments":{"order":7}},{"name":"pay"}]},
                "counts":{"tool_calls_count":{"find":["=",1],"pay":["=",1]}},"runs":2}"#,
        );
    }

    #[test]
    fn calls_of_some_runs_bound_the_count_alone() {
        check(
            &[
                &[("a", "{}"), ("b", ""), ("c", "")],
                &[("a", "{}"), ("c", ""), ("b", ""), ("b", "")],
                &[("a", "{}"), ("b", "")],
            ],
            false,
            r#"{"id":"c","trajectory":{"tool_calls":[{"name":"a"}]},
                "counts":{"tool_calls_count":{"a":["=",1],"b":["<=",2],"c":["<=",1]}},"runs":3}"#,
        );
        check(
            &[&[]],
            true,
            r#"{"id":"c","trajectory":{"tool_calls":[]},
                "counts":{"tool_calls_count":{}},"runs":1}"#,
        );
    }
}
