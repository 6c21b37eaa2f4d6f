//! Limits on the work to follow failed calls.

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
    let trajectory = Trajectory {
        tool_calls,
        final_output: Content::ready("Done.".into()),
        effort: WorkBudget::new(steps),
        ..Trajectory::default()
    };
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
fn change_made_together_with_a_retry_comes_too_late_for_it() {
    let made = |name: &str, at: u32, status| {
        let given = with_argument("", name.to_owned());
        ToolCall {
            arguments: given.arguments,
            group: at,
            ..call(name.to_owned(), at as usize, status)
        }
    };
    let check = |together: [(&str, CallStatus); 2]| {
        let before = [made("pay", 1, CallStatus::Error), made("send", 2, CallStatus::Error)];
        let last = together.map(|(name, status)| made(name, 3, status));
        let outcome =
            evaluate(before.into_iter().chain(last).collect(), EVALUATION_STEPS_MAX as u64);
        let Outcome::Scored(score) = outcome else { panic!("{together:?}") };
        assert_eq!(score.value, 1.0 / 3.0, "{together:?}");
    };
    let [retry, change] = [("pay", CallStatus::Error), ("move", CallStatus::Ok)];
    check([retry, change]);
    check([change, retry]);
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
fn tool_is_tried_again_after_a_change_that_succeeded() {
    for (status, expected) in [(CallStatus::Ok, 1.0), (CallStatus::Error, 1.0 / 3.0)] {
        let calls = [("charge", CallStatus::Error), ("pay", status), ("charge", CallStatus::Error)];
        let calls = calls.into_iter().enumerate().map(|(at, (name, status))| ToolCall {
            arguments: Content::ready(Map::default().into()),
            ..call(name.to_owned(), at, status)
        });
        let outcome = evaluate(calls.collect(), EVALUATION_STEPS_MAX as u64);
        let Outcome::Scored(score) = outcome else { panic!("{status:?}") };
        assert!((score.value - expected).abs() < 1e-9, "{status:?}: {}", score.value);
    }
}

#[test]
fn another_tool_makes_what_is_missing() {
    let long = format!("no such note {}", "x".repeat(1 << 20));
    let check = |(error, result): (Option<&str>, Option<&str>), arguments: &str, expected: f64| {
        let given = |status, at, name: &str| ToolCall {
            arguments: Content::ready(json::parse(arguments).unwrap().into_owned()),
            ..call(name.to_owned(), at, status)
        };
        let failed = ToolCall {
            error: error.map(|error| error.to_owned().into()),
            result: result
                .map_or(Content::NotRecorded, |text| Content::ready(text.to_owned().into())),
            ..given(CallStatus::Error, 0, "open_note")
        };
        let calls = vec![failed, given(CallStatus::Ok, 1, "write_page")];
        let outcome = evaluate(calls, EVALUATION_STEPS_MAX as u64);
        let Outcome::Scored(score) = outcome else { panic!("{arguments}") };
        assert_eq!(score.value, expected, "{error:?} {arguments}");
    };
    let path = r#"{"path": "notes/day"}"#;
    check((Some("no such note"), None), path, 1.0);
    check((Some("unknown file"), None), path, 1.0);
    check((Some("unknown error"), None), path, 0.0);
    check((Some("out of space"), Some("no such note")), path, 0.0);
    check((None, Some(&long)), path, 1.0);
    check((Some("no such note"), None), r#"{"draft": true}"#, 0.0);
    check((Some("no such note"), None), r#"{"draft": null}"#, 0.0);
}

#[test]
fn arguments_are_compared_while_there_are_steps() {
    for (steps, expected) in [(1000, true), (10, false)] {
        let effort = WorkBudget::new(steps);
        let one = with_argument("get_order", "parcel 4711".to_owned());
        let other = with_argument("find_page", "where is parcel 4711".to_owned());
        assert_eq!(has_same_target(&one, &other, &effort), expected, "{steps}");
        assert_eq!(effort.is_spent(), !expected, "{steps}");
    }
}
