//! Matching of tool results to the calls of one list of messages.
//!
//! A result refers to its call by id, by tool, or not at all; then it belongs to the first
//! unanswered call. A list may have arbitrarily many calls, so none is searched from its start for
//! each result: the index has a cursor per id and tool, and all cursors together pass once over the
//! calls.

use std::borrow::Cow;

use hashbrown::{HashMap, HashSet};

use super::messages::MessageCall;

/// Number of calls up to which a search is as fast as an index.
const SEARCHED_MAX: usize = 16;

/// Unanswered calls, indexed by id and by tool.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct WaitingCalls<'a> {
    answered: HashSet<u32>,
    /// Number of indexed calls, from the first.
    indexed: usize,
    all: Places,
    /// Calls of which only the id of the model's output item is known.
    items: Places,
    by_id: HashMap<Cow<'a, str>, Places>,
    by_tool: HashMap<Cow<'a, str>, Places>,
}

/// Positions of calls in order, with a cursor that only moves forward.
#[derive(Clone, Debug, Default, PartialEq)]
struct Places {
    list: Vec<u32>,
    /// Cursor: all calls before it are answered.
    answered: usize,
}

impl Places {
    /// Returns the first unanswered call.
    fn first_waiting(&mut self, answered: &HashSet<u32>) -> Option<u32> {
        while self.list.get(self.answered).is_some_and(|at| answered.contains(at)) {
            self.answered += 1;
        }
        self.list.get(self.answered).copied()
    }
}

impl<'a> WaitingCalls<'a> {
    /// Marks a call as answered.
    pub(super) fn answer(&mut self, call: u32) {
        self.answered.insert(call);
    }

    /// Sets the id of a call received without one.
    pub(super) fn identify(&mut self, call: u32, id: Cow<'a, str>) {
        if (call as usize) < self.indexed {
            self.by_id.entry(id).or_default().list.push(call);
        }
    }

    /// Returns the call of a result: the one with its id, else the first unanswered one, of its
    /// tool if it names one.
    pub(super) fn call_of(
        &mut self,
        calls: &[MessageCall<'a>],
        id: Option<&str>,
        tool: Option<&str>,
    ) -> Option<u32> {
        if calls.len() <= SEARCHED_MAX {
            return self.search(calls, id, tool);
        }
        self.index(calls);
        if let Some(id) = id {
            if let Some(places) = self.by_id.get_mut(id) {
                return places.first_waiting(&self.answered).or(places.list.last().copied());
            }
            // A result with an unknown id belongs to a call of its tool with another id; without a
            // tool, to a call with an unknown id.
            if tool.is_none() {
                return self.items.first_waiting(&self.answered);
            }
        }
        let places = match tool {
            Some(tool) => self.by_tool.get_mut(tool)?,
            None => &mut self.all,
        };
        places.first_waiting(&self.answered)
    }

    /// Returns the same by linear search, for few calls.
    fn search(
        &self,
        calls: &[MessageCall<'_>],
        id: Option<&str>,
        tool: Option<&str>,
    ) -> Option<u32> {
        let waits = |at: &u32| !self.answered.contains(at);
        let mut places = 0..calls.len() as u32;
        if let Some(id) = id {
            let has_id = |at: &u32| calls[*at as usize].id.as_deref() == Some(id);
            let same = places.clone().filter(waits).find(has_id);
            if let Some(at) = same.or_else(|| places.clone().rev().find(has_id)) {
                return Some(at);
            }
            if tool.is_none() {
                return places.find(|at| waits(at) && calls[*at as usize].is_item());
            }
        }
        let of_tool = |at: &u32| tool.is_none_or(|tool| calls[*at as usize].name == tool);
        places.find(|at| waits(at) && of_tool(at))
    }

    fn index(&mut self, calls: &[MessageCall<'a>]) {
        for (at, call) in calls.iter().enumerate().skip(self.indexed) {
            let at = at as u32;
            self.all.list.push(at);
            self.by_tool.entry(call.name.clone()).or_default().list.push(at);
            if call.is_item() {
                self.items.list.push(at);
            }
            if let Some(id) = &call.id {
                self.by_id.entry(id.clone()).or_default().list.push(at);
            }
        }
        self.indexed = calls.len();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::decode::Decoded;
    use spanscore_base::value::Value;

    fn call((id, tool): (Option<u8>, u8)) -> MessageCall<'static> {
        MessageCall {
            id: id.map(|id| Cow::Owned(id.to_string())),
            item_id: id.is_none_or(|id| id % 2 == 0).then_some(Cow::Borrowed("fc_1")),
            name: Cow::Owned(tool.to_string()),
            arguments: Decoded::Value(Value::Null),
            turn: 0,
        }
    }

    proptest! {
        #[test]
        fn index_finds_the_call_that_a_search_finds(
            calls in prop::collection::vec((prop::option::of(0_u8..24), 0_u8..4), 17..60),
            results in prop::collection::vec(
                (prop::option::of(0_u8..26), prop::option::of(0_u8..5), 17_usize..60),
                1..80,
            ),
        ) {
            let calls: Vec<_> = calls.into_iter().map(call).collect();
            let mut waiting = WaitingCalls::default();
            let mut upto = 17;
            for (id, tool, come) in results {
                // Further calls come between the results.
                upto = upto.max(come.min(calls.len()));
                let id = id.map(|id| id.to_string());
                let tool = tool.map(|tool| tool.to_string());
                let seen = &calls[..upto];
                let searched = waiting.search(seen, id.as_deref(), tool.as_deref());
                let found = waiting.call_of(seen, id.as_deref(), tool.as_deref());
                prop_assert_eq!(found, searched);
                found.into_iter().for_each(|at| waiting.answer(at));
            }
        }
    }
}
