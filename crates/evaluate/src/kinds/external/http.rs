//! `http`: an evaluator server with the protocol `spanscore.evaluator.v1` as JSON.

use super::grpc::build;
use super::settings::{RemoteProtocol, http_schema};
use crate::evaluator::Kind;

/// Registry entry of `http`.
pub static KIND: Kind = Kind {
    name: "http",
    about: "Sends runs to an evaluator of yours: an HTTP server in any language that implements \
            `spanscore.evaluator.v1` as JSON.",
    threshold: 0.5,
    schema: http_schema,
    build: |node| build(node, RemoteProtocol::Http),
    example: "\
http/politeness:
  endpoint: http://127.0.0.1:9000
",
    ..Kind::PLAIN
};
