//! Folding of calls: one line with counts replaces a sequence of calls.
//!
//! ```text
//! {"seq":12,"kind":"calls","to":640,"tools":{"rename":310,"delete":4},"errors":2,"cut":41208}
//! ```

use std::fmt::Write as _;
use std::ops::Range;

use super::{HEAD_CALLS, LineShape, RenderedRecord, TAIL_CALLS};
use crate::judged::cut;
use crate::judged::escape::write_string;
use crate::judged::record::{LineKind, RecordLine};
use spanscore_base::model::CallStatus;

/// Shortest folded sequence, lines.
const LINES_MIN: usize = 4;
/// Limit on named tools; calls of all others are counted together.
const TOOLS_MAX: usize = 20;
/// Estimated bytes of the line for a sequence.
const LINE_BYTES: usize = 400;

/// Counts of a folded sequence of calls.
#[derive(Debug, Default)]
pub(super) struct CountedCalls {
    /// Last seq.
    to: u64,
    /// Tools in the order of their first call, with their number of calls.
    tools: Vec<(String, usize)>,
    /// Calls of tools without a name here.
    others: usize,
    /// Failed calls.
    errors: usize,
}

impl CountedCalls {
    fn add(&mut self, line: &RecordLine) {
        self.to = line.seq;
        self.errors += usize::from(line.status == Some(CallStatus::Error.as_str()));
        let Some(tool) = line.tool.as_ref().filter(|_| line.kind == LineKind::Call) else { return };
        match self.tools.iter().position(|(name, _)| name == tool) {
            Some(place) => self.tools[place].1 += 1,
            None if self.tools.len() < TOOLS_MAX => self.tools.push((tool.clone(), 1)),
            None => self.others += 1,
        }
    }

    /// Writes the line for the sequence.
    pub(super) fn write(&self, seq: u64, cut: u64, out: &mut String) {
        // Writing to a string cannot fail.
        let _ = write!(out, "{{\"seq\":{seq},\"kind\":\"calls\",\"to\":{},\"tools\":{{", self.to);
        for (at, (tool, count)) in self.tools.iter().enumerate() {
            out.push_str(if at == 0 { "" } else { "," });
            write_string(tool, out);
            let _ = write!(out, ":{count}");
        }
        out.push('}');
        if self.others > 0 {
            let _ = write!(out, ",\"of_other_tools\":{}", self.others);
        }
        let _ = write!(out, ",\"errors\":{},\"cut\":{cut}}}", self.errors);
    }
}

/// Folds sequences of the calls and results allowed by `may_be`.
pub(super) fn fold(
    lines: &[RecordLine],
    shapes: &mut [LineShape<'_>],
    may_be: impl Fn(usize) -> bool,
) {
    let may_be =
        |at: usize| matches!(lines[at].kind, LineKind::Call | LineKind::Result) && may_be(at);
    let mut at = 0;
    while at < lines.len() {
        let len = (at..lines.len()).take_while(|at| may_be(*at)).count();
        if len >= LINES_MIN {
            fold_stretch(lines, shapes, at..at + len);
        }
        at += len + 1;
    }
}

fn fold_stretch(lines: &[RecordLine], shapes: &mut [LineShape<'_>], stretch: Range<usize>) {
    let mut counted = CountedCalls::default();
    let mut cut = 0;
    for (line, shape) in lines[stretch.clone()].iter().zip(&mut shapes[stretch.clone()]) {
        counted.add(line);
        cut += line.content.value().map_or(0, cut::json_bytes) as u64;
        *shape = LineShape { is_folded: true, ..LineShape::default() };
    }
    shapes[stretch.start] = LineShape { counted: Some(counted), cut, ..LineShape::default() };
}

/// Folds calls from the middle outwards until `over` bytes are saved, or none is left.
pub(super) fn fold_middle(
    lines: &[RecordLine],
    shapes: &mut [LineShape<'_>],
    rendered: &RenderedRecord,
    over: usize,
) {
    let is_call = |line: &&RecordLine| line.kind == LineKind::Call;
    let calls: Vec<u64> = lines.iter().filter(is_call).map(|line| line.seq).collect();
    let Some(&[first, .., last]) = calls.get(HEAD_CALLS..calls.len().saturating_sub(TAIL_CALLS))
    else {
        return;
    };
    let is_middle = |line: &RecordLine| match line.kind {
        LineKind::Call => (first..=last).contains(&line.seq),
        LineKind::Result => line.of.is_some_and(|of| (first..=last).contains(&of)),
        _ => false,
    };
    let middle: Vec<usize> = (0..lines.len()).filter(|at| is_middle(&lines[*at])).collect();
    let sizes: Vec<usize> = rendered.lines().map(str::len).collect();
    let mut from = middle.len() / 2;
    let mut to = middle.len() / 2;
    let mut won = 0;
    let mut spent = LINE_BYTES;
    while won < over + spent && (from > 0 || to < middle.len()) {
        if from > 0 {
            from -= 1;
            won += sizes.get(middle[from]).copied().unwrap_or(0);
        }
        if to < middle.len() {
            won += sizes.get(middle[to]).copied().unwrap_or(0);
            // A line in between splits the sequence, which then takes another line of counts.
            spent += if middle[to] == middle[to - 1] + 1 { 0 } else { LINE_BYTES };
            to += 1;
        }
    }
    let Some((&first, &last)) = middle.get(from).zip(middle.get(to.saturating_sub(1))) else {
        return;
    };
    fold(lines, shapes, |at| (first..=last).contains(&at) && is_middle(&lines[at]));
}

#[cfg(test)]
mod tests {
    use super::super::{RenderLimits, render};
    use crate::judged::record::RunRecord;
    use crate::judged::settings::SendSettings;
    use spanscore_base::model::{CallStatus, Content, ToolCall, Trajectory};
    use spanscore_base::value::json;

    /// Builds a run of calls that hold next to nothing.
    fn run(calls: usize) -> RunRecord {
        let call = |n: usize| ToolCall {
            name: if n.is_multiple_of(100) { "list" } else { "rename" }.into(),
            arguments: Content::ready(
                json::parse(&format!(r#"{{"n":{n}}}"#)).unwrap().into_owned(),
            ),
            result: Content::ready(json::parse(r#"{"ok":true}"#).unwrap().into_owned()),
            status: if n == 500 { CallStatus::Error } else { CallStatus::Ok },
            start_ns: n as u64 * 10,
            end_ns: n as u64 * 10 + 5,
            ..ToolCall::default()
        };
        let trajectory =
            Trajectory { tool_calls: (0..calls).map(call).collect(), ..Trajectory::default() };
        RunRecord::of(&trajectory, &SendSettings::default(), Default::default())
    }

    #[test]
    fn where_outlines_are_too_long_calls_in_the_middle_are_counted() {
        let record = run(1_000);
        let room = RenderLimits { tokens: 12_000, bytes_per_token: 3.5, asks_calls: false };
        let rendered = render(&record.lines, room).unwrap();
        assert!(rendered.bytes() <= 42_000, "{}", rendered.bytes());
        let counted: Vec<&str> =
            rendered.lines().filter(|line| line.contains(r#""kind":"calls""#)).collect();
        assert_eq!(counted.len(), 1, "{counted:?}");
        let line = json::parse(counted[0]).unwrap();
        let number =
            |value: &spanscore_base::value::Value<'_>| value.as_number().unwrap().as_i64().unwrap();
        let tools = line.get("tools").unwrap().as_map().unwrap();
        let told = rendered.lines().filter(|line| line.contains(r#""kind":"call""#)).count();
        let of_tools: i64 = tools.iter().map(|(_, count)| number(count)).sum();
        assert_eq!(of_tools as usize + told, 1_000, "each call is told or counted");
        assert_eq!(number(line.get("errors").unwrap()), 1);
        assert!(rendered.cut_bytes > 0 && rendered.bytes() > 20_000, "no more than has to be");
    }
}
