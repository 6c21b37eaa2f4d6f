//! Results of tool calls in models' inputs: found by the call's id, else by tool and arguments, if
//! a framework assigns new ids in the history.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashMap, HashSet};

use super::super::decode::{Decoded, MessageCall, MessageResult};
use super::gather::FoundValue;
use super::join::value_weight;
use super::messages::{may_hold_call, read_messages};
use super::plan::ReadingPlan;
use spanscore_base::model::{Content, Origin, ToolCall, WorkBudget};
use spanscore_base::value::Value;

/// Limit on call ids searched for in the text of each input.
const LOOKED_FOR_MAX: usize = 4;

/// Results returned to models in inputs, by the id of the call; inputs are read on demand, the last
/// first.
pub(super) struct MessageResults<'a, 'g> {
    plan: &'a ReadingPlan,
    /// Unread inputs, the last one at the end.
    unread: Vec<&'g FoundValue<'a>>,
    /// Number of unread inputs of spans other than the current one.
    beyond: usize,
    /// Cached answer: true if the unread inputs of that span may report a failure.
    may_fail: Option<bool>,
    effort: &'g WorkBudget,
    known: HashMap<Cow<'a, str>, Vec<MessageResult<'a>>>,
    /// Results of calls without ids, from the last input with any.
    unnamed: UnnamedResults<'a>,
    /// Results of calls with other ids in the last input, and its start; `None` before the first
    /// use.
    renamed: Option<(u64, UnnamedResults<'a>)>,
    /// True if any input has results without a call in it.
    has_loose: bool,
    all: &'g [FoundValue<'a>],
    /// Number of inputs at the start.
    count: usize,
}

impl<'a, 'g> MessageResults<'a, 'g> {
    pub(super) fn new(
        plan: &'a ReadingPlan,
        model_inputs: &'g [FoundValue<'a>],
        effort: &'g WorkBudget,
    ) -> Self {
        let mut unread: Vec<_> =
            model_inputs.iter().filter(|found| may_hold_call(plan, found)).collect();
        unread.sort_by_key(|found| (found.end_ns, found.start_ns, found.span, !found.source));
        Self {
            plan,
            count: unread.len(),
            beyond: unread.len(),
            may_fail: None,
            unread,
            effort,
            known: HashMap::new(),
            unnamed: UnnamedResults::default(),
            renamed: None,
            has_loose: false,
            all: model_inputs,
        }
    }

    /// Restricts the search to the results of these calls: if they are few, inputs without any of
    /// the ids are skipped.
    pub(super) fn look_for(&mut self, ids: &[&str]) {
        if ids.len() <= LOOKED_FOR_MAX {
            self.unread.retain(|found| ids.iter().any(|id| found.raw.may_hold(id)));
            self.beyond = self.unread.len();
        }
    }

    /// Returns the number of inputs of the spans read.
    pub(super) fn looked_at(&self) -> usize {
        self.count - self.beyond
    }

    /// Returns the result of a call, from the last input with it; of several calls with one id the
    /// result at index `place`.
    pub(super) fn of(&mut self, id: &str, place: usize) -> Option<&MessageResult<'a>> {
        while !self.known.contains_key(id) {
            self.read_one()?;
        }
        // A span may have the same messages in several forms. One suffices for the results, but
        // only some mark failures.
        if *self.may_fail.get_or_insert_with(|| {
            self.unread[self.beyond..].iter().any(|found| found.raw.may_fail())
        }) {
            self.read_span();
        }
        let results = self.known.get(id)?;
        results.get(place).or_else(|| results.last().filter(|_| place == 0))
    }

    /// Removes and returns the result of a call without an id.
    pub(super) fn of_unnamed(&mut self, call: &ToolCall<'_>) -> Option<MessageResult<'a>> {
        while !self.unnamed.is_known {
            self.read_one()?;
        }
        self.unnamed.take(&call.name, call.arguments.value(), self.effort)
    }

    /// Removes and returns the result of the call at an index of the run that has another id in the
    /// history; `own` are the ids of the models' requests.
    pub(super) fn of_renamed(
        &mut self,
        at: usize,
        calls: &[ToolCall<'_>],
        own: &HashSet<Cow<'_, str>>,
    ) -> Option<MessageResult<'a>> {
        let effort = self.effort;
        let (began_ns, results) = match &mut self.renamed {
            Some(renamed) => renamed,
            unread => unread.insert(renamed_results(self.plan, self.all, own, calls, effort)),
        };
        let call = calls.get(at)?;
        // Inputs sent before the call was made have results of earlier ones.
        if *began_ns < call.start_ns {
            return None;
        }
        results.take(&call.name, call.arguments.value(), effort)
    }

    /// Assigns results without an id to calls that only messages have: results after a model's last
    /// message belong to the calls that it requested, in order, if their numbers are equal.
    pub(super) fn give_loose(&mut self, calls: &mut [ToolCall<'a>]) {
        self.read_span();
        if !self.has_loose {
            return;
        }
        let mut inputs: Vec<_> =
            self.all.iter().filter(|found| may_hold_call(self.plan, found)).collect();
        inputs.sort_by_key(|found| (found.start_ns, found.source));
        let is_asked = |call: &ToolCall<'_>| call.origin == Origin::Llm;
        let mut next = 0;
        for found in inputs {
            // The group ends with the calls of the last answer before this input.
            let is_before = |call: &ToolCall<'_>| call.start_ns <= found.start_ns;
            while calls.get(next).is_some_and(is_before) {
                next += 1;
            }
            let Some(last) = calls[..next].last().filter(|call| is_asked(call)) else { continue };
            let of = (last.span_id, last.start_ns);
            let begin = calls[..next].iter().rposition(|call| (call.span_id, call.start_ns) != of);
            let group = &mut calls[begin.map_or(0, |at| at + 1)..next];
            if !self.effort.spend(group.len()) {
                return;
            }
            let read = read_messages(self.plan, found.clone(), self.effort).unwrap_or_default();
            if read.loose_results().count() != group.len() {
                continue;
            }
            for (call, result) in group.iter_mut().zip(read.loose_results()) {
                if matches!(call.result, Content::NotRecorded) {
                    if result.is_error {
                        call.fail(&result.value);
                    }
                    call.result = Content::ready(result.value.clone());
                }
            }
        }
    }

    /// Reads the remaining inputs of the current span.
    fn read_span(&mut self) {
        while self.unread.len() > self.beyond {
            self.read_one();
        }
    }

    /// Reads the last unread input.
    fn read_one(&mut self) -> Option<()> {
        let found = self.unread.pop()?;
        if self.unread.len() < self.beyond {
            let other = self.unread.iter().rposition(|other| other.span != found.span);
            (self.beyond, self.may_fail) = (other.map_or(0, |at| at + 1), None);
        }
        if let Some(messages) = read_messages(self.plan, found.clone(), self.effort) {
            self.has_loose |= messages.loose_results().next().is_some();
            // Within one input the last result of an id is the latest; across inputs the last input
            // is read first.
            let mut fresh: HashMap<_, Vec<_>> = HashMap::new();
            for result in messages.results {
                if !result.id.is_empty() {
                    fresh.entry(result.id.clone()).or_default().push(result);
                } else if let Some(call) =
                    result.call.and_then(|at| messages.calls.get(at as usize))
                    && !self.unnamed.is_known
                {
                    self.unnamed.add(call, result, self.effort);
                }
            }
            self.unnamed.is_known |= !self.unnamed.results.is_empty();
            for (id, results) in fresh {
                let known = self.known.entry(id).or_default();
                if known.is_empty() {
                    *known = results;
                    continue;
                }
                // A request's body may mark a failure that the flattened messages omit.
                for (known, other) in known.iter_mut().zip(results) {
                    known.is_error |= other.is_error;
                }
            }
        }
        Some(())
    }

    /// Returns all results in the last inputs, for calls of other traces: from as many inputs as
    /// this trace's calls needed, at least those of the last span with any.
    pub(super) fn into_last(mut self, looked_at: usize) -> Vec<MessageResult<'a>> {
        let own = self.unread.len().saturating_sub(looked_at);
        while self.unread.len() > own {
            self.read_one();
        }
        while self.known.is_empty() && self.read_one().is_some() {
            self.read_span();
        }
        let mut all: Vec<_> = self.known.into_values().flatten().collect();
        all.sort_by(|a, b| a.id.cmp(&b.id));
        all
    }
}

/// Reads the results in the last input for calls with ids of its own, and its start; none if it has
/// any call under the model's id. Only those after the user's last message are of this run, and
/// only equal numbers of such calls identify them.
fn renamed_results<'a>(
    plan: &'a ReadingPlan,
    inputs: &[FoundValue<'a>],
    own: &HashSet<Cow<'_, str>>,
    calls: &[ToolCall<'_>],
    effort: &WorkBudget,
) -> (u64, UnnamedResults<'a>) {
    let mut renamed = UnnamedResults::default();
    let held = inputs.iter().filter(|found| may_hold_call(plan, found));
    let Some(found) = held.max_by_key(|found| (found.start_ns, !found.source)) else {
        return (0, renamed);
    };
    let read = read_messages(plan, found.clone(), effort).unwrap_or_default();
    if !read.calls.iter().any(|call| call.id.as_ref().is_some_and(|id| own.contains(id))) {
        for result in read.results {
            let place = result.call.map(|at| at as usize).filter(|at| *at >= read.before_user);
            if let Some(call) = place.and_then(|at| read.calls.get(at)) {
                renamed.add(call, result, effort);
            }
        }
        let made = calls.iter().filter(|call| call.start_ns <= found.start_ns);
        renamed.keep_as_many(made, effort);
    }
    (found.start_ns, renamed)
}

/// Results of calls without ids, by a hash of name and arguments. A list may be arbitrarily long
/// with nearly equal entries, so it is never searched.
#[derive(Default)]
struct UnnamedResults<'a> {
    /// True once an input with such results was read: those of earlier inputs are not added.
    is_known: bool,
    results: HashMap<u64, VecDeque<(MessageCall<'a>, MessageResult<'a>)>>,
    build: DefaultHashBuilder,
}

impl<'a> UnnamedResults<'a> {
    /// Adds the result of a call.
    fn add(&mut self, call: &MessageCall<'a>, result: MessageResult<'a>, effort: &WorkBudget) {
        let arguments = value_of(&call.arguments);
        if !effort.spend(arguments.map_or(1, value_weight)) {
            return;
        }
        let hash = hash_of(&self.build, &call.name, arguments);
        self.results.entry(hash).or_default().push_back((call.clone(), result));
    }

    /// Removes the results for a name and arguments with a different number of calls, or for calls
    /// that have a result already.
    fn keep_as_many<'c, 'v: 'c>(
        &mut self,
        calls: impl Iterator<Item = &'c ToolCall<'v>>,
        effort: &WorkBudget,
    ) {
        let mut lacking: HashMap<u64, Option<usize>> = HashMap::new();
        for call in calls {
            let arguments = call.arguments.value();
            if !effort.spend(arguments.map_or(1, value_weight)) {
                self.results.clear();
                return;
            }
            let count =
                lacking.entry(hash_of(&self.build, &call.name, arguments)).or_insert(Some(0));
            let lacks = call.result.is_absent();
            *count = count.filter(|_| lacks).map(|count| count + 1);
        }
        self.results.retain(|hash, same| lacking.get(hash) == Some(&Some(same.len())));
    }

    /// Removes and returns the first result for a name and arguments.
    fn take(
        &mut self,
        name: &str,
        arguments: Option<&Value<'_>>,
        effort: &WorkBudget,
    ) -> Option<MessageResult<'a>> {
        let steps = arguments.map_or(1, value_weight);
        if !effort.spend(steps) {
            return None;
        }
        let same = self.results.get_mut(&hash_of(&self.build, name, arguments))?;
        // Usually the first: different ones share its hash by chance.
        let place = same.iter().position(|(known, _)| {
            effort.spend(steps) && known.name == name && value_of(&known.arguments) == arguments
        })?;
        same.remove(place).map(|(_, result)| result)
    }
}

fn hash_of(build: &DefaultHashBuilder, name: &str, arguments: Option<&Value<'_>>) -> u64 {
    build.hash_one((name, arguments.map(|value| value.hash_with(build))))
}

fn value_of<'v, 'a>(arguments: &'v Decoded<'a>) -> Option<&'v Value<'a>> {
    match arguments {
        Decoded::Value(value) => Some(value),
        Decoded::Unreadable(_) => None,
    }
}
