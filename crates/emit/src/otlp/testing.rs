//! Requests for the tests of the exporters.

use std::sync::Arc;

use prost::Message;

use super::convert::{self, Options};
use super::settings::Placement;
use crate::sample;
use spanscore_base::model::{Evaluation, EvaluationId, Resource, Target};

/// Returns evaluations with different ids, alternating between two services.
pub(crate) fn evaluations(count: u8) -> Vec<Evaluation> {
    let other = Arc::new(Resource { encoded: Vec::new(), service_name: "other".into() });
    (0..count)
        .map(|n| {
            let mut evaluation = sample::scored(1.0);
            evaluation.id = EvaluationId([n + 1; 16]);
            if n % 2 == 1 {
                let target = &*evaluation.target;
                evaluation.target =
                    Arc::new(Target { resource: Arc::clone(&other), ..target.clone() });
            }
            evaluation
        })
        .collect()
}

/// Returns encoded requests of such events and spans.
pub(crate) fn requests(count: u8) -> (Vec<u8>, Vec<u8>) {
    let evaluations = evaluations(count);
    let all: Vec<_> = evaluations.iter().collect();
    let options = Options { placement: Placement::Linked, content: true };
    (convert::events(&all, options).encode_to_vec(), convert::spans(&all, options).encode_to_vec())
}
