//! Span tree: the spans of a trace in start order, each with its parent.

use std::cmp::Reverse;

use super::form::{RecordForm, RecordForms, Signature, TraceForms};
use super::plan::ReadingPlan;
use crate::record::layout::{self, Attribute, FactsReader};
use crate::table::KeySlot;
use spanscore_base::model::{SpanFlags, SpanId, SpanRecord, TraceSpans, fetch};

/// Usual number of attributes of a span, for the first allocation.
const ATTRIBUTES_GUESS: usize = 4;

/// Limit on linearly searched spans; more have an index by id.
const FEW_MAX: usize = 20;

/// Marks a parent outside the trace.
pub(super) const NONE: u32 = u32::MAX;

/// Span or log event.
#[derive(Clone, Copy)]
pub(super) struct Span<'a> {
    pub(super) record: &'a SpanRecord,
    pub(super) facts: FactsReader<'a>,
    /// Index of the parent in [`Tree::spans`], or [`NONE`]; no span is its own ancestor.
    pub(super) parent: u32,
    /// Index in the trace's records.
    pub(super) arrival: u32,
    /// Number of its form; [`NONE`] for a log event.
    form: u32,
    /// Index of its first attribute in [`Tree::values`].
    attributes: u32,
    /// Index of its first attribute without a slot in [`Tree::others`], then their number.
    others: (u32, u32),
}

/// Spans and log events of a trace.
pub(super) struct Tree<'a> {
    /// Spans by start, then outer before inner, then by end and id. Each span occurs once.
    pub(super) spans: Vec<Span<'a>>,
    /// Log events by time; `parent` is their span.
    pub(super) logs: Vec<Span<'a>>,
    /// Dropped records: index in the trace's records, and reason.
    pub(super) dropped: Vec<(u32, &'static str)>,
    forms: TraceForms<'a>,
    /// Encoded values of the attributes with a slot, of all spans.
    values: Vec<&'a [u8]>,
    /// Attributes without a slot, of all spans.
    others: Vec<Attribute<'a>>,
}

impl<'a> Tree<'a> {
    pub(super) fn new(
        plan: &'a ReadingPlan,
        forms: &'a RecordForms,
        trace: &'a TraceSpans,
    ) -> Self {
        // Prefetches the trace, which has left the CPU's caches while waiting.
        fetch(&trace.arena);
        let count = trace.spans.len();
        let mut tree = Self {
            spans: Vec::with_capacity(count),
            logs: Vec::new(),
            dropped: Vec::new(),
            forms: TraceForms::new(plan, forms),
            values: Vec::with_capacity(ATTRIBUTES_GUESS * count),
            others: Vec::new(),
        };
        let mut slots = Vec::new();
        for (arrival, record) in (0..).zip(&trace.spans) {
            let span = tree.read(record, trace.facts(record), arrival, &mut slots);
            let list =
                if record.flags.has(SpanFlags::LOG) { &mut tree.logs } else { &mut tree.spans };
            list.push(span);
        }
        tree.sort();
        let mut places = tree.places();
        if tree.repeats(&places) || tree.forms.announce {
            tree.drop_duplicates();
            tree.drop_announcements();
            tree.sort();
            places = tree.places();
        }
        tree.logs.sort_by_key(|log| (log.record.start_ns, log.record.content));
        tree.link(&places);
        if tree.forms.evaluates && tree.drop_evaluations() {
            places = tree.places();
            tree.link(&places);
        }
        tree.put_outer_first();
        tree
    }

    /// Reads a record's facts in one pass.
    fn read(
        &mut self,
        record: &'a SpanRecord,
        encoded: &'a [u8],
        arrival: u32,
        slots: &mut Vec<KeySlot>,
    ) -> Span<'a> {
        let facts = FactsReader::new(encoded);
        let attributes = self.values.len() as u32;
        let others = self.others.len();
        let mut span =
            Span { record, facts, parent: NONE, arrival, form: NONE, attributes, others: (0, 0) };
        if record.flags.has(SpanFlags::LOG) {
            return span;
        }
        slots.clear();
        let (mut kinds, mut words, mut conditions): (_, _, &[u8]) = (0, 0, &[]);
        for (kind, fact) in facts.fields() {
            kinds |= layout::kind(kind);
            words |= layout::words(kind, fact);
            if let Some((slot, value)) = layout::attribute(kind, fact) {
                slots.push(slot);
                self.values.push(value);
            } else if kind == layout::CONDITIONS {
                conditions = fact;
            } else {
                self.others.extend(layout::other(kind, fact));
            }
        }
        span.others = (others as u32, (self.others.len() - others) as u32);
        span.form = self.forms.number(Signature { conditions, kinds, words, slots });
        span
    }

    fn sort(&mut self) {
        let key = |span: &Span<'_>| {
            let record = span.record;
            (record.start_ns, record.end_ns, record.span_id)
        };
        if !self.spans.is_sorted_by_key(key) {
            self.spans.sort_unstable_by_key(key);
        }
    }

    /// Returns an index from ids to spans, sorted by id; empty for few spans.
    fn places(&self) -> Vec<(SpanId, u32)> {
        if self.spans.len() <= FEW_MAX {
            return Vec::new();
        }
        let ids = self.spans.iter().map(|span| span.record.span_id);
        let mut places: Vec<_> = ids.zip(0..).collect();
        places.sort_unstable();
        places
    }

    /// Returns true if two spans share an id.
    fn repeats(&self, places: &[(SpanId, u32)]) -> bool {
        if self.spans.len() > FEW_MAX {
            return places.array_windows().any(|[(one, _), (next, _)]| one == next);
        }
        let mut rest = &self.spans[..];
        while let [span, later @ ..] = rest {
            if later.iter().any(|other| other.record.span_id == span.record.span_id) {
                return true;
            }
            rest = later;
        }
        false
    }

    /// Returns the index of the span with an id.
    fn place_of(&self, id: SpanId, places: &[(SpanId, u32)]) -> u32 {
        if self.spans.len() <= FEW_MAX {
            let at = self.spans.iter().position(|span| span.record.span_id == id);
            return at.map_or(NONE, |at| at as u32);
        }
        let at = places.binary_search_by_key(&id, |(known, _)| *known);
        at.ok().and_then(|at| places.get(at)).map_or(NONE, |(_, place)| *place)
    }

    /// Drops all records of a span id except the one with the highest precedence.
    fn drop_duplicates(&mut self) {
        self.spans.sort_unstable_by_key(|span| {
            (span.record.span_id, Reverse(span.record.precedence()), span.arrival)
        });
        let dropped = &mut self.dropped;
        self.spans.dedup_by(|later, kept| {
            let same = later.record.span_id == kept.record.span_id;
            if same {
                dropped.push((later.arrival, "the same span came again"));
            }
            same
        });
    }

    /// Drops start snapshots with their own id and the announced span as parent, if that span is
    /// also recorded. The spans are sorted by id.
    fn drop_announcements(&mut self) {
        let ids: Vec<_> = self.spans.iter().map(|span| span.record.span_id).collect();
        let forms = &self.forms;
        let dropped = &mut self.dropped;
        self.spans.retain(|span| {
            let pending = forms.get(span.form).pending;
            let drop = pending && ids.binary_search(&span.record.parent_id).is_ok();
            if drop {
                dropped.push((span.arrival, "announces a span that has ended"));
            }
            !drop
        });
    }

    /// Drops the spans within an evaluation of the run, as a judge's calls are not the agent's. An
    /// evaluation without a parent is a run of its own. Returns true if any was dropped.
    fn drop_evaluations(&mut self) -> bool {
        let is_evaluation = |at: u32| {
            let span = self.get(at).filter(|span| span.parent != NONE);
            if span.is_some_and(|span| self.form(span).evaluator) { at } else { NONE }
        };
        let within = self.inherit(is_evaluation);
        let mut at = 0..;
        let dropped = &mut self.dropped;
        let count = self.spans.len();
        self.spans.retain(|span| {
            let at = at.next().unwrap_or(NONE);
            let evaluation = within.get(at as usize).copied().unwrap_or(NONE);
            let is_kept = evaluation == NONE || evaluation == at;
            if !is_kept {
                dropped.push((span.arrival, "within an evaluation of the run"));
            }
            is_kept
        });
        self.spans.len() < count
    }

    fn link(&mut self, places: &[(SpanId, u32)]) {
        // Successive spans often share a parent, which is then searched once.
        let mut last = (SpanId::default(), NONE);
        for at in 0..self.spans.len() {
            let id = self.spans[at].record.parent_id;
            if id != last.0 {
                last = (id, self.place_of(id, places));
            }
            let is_itself = last.1 == at as u32;
            self.spans[at].parent = if id.is_none() || is_itself { NONE } else { last.1 };
        }
        for at in 0..self.logs.len() {
            self.logs[at].parent = self.place_of(self.logs[at].record.span_id, places);
        }
        self.break_circles();
    }

    /// Breaks cycles: the earliest span of a cycle becomes the outermost.
    fn break_circles(&mut self) {
        // For each span the start of the walk that reached it first: a walk that meets its own mark
        // has closed a cycle, one that meets another's has not. Linear in the spans.
        let mut walks = vec![NONE; self.spans.len()];
        for start in 0..self.spans.len() as u32 {
            let mut at = start;
            while walks.get(at as usize) == Some(&NONE) {
                walks[at as usize] = start;
                at = self.spans[at as usize].parent;
            }
            if walks.get(at as usize) != Some(&start) {
                continue;
            }
            let first = at;
            let mut earliest = at;
            loop {
                at = self.spans[at as usize].parent;
                earliest = earliest.min(at);
                if at == first {
                    break;
                }
            }
            self.spans[earliest as usize].parent = NONE;
        }
    }

    /// Sorts spans with equal start times so that outer ones precede inner ones.
    fn put_outer_first(&mut self) {
        let start = |at: u32| self.get(at).map(|span| span.record.start_ns);
        let mut instants = self.spans.array_windows();
        if !instants.any(|[one, next]| one.record.start_ns == next.record.start_ns) {
            return;
        }
        let above = (0..)
            .zip(&self.spans)
            .map(|(at, span)| if start(at) == start(span.parent) { span.parent } else { NONE });
        let levels = depths(&above.collect::<Vec<_>>());
        let mut order: Vec<u32> = (0..self.spans.len() as u32).collect();
        order.sort_by_key(|at| (start(*at), levels[*at as usize]));
        let mut places = vec![NONE; self.spans.len()];
        (0..).zip(&order).for_each(|(place, at)| places[*at as usize] = place);
        let mut spans: Vec<_> = order.iter().map(|at| self.spans[*at as usize]).collect();
        for span in spans.iter_mut().chain(&mut self.logs) {
            span.parent = places.get(span.parent as usize).copied().unwrap_or(NONE);
        }
        self.spans = spans;
    }

    /// Returns the form of a span: its relevant sources.
    #[inline]
    pub(super) fn form(&self, span: &Span<'a>) -> &RecordForm {
        self.forms.get(span.form)
    }

    /// Returns the encoded values of a span's attributes in the order of its form.
    #[inline]
    pub(super) fn values(&self, span: &Span<'a>) -> &[&'a [u8]] {
        let from = span.attributes as usize;
        let to = from + self.form(span).attribute_count();
        self.values.get(from..to).unwrap_or(&[])
    }

    /// Returns a span's attributes without slots: keys and encoded values.
    #[inline]
    pub(super) fn others(&self, span: &Span<'a>) -> &[Attribute<'a>] {
        let from = span.others.0 as usize;
        let count = span.others.1 as usize;
        self.others.get(from..from + count).unwrap_or(&[])
    }

    /// Returns the span at an index; `None` for [`NONE`].
    pub(super) fn get(&self, at: u32) -> Option<&Span<'a>> {
        self.spans.get(at as usize)
    }

    /// Returns for each span the value of `own`, else that of its nearest ancestor with one;
    /// [`NONE`] means no value. Linear in the spans.
    pub(super) fn inherit(&self, own: impl Fn(u32) -> u32) -> Vec<u32> {
        const UNKNOWN: u32 = NONE - 1;
        let mut found = vec![UNKNOWN; self.spans.len()];
        let mut path = Vec::new();
        for start in 0..self.spans.len() as u32 {
            let mut at = start;
            let value = loop {
                let Some(&known) = found.get(at as usize) else { break NONE };
                if known != UNKNOWN {
                    break known;
                }
                let value = own(at);
                if value != NONE {
                    found[at as usize] = value;
                    break value;
                }
                // Marks the span as visited, so that a cycle ends here.
                found[at as usize] = NONE;
                path.push(at);
                at = self.spans[at as usize].parent;
            };
            for at in path.drain(..) {
                found[at as usize] = value;
            }
        }
        found
    }

    /// Returns the index of the span for the trace's evaluations: the earliest root, else the
    /// earliest span without its parent in the trace.
    pub(super) fn root(&self) -> Option<u32> {
        let is_root = |span: &Span<'_>| span.record.flags.has(SpanFlags::ROOT);
        let root = self.spans.iter().position(is_root);
        let orphan = || self.spans.iter().position(|span| span.parent == NONE);
        root.or_else(orphan).or((!self.spans.is_empty()).then_some(0)).map(|at| at as u32)
    }
}

/// Returns the number of ancestors of each entry, given the index of its parent, or [`NONE`]; there
/// are no cycles. Linear in the entries.
pub(super) fn depths(above: &[u32]) -> Vec<u32> {
    let mut depths = vec![NONE; above.len()];
    let mut path = Vec::new();
    for start in 0..above.len() as u32 {
        let mut at = start;
        while depths.get(at as usize) == Some(&NONE) {
            path.push(at);
            at = above[at as usize];
        }
        let first = depths.get(at as usize).map_or(0, |depth| depth + 1);
        for (depth, at) in (first..).zip(path.drain(..).rev()) {
            depths[at as usize] = depth;
        }
    }
    depths
}
