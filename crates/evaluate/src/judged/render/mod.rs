//! Renderer of a record: JSON lines within a token limit.
//!
//! To fit, long results and arguments are shortened, equal calls folded, long texts shortened, and
//! calls in the middle reduced to name and status, then only counted. A record that still does not
//! fit is too long.

mod fold;
mod windows;

pub(super) use windows::{
    RecordWindow, WINDOWS_MAX, parts, render_orders, render_windows, swap_back,
};

use std::borrow::Cow;
use std::fmt::Write as _;

use hashbrown::HashMap;
use sha2::{Digest, Sha256};

use super::cut::{self, UsedValues};
use super::escape::{write_string, write_value};
use super::record::{LineContent, LineKind, RecordLine};
use fold::CountedCalls;
use spanscore_base::value::Value;

/// Tokens kept of a result if a record is too long.
const RESULT_TOKENS: usize = 600;
/// Tokens kept of a call's arguments if a record is too long.
const ARGUMENTS_TOKENS: usize = 300;
/// Divisor of the limit for one text of operator, user or agent if a record is too long.
const TEXT_SHARE: usize = 4;
/// Calls at the start that keep their contents.
const HEAD_CALLS: usize = 2;
/// Calls at the end that keep their contents.
const TAIL_CALLS: usize = 3;

/// Limits of a rendered record.
#[derive(Clone, Copy, Debug)]
pub(super) struct RenderLimits {
    /// Limit on tokens.
    pub(super) tokens: u32,
    /// Bytes per token.
    pub(super) bytes_per_token: f64,
    /// True if each call's arguments are in question, so that they must stay.
    pub(super) asks_calls: bool,
}

/// Rendered lines of a record, without their marks.
#[derive(Debug, Default)]
pub(super) struct RenderedRecord {
    text: String,
    ends: Vec<usize>,
    /// Bytes that were cut.
    pub(super) cut_bytes: u64,
}

/// Error of a record that does not fit even when cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordTooLong {
    /// Bytes of the record, cut to the minimum.
    pub(super) bytes: usize,
    /// Limit in bytes.
    pub(super) bytes_max: usize,
}

impl RenderedRecord {
    /// Returns the lines.
    pub(super) fn lines(&self) -> impl Iterator<Item = &str> {
        let starts = [0].into_iter().chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.text[start..*end])
    }

    /// Returns the whole text.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn bytes(&self) -> usize {
        self.text.len()
    }

    fn push(&mut self, line: &RecordLine, shape: &LineShape<'_>) {
        if shape.is_folded {
            return;
        }
        write_line(line, shape, &mut self.text);
        self.cut_bytes += shape.cut;
        self.ends.push(self.text.len());
    }
}

/// Form of a line: whole, shortened, folded, or a reference.
#[derive(Default)]
pub(super) struct LineShape<'l> {
    /// Content that replaces the line's own.
    content: Option<Cow<'l, Value<'static>>>,
    /// `seq` of an equal call or result, in place of the content.
    same_as: Option<u64>,
    /// Digest in place of the content.
    digest: Option<String>,
    /// Bytes cut.
    cut: u64,
    /// Counts of the sequence of calls that it replaces, including itself.
    counted: Option<CountedCalls>,
    /// True if an earlier line replaces it.
    is_folded: bool,
}

impl LineShape<'_> {
    /// Builds the form with only a digest of the content.
    pub(super) fn left_out(value: &Value<'static>) -> Self {
        let text = value.to_string();
        let digest = Sha256::digest(&text);
        let digest = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        Self { digest: Some(digest), cut: text.len() as u64, ..Self::default() }
    }

    /// Builds the form with the used parts of the content, in about `room` bytes.
    pub(super) fn shortened(value: &Value<'static>, room: usize, used: &UsedValues) -> Self {
        if cut::json_bytes(value) <= room {
            return Self::default();
        }
        let (short, cut) = cut::shorten(value, room, used);
        Self { content: Some(Cow::Owned(short)), cut, ..Self::default() }
    }
}

/// Renders lines within the limits.
///
/// # Errors
/// Returns the size if they do not fit.
pub(super) fn render(
    lines: &[RecordLine],
    room: RenderLimits,
) -> Result<RenderedRecord, RecordTooLong> {
    let bytes_max = (f64::from(room.tokens) * room.bytes_per_token) as usize;
    let mut whole = RenderedRecord::default();
    for line in lines {
        whole.push(line, &LineShape::default());
        if whole.bytes() > bytes_max {
            return render_cut(lines, room, bytes_max);
        }
    }
    Ok(whole)
}

fn render_cut(
    lines: &[RecordLine],
    room: RenderLimits,
    bytes_max: usize,
) -> Result<RenderedRecord, RecordTooLong> {
    let used = UsedValues::of(lines);
    let mut shapes: Vec<LineShape<'_>> = lines.iter().map(|_| LineShape::default()).collect();
    let of_tokens = |tokens: usize| (tokens as f64 * room.bytes_per_token) as usize;
    shorten(lines, &mut shapes, &used, |line| match line.kind {
        LineKind::Result => Some(of_tokens(RESULT_TOKENS)),
        LineKind::Call => Some(of_tokens(ARGUMENTS_TOKENS)),
        _ => None,
    });
    let mut rendered = render_shapes(lines, &shapes);
    if rendered.bytes() > bytes_max {
        fold_equal(lines, &mut shapes);
        rendered = render_shapes(lines, &shapes);
    }
    if rendered.bytes() > bytes_max {
        shorten(lines, &mut shapes, &used, |line| match line.kind {
            LineKind::Call | LineKind::Result => None,
            _ => Some(bytes_max / TEXT_SHARE),
        });
        rendered = render_shapes(lines, &shapes);
    }
    if rendered.bytes() > bytes_max {
        let over = rendered.bytes() - bytes_max;
        leave_out_middle(lines, &mut shapes, &rendered, over, room.asks_calls);
        rendered = render_shapes(lines, &shapes);
    }
    if rendered.bytes() > bytes_max && !room.asks_calls {
        let over = rendered.bytes() - bytes_max;
        fold::fold_middle(lines, &mut shapes, &rendered, over);
        rendered = render_shapes(lines, &shapes);
    }
    match rendered.bytes() {
        bytes if bytes > bytes_max => Err(RecordTooLong { bytes, bytes_max }),
        _ => Ok(rendered),
    }
}

/// Renders lines in given forms.
pub(super) fn render_shapes(lines: &[RecordLine], shapes: &[LineShape<'_>]) -> RenderedRecord {
    let mut rendered = RenderedRecord::default();
    lines.iter().zip(shapes).for_each(|(line, shape)| rendered.push(line, shape));
    rendered
}

fn shorten(
    lines: &[RecordLine],
    shapes: &mut [LineShape<'_>],
    used: &UsedValues,
    room: impl Fn(&RecordLine) -> Option<usize>,
) {
    for (line, shape) in lines.iter().zip(shapes) {
        let (Some(room), Some(value)) = (room(line), line.content.value()) else { continue };
        if shape.same_as.is_none() && cut::json_bytes(value) > room {
            *shape = LineShape::shortened(value, room, used);
        }
    }
}

/// Replaces the content of equal calls, and of equal results, by a reference to the first.
fn fold_equal(lines: &[RecordLine], shapes: &mut [LineShape<'_>]) {
    let mut first: HashMap<(LineKind, Option<&str>, String), u64> = HashMap::new();
    let tool_of: HashMap<u64, &str> =
        lines.iter().filter_map(|line| Some((line.seq, line.tool.as_deref()?))).collect();
    for (line, shape) in lines.iter().zip(shapes) {
        let (LineKind::Call | LineKind::Result, LineContent::Whole(value)) =
            (line.kind, &line.content)
        else {
            continue;
        };
        let text = value.to_string();
        if text.len() < 16 {
            continue;
        }
        let bytes = text.len() as u64;
        let tool = line.tool.as_deref().or(line.of.and_then(|of| tool_of.get(&of).copied()));
        let seq = *first.entry((line.kind, tool, text)).or_insert(line.seq);
        if seq != line.seq {
            *shape = LineShape { same_as: Some(seq), cut: bytes, ..LineShape::default() };
        }
    }
}

/// Reduces calls to name and status, from the middle outwards, until `over` bytes are saved.
fn leave_out_middle(
    lines: &[RecordLine],
    shapes: &mut [LineShape<'_>],
    rendered: &RenderedRecord,
    over: usize,
    asks_calls: bool,
) {
    let calls: Vec<u64> =
        lines.iter().filter(|line| line.kind == LineKind::Call).map(|line| line.seq).collect();
    let Some(middle) = calls.get(HEAD_CALLS..calls.len().saturating_sub(TAIL_CALLS)) else {
        return;
    };
    let place: HashMap<u64, usize> =
        middle.iter().enumerate().map(|(at, seq)| (*seq, at)).collect();
    let center = middle.len() / 2;
    let mut candidates: Vec<(usize, usize)> = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let call = match line.kind {
            LineKind::Call if !asks_calls => Some(line.seq),
            LineKind::Result => line.of,
            _ => None,
        };
        if let Some(place) = call.and_then(|seq| place.get(&seq)) {
            candidates.push((place.abs_diff(center), at));
        }
    }
    candidates.sort_unstable();
    let sizes: Vec<usize> = rendered.lines().map(str::len).collect();
    let mut won = 0;
    for (_, at) in candidates {
        if won >= over {
            return;
        }
        let (Some(value), None) = (lines[at].content.value(), shapes[at].same_as) else { continue };
        let shape = LineShape::left_out(value);
        let mut short = String::new();
        write_line(&lines[at], &shape, &mut short);
        if short.len() < sizes[at] {
            won += sizes[at] - short.len();
            shapes[at] = shape;
        }
    }
}

/// Writes one line as a JSON object.
fn write_line(line: &RecordLine, shape: &LineShape<'_>, out: &mut String) {
    if let Some(counted) = &shape.counted {
        return counted.write(line.seq, shape.cut, out);
    }
    // Writing to a string cannot fail.
    let _ = write!(out, "{{\"seq\":{},\"kind\":\"{}\"", line.seq, line.kind.as_str());
    if let Some(tool) = &line.tool {
        out.push_str(",\"tool\":");
        write_string(tool, out);
    }
    if let Some(of) = line.of {
        let _ = write!(out, ",\"of\":{of}");
    }
    if let Some(status) = line.status {
        let _ = write!(out, ",\"status\":\"{status}\"");
    }
    if let Some(seq) = shape.same_as {
        let _ = write!(out, ",\"same_as\":{seq}");
    } else if let Some(digest) = &shape.digest {
        let _ = write!(out, ",\"digest\":\"{digest}\"");
    } else if let Some(value) = shape.content.as_deref().or(line.content.value()) {
        let _ = write!(out, ",\"{}\":", line.kind.content_key());
        write_value(value, out);
    }
    if let Some(schema) = &line.schema {
        out.push_str(",\"arguments\":");
        write_value(schema, out);
    }
    if let Some(agent) = &line.agent {
        out.push_str(",\"agent\":");
        write_string(agent, out);
    }
    if let Some(turn) = line.turn {
        let _ = write!(out, ",\"turn\":{turn}");
    }
    if shape.cut > 0 && shape.same_as.is_none() {
        let _ = write!(out, ",\"cut\":{}", shape.cut);
    }
    if !matches!(line.content, LineContent::Whole(_)) {
        out.push_str(",\"unknown\":true");
    }
    out.push('}');
}
