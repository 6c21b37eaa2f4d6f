//! Translation of records from one table to another, so that traces stay open while dialects and
//! evaluators change.
//!
//! A record refers to attribute keys and conditions by their numbers in its table. Each number is
//! replaced by that of the same key or condition in the other table, or by one that nothing reads.
//! The words that match a key are searched again. Facts that the first table did not retain are
//! missing, as are word matches of keys that no source of the first matches by words.

use std::ops::Range;

use super::layout::{ATTRIBUTE, BODY, CONDITIONS, EVENT_ATTRIBUTE, WORD_MATCH};
use crate::table::{KeySlot, Table, WordMatcher};
use spanscore_base::model::SpanRecord;
use spanscore_base::otlp::any_value::key_value;
use spanscore_base::otlp::wire::{Field, Fields};

/// Marks a key or condition unknown to the other table.
const UNKNOWN: u16 = u16::MAX;

/// Mapping of one table's numbers to another's.
#[derive(Debug)]
pub struct Translation {
    slots: Vec<u16>,
    conditions: Vec<u16>,
    words: WordMatcher,
}

impl Translation {
    /// Builds the mapping from one table to another.
    pub fn new(from: &Table, to: &Table) -> Self {
        let slots = (0..from.slot_count()).map(|slot| {
            let key = from.key(KeySlot(slot));
            to.slot(key).map_or(UNKNOWN, |slot| slot.0)
        });
        let conditions = from
            .conditions()
            .iter()
            .map(|condition| to.condition(condition).map_or(UNKNOWN, |condition| condition.0));
        let slots = slots.collect();
        let conditions = conditions.collect();
        Self { slots, conditions, words: to.matcher.words.clone() }
    }

    /// Rewrites the facts of records in place.
    pub fn apply(&self, arena: &mut [u8], spans: &[SpanRecord]) {
        for record in spans {
            let facts = record.facts.start as usize..record.facts.end as usize;
            if let Some(facts) = arena.get_mut(facts) {
                self.apply_one(facts);
            }
        }
    }

    fn apply_one(&self, facts: &mut [u8]) {
        let mut at = 0;
        while let Some((number, content)) = next(facts, &mut at) {
            let Some(content) = facts.get_mut(content) else { return };
            match number {
                CONDITIONS => self.put_conditions(content),
                ATTRIBUTE | EVENT_ATTRIBUTE => {
                    if let Some(slot) = content.first_chunk_mut() {
                        *slot = known(&self.slots, *slot).to_le_bytes();
                    }
                }
                WORD_MATCH | BODY => {
                    if let Some((words, entry)) = content.split_first_chunk_mut() {
                        let key = key_value(entry).unwrap_or_default().0;
                        *words = self.words.sources_of(key).to_le_bytes();
                    }
                }
                _ => {}
            }
        }
    }

    /// Conditions are ascending.
    fn put_conditions(&self, content: &mut [u8]) {
        let ids = content.as_chunks_mut().0;
        let mut renamed: Vec<u16> = ids.iter().map(|id| known(&self.conditions, *id)).collect();
        renamed.sort_unstable();
        for (id, renamed) in ids.iter_mut().zip(renamed) {
            *id = renamed.to_le_bytes();
        }
    }
}

fn known(numbers: &[u16], number: [u8; 2]) -> u16 {
    numbers.get(usize::from(u16::from_le_bytes(number))).copied().unwrap_or(UNKNOWN)
}

/// Returns the number of the next field and its content's range; advances `at` past it.
fn next(facts: &[u8], at: &mut usize) -> Option<(u8, Range<usize>)> {
    let mut fields = Fields::new(facts.get(*at..)?);
    let Ok(Some((number, Field::Bytes(content)))) = fields.next() else { return None };
    *at = facts.len() - fields.rest().len();
    Some((number as u8, *at - content.len()..*at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::Dialect;
    use crate::{ExtractionCache, Resolver, extract};
    use spanscore_base::model::{Facts, SpanBatch, TraceSpans};
    use spanscore_base::otlp::{Signal, json};
    use std::sync::Arc;

    const SAMPLE: &[u8] = include_bytes!("../../../../examples/traces/refund_agent.json");

    fn table(facts: &Facts, dialects: Vec<Dialect>) -> Arc<Table> {
        Arc::new(Table::compile(Dialect::with_builtin(dialects), facts).unwrap())
    }

    /// A tool call of an instrumentation that no dialect knows, within a span without attributes.
    const UNKNOWN_TOOL: &[u8] = br#"{"resourceSpans": [{"scopeSpans": [{"spans": [
        {"traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": "b7ad6b7169203331", "name": "x",
         "startTimeUnixNano": "1", "endTimeUnixNano": "9"},
        {"traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": "b7ad6b7169203332", "name": "y",
         "parentSpanId": "b7ad6b7169203331", "startTimeUnixNano": "2", "endTimeUnixNano": "3",
         "attributes": [{"key": "acme.span.kind", "value": {"stringValue": "tool"}},
         {"key": "acme.tool_name", "value": {"stringValue": "lookup"}},
         {"key": "acme.input", "value": {"stringValue": "{\"a\": 1}"}},
         {"key": "acme.output", "value": {"stringValue": "found it"}}]}]}]}]}"#;

    fn trace(table: &Table) -> TraceSpans {
        trace_of(table, SAMPLE)
    }

    fn trace_of(table: &Table, request: &[u8]) -> TraceSpans {
        let request = json::transcode(Signal::Traces, request).unwrap();
        let mut batches = [SpanBatch::default()];
        let mut cache = ExtractionCache::default();
        extract(table, Signal::Traces, &request, &mut cache, &mut batches).unwrap();
        let [SpanBatch { arena, spans, runs, resources, .. }] = batches;
        let trace_id = runs[0].trace_id;
        TraceSpans { trace_id, arena, spans, resources, ..TraceSpans::default() }
    }

    fn shown(table: &Arc<Table>, trace: &TraceSpans) -> String {
        let resolver = Resolver::new(Arc::clone(table));
        let trajectory = resolver.resolve(trace);
        let calls = trajectory.tool_calls.iter().map(|call| {
            let content = [&call.arguments, &call.result].map(|content| content.value().cloned());
            format!("{} {:?} {content:?} {}\n", call.name, call.id, call.dialect)
        });
        calls.chain([format!("{:?}", trajectory.user_input.value())]).collect()
    }

    #[test]
    fn a_trace_reads_the_same_in_the_terms_of_another_table() {
        let all = table(&Facts::all(), Vec::new());
        let mut further = Dialect::builtin()[0].clone();
        further.name = "further".to_owned();
        further.priority = 1_000;
        let others = [
            table(&Facts { usage: false, ..Facts::all() }, Vec::new()),
            table(
                &Facts { attributes: vec![vec!["a.b".to_owned()]], ..Facts::all() },
                vec![further],
            ),
        ];
        for other in others {
            let mut old = trace(&all);
            let new = trace(&other);
            Translation::new(&all, &other).apply(&mut old.arena, &old.spans);
            assert_eq!(shown(&other, &old), shown(&other, &new));
            Translation::new(&other, &all).apply(&mut old.arena, &old.spans);
            assert_eq!(shown(&all, &old), shown(&all, &trace(&all)));
        }
    }

    #[test]
    fn words_of_keys_are_those_of_the_other_table() {
        let both = Facts { arguments: true, results: true, ..Facts::default() };
        let both = table(&both, Vec::new());
        let results = table(&Facts { results: true, ..Facts::default() }, Vec::new());
        let mut old = trace_of(&both, UNKNOWN_TOOL);
        Translation::new(&both, &results).apply(&mut old.arena, &old.spans);
        let read = shown(&results, &old);
        assert_eq!(read, shown(&results, &trace_of(&results, UNKNOWN_TOOL)));
        assert!(read.contains("lookup") && read.contains("found it"), "{read}");
    }

    #[test]
    fn what_the_other_table_does_not_know_is_not_read() {
        let all = table(&Facts::all(), Vec::new());
        let none = table(&Facts::default(), Vec::new());
        let mut old = trace(&all);
        Translation::new(&all, &none).apply(&mut old.arena, &old.spans);
        assert_eq!(shown(&none, &old), shown(&none, &trace(&none)));
    }
}
