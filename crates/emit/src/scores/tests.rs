use opentelemetry_proto::tonic::common::v1::any_value::Value as ProtoValue;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource as ProtoResource;
use prost::Message;

use super::*;
use crate::sample;
use spanscore_base::model::{GivenVerdict, Memory, Sender};

const HOUR: HumanDuration = HumanDuration::from_secs(3600);

fn share() -> Arc<MemoryQuota> {
    Memory::default().series
}

fn counts(scores: &Scores) -> Vec<(String, String, [u64; 4])> {
    let mut all = Vec::new();
    scores.read(1, |source| {
        let name = source.resource.as_ref().map_or("overflow", |r| &r.service_name);
        for series in &source.series {
            all.push((name.to_owned(), source.agent.clone(), series.counts));
        }
    });
    all
}

fn from(agent: &str) -> Evaluation {
    let mut evaluation = sample::scored(1.0);
    Arc::make_mut(&mut evaluation.target).agent_name = Some(agent.into());
    evaluation
}

#[test]
fn answers_are_counted_by_outcome_and_label() {
    let scores = Scores::new(Grouping::Service, 10, HOUR, share());
    let pass = sample::scored(1.0);
    let fail = sample::scored(0.5);
    scores.record(&[pass.clone(), fail, pass, sample::not_evaluable(), sample::failed()]);
    assert_eq!(counts(&scores), [("shop".into(), "refunds".into(), [2, 1, 1, 1])]);
    scores.read(1, |source| {
        let series = &source.series[0];
        assert_eq!((series.scored(), series.sum), (3, 2.5));
        assert_eq!((series.buckets[5], series.buckets[10]), (1, 2));
    });
}

#[test]
fn series_beyond_the_limit_are_counted_together() {
    let scores = Scores::new(Grouping::Service, 3, HOUR, share());
    scores.record(&[from("a"), from("b"), from("c"), from("d"), from("a")]);
    let one = |name: &str, agent: &str, n| (name.into(), agent.into(), [n, 0, 0, 0]);
    let named = [one("shop", "a", 2), one("shop", "b", 1), one("shop", "c", 1)];
    assert_eq!(counts(&scores), [&named[..], &[one("overflow", "", 1)]].concat());
}

#[test]
fn sender_that_makes_names_up_leaves_series_to_others() {
    let idle = HumanDuration::from_secs(1);
    let scores = Scores::new(Grouping::Service, 100, idle, share());
    let by = |peer: u32, connection: u16, agent: &str| {
        let mut evaluation = from(agent);
        Arc::make_mut(&mut evaluation.target).sender =
            Sender { peer, connection, ..Sender::default() };
        evaluation
    };
    let named = |agent: &str| counts(&scores).iter().filter(|(_, it, _)| it == agent).count();
    (0..500).for_each(|n| scores.record_at(&[by(1, n % 200, &format!("flood {n}"))], 1));
    assert_eq!(counts(&scores).len(), 81, "four times what is left, and the overflow");
    scores.record_at(&[by(2, 1, "quiet")], 1);
    scores.record_at(&[by(2, 1, "refunds"), by(1, 1, "more")], 2_000_000_000);
    assert_eq!(["quiet", "refunds", "more"].map(named), [1, 1, 0]);
    scores.read(2_000_000_000, |_| {});
    scores.record_at(&[by(1, 1, "more")], 2_000_000_000);
    assert_eq!(["refunds", "more", "flood 0"].map(named), [1, 1, 0], "idle ones make room");
}

#[test]
fn names_that_are_too_long_are_cut_and_resources_that_are_counted_together() {
    let scores = Scores::new(Grouping::Service, 10, HOUR, share());
    let long = "é".repeat(1 << 20);
    scores.record(&[from(&long), from(&format!("{long}x"))]);
    let expected = format!("{}…", "é".repeat(NAME_BYTES_MAX / 2));
    assert_eq!(counts(&scores), [("shop".into(), expected, [2, 0, 0, 0])]);
    let mut large = sample::scored(1.0);
    let resource = Resource { encoded: vec![0; RESOURCE_BYTES_MAX + 1], ..Default::default() };
    Arc::make_mut(&mut large.target).resource = Arc::new(resource);
    let scores = Scores::new(Grouping::Version, 10, HOUR, share());
    scores.record(&[large]);
    assert_eq!(counts(&scores), [("overflow".into(), String::new(), [1, 0, 0, 0])]);
}

/// Returns an evaluation of a process with these attributes, `service.name` first.
fn of_process(attributes: &[(&str, &str)]) -> Evaluation {
    let attribute = |(key, value): &(&str, &str)| KeyValue {
        key: (*key).to_owned(),
        value: Some(AnyValue { value: Some(ProtoValue::StringValue((*value).to_owned())) }),
        ..KeyValue::default()
    };
    let attributes_encoded = attributes.iter().map(attribute).collect();
    let resource = ProtoResource { attributes: attributes_encoded, ..ProtoResource::default() };
    let service_name = attributes[0].1.to_owned();
    let mut evaluation = sample::scored(1.0);
    let target = Arc::make_mut(&mut evaluation.target);
    target.resource = Arc::new(Resource { encoded: resource.encode_to_vec(), service_name });
    evaluation
}

#[test]
fn processes_of_one_version_share_series_and_versions_do_not() {
    let scores = Scores::new(Grouping::Version, 10, HOUR, share());
    for instance in 0..500 {
        let instance = format!("instance-{instance}");
        let own = [("service.name", "shop"), ("service.instance.id", &instance)];
        scores.record_at(&[of_process(&own)], 1);
    }
    scores.record_at(&[of_process(&[("service.name", "shop"), ("service.version", "2")])], 1);
    scores.record_at(&[of_process(&[("service.name", "shop"), ("service.namespace", "eu")])], 1);
    let counted: Vec<_> = counts(&scores).iter().map(|(name, _, c)| (name.clone(), c[0])).collect();
    assert_eq!(counted, [("shop".into(), 500), ("shop".into(), 1), ("shop".into(), 1)]);
    let mut shown = Vec::new();
    scores.read(1, |source| {
        let resource = source.resource.as_ref().expect("a resource");
        let resource = ProtoResource::decode(&resource.encoded[..]).expect("a resource");
        shown.push(resource.attributes.into_iter().map(|it| it.key).collect::<Vec<_>>());
    });
    assert_eq!(shown[0], ["service.name"]);
    assert_eq!(shown[1], ["service.name", "service.version"]);
    assert_eq!(shown[2], ["service.name", "service.namespace"]);
}

#[test]
fn idle_series_go_and_make_room() {
    let scores = Scores::new(Grouping::Service, 3, HumanDuration::from_secs(1), share());
    let second = 1_000_000_000;
    scores.record_at(&[of_process(&[("service.name", "a")])], second);
    scores.record_at(&[of_process(&[("service.name", "b")])], 2 * second);
    let names = |now_ns| {
        let mut names = Vec::new();
        scores.read(now_ns, |source| {
            let start_ns = source.series[0].start_ns;
            let name = source.resource.as_ref().map(|it| it.service_name.clone());
            names.push((name.unwrap_or_default(), source.series[0].counts[0], start_ns));
        });
        names
    };
    assert_eq!(names(2 * second), [("a".into(), 1, 0), ("b".into(), 1, 0)]);
    assert_eq!(names(2 * second + 1), [("b".into(), 1, 0)]);
    scores.record_at(&[of_process(&[("service.name", "a")])], 3 * second);
    scores.record_at(&[of_process(&[("service.name", "b")])], 3 * second);
    let start_ns = 2 * second + 1;
    assert_eq!(names(3 * second), [("b".into(), 2, 0), ("a".into(), 1, start_ns)]);
}

#[test]
fn superseded_verdicts_are_counted_beside() {
    let scores = Scores::new(Grouping::Service, 10, HOUR, share());
    let revised = Evaluation { supersedes: Some(GivenVerdict::Fail), ..sample::scored(1.0) };
    scores.record(&[sample::scored(0.5), revised]);
    scores.read(1, |source| {
        let series = &source.series[0];
        assert_eq!((series.counts, series.superseded), ([1, 1, 0, 0], [0, 1, 0, 0]));
    });
}

#[test]
fn series_that_the_share_has_no_room_for_are_counted_together() {
    let room = SOURCE_BYTES + SERIES_BYTES + 400;
    let scores = Scores::new(Grouping::Service, 10, HOUR, MemoryQuota::new("series", room));
    scores.record(&[from("a"), from("b"), from("a"), from("c")]);
    let one = |name: &str, agent: &str, n| (name.into(), agent.into(), [n, 0, 0, 0]);
    assert_eq!(counts(&scores), [one("shop", "a", 2), one("overflow", "", 2)]);
}

#[test]
fn idle_series_and_their_sources_give_their_bytes_back() {
    let share = share();
    let idle = HumanDuration::from_secs(1);
    let scores = Scores::new(Grouping::Version, 10, idle, Arc::clone(&share));
    let second = 1_000_000_000;
    scores.record_at(&[of_process(&[("service.name", "a")])], second);
    let one = share.held();
    scores.record_at(&[of_process(&[("service.name", "b")])], 2 * second);
    assert!(one > SOURCE_BYTES + SERIES_BYTES && share.held() == 2 * one);
    scores.read(2 * second + 1, |_| {});
    assert_eq!(share.held(), one);
    scores.read(4 * second, |_| {});
    assert_eq!(share.held(), 0);
}
