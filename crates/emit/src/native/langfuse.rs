//! The `langfuse` exporter: scores of Langfuse, as `score-create` events of `POST
//! /api/public/ingestion`. A score replaces an earlier one with its id. Langfuse keeps the
//! OpenTelemetry ids of traces and observations received over OTLP.
//!
//! An evaluation without a score becomes a categorical score named `{evaluator}.outcome`, since any
//! number would mean a pass or a fail.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value as Json, json};
use smart_default::SmartDefault;

use super::{NativeAccount, NativeBackend, NativeRequest, NativeScore, exporter, schema};
use crate::settings::ExporterKind;
use spanscore_base::model::Level;
use spanscore_base::settings::{Address, Secret, SettingsError};

/// Kind `langfuse`.
pub(crate) static KIND: ExporterKind = ExporterKind {
    name: "langfuse",
    aliases: &[],
    about: "Writes evaluations as scores of the judged traces and observations in Langfuse.",
    single: false,
    schema: schema::<LangfuseAccount>,
    read: |node| exporter(node, |_: LangfuseAccount| LangfuseScores),
};

/// Project at Langfuse.
#[derive(Clone, Debug, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
struct LangfuseAccount {
    /// Address of the server. Default `https://cloud.langfuse.com`.
    #[default(Address::from("https://cloud.langfuse.com"))]
    endpoint: Address,
    /// Public key of the project, such as `pk-lf-...`.
    public_key: String,
    /// Secret key of the project, such as `sk-lf-...`. Logs never show it.
    secret_key: Option<Secret>,
}

impl NativeAccount for LangfuseAccount {
    /// Returns the address, and the keys as a basic authentication header.
    fn server(&self) -> Result<(Address, BTreeMap<String, Secret>), SettingsError> {
        let secret = self.secret_key.as_ref().map_or("", |secret| secret.0.as_str());
        if self.public_key.is_empty() || secret.is_empty() {
            let error = SettingsError::new("`public_key` and `secret_key` are both needed");
            return Err(error.with_help("they are in Langfuse under Settings, API Keys"));
        }
        if self.public_key.starts_with("sk-") || secret.starts_with("pk-") {
            let error = SettingsError::new("`public_key` and `secret_key` are swapped");
            return Err(error.with_help("`public_key: pk-lf-...`, `secret_key: sk-lf-...`"));
        }
        let pair = STANDARD.encode(format!("{}:{secret}", self.public_key));
        let headers = [("authorization".to_owned(), Secret(format!("Basic {pair}")))];
        Ok((self.endpoint.clone(), BTreeMap::from(headers)))
    }
}

#[derive(Clone, Debug)]
pub(super) struct LangfuseScores;

impl NativeBackend for LangfuseScores {
    fn requests(&self, scores: &[NativeScore<'_>]) -> Vec<NativeRequest> {
        let batch: Vec<Json> = scores.iter().map(event).collect();
        let body = json!({ "batch": batch });
        vec![NativeRequest::new(Method::POST, "/api/public/ingestion", &body, scores.len())]
    }

    fn refused(&self, answer: &[u8]) -> u64 {
        let answer: Json = serde_json::from_slice(answer).unwrap_or_default();
        answer["errors"].as_array().map_or(0, |errors| errors.len() as u64)
    }
}

fn event(score: &NativeScore<'_>) -> Json {
    let evaluation = score.evaluation;
    let evaluator = &evaluation.evaluator;
    let target = &evaluation.target;
    let trace_id = target.trace_id.to_string();
    let span_id = evaluation.span_id.to_string();
    let name = match score.value {
        Some(_) => evaluator.name.clone(),
        None => format!("{}.outcome", evaluator.name),
    };
    let time = jiff::Timestamp::from_nanosecond(i128::from(target.time_ns)).unwrap_or_default();
    let observation = (evaluator.level == Level::Call).then_some(&span_id);
    let (value, data_type) = match score.value {
        Some(value) => (json!(value), "NUMERIC"),
        None => (json!(score.label), "CATEGORICAL"),
    };
    json!({
        // Id of the event, not of the score: each revision needs a new one, or it counts as a
        // duplicate.
        "id": format!("{}-{}", evaluation.id, evaluation.revision),
        "type": "score-create",
        "timestamp": time.to_string(),
        "body": {
            "id": format!("spanscore-{trace_id}-{span_id}-{name}"),
            "traceId": trace_id,
            "observationId": observation,
            "name": name,
            "value": value,
            "dataType": data_type,
            "comment": score.explanation,
            "metadata": {
                "evaluation_id": evaluation.id.to_string(),
                "label": score.label,
                "threshold": evaluator.threshold,
                "revision": evaluation.revision,
                "partial": target.is_partial,
            },
        },
    })
}
