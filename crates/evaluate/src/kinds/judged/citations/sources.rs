//! Sources of a run: addresses in results, and addresses of calls with a result.

use hashbrown::{HashMap, HashSet};

use super::find::{addresses, ascii_part, without_query};
use crate::judged::record::{LineContent, LineKind, RecordLine, RunRecord};
use spanscore_base::value::Value;

/// Limit on the results named by a statement.
const PLACES_MAX: usize = 4;

/// Origin of a cited source by the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CitationOrigin {
    /// Results that contain it, or that its request returned.
    Returned(Vec<u64>),
    /// Message of a user or operator; no result needs to contain it.
    Given,
    /// Not in any result.
    Nowhere,
    /// Possibly in a result that is not or only partly recorded.
    Unknown,
}

/// Sources by address.
#[derive(Debug, Default)]
pub(super) struct RunSources {
    returned: HashMap<String, Vec<u64>>,
    /// Sources by address without query.
    pages: HashMap<String, Vec<u64>>,
    given: HashSet<String>,
    is_partly_unknown: bool,
}

impl RunSources {
    /// Collects the sources of a record.
    pub(super) fn of(record: &RunRecord) -> Self {
        let mut sources = Self::default();
        let words = |line: &&RecordLine| matches!(line.kind, LineKind::User | LineKind::Operator);
        for line in record.lines.iter().filter(words) {
            each_address(line, &mut |key| {
                sources.given.insert(key);
            });
        }
        for call in &record.calls {
            let line = |at: usize| record.lines.get(at);
            if let (Some(asked), Some(result)) = (line(call.line), call.result.and_then(line)) {
                sources.add_result(asked, result);
            }
        }
        sources
    }

    fn add_result(&mut self, call: &RecordLine, result: &RecordLine) {
        self.is_partly_unknown |= !matches!(result.content, LineContent::Whole(_));
        each_address(result, &mut |key| self.add(key, result.seq));
        if result.status != Some("error") {
            each_address(call, &mut |key| self.add(key, result.seq));
        }
    }

    fn add(&mut self, key: String, seq: u64) {
        add_place(&mut self.pages, without_query(&key).to_owned(), seq);
        add_place(&mut self.returned, key, seq);
    }

    /// Returns the origin of an address.
    pub(super) fn origin(&self, key: &str) -> CitationOrigin {
        match self.places(key).or_else(|| self.places(ascii_part(key))) {
            Some(places) => CitationOrigin::Returned(places.clone()),
            None if self.given.contains(key) => CitationOrigin::Given,
            None if self.is_partly_unknown => CitationOrigin::Unknown,
            None => CitationOrigin::Nowhere,
        }
    }

    /// Returns the results of an address. Addresses with different queries name different pages;
    /// one without a query matches any.
    fn places(&self, key: &str) -> Option<&Vec<u64>> {
        let page = without_query(key);
        let same_page = if page == key { &self.pages } else { &self.returned };
        self.returned.get(key).or_else(|| same_page.get(page))
    }
}

fn add_place(places: &mut HashMap<String, Vec<u64>>, key: String, seq: u64) {
    let places = places.entry(key).or_default();
    if places.len() < PLACES_MAX && !places.contains(&seq) {
        places.push(seq);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn check(returned: &str, cited: &str, expected: bool) {
        let mut sources = RunSources::default();
        addresses(returned, &mut |key| sources.add(key, 1));
        let mut found = Vec::new();
        addresses(cited, &mut |key| found.push(sources.origin(&key) != CitationOrigin::Nowhere));
        assert_eq!(found, [expected], "{returned} {cited}");
    }

    #[test]
    fn an_address_with_another_query_is_another_page() {
        check("https://a.example/watch?v=1", "https://a.example/watch?v=1", true);
        check("https://a.example/watch?v=1", "https://a.example/watch?v=2", false);
        check("https://a.example/watch?v=1", "https://a.example/watch", true);
        check("https://a.example/watch", "https://a.example/watch?v=1", true);
        check("https://a.example/w?v=1", "https://a.example/w?v=1&utm_source=x", true);
        check("https://a.example/w?v=1", "https://a.example/w?utm_source=x", true);
    }

    #[test]
    fn words_of_a_script_without_spaces_do_not_make_an_address_another() {
        check("https://a.example/x", "见https://a.example/x的报告", true);
        check("https://a.example/x", "见https://a.example/y的报告", false);
        check("https://a.example/wiki/東京", "https://a.example/wiki/東京", true);
        check("10.1000/x", "据10.1000/x。", true);
    }
}
