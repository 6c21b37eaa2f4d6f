//! Evaluators that are HTTP servers.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::net::TcpListener;

use crate::judges::refund;
use crate::support::collector::Running;
use crate::support::spans::request;

/// Requests to a server.
#[derive(Clone, Default)]
struct Sent(Arc<Mutex<Vec<(HeaderMap, Bytes)>>>);

/// Gives every task 0.75, as a server of a few lines would.
async fn evaluate(
    State(sent): State<Sent>,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, String) {
    let count = {
        let mut sent = sent.0.lock().expect("what was sent");
        sent.push((headers, body.clone()));
        sent.len()
    };
    if count == 1 {
        return (StatusCode::TOO_MANY_REQUESTS, "later".to_owned());
    }
    let asked: Value = serde_json::from_slice(&body).expect("JSON");
    let tasks = asked["tasks"].as_array().expect("tasks");
    let answer = |task: &Value| json!({"taskId": task["id"], "scored": {"value": 0.75}});
    let evaluations: Vec<Value> = tasks.iter().map(answer).collect();
    (StatusCode::OK, json!({"evaluations": evaluations}).to_string())
}

#[tokio::test]
async fn a_server_that_only_evaluates_is_enough_and_requests_may_be_signed() {
    let sent = Sent::default();
    let app = Router::new().route("/v/evaluate", post(evaluate)).with_state(sent.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move { axum::serve(listener, app).await });
    let config = format!(
        "evaluators:\n  http/quality: {{endpoint: \"http://{address}/v\", signing_key_env: HOME}}\n"
    );
    let running = Running::start(&config).await;
    running.send(request(refund(7))).await;
    let event = running.events(1).await.remove(0);
    assert_eq!((event.score(), event.label()), (Some(0.75), "pass"));
    running.judged().await;
    let sent = sent.0.lock().expect("what was sent").clone();
    assert_eq!(sent.len(), 2, "429 is tried again");
    let (headers, body) = &sent[1];
    let header = |name: &str| headers[name].to_str().expect("a text").to_owned();
    let key = std::env::var("HOME").expect("any variable");
    let mut mac = Hmac::<Sha256>::new_from_slice(key.trim().as_bytes()).expect("a key");
    mac.update(format!("{}.{}.", header("webhook-id"), header("webhook-timestamp")).as_bytes());
    mac.update(body);
    let expected = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
    assert_eq!(header("webhook-signature"), expected);
    let asked: Value = serde_json::from_slice(body).expect("JSON");
    let trajectory = &asked["tasks"][0]["trajectories"][0];
    assert_eq!(asked["tasks"][0]["id"], event.id());
    assert_eq!(trajectory["userInput"]["value"], "Refund order 17 please");
    assert_eq!(trajectory["toolCalls"][0]["arguments"]["value"], r#"{"order":17}"#);
    assert_eq!(trajectory["serviceName"], "shop");
}
