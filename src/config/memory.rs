//! Division of `limits.memory_mib` into the quotas of all parts that hold senders' data.
//!
//! Quotas in the config are kept. The rest, without the fixed parts, is divided among the others in
//! the proportions of the default config. Quotas that do not fit are a mistake, found before
//! anything runs.

use super::container::container_mib;
use spanscore_ask::judge::{ANSWERS_BYTES_MAX, JudgingSettings};
use spanscore_assemble::{LimitsSettings, SessionsSettings};
use spanscore_base::model::MemoryLimits;
use spanscore_base::settings::{Key, Node, SettingsError};
use spanscore_detect::limits::RULES_BYTES_MAX;
use spanscore_emit::forward::ForwardSettings;
use spanscore_emit::settings::ExporterSettings;
use spanscore_receive::settings::OtlpReceiverSettings;
use spanscore_store::{StoreSettings, StoredContent};

const MIB: usize = 1 << 20;

/// Smallest limit.
const TOTAL_MIN: usize = 32 * MIB;
/// Smallest quota.
const SHARE_MIN: usize = MIB / 2;
/// Caches with fixed limits: reused batches, resources and keys of four cores.
const FIXED: usize = 12 * MIB;
/// Divisor of the limit for the memory of rules, within bounds.
const RULES_PART: usize = 8;
/// Least memory of rules that detect failed calls.
const RULES_MIN: usize = 8 * MIB;
/// Greatest memory of these rules.
const FAILURE_RULES_MAX: usize = 32 * MIB;
/// Least memory of rules that scan texts: half compiled, and half for their caches on similar
/// texts.
const SCANNING_RULES_MIN: usize = 64 * MIB;
/// Least limit with which the store redacts the content of traces, unless the config sets the
/// stored content.
const REDACTING_MIN: usize = 256 * MIB;
/// Iterations to find a sufficient limit: each adds an eighth of the last change.
const ROUNDS: usize = 12;
/// Memory of compiled schemas in one evaluator's cache, bytes.
const SCHEMAS: usize = 8 * MIB;
/// Memory of criteria from attributes in one evaluator's cache, bytes.
const CRITERIA: usize = 4 * MIB;

/// Kinds of evaluators that scan texts, or send them to another process.
const SCANNING: [&str; 4] = ["output_rules", "grpc", "http", "agentevals"];

/// Returns the bytes that evaluators of the whole config `node` may cache.
fn remembered_by_evaluators(node: &Node) -> usize {
    let entries = node.get("evaluators").into_iter().flat_map(Node::entries);
    let of_one = |(key, settings): &(Key, Node)| {
        let kind = key.text.split('/').next();
        let compiles = kind == Some("tool_call_validity")
            && settings.get("schema").is_some_and(|it| it.to_value().as_str() == Some("full"));
        let expects = settings.get("expect").is_some_and(|from| from.get("attribute").is_some());
        usize::from(compiles) * SCHEMAS + usize::from(expects) * CRITERIA
    };
    entries.map(of_one).sum()
}

/// Returns the memory for rules: little to detect failed calls, more to scan texts. Scanning is
/// needed by rule evaluators, before a judge or external evaluator is asked, and for exporters and
/// the store if they redact.
fn rules(node: &Node, total: usize) -> usize {
    let has = |section: &str, is_wanted: &dyn Fn(&str, &Node) -> bool| {
        let entries = node.get(section).into_iter().flat_map(Node::entries);
        entries.into_iter().any(|(key, settings)| {
            is_wanted(key.text.split('/').next().unwrap_or_default(), settings)
        })
    };
    let redacts = |_: &str, settings: &Node| {
        settings.get("content").is_some_and(|it| it.to_value().as_str() == Some("redacted"))
    };
    let scans = |kind: &str, _: &Node| SCANNING.contains(&kind);
    let any =
        has("evaluators", &scans) || has("judges", &|_, _| true) || has("exporters", &redacts);
    let (least, most) = if any {
        (SCANNING_RULES_MIN, RULES_BYTES_MAX)
    } else if stored_content(node, total) == Some(StoredContent::Redacted) {
        (SCANNING_RULES_MIN, SCANNING_RULES_MIN)
    } else {
        (RULES_MIN, FAILURE_RULES_MAX)
    };
    (total / RULES_PART).clamp(least, most)
}

/// Returns the setting for stored content; `None` without a store. By default a process below
/// [`REDACTING_MIN`] stores none, since detectors would take all memory.
pub(super) fn stored_content(node: &Node, total: usize) -> Option<StoredContent> {
    let section = node.get("store").map(Node::to_value).unwrap_or_default();
    let written = section.get("content").map(|word| word.as_str().unwrap_or_default().to_owned());
    match written.as_deref() {
        _ if section.as_bool() == Some(false) => None,
        Some("none") => Some(StoredContent::None),
        Some("full") => Some(StoredContent::Full),
        None if total < REDACTING_MIN => Some(StoredContent::None),
        _ => Some(StoredContent::Redacted),
    }
}

/// Returns the limit on bytes queued for the store.
pub(super) fn store_queue(total: usize) -> usize {
    (total / 32).min(StoreSettings::default().queue_bytes)
}

/// Returns the bytes of targets in the judges' queue and of cached answers, if there is a judge.
fn held_for_judges(node: &Node) -> usize {
    if node.get("judges").is_none_or(|judges| judges.entries().next().is_none()) {
        return 0;
    }
    let waiting = node.get("judging").and_then(|judging| judging.get("waiting_mib"));
    let waiting = waiting.and_then(|it| it.to_value().as_number()?.as_i64());
    let waiting = waiting.and_then(|mib| u32::try_from(mib).ok());
    let waiting = waiting.unwrap_or(JudgingSettings::default().waiting_mib);
    mib(waiting).saturating_mul(MIB).saturating_add(ANSWERS_BYTES_MAX)
}

/// Weight of the forwards in the default config; without a forward the other quotas share it.
const FORWARD: usize = 192 * MIB;

/// Returns the bytes with limits of their own.
fn fixed(total: usize, node: &Node) -> usize {
    let stored = stored_content(node, total).map_or(0, |_| store_queue(total));
    FIXED + remembered_by_evaluators(node) + held_for_judges(node) + rules(node, total) + stored
}

/// Returns the bytes that are not divided: the fixed parts, and 13/64 for memory that the allocator
/// retains after it was freed.
fn undivided(total: usize, node: &Node) -> usize {
    fixed(total, node) + total / 64 * 13
}

/// Quota with the setting for it.
struct Part {
    setting: &'static str,
    /// Bytes in the config, if set.
    written: Option<usize>,
    /// Bytes in the default config: its weight among unset quotas.
    weight: usize,
}

impl Part {
    fn new(setting: &'static str, mib: Option<usize>, weight: usize) -> Self {
        Self { setting, written: mib.map(|mib| mib.saturating_mul(MIB)), weight }
    }
}

/// Settings of the quotas.
#[derive(Clone, Copy)]
pub(super) struct ShareSettings<'a> {
    pub(super) otlp: Option<&'a OtlpReceiverSettings>,
    pub(super) limits: &'a LimitsSettings,
    /// Memory limit of the container, bytes, if `limits.memory_mib` follows it.
    pub(super) container: Option<u64>,
    pub(super) sessions: &'a SessionsSettings,
    pub(super) exporters: &'a [ExporterSettings],
    pub(super) forward: &'a [ForwardSettings],
}

/// Divides the limit; a mistake if the quotas do not fit. `node` is the whole config.
pub(super) fn divide(
    settings: ShareSettings<'_>,
    node: &Node,
) -> Result<MemoryLimits, SettingsError> {
    let total = mib(settings.limits.memory_mib.mib()) * MIB;
    if total < TOTAL_MIN {
        let error = format!("`memory_mib` must be at least {}", TOTAL_MIN / MIB);
        let error = SettingsError::new(error).with_help(format!(
            "{} of them are fixed costs",
            undivided(TOTAL_MIN, node).div_ceil(MIB)
        ));
        return Err(error.at(node.along("limits.memory_mib".split('.')).place));
    }
    let container = settings.container;
    let parts = parts(settings);
    let written = |part: &Part| part.written.unwrap_or(SHARE_MIN);
    let needed = parts.iter().map(written).fold(0, usize::saturating_add);
    let undivided = undivided(total, node);
    if needed > total.saturating_sub(undivided) {
        return Err(does_not_fit(&parts, needed, total, (container, node)));
    }
    let named = parts.iter().filter_map(|part| part.written).sum::<usize>();
    let weights = parts.iter().filter(|part| part.written.is_none()).map(|part| part.weight);
    let rest = total - undivided - named;
    let weights = weights.sum::<usize>().max(1);
    let divided = |part: &Part| (rest as u128 * part.weight as u128 / weights as u128) as usize;
    let [connections, requests, queue, traces, judging, sessions, exporters, forward, series] =
        parts.map(|part| part.written.unwrap_or_else(|| divided(&part)));
    Ok(MemoryLimits {
        total,
        connections,
        requests,
        queue,
        traces,
        judging,
        sessions,
        exporters,
        forward,
        series,
        rules: rules(node, total),
    })
}

/// Returns the quotas in the order of [`MemoryLimits`].
fn parts(settings: ShareSettings<'_>) -> [Part; 9] {
    let ShareSettings { otlp, limits, sessions, exporters, forward, .. } = settings;
    let default = MemoryLimits::default();
    let connections = otlp.and_then(|otlp| otlp.max_connections_mib);
    let requests = otlp.and_then(|otlp| otlp.max_in_flight_mib);
    let exporters_mib = limits.exporters_mib.map(mib);
    let mut queues = Part::new("limits.exporters_mib", exporters_mib, default.exporters);
    queues.written = queues.written.or_else(|| queue_bytes(exporters));
    [
        Part::new("receivers.otlp.max_connections_mib", connections, default.connections),
        Part::new("receivers.otlp.max_in_flight_mib", requests, default.requests),
        Part::new("limits.queue_mib", limits.queue_mib.map(mib), default.queue),
        Part::new("limits.traces_mib", limits.traces_mib.map(mib), default.traces),
        Part::new("limits.judging_mib", limits.judging_mib.map(mib), default.judging),
        Part::new("sessions.memory_mib", sessions.memory_mib.map(mib), default.sessions),
        queues,
        forward_part(forward, limits),
        Part::new("limits.series_mib", limits.series_mib.map(mib), default.series),
    ]
}

fn mib(mib: u32) -> usize {
    mib as usize
}

/// Returns the bytes for exporters with configured queue sizes, including the share that one holder
/// must leave to others.
fn queue_bytes(exporters: &[ExporterSettings]) -> Option<usize> {
    with_room_for_others(exporters.iter().filter_map(|exporter| exporter.exporter.queue_bytes()))
}

/// Returns the bytes for queues of these sizes, if any.
fn with_room_for_others(sizes: impl Iterator<Item = usize>) -> Option<usize> {
    let sum = sizes.fold(0, usize::saturating_add);
    (sum > 0).then(|| sum.saturating_add(sum / 4).saturating_add(SHARE_MIN))
}

/// Returns the quota of the forwards: zero without any.
fn forward_part(forward: &[ForwardSettings], limits: &LimitsSettings) -> Part {
    let mut part = Part::new("limits.forward_mib", limits.forward_mib.map(mib), FORWARD);
    let sizes = forward.iter().filter_map(ForwardSettings::queue_bytes);
    part.written = match forward {
        [] => Some(0),
        _ => part.written.or_else(|| with_room_for_others(sizes)),
    };
    part
}

fn does_not_fit(
    parts: &[Part],
    needed: usize,
    total: usize,
    (container, node): (Option<u64>, &Node),
) -> SettingsError {
    let written = parts.iter().filter(|part| part.written.is_some());
    let largest = written.max_by_key(|part| part.written);
    // The undivided part grows with the limit, so a sufficient limit is found by iteration.
    let enough = |total: usize| {
        let needed = needed.saturating_add(fixed(total, node)).div_ceil(MIB);
        needed.saturating_mul(64).div_ceil(51).saturating_mul(MIB)
    };
    let needed = (0..ROUNDS).fold(total, |total, _| enough(total)) / MIB;
    let total = total / MIB;
    let error = SettingsError::new(format!(
        "the parts of `limits.memory_mib` need {needed} MiB together, more than its {total} MiB"
    ));
    let raise = match container {
        Some(_) => format!("give the container {} MiB or more", container_mib(needed)),
        None => format!("raise `limits.memory_mib` to {needed} or more"),
    };
    let Some(part) = largest else {
        let help = raise;
        return error.with_help(help).at(node.along("limits.memory_mib".split('.')).place);
    };
    let own = part.written.unwrap_or_default().div_ceil(MIB);
    let help = format!("{raise}, or lower `{}`, which takes {own}", part.setting);
    error.with_help(help).at(node.along(part.setting.split('.')).place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanscore_base::settings::{NodeKind, Place};
    use spanscore_base::value::json;
    use spanscore_receive::settings::ReceiversSettings;

    fn divided(text: &str) -> Result<MemoryLimits, SettingsError> {
        let node = Node::from_value(&json::parse(text).unwrap());
        let section = |key: &str| node.get(key).cloned().unwrap_or_default();
        let empty = Node { kind: NodeKind::Map(Vec::new()), place: Place::default() };
        let or_empty = |node: Node| if node == Node::default() { empty.clone() } else { node };
        let limits = or_empty(section("limits")).read().unwrap();
        let sessions = or_empty(section("sessions")).read().unwrap();
        let receivers: ReceiversSettings = or_empty(section("receivers")).read().unwrap();
        let exporters = spanscore_emit::settings::read(&section("exporters")).unwrap();
        let otlp = receivers.otlp.as_ref();
        let limits = &limits;
        let sessions = &sessions;
        let forward = spanscore_emit::forward::read_forwards(&section("forward")).unwrap();
        let exporters = &exporters[..];
        let forward = &forward[..];
        let container = None;
        divide(ShareSettings { otlp, limits, container, sessions, exporters, forward }, &node)
    }

    fn sum(limits: &MemoryLimits) -> usize {
        let MemoryLimits { connections, requests, queue, traces, .. } = *limits;
        let MemoryLimits { judging, sessions, exporters, forward, series, .. } = *limits;
        connections + requests + queue + traces + judging + sessions + exporters + forward + series
    }

    #[test]
    fn the_default_config_has_the_default_shares() {
        assert_eq!(divided("{}"), Ok(MemoryLimits::default()));
        assert_eq!(
            sum(&MemoryLimits::default()) + undivided(1024 * MIB, &Node::default()),
            1024 * MIB
        );
    }

    #[test]
    fn what_is_written_is_kept_and_the_rest_is_divided() {
        for text in [
            r#"{"limits": {"memory_mib": 32}}"#,
            r#"{"limits": {"memory_mib": 64, "remembered_mib": 16, "queue_mib": 16}}"#,
            r#"{"receivers": {"otlp": {"max_in_flight_mib": 512}}}"#,
            r#"{"limits": {"memory_mib": 100000}}"#,
            r#"{"forward": {"otlp": {"endpoint": "http://h:1"}}}"#,
        ] {
            let limits = divided(text).unwrap();
            let undivided = undivided(limits.total, &Node::default());
            assert!(sum(&limits) + undivided <= limits.total, "{text}: {limits:?}");
            assert!(sum(&limits) + undivided + 8 >= limits.total, "{text}: {limits:?}");
        }
        let limits = divided(r#"{"limits": {"queue_mib": 7}}"#).unwrap();
        assert_eq!(limits.queue, 7 * MIB);
    }

    #[test]
    fn what_evaluators_remember_is_not_divided() {
        let text = r#"{"evaluators": {"tool_call_validity/a": {"schema": "full"},
            "tool_error": null, "tool_trajectory": {"expect": {"attribute": "expected"}}}}"#;
        let node = Node::from_value(&json::parse(text).unwrap());
        assert_eq!(remembered_by_evaluators(&node), SCHEMAS + CRITERIA);
        let limits = divided(text).unwrap();
        assert!(sum(&limits) + undivided(limits.total, &node) <= limits.total, "{limits:?}");
        assert!(limits.traces < MemoryLimits::default().traces);
    }

    #[test]
    fn what_scans_texts_has_more_for_rules() {
        let unstored = Node::from_value(&json::parse(r#"{"store": false}"#).unwrap());
        for (total, expected) in [(2048, 32), (1024, 32), (128, 16), (32, 8)] {
            assert_eq!(rules(&unstored, total * MIB), expected * MIB);
        }
        for (total, expected) in [(2048, 64), (256, 64), (255, 31), (32, 8)] {
            assert_eq!(rules(&Node::default(), total * MIB) / MIB, expected, "{total}");
        }
        let scanning = r#"{"judges": {"j": {}}}"#;
        let scanning = Node::from_value(&json::parse(scanning).unwrap());
        for (total, expected) in [(2048, 128), (1024, 128), (768, 96), (256, 64)] {
            assert_eq!(rules(&scanning, total * MIB), expected * MIB);
        }
        for (text, expected) in [
            (r#"{"evaluators": {"tool_error": null}, "store": false}"#, 32),
            (r#"{"evaluators": {"tool_error": null}, "store": {"content": "none"}}"#, 32),
            (r#"{"evaluators": {"tool_error": null}, "store": {"content": "redacted"}}"#, 64),
            (r#"{"evaluators": {"output_rules/own": {"bundle": "all"}}}"#, 128),
            (r#"{"evaluators": {"http": {"endpoint": "http://h:1"}}}"#, 128),
            (r#"{"store": false, "exporters": {"console": {"content": "redacted"}}}"#, 128),
        ] {
            let node = Node::from_value(&json::parse(text).unwrap());
            let expected = expected * MIB;
            assert_eq!(rules(&node, 1024 * MIB), expected, "{text}");
            let limits = divided(text).unwrap();
            assert_eq!(limits.rules, expected, "{text}");
            assert!(sum(&limits) + undivided(limits.total, &node) <= limits.total, "{limits:?}");
        }
    }

    #[test]
    fn queues_of_a_size_of_their_own_have_it() {
        let text = r#"{"exporters": {"otlp": {"endpoint": "http://h:1",
            "sending_queue": {"queue_size": 104857600}}}}"#;
        assert!(divided(text).unwrap().exporters >= 125 * MIB);
        let text = text.replace("exporters", "forward");
        assert!(divided(&text).unwrap().forward >= 125 * MIB);
    }

    #[test]
    fn shares_that_do_not_fit_are_a_mistake_with_a_remedy() {
        let text = r#"{"limits": {"memory_mib": 64},
            "receivers": {"otlp": {"max_in_flight_mib": 512}}}"#;
        let error = divided(text).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the parts of `limits.memory_mib` need 774 MiB together, more than its 64 MiB (raise \
             `limits.memory_mib` to 774 or more, or lower `receivers.otlp.max_in_flight_mib`, \
             which takes 512)"
        );
        let error = divided(r#"{"limits": {"memory_mib": 8}}"#).unwrap_err();
        assert!(error.to_string().contains("must be at least 32"), "{error}");
    }
}
