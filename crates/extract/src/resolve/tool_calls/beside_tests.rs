//! Tests of spans that speak of calls.

use opentelemetry_proto::tonic::trace::v1::Span as SentSpan;

use crate::testing::{resolved, span, text};
use spanscore_base::model::{Facts, Trajectory};

/// Returns the spans of a trace, one a line: `NAME KEY=VALUE...`, by time. An indented span is
/// within the nearest less indented one; `at=START-END` gives times.
fn spans(lines: &str) -> Vec<SentSpan> {
    let mut around: Vec<(usize, Vec<u8>)> = Vec::new();
    let lines = lines.lines().filter(|line| !line.trim().is_empty());
    let span_of = |(id, line): (u8, &str)| {
        let depth = line.len() - line.trim_start().len();
        around.retain(|(outer, _)| *outer < depth);
        let mut words = line.split_whitespace();
        let name = words.next().unwrap().replace('~', " ");
        let mut sent = span(id, &name, Vec::new());
        sent.trace_id = vec![1; 16];
        sent.parent_span_id = around.last().map_or(vec![0xee; 8], |(_, id)| id.clone());
        (sent.start_time_unix_nano, sent.end_time_unix_nano) = (10 * u64::from(id), 900);
        for (key, value) in words.map(|word| word.split_once('=').unwrap()) {
            match (key, value.split_once('-')) {
                ("at", Some((start, end))) => {
                    sent.start_time_unix_nano = start.parse().unwrap();
                    sent.end_time_unix_nano = end.parse().unwrap();
                }
                ("root", _) => sent.parent_span_id.clear(),
                _ => sent.attributes.push(text(key, value)),
            }
        }
        around.push((depth, sent.span_id.clone()));
        sent
    };
    (1..).zip(lines).map(span_of).collect()
}

/// Returns the calls, one a line: `TOOL ARGUMENTS RESULT`, `-` for what is not recorded.
fn told(trajectory: &Trajectory<'_>) -> Vec<String> {
    let calls = trajectory.tool_calls.iter().map(|call| {
        let [given, result] = [&call.arguments, &call.result].map(|content| {
            content.value().map_or("-".to_owned(), |value| value.to_string().replace('"', ""))
        });
        format!("{} {given} {result}", call.name)
    });
    calls.collect()
}

#[test]
fn a_call_is_told_once_with_all_that_is_known() {
    let check = |lines: &str, expected: &[&str]| {
        resolved(Facts::all(), spans(lines), |it| assert_eq!(told(it), expected, "{lines}"));
    };
    // Wrappers that hold both halves.
    for name in [
        "execute_tool_with_retry",
        "run_tool_with_approval",
        "approved_tool_call",
        "ToolRegistry.InvokeAsync",
        "ToolRegistry.dispatch",
    ] {
        let line = format!("{name} tool_name=find tool_args={{\"a\":1}} tool_result=yes");
        check(&line, &["find {a:1} yes"]);
    }
    for name in ["InvokeAsync", "ExecuteAsync", "dispatch"] {
        let line = format!("ToolRegistry.{name} tool.name=find tool.arguments={{\"a\":1}}");
        check(&line, &["find {a:1} -"]);
    }
    check("permission.check acme.tool_name=check_stock acme.tool_args={\"a\":1}", &[]);
    check("tool.retry tool.name=retrieve_docs", &[]);
    // Ends without a beginning, or with one in another span.
    check(&"tool.completed tool.name=find\n".repeat(4), &["find - -"; 4]);
    check(
        "
ToolCallRequested gen_ai.tool.name=find gen_ai.tool.call.id=c1 gen_ai.tool.call.arguments={\"a\":1}
executor
  tool.execute gen_ai.tool.name=find gen_ai.tool.call.id=c1
ToolCallCompleted gen_ai.tool.name=find gen_ai.tool.call.id=c1 gen_ai.tool.call.result=yes",
        &["find {a:1} yes"],
    );
    check(
        "
router.execute tool_name=find tool_args={\"a\":1} tool_result=yes
  tool.find tool_name=find",
        &["find {a:1} yes"],
    );
    check(
        "
guard.check tool_name=find tool_args={\"a\":1} tool_result=allowed
tool.find tool_name=find tool_args={\"a\":1}",
        &["find {a:1} -"],
    );
    // A call whose tool only its guard names.
    check(
        "
tool.approval acme.tool_name=find acme.tool_call_id=c1 acme.tool_args={\"a\":1}
hook~PreToolUse acme.tool_name=find acme.tool_call_id=c1 acme.tool_args={\"a\":1}
acme.exec acme.tool_call_id=c1 acme.output=yes",
        &["find {a:1} yes"],
    );
    let many = "tool.find.progress tool.name=find\n".repeat(40);
    check(&format!("tool.find tool.name=find\n{many}"), &["find - -"]);
}

#[test]
fn what_may_be_of_another_call_is_of_none() {
    let check = |lines: &str, expected: &[&str]| {
        resolved(Facts::all(), spans(lines), |it| assert_eq!(told(it), expected, "{lines}"));
    };
    let two = |[one, other]: [&str; 2]| {
        format!(
            "
tool.find tool_name=find tool_args={{\"a\":1}} at={one}
tool.find tool_name=find tool_args={{\"a\":2}} at={other}
tool.find.result tool_name=find tool_result=yes at=60-60
tool.find.result tool_name=find tool_result=no at=70-70"
        )
    };
    check(&two(["10-60", "20-70"]), &["find {a:1} yes", "find {a:2} no"]);
    check(&two(["10-10", "20-20"]), &["find {a:1} -", "find {a:2} -"]);
    check(
        "
tool.approval tool_name=pay
tool.approval tool_name=pay tool_args={\"a\":900}
tool.approval tool_name=pay tool_args={\"a\":90}
tool.pay tool_name=pay tool_result=yes",
        &["pay - yes"],
    );
}

#[test]
fn name_alone_makes_calls_and_agents_of_spans_named_so() {
    let check = |line: &str, expected: &[&str], input: Option<&str>| {
        resolved(Facts::all(), spans(line), |it| {
            assert_eq!(told(it), expected, "{line}");
            let found = it.user_input.value().and_then(|value| value.as_str());
            assert_eq!(found, input, "{line}");
        });
    };
    check("tool_call root= acme.tool_name=find acme.input=Brno acme.output=x", &["find - x"], None);
    check("tool.find root= acme.tool_name=find acme.input=Brno acme.output=x", &["find - x"], None);
    check("step root= acme.tool_name=find acme.input=Brno acme.output=x", &[], Some("Brno"));
}
