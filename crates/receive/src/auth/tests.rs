//! Tests of authentication: accepted clients and their names.

use http::HeaderValue;
use opentelemetry::metrics::MeterProvider;
use opentelemetry_sdk::metrics::SdkMeterProvider;

use super::*;
use spanscore_base::settings::Node;
use spanscore_base::value::json;

fn settings(text: &str) -> AuthSettings {
    Node::from_value(&json::parse(text).unwrap()).read().unwrap()
}

fn authenticator(text: &str) -> Authenticator {
    let meter = SdkMeterProvider::default().meter("test");
    Authenticator::new(Some(settings(text)), &meter).unwrap()
}

fn headers(value: Option<&str>) -> HeaderMap {
    let value = value.map(|value| (AUTHORIZATION, HeaderValue::from_str(value).unwrap()));
    HeaderMap::from_iter(value)
}

fn check(auth: &Authenticator, header: Option<&str>, names: &[&str], expected: &str) {
    let sender = ConnectionAccount::named(names.iter().map(|&name| name.to_owned()).collect());
    let found = match auth.admit(&headers(header), &sender) {
        Ok(client) => client.map_or("everybody".to_owned(), |client| client.name.to_string()),
        Err(refused) => refused.reason.into_str().to_owned(),
    };
    assert_eq!(found, expected, "{header:?} {names:?}");
}

const CLIENTS: &str = r#"{"clients": {
    "a": {"token": "one"},
    "b": {"token": "two", "expires": "2020-01-31"},
    "c": {"token": "three", "expires": "2999-01-31T00:00:00Z"},
    "d": {"certificate": "spiffe://example/d"}}}"#;

#[test]
fn a_token_or_a_certificate_names_its_client() {
    let auth = authenticator(CLIENTS);
    check(&auth, Some("Bearer one"), &[], "a");
    check(&auth, Some("bearer  three "), &[], "c");
    check(&auth, None, &["x", "spiffe://example/d"], "d");
    check(&auth, Some("Bearer one"), &["spiffe://example/d"], "a");
}

#[test]
fn anybody_else_is_refused_with_the_reason() {
    let auth = authenticator(CLIENTS);
    check(&auth, None, &[], "token_missing");
    check(&auth, Some("Basic one"), &[], "token_missing");
    check(&auth, Some("Bearer"), &[], "token_missing");
    check(&auth, Some("Bearer "), &[], "token_unknown");
    check(&auth, Some("Bearer onE"), &[], "token_unknown");
    check(&auth, Some("Bearer oneone"), &[], "token_unknown");
    check(&auth, Some("Bearer two"), &[], "token_expired");
    check(&auth, None, &["spiffe://example/e"], "certificate_unknown");
    check(&auth, Some("Bearer wrong"), &["spiffe://example/d"], "token_unknown");
}

#[test]
fn without_settings_everybody_may_send() {
    let meter = SdkMeterProvider::default().meter("test");
    let auth = Authenticator::new(None, &meter).unwrap();
    check(&auth, None, &[], "everybody");
    check(&auth, Some("Bearer x"), &[], "everybody");
}

#[test]
fn a_file_holds_old_and_new_tokens_and_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    std::fs::write(&path, "old\n").unwrap();
    let auth =
        authenticator(&format!(r#"{{"clients": {{"a": {{"file": "{}"}}}}}}"#, path.display()));
    check(&auth, Some("Bearer old"), &[], "a");
    std::fs::write(&path, "old\n\nnew\n").unwrap();
    assert_eq!(auth.reread(), Ok(Changed::Yes));
    assert_eq!(auth.reread(), Ok(Changed::No));
    check(&auth, Some("Bearer old"), &[], "a");
    check(&auth, Some("Bearer new"), &[], "a");
    std::fs::write(&path, "").unwrap();
    assert!(auth.reread().is_err(), "what cannot be used changes nothing");
    check(&auth, Some("Bearer new"), &[], "a");
    std::fs::write(&path, "new").unwrap();
    assert_eq!(auth.reread(), Ok(Changed::Yes));
    check(&auth, Some("Bearer old"), &[], "token_unknown");
}

#[test]
fn limits_go_on_over_a_change_of_tokens() {
    let text = |token: &str, rate: u32| {
        format!(
            r#"{{"limits": {{"requests_per_second": {rate}}},
                 "clients": {{"a": {{"token": "{token}"}}}}}}"#
        )
    };
    let auth = authenticator(&text("one", 1));
    check(&auth, Some("Bearer one"), &[], "a");
    check(&auth, Some("Bearer one"), &[], "client_requests");
    auth.replace(Some(settings(&text("two", 1)))).unwrap();
    check(&auth, Some("Bearer one"), &[], "token_unknown");
    check(&auth, Some("Bearer two"), &[], "client_requests");
    auth.replace(Some(settings(&text("two", 2)))).unwrap();
    check(&auth, Some("Bearer two"), &[], "a");
}

#[test]
fn mistakes_are_named_with_their_keys() {
    let check = |text: &str, keys: &[&str]| {
        let settings = settings(text);
        let found = settings.check(false).map_err(|(keys, _)| keys.join("."));
        assert_eq!(found, Err(keys.join(".")), "{text}");
    };
    check("{}", &[]);
    check(r#"{"clients": {"a": {}}}"#, &["clients", "a"]);
    check(r#"{"clients": {"a": {"token": "x", "file": "y"}}}"#, &["clients", "a"]);
    check(r#"{"clients": {"a": {"token": "x y"}}}"#, &["clients", "a"]);
    check(r#"{"clients": {"a": {"certificate": "x"}}}"#, &["clients", "a"]);
    let zero = r#"{"clients": {"a": {"token": "x"}}, "limits": {"bytes_per_second": 0}}"#;
    check(zero, &["limits"]);
}
