//! Definition of a repetition, and agreement of all algorithms that find it.

use proptest::prelude::*;

use super::*;
use crate::shared::arguments::ArgumentMode;
use spanscore_base::model::CallStatus;

fn call(name: &str, arguments: Option<i64>, status: CallStatus) -> ToolCall<'static> {
    ToolCall {
        name: name.to_owned().into(),
        arguments: arguments.map_or(Content::NotRecorded, |value| {
            Content::ready([("a", Value::from(value))].into_iter().collect::<Map<'_>>().into())
        }),
        status,
        ..ToolCall::default()
    }
}

fn evaluate(settings: Settings, tool_calls: Vec<ToolCall<'_>>) -> Outcome {
    let trajectory = Trajectory { tool_calls, ..Trajectory::default() };
    ToolEfficiency::new(settings).unwrap().evaluate(&trajectory, Want::ALL)
}

fn score(settings: Settings, calls: Vec<ToolCall<'_>>) -> Option<f64> {
    match evaluate(settings, calls) {
        Outcome::Scored(score) => Some(score.value),
        _ => None,
    }
}

#[test]
fn arguments_that_are_not_recorded_matter_only_for_a_repeated_name() {
    let ok = CallStatus::Ok;
    let once = vec![call("a", None, ok), call("b", Some(1), ok)];
    assert_eq!(score(Settings::default(), once), Some(1.0));
    let twice = || vec![call("a", None, ok), call("a", Some(1), ok)];
    assert_eq!(score(Settings::default(), twice()), None);
    let dokimos = Settings { compat: Some(DokimosCompat::Dokimos), ..Settings::default() };
    assert_eq!(score(dokimos, twice()), Some(1.0));
}

#[test]
fn retry_of_a_failed_call_may_be_allowed() {
    let calls = || {
        let status = [CallStatus::Error, CallStatus::Ok, CallStatus::Ok];
        status.map(|status| call("a", Some(1), status)).into()
    };
    assert_eq!(score(Settings::default(), calls()), Some(1.0 / 3.0));
    let allow = Settings { allow_retries: true, ..Settings::default() };
    assert_eq!(score(allow, calls()), Some(2.0 / 3.0));
}

#[test]
fn a_job_that_is_watched_is_no_repetition() {
    let told = |name: &str, result: &'static str| ToolCall {
        result: Content::ready(Value::from(result)),
        ..call(name, Some(1), CallStatus::Ok)
    };
    let check = |settings: Settings, calls: &[(&str, &'static str)], share: f64| {
        let told = calls.iter().map(|(name, result)| told(name, result)).collect();
        assert_eq!(score(settings, told), Some(share), "{calls:?}");
    };
    let watched = [("get_job", "10 %"), ("get_job", "60 %"), ("get_job", "done")];
    check(Settings::default(), &watched, 1.0);
    let alone = Settings { progress: EfficiencyProgress::None, ..Settings::default() };
    check(alone, &watched, 1.0 / 3.0);
    check(Settings::default(), &[("get_job", "10 %"), ("get_job", "10 %")], 0.5);
    check(Settings::default(), &[("get_job", "Error: boom"), ("get_job", "done")], 0.5);
    check(Settings::default(), &[("get_job", "done"), ("get_job", "Error: boom")], 0.5);
    check(Settings::default(), &[("pay", "receipt 1"), ("pay", "receipt 2")], 0.5);
    check(Settings::default(), &[("open_ticket", "T-1"), ("open_ticket", "T-2")], 0.5);
    check(Settings::default(), &[("update_status", "1"), ("update_status", "2")], 0.5);
    let between = [("get_job", "10 %"), ("pay", "done"), ("get_job", "60 %")];
    check(Settings::default(), &between, 2.0 / 3.0);
}

#[test]
fn long_trajectory_that_cannot_be_hashed_stops_at_the_limit() {
    let matcher = ArgumentMatcher { mode: ArgumentMode::Subset, ..Default::default() };
    let settings = Settings { argument_matcher: matcher, ..Settings::default() };
    let calls = (0..3000).map(|n| call("a", Some(n), CallStatus::Ok)).collect();
    assert!(matches!(
        evaluate(settings, calls),
        Outcome::NotEvaluable { reason: Reason::TrajectoryTooLarge, .. }
    ));
}

proptest! {
    #[test]
    fn scanning_grouping_and_searching_agree(
        calls in proptest::collection::vec(("[ab]", 0_i64..3), 0..SCANNED_MAX),
    ) {
        let calls: Vec<_> =
            calls.iter().map(|(name, n)| call(name, Some(*n), CallStatus::Ok)).collect();
        let evaluator = ToolEfficiency::new(Settings::default()).unwrap();
        let trajectory = Trajectory { tool_calls: calls, ..Default::default() };
        let calls = evaluator.listed(&trajectory);
        let mut scanned = Vec::new();
        let mut grouped = Vec::new();
        let mut searched = Vec::new();
        prop_assert!(evaluator.scan(&calls, |index, kept| scanned.push((index, kept))).is_ok());
        prop_assert!(evaluator.group(&calls, |index, kept| grouped.push((index, kept))).is_ok());
        prop_assert!(evaluator.search(&calls, |index, kept| searched.push((index, kept))).is_ok());
        prop_assert_eq!(&scanned, &grouped);
        prop_assert_eq!(&scanned, &searched);
    }
}
