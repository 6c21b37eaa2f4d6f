//! Windows: a run too long for one request is asked about in several. Each shows an outline of the
//! run, and some of its calls in detail.
//!
//! In a window, operator, tools, user and answer appear as in any cut record. The calls in question
//! keep their arguments and results; other calls lose their arguments, and of their results only
//! values used by those calls stay. If this is still too long, distant calls are only counted.

use std::ops::Range;
use std::sync::Arc;

use hashbrown::HashSet;

use super::{
    ARGUMENTS_TOKENS, LineShape, RESULT_TOKENS, RecordTooLong, RenderLimits, RenderedRecord,
    TEXT_SHARE, fold, render_shapes,
};
use crate::inquiry::JudgeAnswers;
use crate::judged::cut::{self, UsedValues};
use crate::judged::record::{LineKind, RecordLine};
use spanscore_base::value::Value;

/// Limit on the requests about one run.
pub(in crate::judged) const WINDOWS_MAX: usize = 16;
/// Tokens of a result outside the window with a value used in it.
const OUTSIDE_TOKENS: usize = 60;
/// Lines around those of a window that are never folded.
const NEAR_LINES: usize = 4;

/// Part of the statements, with a record that shows their calls.
#[derive(Debug)]
pub(in crate::judged) struct RecordWindow {
    /// Rendered record.
    pub(in crate::judged) record: Arc<RenderedRecord>,
    /// Statements, by their index among those to be asked.
    pub(in crate::judged) items: Range<usize>,
}

/// Splits `statements` into `count` parts, as evenly as possible.
pub(in crate::judged) fn parts(
    statements: usize,
    count: usize,
) -> impl Iterator<Item = Range<usize>> {
    let size = statements.div_ceil(count.max(1)).max(1);
    (0..statements).step_by(size).map(move |start| start..(start + size).min(statements))
}

/// Renders the record for the first statement, and again with its two answers swapped for the
/// second.
///
/// # Errors
/// Returns the size if it does not fit.
pub(in crate::judged) fn render_orders(
    lines: &[RecordLine],
    room: RenderLimits,
) -> Result<Vec<RecordWindow>, RecordTooLong> {
    let mut swapped = lines.to_vec();
    let mut answers = swapped.iter_mut().filter(|line| line.kind == LineKind::Answer);
    if let (Some(first), Some(second)) = (answers.next(), answers.next()) {
        std::mem::swap(&mut first.content, &mut second.content);
    }
    let window = |(lines, items)| {
        let record = Arc::new(super::render(lines, room)?);
        Ok(RecordWindow { record, items })
    };
    [(lines, 0..1), (&swapped[..], 1..2)].into_iter().map(window).collect()
}

/// Converts cites of the record with swapped answers to those of the original.
pub(in crate::judged) fn swap_back(lines: &[RecordLine], answers: &mut JudgeAnswers) {
    let mut seqs = lines.iter().filter(|it| it.kind == LineKind::Answer).map(|it| it.seq);
    let (Some(first), Some(second)) = (seqs.next(), seqs.next()) else { return };
    for cite in answers.items.iter_mut().flat_map(|item| &mut item.cites) {
        *cite = match *cite {
            seq if seq == first => second,
            seq if seq == second => first,
            seq => seq,
        };
    }
}

/// Divides statements into as few windows as fit, each with at most `statements`; `calls` has for
/// each statement the seq of its call, if any.
///
/// # Errors
/// Returns the size if even [`WINDOWS_MAX`] windows do not fit.
pub(in crate::judged) fn render_windows(
    lines: &[RecordLine],
    calls: &[Option<u64>],
    statements: usize,
    room: RenderLimits,
) -> Result<Vec<RecordWindow>, RecordTooLong> {
    let mut count = calls.len().div_ceil(statements).max(2);
    loop {
        let windows: Result<Vec<_>, _> = parts(calls.len(), count)
            .map(|items| render_window(lines, calls, items, room))
            .collect();
        match windows {
            Err(_) if count < WINDOWS_MAX.min(calls.len()) => {
                count = (count * 2).min(WINDOWS_MAX);
            }
            done => return done,
        }
    }
}

fn render_window(
    lines: &[RecordLine],
    calls: &[Option<u64>],
    items: Range<usize>,
    room: RenderLimits,
) -> Result<RecordWindow, RecordTooLong> {
    let bytes_max = (f64::from(room.tokens) * room.bytes_per_token) as usize;
    let of_tokens = |tokens: usize| (tokens as f64 * room.bytes_per_token) as usize;
    let inside: HashSet<u64> = calls[items.clone()].iter().flatten().copied().collect();
    let is_inside = |line: &RecordLine| inside.contains(&line.of.unwrap_or(line.seq));
    let used =
        UsedValues::of(lines.iter().filter(|line| {
            !matches!(line.kind, LineKind::Call | LineKind::Result) || is_inside(line)
        }));
    let is_told = |line: &RecordLine| match (line.kind, line.content.value()) {
        (LineKind::Call, _) | (LineKind::Result, None) => is_inside(line),
        (LineKind::Result, Some(value)) => is_inside(line) || used.is_in(value),
        _ => true,
    };
    // Computed once, since the search for used values takes most of the time.
    let told: Vec<bool> = lines.iter().map(is_told).collect();
    let shape = |(line, told): (&RecordLine, &bool)| {
        let Some(value) = line.content.value() else { return LineShape::default() };
        let room = match line.kind {
            LineKind::Call if is_inside(line) => of_tokens(ARGUMENTS_TOKENS),
            LineKind::Result if is_inside(line) => of_tokens(RESULT_TOKENS),
            LineKind::Result if *told => of_tokens(OUTSIDE_TOKENS),
            LineKind::Call | LineKind::Result => return outline(value),
            _ => bytes_max / TEXT_SHARE,
        };
        LineShape::shortened(value, room, &used)
    };
    let mut shapes: Vec<LineShape<'_>> = lines.iter().zip(&told).map(shape).collect();
    let mut record = render_shapes(lines, &shapes);
    if record.bytes() > bytes_max {
        let is_near = |at: usize| {
            let near = &lines[at.saturating_sub(NEAR_LINES)..lines.len().min(at + NEAR_LINES + 1)];
            near.iter().any(is_inside)
        };
        fold::fold(lines, &mut shapes, |at| !told[at] && !is_near(at));
        record = render_shapes(lines, &shapes);
    }
    match record.bytes() {
        bytes if bytes > bytes_max => Err(RecordTooLong { bytes, bytes_max }),
        _ => Ok(RecordWindow { record: Arc::new(record), items }),
    }
}

/// Returns the form without the content, unless the content is shorter than its digest.
fn outline<'l>(value: &Value<'static>) -> LineShape<'l> {
    /// Bytes of a digest and of the number of bytes cut.
    const DIGEST_BYTES: usize = 24;
    if cut::json_bytes(value) <= DIGEST_BYTES {
        LineShape::default()
    } else {
        LineShape::left_out(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judged::record::RunRecord;
    use crate::judged::settings::SendSettings;
    use spanscore_base::model::{Content, ToolCall, Trajectory};
    use spanscore_base::value::json;

    /// Builds a run of `calls` calls, each of which uses a value of the result before.
    fn run(calls: usize) -> RunRecord {
        let call = |n: usize| {
            let filler = "lorem ipsum ".repeat(20);
            let arguments = format!(r#"{{"order":"A-{n:04}","note":"{filler}"}}"#);
            let rows = (0..20).map(|row| format!(r#"{{"row":{row},"text":"{filler}"}}"#));
            let next = format!(r#"{{"order":"A-{:04}"}}"#, n + 1);
            let rows = rows.chain([next]).collect::<Vec<_>>().join(",");
            let value = |text: &str| Content::ready(json::parse(text).expect("JSON").into_owned());
            ToolCall {
                name: "next_order".into(),
                arguments: value(&arguments),
                result: value(&format!("[{rows}]")),
                start_ns: n as u64 * 10,
                end_ns: n as u64 * 10 + 5,
                ..ToolCall::default()
            }
        };
        let trajectory = Trajectory {
            user_input: Content::ready(Value::from("Begin with order A-0000")),
            tool_calls: (0..calls).map(call).collect(),
            ..Trajectory::default()
        };
        RunRecord::of(&trajectory, &SendSettings::default(), Default::default())
    }

    fn windows(calls: usize, tokens: u32) -> Result<Vec<RecordWindow>, RecordTooLong> {
        let record = run(calls);
        let seqs: Vec<_> = record.calls.iter().map(|call| Some(call.seq)).collect();
        let room = RenderLimits { tokens, bytes_per_token: 3.5, asks_calls: true };
        render_windows(&record.lines, &seqs, 100, room)
    }

    #[test]
    fn each_call_is_whole_in_one_window_beside_what_it_uses_and_all_fit() {
        let windows = windows(40, 4_000).expect("they fit");
        assert!(windows.len() > 1 && windows.len() <= WINDOWS_MAX, "{}", windows.len());
        let mut next = 0;
        for window in &windows {
            assert_eq!(window.items.start, next, "each statement once, in order");
            next = window.items.end;
            assert!(window.record.bytes() <= 14_000);
            let text = window.record.text();
            for call in window.items.clone() {
                let source = format!(r#"{{"order":"A-{call:04}"}}"#);
                assert!(call == 0 || text.contains(&source), "the source of call {call}: {text}");
            }
            let whole = text.matches(r#""arguments":{"order""#).count();
            assert_eq!(whole, window.items.len(), "arguments of the others are left out");
        }
        assert_eq!(next, 40);
    }

    #[test]
    fn where_all_lines_are_too_many_those_far_from_a_window_are_counted() {
        let record = run(400);
        let seqs: Vec<_> = record.calls.iter().map(|call| Some(call.seq)).collect();
        let room = RenderLimits { tokens: 12_000, bytes_per_token: 3.5, asks_calls: true };
        let windows = render_windows(&record.lines, &seqs, 48, room).unwrap();
        assert!((9..=WINDOWS_MAX).contains(&windows.len()), "{}", windows.len());
        for window in &windows {
            assert!(window.items.len() <= 48 && window.record.bytes() <= 42_000);
            let text = window.record.text();
            let whole = text.matches(r#""arguments":{"order""#).count();
            assert_eq!(whole, window.items.len(), "{text}");
            assert!(text.contains(r#""kind":"calls""#), "{text}");
        }
    }

    #[test]
    fn a_run_that_is_too_long_for_all_windows_has_none() {
        assert!(windows(40, 300).is_err());
    }
}
