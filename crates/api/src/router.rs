//! Router: guard, routes, page assets, common headers.

use std::borrow::Cow;
use std::io::Write;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{RawPathParams, RawQuery, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, VARY};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

use spanscore_base::otlp::Signal;

use crate::body::ApiBody;
use crate::edits::edits;
use crate::inspecting::INSPECTED_BYTES_MAX;
use crate::login::{form, login};
use crate::problem::ApiProblem;
use crate::question::{ApiQuery, Takes};
use crate::routes::{QueryRoute, ROUTES, RouteQuery, status};
use crate::shares::{AskedBy, HeldAnswer, SharedHold};
use crate::state::{Api, now_ms};
use crate::stream::stream;

/// Description of the API.
pub(crate) const OPENAPI: &str = include_str!("../openapi.json");
/// Prefix of all its routes.
pub(crate) const PREFIX: &str = "/api/v1";

/// Headers of every answer.
const HEADERS: [(&str, &str); 4] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
         img-src 'self' data:; base-uri 'self'; form-action 'self'; frame-ancestors 'none'; \
         require-trusted-types-for 'script'; trusted-types 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    // Not `no-referrer`: with that browsers send the login form with `Origin: null`.
    ("referrer-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
];

/// Page asset: its media type and bytes.
pub type Asset = (&'static str, Cow<'static, [u8]>);
/// Page assets by path, without a leading slash; the page itself is `index.html`.
pub type Assets = fn(&str) -> Option<Asset>;

/// Returns no asset, for the API alone.
pub fn no_assets(_: &str) -> Option<Asset> {
    None
}

/// Builds the router of the API and the pages.
pub fn router(api: Arc<Api>, assets: Assets) -> Router {
    let base = api.base_path.clone();
    let mut router = Router::new();
    for route in &ROUTES {
        let answer =
            move |State(api): State<Arc<Api>>,
                  asker: AskedBy,
                  path: RawPathParams,
                  query: RawQuery| ask(api, route, asker, (path, query));
        router = router.route(&format!("{base}{PREFIX}{}", route.path), get(answer));
    }
    let page = move |State(api): State<Arc<Api>>, request: Request| async move {
        asset(&api, &request, assets)
    };
    router
        .route(&format!("{base}{PREFIX}/status"), get(answer_status))
        .route(&format!("{base}{PREFIX}/stream"), get(stream))
        .route(&format!("{base}{PREFIX}/openapi.json"), get(async || json(OPENAPI)))
        .route(&format!("{base}{PREFIX}/inspect"), post(inspect))
        .route(&format!("{base}/login"), get(form).post(login))
        .merge(edits(&base))
        .fallback(page)
        .method_not_allowed_fallback(not_allowed)
        .layer(from_fn_with_state(Arc::clone(&api), guarded))
        .with_state(api)
}

impl Api {
    /// Answers with a problem, and counts it.
    pub(crate) fn refuse(&self, problem: ApiProblem) -> Response {
        if let Some(refusal) = problem.refusal() {
            self.counters.add(refusal);
        }
        problem.into_response()
    }

    fn reply(&self, asker: AskedBy, answer: Result<Vec<u8>, ApiProblem>) -> Response {
        let held = answer.and_then(|bytes| self.held(asker, bytes));
        held.map_or_else(|problem| self.refuse(problem), json)
    }

    /// Reserves room for an answer.
    fn held(&self, asker: AskedBy, bytes: Vec<u8>) -> Result<Bytes, ApiProblem> {
        let held = self.room(asker, bytes.len())?;
        Ok(Bytes::from_owner(HeldAnswer { bytes: bytes.into(), _held: held }))
    }

    /// Reserves room for an answer of this size, until it is read.
    pub(crate) fn room(
        &self,
        AskedBy(sender): AskedBy,
        bytes: usize,
    ) -> Result<SharedHold, ApiProblem> {
        let most = self.answers.limit();
        if bytes > most {
            let text = format!(
                "the answer would be over {} KiB, a quarter of `receivers.otlp.max_in_flight_mib`: \
                 lower `limit`, or narrow the filter",
                most >> 10
            );
            return Err(ApiProblem::new(StatusCode::UNPROCESSABLE_ENTITY, "too_large", text));
        }
        self.answers.take(sender, bytes).ok_or_else(|| {
            let text = "answers that are not read take all the room there is, or yours take your \
                        part of it: read them, or ask again in a second";
            ApiProblem::new(StatusCode::SERVICE_UNAVAILABLE, "bytes_full", text)
        })
    }
}

/// Checks a request, and adds headers to its answer.
async fn guarded(State(api): State<Arc<Api>>, request: Request, next: Next) -> Response {
    let is_api = api.is_interface(request.uri().path());
    let mut response = match api.guard.check(&request, is_api) {
        _ if is_otlp(&request) => api.refuse(ApiProblem::not_found(NO_RECEIVER)),
        Ok(()) => next.run(request).await,
        Err(problem) => api.refuse(problem),
    };
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    let is_kept = !is_api && response.status() == StatusCode::OK;
    let cached = if is_kept { "no-cache" } else { "no-store" };
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static(cached));
    response
}

/// Answer to an exporter that is configured with this address.
const NO_RECEIVER: &str = "the pages are served here: OTLP is received at \
     `receivers.otlp.protocols.http.endpoint`, mostly port 4318";

fn is_otlp(request: &Request) -> bool {
    let path = request.uri().path();
    request.method() == Method::POST && Signal::ALL.iter().any(|it| it.http_path() == path)
}

impl Api {
    /// Returns true for an API path, which needs the token; pages need none.
    fn is_interface(&self, path: &str) -> bool {
        path.strip_prefix(self.base_path.as_str()).is_some_and(|rest| rest.starts_with("/api"))
    }
}

async fn ask(
    api: Arc<Api>,
    route: &'static QueryRoute,
    asker: AskedBy,
    (path, RawQuery(query)): (RawPathParams, RawQuery),
) -> Response {
    let question = ApiQuery::read(&query.unwrap_or_default(), route.takes, now_ms());
    let mut question = match question {
        Ok(question) => question,
        Err(problem) => return api.refuse(problem),
    };
    question.path = path.iter().map(|(_, value)| value.to_owned()).collect();
    let own = Arc::clone(&api);
    let answer = move |reader: &_| {
        let trace_link = own.trace_link.as_ref();
        (route.answer)(&RouteQuery { reader, question: &question, trace_link })
    };
    let mut response = api.reply(asker, api.readers.ask(asker.0, answer).await);
    if route.path.ends_with(".jsonl") && response.status() == StatusCode::OK {
        let lines = HeaderValue::from_static("application/x-ndjson");
        response.headers_mut().insert(CONTENT_TYPE, lines);
    }
    response
}

async fn answer_status(
    State(api): State<Arc<Api>>,
    asker: AskedBy,
    RawQuery(query): RawQuery,
) -> Response {
    const TAKES: Takes = Takes { filter: false, others: &[], groups_max: 0 };
    match ApiQuery::read(&query.unwrap_or_default(), TAKES, now_ms()) {
        Ok(_) => api.reply(asker, status(Arc::clone(&api), asker.0).await),
        Err(problem) => api.refuse(problem),
    }
}

pub(crate) fn json(body: impl Into<Body>) -> Response {
    ([(CONTENT_TYPE, "application/json")], body.into()).into_response()
}

/// Explains a pasted request.
async fn inspect(
    State(api): State<Arc<Api>>,
    asker: AskedBy,
    headers: HeaderMap,
    body: Result<ApiBody<INSPECTED_BYTES_MAX>, ApiProblem>,
) -> Response {
    match body {
        Ok(body) => api.reply(asker, api.inspecting.explain(&headers, asker.0, body).await),
        Err(problem) => api.refuse(problem),
    }
}

async fn not_allowed() -> ApiProblem {
    let text = "this path does not take that method: see `api/v1/openapi.json`";
    ApiProblem::new(StatusCode::METHOD_NOT_ALLOWED, "bad_method", text)
}

/// Answers with a page asset.
fn asset(api: &Api, request: &Request, assets: Assets) -> Response {
    let missing = || {
        let text = "there is nothing at this path; the interface is described at \
                    `api/v1/openapi.json`";
        ApiProblem::not_found(text)
    };
    let path = request.uri().path();
    if ![Method::GET, Method::HEAD].contains(request.method()) || api.is_interface(path) {
        return api.refuse(missing());
    }
    if !path.is_empty() && path == api.base_path {
        return Redirect::to(&format!("{path}/")).into_response();
    }
    let path = path.strip_prefix(api.base_path.as_str()).and_then(|it| it.strip_prefix('/'));
    let path = path.map(|path| if path.is_empty() { "index.html" } else { path });
    match path.and_then(assets) {
        Some((media_type, bytes)) => {
            let head = [(CONTENT_TYPE, media_type), (VARY, "accept-encoding")];
            let compressed = takes_gzip(request.headers()).then(|| api.compressed(bytes.clone()));
            match compressed.flatten() {
                Some(bytes) => (head, [(CONTENT_ENCODING, "gzip")], bytes).into_response(),
                None => (head, bytes).into_response(),
            }
        }
        None => api.refuse(missing()),
    }
}

impl Api {
    /// Returns a compressed asset, cached only for assets embedded in the program.
    fn compressed(&self, bytes: Cow<'static, [u8]>) -> Option<Bytes> {
        let Cow::Borrowed(held) = bytes else { return compress(&bytes) };
        let mut files = self.compressed_files.lock();
        let known = files.get(&held.as_ptr().addr()).cloned();
        known.or_else(|| {
            let made = compress(held)?;
            files.insert(held.as_ptr().addr(), made.clone());
            Some(made)
        })
    }
}

fn takes_gzip(headers: &HeaderMap) -> bool {
    let accepted = headers.get(ACCEPT_ENCODING).and_then(|it| it.to_str().ok());
    accepted.is_some_and(|it| it.split(',').any(|it| it.trim() == "gzip"))
}

fn compress(bytes: &[u8]) -> Option<Bytes> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(bytes).and_then(|()| gzip.finish()).ok().map(Bytes::from)
}
