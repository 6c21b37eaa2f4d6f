mod answers;
mod bodies;
mod description;
mod editing;
mod filled;
mod guarding;
mod inspecting;
mod limits;
mod streaming;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::Value;
use spanscore_base::model::{Memory, MemoryQuota};
use spanscore_base::settings::Secret;
use spanscore_store::{Store, StoreSettings, StoredContent, TraceLink};
use tower::ServiceExt;

use crate::router::Asset;
use crate::{Api, ApiParts, DashboardSettings, router};

/// API on a store in a folder deleted on drop.
struct Harness {
    router: Router,
    api: Arc<Api>,
    store: Store,
    bodies: Arc<MemoryQuota>,
    _folder: tempfile::TempDir,
}

/// Answer of a request.
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    text: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("no JSON: {}", self.text))
    }

    /// Returns status and kind of a problem.
    fn problem(&self) -> (u16, String) {
        let kind = self.json()["type"].as_str().unwrap().rsplit(':').next().unwrap().to_owned();
        (self.status.as_u16(), kind)
    }
}

fn assets(path: &str) -> Option<Asset> {
    (path == "index.html").then(|| ("text/html; charset=utf-8", b"<p>page"[..].into()))
}

impl Harness {
    /// Starts an empty store, and an API with these settings.
    fn with(settings: DashboardSettings) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let redact = Arc::new(|_, _: &[&spanscore_base::value::Value<'_>]| None);
        let store = Store::start(StoreSettings::default(), Some(folder.path()), redact).unwrap();
        let bodies = Memory::default().requests;
        let api = Api::new(ApiParts {
            store: store.view().clone(),
            content: StoredContent::Redacted,
            trace_link: TraceLink::try_from("https://jaeger.test/trace/{trace_id}".to_owned()).ok(),
            inspect: Arc::new(|body| match body {
                b"[]" => Err("no request".to_owned()),
                _ => Ok(br#"{"traces":[],"explanation":"","left_out":0}"#.to_vec()),
            }),
            settings,
            bodies: Arc::clone(&bodies),
            instance: "tests".to_owned(),
            progress: Arc::new(|| vec![("spans", 7)]),
            counters: Arc::default(),
            version: "0.0.0",
        });
        let api = api.unwrap();
        Self { router: router(Arc::clone(&api), assets), api, store, bodies, _folder: folder }
    }

    /// Starts an API on the runs of [`filled`], all written.
    fn filled() -> Self {
        let harness = Self::with(DashboardSettings::default());
        filled::fill(&harness.store);
        harness.store.close();
        harness
    }

    async fn send(&self, request: Request<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        Answer { status: parts.status, headers: parts.headers, text }
    }

    /// Header of a program of the same user.
    fn bearer(&self) -> String {
        format!("Bearer {}", self.api.guard.keys.key().reveal())
    }

    /// Queries a path below `/api/v1`.
    async fn ask(&self, path: &str) -> Answer {
        let bearer = self.bearer();
        let headers = [("authorization", bearer.as_str())];
        self.send(request("GET", &format!("/api/v1{path}"), &headers)).await
    }

    /// Queries a path with a JSON answer.
    async fn json(&self, path: &str) -> Value {
        let answer = self.ask(path).await;
        assert_eq!(answer.status, StatusCode::OK, "{path}: {}", answer.text);
        answer.json()
    }
}

/// Makes a request; the host is `localhost:8890` unless the headers name another.
fn request(method: &str, path: &str, headers: &[(&str, &str)]) -> Request<Body> {
    let mut request = Request::builder().method(method).uri(path);
    if headers.iter().all(|(name, _)| *name != "host") {
        request = request.header("host", "localhost:8890");
    }
    for (name, value) in headers.iter().filter(|(_, value)| !value.is_empty()) {
        request = request.header(*name, *value);
    }
    request.body(Body::empty()).unwrap()
}

fn with_token(token: &str) -> DashboardSettings {
    DashboardSettings { token: Some(Secret(token.to_owned())), ..DashboardSettings::default() }
}
