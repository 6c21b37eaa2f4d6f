//! Count of metric data points, without reading them.

use super::request::Broken;
use super::wire::{Field, Fields, Malformed};

/// Counts the data points of an encoded `ExportMetricsServiceRequest`: those of gauges, sums,
/// histograms, exponential histograms and summaries.
///
/// # Errors
/// The first malformed place above the data points.
pub fn count_points(body: &[u8]) -> Result<u64, Broken> {
    // resource_metrics = 1, scope_metrics = 2, metrics = 2, then one of the kinds.
    count(body, body, &[&[1], &[2], &[2], &[5, 7, 9, 10, 11], &[1]])
}

fn count(request: &[u8], message: &[u8], path: &[&[u32]]) -> Result<u64, Broken> {
    let Some((here, below)) = path.split_first() else { return Ok(1) };
    let mut fields = Fields::new(message);
    let mut points = 0;
    loop {
        let left = fields.rest();
        match fields.next() {
            Ok(Some((number, Field::Bytes(inner)))) if here.contains(&number) => {
                points += count(request, inner, below)?;
            }
            Ok(Some(_)) => {}
            Ok(None) => return Ok(points),
            Err(Malformed) => return Err(Broken::new(request, left, path)),
        }
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
    use opentelemetry_proto::tonic::metrics::v1::{
        Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics,
        ScopeMetrics, metric::Data,
    };
    use prost::Message;

    use super::*;

    #[test]
    fn points_of_all_kinds_are_counted() {
        let metric = |data| Metric { name: "m".into(), data: Some(data), ..Metric::default() };
        let gauge = Gauge { data_points: vec![NumberDataPoint::default(); 3] };
        let histogram = Histogram {
            data_points: vec![HistogramDataPoint::default(); 2],
            ..Histogram::default()
        };
        let metrics = vec![metric(Data::Gauge(gauge)), metric(Data::Histogram(histogram))];
        let scope = ScopeMetrics { metrics, ..ScopeMetrics::default() };
        let resource = ResourceMetrics { scope_metrics: vec![scope], ..Default::default() };
        let request = ExportMetricsServiceRequest { resource_metrics: vec![resource] };
        assert_eq!(count_points(&request.encode_to_vec()), Ok(5));
        assert_eq!(count_points(&[]), Ok(0));
        assert_eq!(count_points(&[10, 200]), Err(Broken { items: 1, at: 0, len: 2 }));
    }
}
