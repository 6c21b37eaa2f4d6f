//! Clocks of other machines: a tool's span may seem to start before the request that led to it, or
//! after the next answer of the model, which had its result. Messages tell the order; such a call
//! is moved to the moment at which the model asked for it.

use hashbrown::HashMap;

use super::CallPlace;
use crate::resolve::tree::NONE;
use spanscore_base::model::{Origin, ToolCall};

/// Moves the calls whose clocks contradict the messages.
pub(super) fn mend(calls: &mut [ToolCall<'_>], places: &[CallPlace]) {
    let is_asked = |call: &ToolCall<'_>, place: &CallPlace| {
        call.origin == Origin::Span && place.asked.time_ns != 0 && place.asked.begin_ns != 0
    };
    let contradicts = |call: &ToolCall<'_>, place: &CallPlace| {
        let asked = place.asked;
        call.start_ns < asked.begin_ns || call.start_ns > asked.time_ns
    };
    if !calls
        .iter()
        .zip(places)
        .any(|(call, place)| is_asked(call, place) && contradicts(call, place))
    {
        return;
    }
    let answers = Answers::new(places);
    for (call, place) in calls.iter_mut().zip(places) {
        if !is_asked(call, place) {
            continue;
        }
        let asked = place.asked;
        let is_early = call.start_ns < asked.begin_ns;
        if is_early || answers.next(place).is_some_and(|next_ns| call.start_ns > next_ns) {
            let took = call.end_ns.saturating_sub(call.start_ns);
            call.start_ns = asked.time_ns;
            call.end_ns = if call.end_ns == 0 { 0 } else { asked.time_ns.saturating_add(took) };
        }
    }
}

/// Answers in which models asked for tools.
struct Answers {
    /// Begin and end of the answers of each run, in order of their begin.
    of_run: HashMap<u32, Vec<(u64, u64)>>,
    /// Number of the calls of each request.
    calls: HashMap<u32, u32>,
}

impl Answers {
    fn new(places: &[CallPlace]) -> Self {
        let mut answers = Self { of_run: HashMap::new(), calls: HashMap::new() };
        for place in places.iter().filter(|place| place.asked.order != NONE) {
            let asked = place.asked;
            *answers.calls.entry(asked.order).or_default() += 1;
            if asked.run != NONE && asked.begin_ns != 0 {
                answers.of_run.entry(asked.run).or_default().push((asked.begin_ns, asked.time_ns));
            }
        }
        answers.of_run.values_mut().for_each(|all| all.sort_unstable());
        answers
    }

    /// Returns the time of the answer after that which asked for a call, of the same run. A request
    /// that several calls answer may be repeated later: nothing is known of them.
    fn next(&self, place: &CallPlace) -> Option<u64> {
        if self.calls.get(&place.asked.order) != Some(&1) {
            return None;
        }
        let answers = self.of_run.get(&place.asked.run)?;
        let next = answers.partition_point(|(begin_ns, _)| *begin_ns < place.asked.time_ns);
        answers.get(next).map(|(_, end_ns)| *end_ns)
    }
}
