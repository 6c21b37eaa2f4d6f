//! `grpc`: an evaluator server with the protocol `spanscore.evaluator.v1`.

use std::sync::Arc;

use super::settings::{RemoteProtocol, grpc_schema, read_remote};
use super::trajectory::trajectories;
use crate::evaluator::{Evaluator, Kind};
use crate::external::proto::TaskMessage;
use crate::external::{ExternalBody, ExternalEvaluator};
use crate::judged::operator;
use spanscore_base::model::{Facts, Trajectory};
use spanscore_base::settings::{Node, SettingsError};

/// Registry entry of `grpc`.
pub static KIND: Kind = Kind {
    name: "grpc",
    about: "Sends runs to an evaluator of yours: a gRPC server in any language that implements \
            `spanscore.evaluator.v1`.",
    threshold: 0.5,
    schema: grpc_schema,
    build: |node| build(node, RemoteProtocol::Grpc),
    example: "\
grpc/politeness:
  endpoint: http://127.0.0.1:9000
  settings:
    language: en
",
    ..Kind::PLAIN
};

/// Builds an evaluator that asks a server.
pub(super) fn build(node: &Node, protocol: RemoteProtocol) -> Result<Evaluator, SettingsError> {
    let (plan, criteria_json) = read_remote(node, protocol)?;
    let facts = Facts {
        attributes: operator::attributes(),
        response_id: false,
        root_attributes: true,
        ..Facts::all()
    };
    let message = Box::new(move |trajectory: &Trajectory<'_>, _| {
        ExternalBody::Task(Box::new(TaskMessage {
            criteria_json: criteria_json.clone(),
            trajectories: trajectories(trajectory),
            ..TaskMessage::default()
        }))
    });
    Ok(Evaluator::External(ExternalEvaluator { plan: Arc::new(plan), facts, message }))
}
