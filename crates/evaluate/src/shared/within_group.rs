//! `within_group`: order of parallel calls.

use schemars::JsonSchema;
use serde::Deserialize;

use spanscore_base::model::tool_call::groups;
use spanscore_base::model::{ToolCall, Trajectory};
use spanscore_base::settings::{Node, SettingsError};

/// Order of parallel calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WithinGroup {
    /// Parallel calls have no order. The order with the highest score counts.
    #[default]
    AnyOrder,
    /// Order of the model's message. Parallel calls that no single message lists have no order.
    MessageOrder,
}

impl WithinGroup {
    /// Rejects `message_order` if the other settings use no order; `modes` names the ordered ones.
    pub(crate) fn check(
        self,
        asks_for_order: bool,
        modes: &str,
        node: &Node,
    ) -> Result<(), SettingsError> {
        if self == Self::AnyOrder || asks_for_order {
            return Ok(());
        }
        let place = node.place_of("within_group");
        Err(SettingsError::new("`within_group: message_order` needs a comparison by order")
            .with_help(format!("use {modes}, or leave `within_group` out"))
            .at(place))
    }
}

/// Runs `run` with the calls listed by messages as single calls, in that order.
pub fn by_message<'a, T>(
    trajectory: &mut Trajectory<'a>,
    run: impl FnOnce(&mut Trajectory<'a>) -> T,
) -> T {
    if !has_listed_group(&trajectory.tool_calls) {
        return run(trajectory);
    }
    let before: Vec<u32> = trajectory.tool_calls.iter().map(|call| call.group).collect();
    let listed: Vec<bool> = groups(&trajectory.tool_calls)
        .flat_map(|group| std::iter::repeat_n(is_listed(group), group.len()))
        .collect();
    for (call, _) in trajectory.tool_calls.iter_mut().zip(listed).filter(|(_, is)| *is) {
        call.group = 0;
    }
    let outcome = run(trajectory);
    for (call, group) in trajectory.tool_calls.iter_mut().zip(before) {
        call.group = group;
    }
    outcome
}

/// Returns true if messages define the order of a group's calls.
fn is_listed(group: &[ToolCall<'_>]) -> bool {
    let is_after = |[one, next]: &[ToolCall<'_>; 2]| one.message_place < next.message_place;
    group.first().is_some_and(|call| call.message_place.is_some())
        && group.array_windows().all(is_after)
}

fn has_listed_group(calls: &[ToolCall<'_>]) -> bool {
    groups(calls).any(|group| group.len() > 1 && is_listed(group))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(places: &[(u32, Option<u32>)]) -> Vec<u32> {
        let call = |(group, message_place): &(u32, Option<u32>)| ToolCall {
            group: *group,
            message_place: *message_place,
            ..ToolCall::default()
        };
        let tool_calls = places.iter().map(call).collect();
        let mut trajectory = Trajectory { tool_calls, ..Trajectory::default() };
        let groups = |trajectory: &mut Trajectory<'_>| {
            trajectory.tool_calls.iter().map(|call| call.group).collect::<Vec<_>>()
        };
        let before = groups(&mut trajectory);
        let seen = by_message(&mut trajectory, groups);
        assert_eq!(groups(&mut trajectory), before);
        seen
    }

    #[test]
    fn message_order_parts_the_groups_of_which_messages_list_every_call() {
        let calls = [
            (1, Some(0)),
            (1, Some(1)),
            (2, Some(2)),
            (2, None),
            (3, None),
            (3, None),
            (4, Some(3)),
        ];
        assert_eq!(seen(&calls), [0, 0, 2, 2, 3, 3, 0]);
        assert_eq!(seen(&calls[2..6]), [2, 2, 3, 3]);
    }
}
