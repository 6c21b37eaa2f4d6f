use super::*;

/// Version of one tool span: end (0 while it has not ended), content and resource.
type Form = (u64, u32, u8);

/// Returns the state of a trace after these versions of one of its spans, each in its own request:
/// the digest, the chosen version, and the number of conflicts.
fn settled(forms: &[Form]) -> ([u8; 16], Form, u64) {
    let mut shard = shard(|_, _| {});
    let mut due = Vec::new();
    shard.add(&batch(&[(1, 1, ROOT)]), 0, &mut due);
    for (end_ns, content, resource) in forms {
        let ended = if *end_ns > 0 { SpanFlags::ENDED } else { 0 };
        let mut batch = batch(&[(1, 2, SpanFlags::TOOL | ended)]);
        (batch.spans[0].end_ns, batch.spans[0].content) = (*end_ns, *content);
        let encoded = vec![*resource];
        batch.resources = vec![Arc::new(Resource { encoded, ..Resource::default() })];
        shard.add(&batch, 0, &mut due);
    }
    shard.drain(Completion::Shutdown, 0, &mut due);
    let [due] = due[..] else { panic!("one trace is due: {due:?}") };
    let trace = shard.trace(due.handle).unwrap();
    assert_eq!(trace.spans.len(), 2);
    let kept = &trace.spans[1];
    let resource = trace.resources[kept.resource as usize].encoded[0];
    let form = (kept.end_ns, kept.content, resource);
    (due.digest, form, shard.take_counts().spans.conflicting)
}

#[test]
fn of_two_records_of_one_span_the_same_counts_whichever_came_first() {
    let check = |one: Form, other: Form, counts: Form| {
        let [forth, back] = [settled(&[one, other]), settled(&[other, one])];
        assert_eq!((forth.1, forth.2), (counts, 1), "{one:?} before {other:?}");
        assert_eq!(forth, back, "{one:?} and {other:?}");
        assert_ne!(forth.0, settled(&[counts]).0, "{one:?} and {other:?} are other evidence");
    };
    check((9, 1, 0), (8, 2, 0), (9, 1, 0));
    check((9, 1, 0), (9, 2, 0), (9, 2, 0));
    check((9, 1, 0), (9, 1, 1), (9, 1, 1));
    check((0, 1, 0), (0, 2, 0), (0, 2, 0));
}

#[test]
fn the_end_of_a_span_and_the_same_again_are_no_conflict() {
    let ended = settled(&[(9, 1, 0)]);
    assert_eq!(ended.2, 0);
    for forms in [
        &[(9, 1, 0), (9, 1, 0)][..],
        &[(0, 2, 0), (9, 1, 0)],
        &[(9, 1, 0), (0, 2, 0)],
        &[(0, 2, 1), (9, 1, 0), (0, 2, 1), (9, 1, 0)],
    ] {
        assert_eq!(settled(forms), ended, "{forms:?}");
    }
    let (digest, form, _) = settled(&[(0, 1, 0), (0, 2, 0), (9, 1, 0)]);
    assert_eq!((digest, form), (ended.0, ended.1), "what had not ended no longer matters");
}

#[test]
fn a_conflict_revises_a_judged_trace_once() {
    let mut shard = shard(|_, _| {});
    assert_eq!(add(&mut shard, 0, &[(1, 1, ROOT), (1, 2, TOOL)]), NONE);
    assert_eq!(tick(&mut shard, 1_050), [(1, Completion::RootEnded, 0, 2)]);
    let other = SpanFlags::ENDED;
    assert_eq!(add(&mut shard, 2_000, &[(1, 2, other)]), NONE);
    assert_eq!(tick(&mut shard, 3_100), [(1, Completion::RootEnded, 1, 2)]);
    assert_eq!(add(&mut shard, 4_000, &[(1, 2, other), (1, 2, TOOL)]), NONE);
    assert_eq!(tick(&mut shard, 6_000), NONE);
    assert_eq!(shard.take_counts().spans.conflicting, 2);
    assert_eq!(shard.open_count(), 0);
}

proptest! {
    #[test]
    fn any_order_of_the_forms_of_a_span_is_the_same_evidence(
        (forms, other) in prop::collection::vec((0u64..3, 0u32..3, 0u8..2), 1..6)
            .prop_flat_map(|forms| (Just(forms.clone()), Just(forms).prop_shuffle())),
    ) {
        let [(one, kept, _), (two, also, _)] = [settled(&forms), settled(&other)];
        prop_assert_eq!((one, kept), (two, also), "{:?}, then {:?}", forms, other);
    }
}
