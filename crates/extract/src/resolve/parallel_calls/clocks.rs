//! Correction of clock skew: a tool's span may seem to start before the request for it, or after
//! the model's next answer, which had its result. Messages define the order; such a call is moved
//! to the time of its request.

use hashbrown::HashMap;

use super::CallPlace;
use crate::resolve::tree::NONE;
use spanscore_base::model::{Origin, ToolCall};

/// Moves the calls with times that contradict the messages.
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

/// Answers with requests for tools.
struct Answers {
    /// Start and end of each run's answers, in order of start.
    of_run: HashMap<u32, Vec<(u64, u64)>>,
    /// Number of calls per request.
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

    /// Returns the time of the next answer of the same run after that with a call's request. A
    /// request with several calls may be repeated later, so nothing is known of it.
    fn next(&self, place: &CallPlace) -> Option<u64> {
        if self.calls.get(&place.asked.order) != Some(&1) {
            return None;
        }
        let answers = self.of_run.get(&place.asked.run)?;
        let next = answers.partition_point(|(begin_ns, _)| *begin_ns < place.asked.time_ns);
        answers.get(next).map(|(_, end_ns)| *end_ns)
    }
}
