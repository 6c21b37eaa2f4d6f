//! Limits of the work to follow failed calls up.

use super::*;
use spanscore_base::model::effort::EVALUATION_STEPS_MAX;
use spanscore_base::model::{CallStatus, Content};
use spanscore_base::value::json;

fn call(name: String, at: usize, status: CallStatus) -> ToolCall<'static> {
    let at = at as u64;
    ToolCall {
        name: name.into(),
        start_ns: 2 * at,
        end_ns: 2 * at + 1,
        status,
        ..ToolCall::default()
    }
}

fn with_argument(name: &'static str, value: String) -> ToolCall<'static> {
    let arguments = [("a", Value::from(value))].into_iter().collect::<Map<'_>>();
    ToolCall {
        name: name.into(),
        arguments: Content::ready(arguments.into()),
        ..ToolCall::default()
    }
}

fn evaluate(tool_calls: Vec<ToolCall<'_>>, steps: u64) -> Outcome {
    let trajectory =
        Trajectory { tool_calls, effort: WorkBudget::new(steps), ..Trajectory::default() };
    let settings = Settings::default();
    let failures = FailureRules::new(&settings.failures).unwrap();
    Recovery { settings, failures }.evaluate(&trajectory, Want::ALL)
}

#[test]
fn failures_are_followed_up_until_the_steps_are_spent() {
    let failed = (0..FAILED_CALLS_MAX).map(|at| call(format!("get_{at}"), at, CallStatus::Error));
    let looked = (FAILED_CALLS_MAX..FAILED_CALLS_MAX + 40_000)
        .map(|at| call("read_page".to_owned(), at, CallStatus::Ok));
    let outcome = evaluate(failed.chain(looked).collect(), EVALUATION_STEPS_MAX as u64 / 8);
    assert!(matches!(&outcome, Outcome::NotEvaluable { reason: Reason::TrajectoryTooLarge, .. }));
}

#[test]
fn another_tool_takes_over_with_success_and_the_like_to_do() {
    let check = |[failed, next]: [(&'static str, &str); 2], status, expected: f64| {
        let calls = [(failed, CallStatus::Error), (next, status), (("say", "{}"), CallStatus::Ok)];
        let calls = calls.into_iter().enumerate().map(|(at, ((name, arguments), status))| {
            let arguments = json::parse(arguments).unwrap().into_owned();
            ToolCall { arguments: Content::ready(arguments), ..call(name.to_owned(), at, status) }
        });
        let outcome = evaluate(calls.collect(), EVALUATION_STEPS_MAX as u64);
        let Outcome::Scored(score) = outcome else { panic!("{failed:?}") };
        assert_eq!(score.value, expected, "{failed:?}, {next:?}");
    };
    let order = r#"{"order_id": "A1", "customer_id": "C7", "amount": 20}"#;
    let ids = r#"{"order_id": "A1", "customer_id": "C7"}"#;
    let page = r#"{"page": 1, "limit": 20}"#;
    let flags = r#"{"a": true, "b": null}"#;
    for (calls, status, expected) in [
        ([("exchange_order", order), ("modify_order", ids)], CallStatus::Ok, 1.0),
        ([("exchange_order", order), ("modify_order", ids)], CallStatus::Error, 0.0),
        ([("charge_card", order), ("send_receipt", ids)], CallStatus::Ok, 0.0),
        ([("charge_card", order), ("get_payment", ids)], CallStatus::Ok, 1.0),
        ([("search_orders", page), ("list_users", page)], CallStatus::Ok, 0.0),
        ([("create_order", flags), ("create_user", flags)], CallStatus::Ok, 0.0),
    ] {
        check(calls, status, expected);
    }
}

#[test]
fn arguments_are_compared_while_there_are_steps() {
    for (steps, expected) in [(1000, true), (10, false)] {
        let effort = WorkBudget::new(steps);
        let one = with_argument("get_order", "parcel 4711".to_owned());
        let other = with_argument("find_page", "where is parcel 4711".to_owned());
        assert_eq!(seeks_the_same(&one, &other, &effort), expected, "{steps}");
        assert_eq!(effort.is_spent(), !expected, "{steps}");
    }
}
