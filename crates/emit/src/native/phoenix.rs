//! The `phoenix` exporter: span annotations of Arize Phoenix, `POST /v1/span_annotations` of its
//! REST API. An annotation replaces an earlier one with the same name and identifier on the same
//! span.

use std::collections::BTreeMap;

use http::Method;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::{NativeAccount, NativeBackend, NativeRequest, NativeScore, exporter, schema};
use crate::settings::ExporterKind;
use spanscore_base::settings::{Address, Secret, SettingsError};

/// Kind `phoenix`.
pub(crate) static KIND: ExporterKind = ExporterKind {
    name: "phoenix",
    aliases: &[],
    about: "Writes evaluations as annotations on the judged spans in Arize Phoenix.",
    single: false,
    schema: schema::<PhoenixServer>,
    read: |node| exporter(node, |_: PhoenixServer| Annotations),
};

/// Phoenix server.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct PhoenixServer {
    /// Address of the server, such as `http://localhost:6006`. The path of the API is appended.
    endpoint: Address,
    /// Headers of each request, such as an authorization. Logs never show the values.
    headers: BTreeMap<String, Secret>,
}

impl NativeAccount for PhoenixServer {
    fn server(&self) -> Result<(Address, BTreeMap<String, Secret>), SettingsError> {
        Ok((self.endpoint.clone(), self.headers.clone()))
    }
}

/// Identifier that distinguishes our annotations from others of the same name.
const IDENTIFIER: &str = "spanscore";

#[derive(Clone, Debug)]
pub(super) struct Annotations;

impl NativeBackend for Annotations {
    fn requests(&self, scores: &[NativeScore<'_>]) -> Vec<NativeRequest> {
        let data: Vec<Json> = scores.iter().map(annotation).collect();
        let body = json!({ "data": data });
        vec![NativeRequest::new(Method::POST, "/v1/span_annotations", &body, scores.len())]
    }
}

fn annotation(score: &NativeScore<'_>) -> Json {
    let evaluation = score.evaluation;
    let annotator = if evaluation.judge.is_some() { "LLM" } else { "CODE" };
    json!({
        "span_id": evaluation.span_id.to_string(),
        "name": evaluation.evaluator.name,
        "annotator_kind": annotator,
        "result": {
            "label": score.label,
            "score": score.value,
            "explanation": score.explanation,
        },
        "metadata": {
            "evaluation_id": evaluation.id.to_string(),
            "trace_id": evaluation.target.trace_id.to_string(),
            "threshold": evaluation.evaluator.threshold,
            "revision": evaluation.revision,
            "partial": evaluation.target.is_partial,
        },
        "identifier": IDENTIFIER,
    })
}
