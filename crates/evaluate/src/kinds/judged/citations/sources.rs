//! Sources of a run: addresses that results hold, or that calls with a result were made for.

use hashbrown::{HashMap, HashSet};

use super::find::{addresses, without_query};
use crate::judged::record::{LineContent, LineKind, RecordLine, RunRecord};
use spanscore_base::value::Value;

/// Places of results that a statement names at most.
const PLACES_MAX: usize = 4;

/// Answer of the record to where a source comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CitationOrigin {
    /// Results that hold it, or that were returned for it.
    Returned(Vec<u64>),
    /// Words of user or operator: no result need hold it.
    Given,
    /// Nothing that was returned holds it.
    Nowhere,
    /// A result that is not recorded, or not wholly, may hold it.
    Unknown,
}

/// Sources by address.
#[derive(Debug, Default)]
pub(super) struct RunSources {
    returned: HashMap<String, Vec<u64>>,
    given: HashSet<String>,
    is_partly_unknown: bool,
}

impl RunSources {
    /// Collects the sources of a record.
    pub(super) fn of(record: &RunRecord) -> Self {
        let mut sources = Self::default();
        for line in &record.lines {
            match line.kind {
                LineKind::User | LineKind::Operator => {
                    let given = &mut sources.given;
                    each_address(line, &mut |key| {
                        given.insert(key);
                    });
                }
                LineKind::Result => sources.add_result(record, line),
                _ => {}
            }
        }
        sources
    }

    fn add_result(&mut self, record: &RunRecord, line: &RecordLine) {
        self.is_partly_unknown |= !matches!(line.content, LineContent::Whole(_));
        each_address(line, &mut |key| self.add(key, line.seq));
        if line.status == Some("error") {
            return;
        }
        let call = record.calls.iter().find(|call| Some(call.seq) == line.of);
        if let Some(call) = call.and_then(|call| record.lines.get(call.line)) {
            each_address(call, &mut |key| self.add(key, line.seq));
        }
    }

    fn add(&mut self, key: String, seq: u64) {
        let page = without_query(&key).to_owned();
        for key in [key, page] {
            let places = self.returned.entry(key).or_default();
            if places.len() < PLACES_MAX && !places.contains(&seq) {
                places.push(seq);
            }
        }
    }

    /// Returns where an address comes from.
    pub(super) fn origin(&self, key: &str) -> CitationOrigin {
        let returned = self.returned.get(key).or_else(|| self.returned.get(without_query(key)));
        match returned {
            Some(places) => CitationOrigin::Returned(places.clone()),
            None if self.given.contains(key) => CitationOrigin::Given,
            None if self.is_partly_unknown => CitationOrigin::Unknown,
            None => CitationOrigin::Nowhere,
        }
    }
}

fn each_address(line: &RecordLine, found: &mut impl FnMut(String)) {
    if let Some(value) = line.content.value() {
        walk(value, found);
    }
}

fn walk(value: &Value<'_>, found: &mut impl FnMut(String)) {
    match value {
        Value::String(text) => addresses(text, found),
        Value::List(list) => list.iter().for_each(|item| walk(item, found)),
        Value::Map(map) => map.iter().for_each(|(key, item)| {
            addresses(key, found);
            walk(item, found);
        }),
        _ => {}
    }
}
