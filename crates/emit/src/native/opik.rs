//! The `opik` exporter: feedback scores of Comet's Opik, by `PUT` of its REST API to
//! `/v1/private/traces/feedback-scores` and `.../spans/feedback-scores`. A score replaces an
//! earlier one of its name on the same trace or span.
//!
//! Opik gives new ids to traces and spans received over OTLP, UUIDs of version 7: the first 48 bits
//! are a time, the rest a hash of the OpenTelemetry id. The time is the start of the earliest span
//! in the trace's first request, milliseconds. We know the earliest span of the whole trace, so the
//! ids are right if the first request had it, as always for a trace sent at once.
//!
//! Source: `OpenTelemetryMapper` and `OpenTelemetryService` of Opik's server; `FeedbackScoreBatch`
//! of its API description.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use http::Method;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};
use smart_default::SmartDefault;

use super::{NativeAccount, NativeBackend, NativeRequest, NativeScore, exporter, schema};
use crate::settings::ExporterKind;
use spanscore_base::model::Level;
use spanscore_base::settings::{Address, Secret, SettingsError};

/// Kind `opik`.
pub(crate) static KIND: ExporterKind = ExporterKind {
    name: "opik",
    aliases: &[],
    about: "Writes evaluations as feedback scores of the judged traces and spans in Opik.",
    single: false,
    schema: schema::<OpikAccount>,
    read: |node| exporter(node, |OpikAccount { project_name, .. }| OpikScores { project_name }),
};

/// Project at Opik.
#[derive(Clone, Debug, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
struct OpikAccount {
    /// Address of the server's API, such as `http://localhost:5173/api`. Default: Opik's cloud,
    /// `https://www.comet.com/opik/api`.
    #[default(Address::from("https://www.comet.com/opik/api"))]
    endpoint: Address,
    /// API key, for servers that require one. Logs never show it.
    api_key: Option<Secret>,
    /// Name of the workspace. Default: the workspace of the API key.
    workspace: Option<String>,
    /// Name of the project that contains the traces. Default: Opik's default project.
    project_name: Option<String>,
}

impl NativeAccount for OpikAccount {
    /// Returns the address, and the key and workspace as headers.
    fn server(&self) -> Result<(Address, BTreeMap<String, Secret>), SettingsError> {
        let key = self.api_key.clone().map(|key| ("authorization".to_owned(), key));
        let workspace = self.workspace.clone();
        let workspace = workspace.map(|name| ("comet-workspace".to_owned(), Secret(name)));
        Ok((self.endpoint.clone(), key.into_iter().chain(workspace).collect()))
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct OpikScores {
    pub(super) project_name: Option<String>,
}

impl NativeBackend for OpikScores {
    fn requests(&self, scores: &[NativeScore<'_>]) -> Vec<NativeRequest> {
        let is_call = |it: &&NativeScore<'_>| it.evaluation.evaluator.level == Level::Call;
        let (calls, traces): (Vec<_>, Vec<_>) = scores.iter().partition(is_call);
        let kinds = [
            ("/v1/private/traces/feedback-scores", traces),
            ("/v1/private/spans/feedback-scores", calls),
        ];
        let some = kinds.into_iter().filter(|(_, scores)| !scores.is_empty());
        some.map(|(path, scores)| {
            let items: Vec<_> = scores.iter().map(|score| self.item(score)).collect();
            let body = json!({ "scores": items });
            NativeRequest::new(Method::PUT, path, &body, scores.len())
        })
        .collect()
    }
}

impl OpikScores {
    fn item(&self, score: &NativeScore<'_>) -> Json {
        let evaluation = score.evaluation;
        let target = &evaluation.target;
        let time_ms = target.started_ns / 1_000_000;
        let id = match evaluation.evaluator.level {
            Level::Call => opik_id(&evaluation.span_id.0, time_ms),
            _ => opik_id(&target.trace_id.0, time_ms),
        };
        let name = &evaluation.evaluator.name;
        let mut item = json!({
            "id": id,
            "name": name,
            "value": score.value.unwrap_or(0.0),
            "source": "sdk",
            "reason": score.explanation,
        });
        if score.value.is_none() {
            // Opik requires a number; under another name it means neither a pass nor a fail.
            item["name"] = json!(format!("{name}.outcome"));
            item["category_name"] = json!(score.label);
        }
        if let Some(project) = &self.project_name {
            item["project_name"] = json!(project);
        }
        item
    }
}

/// Returns the id that Opik derives from an OpenTelemetry id and the start of its trace.
pub(super) fn opik_id(id: &[u8], time_ms: u64) -> String {
    let mut bytes = [0; 16];
    bytes[..6].copy_from_slice(&time_ms.to_be_bytes()[2..]);
    bytes[6..].copy_from_slice(&Sha256::digest(id)[..10]);
    // The version, and the variant of RFC 9562.
    bytes[6] = bytes[6] & 0x0f | 0x70;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let mut text = String::with_capacity(36);
    for (place, byte) in bytes.iter().enumerate() {
        let divider = if matches!(place, 4 | 6 | 8 | 10) { "-" } else { "" };
        let _ = write!(text, "{divider}{byte:02x}");
    }
    text
}
