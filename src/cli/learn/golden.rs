//! Golden case: calls that all good runs make in one order (parallel ones in any), their constant
//! arguments, and the counts of each tool.

use std::collections::BTreeMap;

use super::alignment::align;
use spanscore_base::value::{Map, Value};

/// Call of a run: its name, and its arguments if recorded.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::cli) struct GoldenCall {
    pub(super) name: String,
    pub(super) arguments: Option<Value<'static>>,
    /// Number of its group of parallel calls, ascending.
    pub(super) group: usize,
}

/// Common part of the runs of one case.
#[derive(Clone, Debug, Default)]
pub(in crate::cli) struct GoldenCase {
    /// Calls of every run in order, with their common arguments.
    calls: Vec<GoldenCall>,
    /// Fewest and most calls of each tool in a run.
    counts: BTreeMap<String, (usize, usize)>,
    /// Number of runs.
    pub(in crate::cli) runs: usize,
    /// True if the runs call the same tools in the same order.
    pub(super) is_one_order: bool,
}

/// Limit on compared calls in a run; longer ones are cut, since the alignment is quadratic.
pub(super) const CALLS_MAX: usize = 2000;

impl GoldenCase {
    /// Adds a run.
    pub(in crate::cli) fn add(&mut self, mut run: Vec<GoldenCall>) {
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
        let common = align(&self.calls, &run);
        self.is_one_order &= common.len() == self.calls.len() && common.len() == run.len();
        let mut group = 0;
        let mut groups = None;
        let calls = common.into_iter().map(|(known, new)| {
            let known = &self.calls[known];
            let new = &run[new];
            // Calls that are parallel in only one run keep the order of the other.
            let own = (known.group, new.group);
            group += usize::from(groups.replace(own).is_some_and(|last| last != own));
            let arguments = shared(known.arguments.as_ref(), new.arguments.as_ref());
            GoldenCall { name: known.name.clone(), arguments, group }
        });
        self.calls = calls.collect();
    }

    /// Returns each tool with its greatest number of calls in a run.
    pub(in crate::cli) fn most_calls(&self) -> impl Iterator<Item = (&str, usize)> {
        self.counts.iter().map(|(tool, (_, most))| (tool.as_str(), *most))
    }

    /// Returns the dataset row: criteria for `tool_trajectory` and `tool_call_count`, and the
    /// user's words if they name the case.
    pub(super) fn row(&self, case: &str, user_input: Option<&str>) -> Value<'static> {
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
        let within = |key: &'static str, value| Value::Map(Map::from([(key, value)]));
        let mut row = Map::new();
        row.insert("id", Value::from(case.to_owned()));
        if let Some(text) = user_input {
            row.insert("user_input", Value::from(text.to_owned()));
        }
        row.insert("trajectory", within("tool_calls", Value::List(calls.collect())));
        let counts = Value::Map(Map::from_entries(counts.collect()));
        row.insert("counts", within("tool_calls_count", counts));
        row.insert("runs", Value::from(self.runs));
        Value::Map(row)
    }
}

/// Returns the common part of two arguments; `None` unless it is a non-empty map.
fn shared(a: Option<&Value<'static>>, b: Option<&Value<'static>>) -> Option<Value<'static>> {
    common_value(a?, b?).filter(|value| matches!(value, Value::Map(map) if !map.is_empty()))
}

/// Returns the part of two values that `argument_matcher: {mode: nested_subset}` finds in both.
fn common_value(a: &Value<'static>, b: &Value<'static>) -> Option<Value<'static>> {
    match (a, b) {
        (Value::Map(a), Value::Map(b)) => {
            let both = a.iter().filter_map(|(key, value)| {
                Some((key.to_owned().into(), common_value(value, b.get(key)?)?))
            });
            Some(Value::Map(Map::from_entries(both.collect())))
        }
        // All or nothing: a matcher compares lists item by item.
        (Value::List(a), Value::List(b)) if a.len() == b.len() => {
            let items = a.iter().zip(b).map(|(a, b)| common_value(a, b));
            items.collect::<Option<_>>().map(Value::List)
        }
        _ => (a == b).then(|| a.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanscore_base::value::json;

    fn check(runs: &[&[(&str, &str)]], is_one_order: bool, expected: &str) {
        let mut case = GoldenCase::default();
        for run in runs {
            let call = |(group, (name, arguments)): (usize, &(&str, &str))| GoldenCall {
                name: (*name).to_owned(),
                arguments: json::parse(arguments).ok().map(Value::into_owned),
                group,
            };
            case.add(run.iter().enumerate().map(call).collect());
        }
        assert_eq!(case.row("c", None), json::parse(expected).expect("JSON"));
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
    fn what_varies_inside_of_objects_is_left_open() {
        let run = |at: &str, id: u32| {
            format!(
                r#"{{"city": "Oslo", "filter": {{"stars": 4, "at": "{at}"}}, "ids": [{id}],
                    "rows": [{{"n": 1, "at": "{at}"}}, {{"at": "{at}"}}]}}"#
            )
        };
        let first = run("10:00", 1);
        let second = run("10:05", 2);
        check(
            &[&[("hotels", &first)], &[("hotels", &second)]],
            true,
            r#"{"id":"c","trajectory":{"tool_calls":[{"name":"hotels","arguments":
                {"city":"Oslo","filter":{"stars":4},"rows":[{"n":1},{}]}}]},
                "counts":{"tool_calls_count":{"hotels":["=",1]}},"runs":2}"#,
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
            r#"{"id":"c","trajectory":{"tool_calls":[{"name":"a"},{"name":"b"}]},
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
