//! Equal results of numbered and direct comparisons of calls.

use proptest::prelude::*;

use super::*;
use spanscore_base::model::Content;
use spanscore_base::value::Map;

fn arguments(value: i64) -> Value<'static> {
    Value::Map([("a", Value::from(value))].into_iter().collect::<Map<'_>>())
}

fn actual(calls: &[(String, i64)]) -> Vec<ToolCall<'static>> {
    let call = |(name, value): &(String, i64)| ToolCall {
        name: name.clone().into(),
        arguments: Content::ready(arguments(*value)),
        ..ToolCall::default()
    };
    calls.iter().map(call).collect()
}

fn expected(calls: &[(String, i64)]) -> Vec<ExpectedCall> {
    let call = |(name, value): &(String, i64)| ExpectedCall {
        name: name.clone(),
        arguments: arguments(*value),
        ..ExpectedCall::default()
    };
    calls.iter().map(call).collect()
}

fn calls() -> impl Strategy<Value = Vec<(String, i64)>> {
    prop::collection::vec(("[ab]", 0_i64..3), 0..12)
}

proptest! {
    #[test]
    fn numbered_calls_compare_as_the_calls_do(e in calls(), a in calls()) {
        let matcher = CallMatcher::default();
        let e = expected(&e);
        let a = actual(&a);
        let a: Vec<_> = a.iter().collect();
        let effort = WorkBudget::default();
        let plain = Comparison::new(&matcher, &e, &a, &effort);
        let mut numbered = Comparison::new(&matcher, &e, &a, &effort);
        let numbers = CallNumbers::of_calls(numbered.matcher, numbered.expected, numbered.actual);
        numbered.by = ComparedBy::Calls(numbers);
        for i in 0..e.len() {
            for j in 0..a.len() {
                prop_assert_eq!(plain.same(i, j), numbered.same(i, j));
            }
        }
        prop_assert_eq!(plain.pairs(), numbered.pairs());
        prop_assert_eq!(plain.in_order(), numbered.in_order());
    }

    #[test]
    fn order_of_the_calls_does_not_change_the_pairs(e in calls(), a in calls()) {
        let matcher = CallMatcher::default();
        let e = expected(&e);
        let mut a = actual(&a);
        let pairs = |a: &[ToolCall<'_>]| {
            let a: Vec<_> = a.iter().collect();
            Comparison::new(&matcher, &e, &a, &WorkBudget::default()).pairs()
        };
        let before = pairs(&a);
        a.reverse();
        prop_assert_eq!(before, pairs(&a));
    }
}

#[test]
fn ten_thousand_calls_are_compared_with_a_thousand() {
    let name = || "search".to_owned();
    let a: Vec<_> = (0..10_000).map(|n| (name(), n)).collect();
    let e: Vec<_> = (0..1000).map(|n| (name(), n * 7)).collect();
    let e = expected(&e);
    let a = actual(&a);
    let a: Vec<_> = a.iter().collect();
    let matcher = CallMatcher::default();
    let effort = WorkBudget::default();
    let comparison = Comparison::new(&matcher, &e, &a, &effort);
    assert_eq!(comparison.pairs(), Ok(1000));
    assert_eq!(comparison.in_order(), Ok(1000));
    assert_eq!(comparison.is_subsequence(), Ok(true));
}
