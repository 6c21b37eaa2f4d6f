//! Reconciliation of a session's traces: calls and results that another trace records better.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

use spanscore_base::model::{Content, Origin, Trajectory};
use spanscore_base::value::Value;

/// Calls and results of a session by id, owned beyond the trajectories.
#[derive(Debug, Default)]
pub struct SessionCalls {
    /// Executed calls on spans: name and id.
    ran: HashSet<(String, String)>,
    /// Calls in models' answers: name and id.
    asked: HashSet<(String, String)>,
    /// Results repeated in messages, by id, shared by all calls of the id.
    results: HashMap<String, Arc<Value<'static>>>,
}

impl SessionCalls {
    /// Adds the calls and repeated results of a trajectory.
    pub fn add(&mut self, trajectory: &Trajectory<'_>) {
        for call in trajectory.tool_calls.iter().filter(|call| !call.is_repeated) {
            if let Some(id) = &call.id {
                let known =
                    if call.origin == Origin::Span { &mut self.ran } else { &mut self.asked };
                known.insert((call.name.to_string(), id.to_string()));
            }
        }
        for (id, value) in trajectory.foreign_results.get(&trajectory.effort) {
            self.results.entry_ref(&**id).or_insert_with(|| Arc::new(value.clone().into_owned()));
        }
    }

    /// Corrects a trajectory of the session, and returns the number of dropped calls. A call that
    /// only a message has is dropped if it ran as a span in another trace: it was requested in one
    /// trace, and approved and run in the next. So is a call known only from a history that another
    /// trace requested. A call without a result gets the one repeated in another trace.
    pub fn apply(&self, trajectory: &mut Trajectory<'_>) -> usize {
        let before = trajectory.tool_calls.len();
        trajectory.tool_calls.retain(|call| {
            let Some(id) = call.id.as_ref().filter(|_| call.origin == Origin::Llm) else {
                return true;
            };
            let call_key = (call.name.to_string(), id.to_string());
            !(self.ran.contains(&call_key) || call.is_repeated && self.asked.contains(&call_key))
        });
        for call in trajectory.tool_calls.iter_mut().filter(|call| call.origin == Origin::Llm) {
            if let (Content::NotRecorded, Some(id)) = (&call.result, &call.id)
                && let Some(value) = self.results.get(&**id)
            {
                call.result = Content::shared(Arc::<Value<'static>>::clone(value));
            }
        }
        before - trajectory.tool_calls.len()
    }
}

/// Corrects all trajectories of one session by each other.
pub fn reconcile(trajectories: &mut [Trajectory<'_>]) {
    let mut known = SessionCalls::default();
    for trajectory in trajectories.iter() {
        known.add(trajectory);
    }
    for trajectory in trajectories {
        known.apply(trajectory);
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use spanscore_base::model::{ForeignResults, ToolCall};

    #[test]
    fn calls_of_one_id_share_the_result_that_another_trace_repeats() {
        let call = || ToolCall {
            id: Some(Cow::Borrowed("x")),
            origin: Origin::Llm,
            ..ToolCall::default()
        };
        let results = vec![(Cow::Borrowed("x"), Value::from("long"))];
        let repeats =
            Trajectory { foreign_results: ForeignResults::ready(results), ..Trajectory::default() };
        let mut known = SessionCalls::default();
        known.add(&repeats);
        let calls = (0..3).map(|_| call()).collect();
        let mut trajectory = Trajectory { tool_calls: calls, ..Trajectory::default() };
        known.apply(&mut trajectory);
        let mut given = trajectory.tool_calls.iter().map(|call| call.result.value().unwrap());
        let first = given.next().unwrap();
        assert_eq!(first, &Value::from("long"));
        assert!(given.all(|value| std::ptr::eq(value, first)));
    }
}
