use axum::body::Body;
use http::Request;

use super::{DashboardSettings, Harness, with_token};
use crate::inspecting::INSPECTED_BYTES_MAX;

const OWN: (&str, &str) = ("origin", "http://localhost:8890");
const JSON: (&str, &str) = ("content-type", "application/json");

async fn post(harness: &Harness, headers: &[(&str, &str)], body: Vec<u8>) -> (u16, String) {
    let mut request = Request::builder().method("POST").uri("/api/v1/inspect");
    request = request.header("host", "localhost:8890");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = harness.send(request.body(Body::from(body)).unwrap()).await;
    (answer.status.as_u16(), answer.text)
}

#[tokio::test]
async fn requests_of_the_own_page_are_explained_within_limits() {
    let harness = Harness::with(DashboardSettings::default());
    let bearer = harness.bearer();
    let check = async |headers: &[(&str, &str)], body: Vec<u8>, status: u16, words: &str| {
        let headers = [headers, &[("authorization", bearer.as_str())]].concat();
        let (found, text) = post(&harness, &headers, body).await;
        assert_eq!(found, status, "{text}");
        assert!(text.contains(words), "{text}");
    };
    check(&[OWN, JSON], b"{}".to_vec(), 200, "explanation").await;
    check(&[OWN, JSON], vec![b' '; INSPECTED_BYTES_MAX], 200, "explanation").await;
    check(&[OWN, JSON], vec![b' '; INSPECTED_BYTES_MAX + 1], 413, "at most 4 MiB").await;
    check(&[OWN, JSON], b"[]".to_vec(), 400, "no request").await;
    check(&[OWN], b"{}".to_vec(), 415, "application/json").await;
    check(&[OWN, ("content-type", "text/plain")], b"{}".to_vec(), 415, "application/json").await;
    let foreign = ("origin", "http://evil.example");
    check(&[foreign, JSON], b"{}".to_vec(), 403, "another site").await;
}

#[tokio::test]
async fn explanations_need_the_token() {
    let harness = Harness::with(with_token("0123456789abcdef"));
    let (status, _) = post(&harness, &[OWN, JSON], b"{}".to_vec()).await;
    assert_eq!(status, 401);
    let bearer = ("authorization", "Bearer 0123456789abcdef");
    let (status, _) = post(&harness, &[OWN, JSON, bearer], b"{}".to_vec()).await;
    assert_eq!(status, 200);
}
