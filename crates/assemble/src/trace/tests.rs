use super::*;
use spanscore_base::model::SpanId;

fn record(number: u64) -> SpanRecord {
    SpanRecord {
        span_id: SpanId(number.to_be_bytes()),
        parent_id: SpanId::default(),
        start_ns: 5,
        end_ns: 9,
        flags: SpanFlags(SpanFlags::ENDED),
        resource: 0,
        facts: 0..0,
        content: 0,
        peer: 0,
    }
}

#[test]
fn span_keeps_its_own_resource_among_very_many() {
    const RESOURCES: usize = (1 << 16) + 1_000;
    let limits = TraceLimits { spans_max: usize::MAX, bytes_max: usize::MAX };
    let mut trace = OpenTrace::new(TraceSpans::default(), 0);
    let resource = |number: usize| {
        Arc::new(Resource { encoded: number.to_be_bytes().to_vec(), ..Resource::default() })
    };
    let resources: Vec<_> = (0..RESOURCES).map(resource).collect();
    for (number, resource) in (0..).zip(resources.iter().chain(&resources)) {
        trace.add(&record(number), b"facts", resource, limits);
    }
    let kept = &trace.spans.resources;
    let spans = &trace.spans.spans;
    assert_eq!((spans.len(), kept.len()), (2 * RESOURCES, RESOURCES));
    for (span, resource) in spans.iter().zip(resources.iter().chain(&resources)) {
        assert!(Arc::ptr_eq(&kept[span.resource as usize], resource));
    }
}
