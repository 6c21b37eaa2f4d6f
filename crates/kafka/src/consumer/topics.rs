//! Assignment of topics: a trace's spans and log records must reach the same member of the group.

use strum::IntoStaticStr;

use super::KafkaStartError;
use super::settings::KafkaReceiverSettings;

/// Partition assignment strategy, by its name in the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug, IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub(super) enum Assignor {
    /// Moves as few partitions as possible while the others continue; knows no related topics.
    CooperativeSticky,
    /// Gives equal ranges of all topics to one member.
    Range,
}

/// Chooses the assignor for topics with these partition counts, in the order of
/// [`KafkaReceiverSettings::topics`]; `has_sessions` is true if evaluators judge sessions.
///
/// # Errors
/// The topics would split traces.
pub(super) fn assignor(
    settings: &KafkaReceiverSettings,
    counts: &[(&str, usize)],
    has_sessions: bool,
) -> Result<Assignor, KafkaStartError> {
    if let Some((topic, _)) = counts.iter().find(|(_, count)| *count == 0) {
        return Err(KafkaStartError::NoTopic((*topic).to_owned()));
    }
    let many = counts.iter().find(|(_, count)| *count > 1);
    if let Some((topic, count)) = many.filter(|_| has_sessions) {
        return Err(KafkaStartError::Sessions { topic: (*topic).to_owned(), count: *count });
    }
    if counts.len() == 1 || settings.traces.topics.is_empty() || settings.logs.topics.is_empty() {
        return Ok(Assignor::CooperativeSticky);
    }
    let first = counts.first().map_or(0, |(_, count)| *count);
    if counts.iter().all(|(_, count)| *count == first) {
        return Ok(Assignor::Range);
    }
    let named = counts.iter().map(|(topic, count)| format!("`{topic}` has {count}"));
    Err(KafkaStartError::UnequalPartitions(named.collect::<Vec<_>>().join(", ")))
}

#[cfg(test)]
mod tests {
    use super::super::settings::TopicSettings;
    use super::*;

    /// Chooses for topics of spans and of log records, each with its partitions.
    fn check(
        traces: &[(&str, usize)],
        logs: &[(&str, usize)],
        has_sessions: bool,
        expected: Result<Assignor, &str>,
    ) {
        let named = |topics: &[(&str, usize)]| TopicSettings {
            topics: topics.iter().map(|(topic, _)| (*topic).to_owned()).collect(),
        };
        let settings = KafkaReceiverSettings {
            traces: named(traces),
            logs: named(logs),
            ..KafkaReceiverSettings::default()
        };
        let mut counts = [traces, logs].concat();
        counts.sort_unstable();
        counts.dedup();
        let chosen = assignor(&settings, &counts, has_sessions);
        match (chosen, expected) {
            (Ok(chosen), Ok(expected)) => assert_eq!(chosen, expected),
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
            (chosen, expected) => panic!("{chosen:?} for {expected:?}"),
        }
    }

    #[test]
    fn traces_come_whole_or_the_start_is_refused() {
        let sticky = Ok(Assignor::CooperativeSticky);
        check(&[("a", 12)], &[], false, sticky);
        check(&[], &[("a", 12)], false, sticky);
        check(&[("a", 12)], &[("a", 12)], false, sticky);
        check(&[("a", 12)], &[("b", 12)], false, Ok(Assignor::Range));
        check(&[("a", 12)], &[("b", 6)], false, Err("`a` has 12, `b` has 6"));
        check(&[("a", 12), ("b", 6)], &[], false, sticky);
        check(&[("a", 12)], &[("b", 0)], false, Err("there is no topic `b`"));
        check(&[("a", 1)], &[("b", 1)], true, Ok(Assignor::Range));
        check(&[("a", 12)], &[], true, Err("`a` has 12 partitions"));
    }
}
