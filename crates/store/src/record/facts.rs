//! Numeric facts of a run for judging it again.
//!
//! ```text
//! {"version":1,"start":1700000000000000000,"end":..,"bytes":..,"usage":[..],"resource":[..],
//!  "calls":[[group,place,flags,start,end],..]}
//! ```
//!
//! Times of calls are nanoseconds after the start of the run; an unknown end, place or count is
//! `null`. The resource is represented by [sums](resource_sums).

use std::fmt::Write;

use super::CALLS_MAX;
use crate::source::resource_sums;
use spanscore_base::model::{Origin, ToolCall, Trajectory, Usage};

/// Version of the format.
pub(crate) const FACTS_VERSION: i64 = 1;
/// Flag of the call with the agent's answer.
pub(crate) const IS_OUTPUT: i64 = 1;
/// Flag of a call that only a model's messages record.
pub(crate) const IS_OF_MODEL: i64 = 2;

/// Writes the facts of a run.
pub(super) fn facts_of(trajectory: &Trajectory<'_>) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_facts(trajectory, &mut out);
    out
}

fn write_facts(trajectory: &Trajectory<'_>, out: &mut String) -> std::fmt::Result {
    let Trajectory { start_ns, end_ns, bytes, .. } = *trajectory;
    write!(
        out,
        r#"{{"version":{FACTS_VERSION},"start":{start_ns},"end":{end_ns},"bytes":{bytes}"#
    )?;
    out.push_str(r#","usage":["#);
    for (at, count) in counts(&trajectory.usage).into_iter().enumerate() {
        number(at, count, out)?;
    }
    out.push_str(r#"],"resource":["#);
    for (at, sum) in resource_sums(&trajectory.resource).into_iter().enumerate() {
        number(at, sum, out)?;
    }
    out.push_str(r#"],"calls":["#);
    for (at, call) in trajectory.tool_calls.iter().take(CALLS_MAX).enumerate() {
        out.push_str(if at == 0 { "[" } else { ",[" });
        write_call(call, start_ns, out)?;
        out.push(']');
    }
    out.push_str("]}");
    Ok(())
}

fn write_call(call: &ToolCall<'_>, start_ns: u64, out: &mut String) -> std::fmt::Result {
    let is_output = if call.is_output { IS_OUTPUT } else { 0 };
    let is_of_model = if call.origin == Origin::Llm { IS_OF_MODEL } else { 0 };
    // Clocks of two processes may differ: a call may begin before its run.
    let after_start = |ns: u64| ns.wrapping_sub(start_ns).cast_signed();
    write!(out, "{}", call.group)?;
    number(1, call.message_place, out)?;
    number(1, Some(is_output | is_of_model), out)?;
    number(1, Some(after_start(call.start_ns)), out)?;
    number(1, (call.end_ns > 0).then(|| after_start(call.end_ns)), out)
}

/// Writes an item of a list.
fn number(at: usize, value: Option<impl std::fmt::Display>, out: &mut String) -> std::fmt::Result {
    if at > 0 {
        out.push(',');
    }
    match value {
        Some(value) => write!(out, "{value}"),
        None => out.write_str("null"),
    }
}

/// Returns the counts of a usage, in storing order.
fn counts(usage: &Usage) -> [Option<u64>; 6] {
    [
        usage.model_calls, usage.input_tokens, usage.output_tokens, usage.cache_read_tokens,
        usage.cache_write_tokens, usage.reasoning_tokens,
    ]
}

/// Builds a usage from its stored counts.
pub(crate) fn usage_of(counts: &[Option<u64>]) -> Usage {
    let count = |at: usize| counts.get(at).copied().flatten();
    Usage {
        model_calls: count(0),
        input_tokens: count(1),
        output_tokens: count(2),
        cache_read_tokens: count(3),
        cache_write_tokens: count(4),
        reasoning_tokens: count(5),
    }
}
