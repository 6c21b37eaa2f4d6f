//! Hosts, origins and tokens of those that ask; headers of answers.

use axum::body::Body;
use http::{Request, StatusCode};

use super::{Harness, request, with_token};
use crate::{DashboardSettings, RequestRefusal};

const TOKEN: &str = "0123456789abcdef";

#[tokio::test]
async fn only_names_of_this_host_are_answered() {
    let settings = DashboardSettings {
        endpoint: Some("scores.local:8890".to_owned()),
        allowed_hosts: vec!["Scores.Example".to_owned()],
        token: with_token(TOKEN).token,
        ..DashboardSettings::default()
    };
    let harness = Harness::with(settings);
    let check = async |host: &str, path: &str, is_ours: bool| {
        let bearer = format!("Bearer {TOKEN}");
        let headers = [("host", host), ("authorization", bearer.as_str())];
        let answer = harness.send(request("GET", path, &headers)).await;
        let expected = if is_ours { StatusCode::OK } else { StatusCode::MISDIRECTED_REQUEST };
        assert_eq!(answer.status, expected, "{host} {path}: {}", answer.text);
    };
    for path in ["/", "/api/v1/status"] {
        for host in [
            "localhost",
            "LOCALHOST:1",
            "127.0.0.1:8890",
            "[::1]:8890",
            "10.1.2.3",
            "scores.local:8890",
            "scores.example",
        ] {
            check(host, path, true).await;
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example",
            "evil.example:8890",
            "user@localhost",
            "127.0.0.1.evil.example",
            "scores.example.evil",
            "/",
        ] {
            check(host, path, false).await;
        }
    }
    assert_eq!(harness.api.counters.get(RequestRefusal::Host), 16);
    let two = Request::builder().uri("/").header("host", "localhost").header("host", "evil");
    let answer = harness.send(two.body(Body::empty()).unwrap()).await;
    assert_eq!(answer.problem(), (421, "foreign_host".to_owned()));
    let absolute = request("GET", "http://evil.example/api/v1/status", &[]);
    assert_eq!(harness.send(absolute).await.status, StatusCode::MISDIRECTED_REQUEST);
}

#[tokio::test]
async fn no_other_site_may_ask() {
    let harness = Harness::with(DashboardSettings::default());
    let check = async |path: &str, headers: &[(&str, &str)], is_taken: bool| {
        let answer = harness.send(request("GET", path, headers)).await;
        let expected = if is_taken { StatusCode::OK } else { StatusCode::FORBIDDEN };
        assert_eq!(answer.status, expected, "{path} {headers:?}");
    };
    let api = "/api/v1/status";
    check(api, &[("origin", "http://localhost:8890")], true).await;
    check(api, &[("origin", "https://LOCALHOST:8890")], true).await;
    check(api, &[("origin", "http://localhost:8889")], false).await;
    check(api, &[("origin", "http://evil.example")], false).await;
    check(api, &[("origin", "null")], false).await;
    check("/", &[("origin", "http://evil.example")], false).await;
    for site in ["same-origin", "none"] {
        check(api, &[("sec-fetch-site", site)], true).await;
    }
    for site in ["same-site", "cross-site", "x"] {
        let link = [("sec-fetch-site", site), ("sec-fetch-mode", "navigate")];
        check(api, &link, false).await;
        check("/", &link, true).await;
        check("/", &[("sec-fetch-site", site), ("sec-fetch-mode", "no-cors")], false).await;
    }
}

#[tokio::test]
async fn a_token_opens_the_interface_and_a_login_gives_a_cookie() {
    let harness = Harness::with(with_token(TOKEN));
    let check = async |headers: &[(&str, &str)], is_known: bool| {
        for path in ["/status", "/traces", "/stream", "/openapi.json", "/nothing"] {
            let path = format!("/api/v1{path}");
            let response = harness.router.clone();
            let request = request("GET", &path, headers);
            let status = tower::ServiceExt::oneshot(response, request).await.unwrap().status();
            assert_eq!(status != StatusCode::UNAUTHORIZED, is_known, "{path} {headers:?}");
        }
    };
    check(&[], false).await;
    check(&[("authorization", "Bearer 0123456789abcdee")], false).await;
    check(&[("authorization", "Bearer 0123456789abcdef0")], false).await;
    check(&[("authorization", "Basic 0123456789abcdef")], false).await;
    check(&[("authorization", "bearer 0123456789abcdef")], true).await;
    check(&[("cookie", "spanscore_8890=0123456789abcdef")], false).await;
    let page = harness.send(request("GET", "/", &[])).await;
    assert_eq!((page.status, page.text.as_str()), (StatusCode::OK, "<p>page"));
    let form = harness.send(request("GET", "/login", &[])).await;
    assert!(form.text.contains("type=\"password\""), "{}", form.text);
    let log_in = async |body: &str, origin: &str| {
        let mut post = request("POST", "/login", &[("origin", origin)]);
        *post.body_mut() = Body::from(body.to_owned());
        harness.send(post).await
    };
    let own = "http://localhost:8890";
    assert_eq!(log_in("token=wrong", own).await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(log_in(&format!("token={TOKEN}"), "").await.status, StatusCode::FORBIDDEN);
    assert_eq!(log_in(&format!("token={TOKEN}"), "http://evil").await.status.as_u16(), 403);
    let answer = log_in(&format!("token={TOKEN}"), own).await;
    assert_eq!(
        (answer.status, &answer.headers["location"]),
        (StatusCode::SEE_OTHER, &"/".parse().unwrap())
    );
    let cookie = answer.headers["set-cookie"].to_str().unwrap();
    let rest = "; Path=/; HttpOnly; SameSite=Strict";
    let (pair, attributes) = cookie.split_at(cookie.find(';').unwrap());
    assert_eq!(attributes, rest);
    check(&[("cookie", &format!("a=b; {pair}"))], true).await;
    check(&[("cookie", &format!("{pair}0"))], false).await;
    assert_eq!(log_in(&"x".repeat(4 << 10), own).await.status, StatusCode::UNAUTHORIZED);
    let large = log_in(&"x".repeat((4 << 10) + 1), own).await;
    assert_eq!(large.status, StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test]
async fn every_answer_has_the_headers_that_hold_pages_back() {
    let settings =
        DashboardSettings { base_path: "/scores/".to_owned(), ..DashboardSettings::default() };
    let harness = Harness::with(settings);
    let check = async |method: &str, path: &str, status: u16, cached: &str| {
        let headers = [("origin", "http://localhost:8890")];
        let answer = harness.send(request(method, path, &headers)).await;
        assert_eq!(answer.status.as_u16(), status, "{path}");
        let header = |name: &str| answer.headers[name].to_str().unwrap().to_owned();
        assert!(header("content-security-policy").starts_with("default-src 'none'; "), "{path}");
        assert_eq!(header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(header("referrer-policy"), "no-referrer", "{path}");
        assert_eq!(header("cross-origin-resource-policy"), "same-origin", "{path}");
        assert_eq!(header("cache-control"), cached, "{path}");
        assert!(!answer.headers.contains_key("access-control-allow-origin"), "{path}");
    };
    check("GET", "/scores/", 200, "no-cache").await;
    check("GET", "/scores/api/v1/status", 200, "no-store").await;
    check("GET", "/scores/api/v1/traces?x=1", 400, "no-store").await;
    check("POST", "/scores/api/v1/traces", 405, "no-store").await;
    check("OPTIONS", "/scores/api/v1/traces", 405, "no-store").await;
    check("GET", "/api/v1/status", 404, "no-store").await;
    check("GET", "/scores/x.js", 404, "no-store").await;
    check("GET", "/scores/login", 303, "no-store").await;
    check("GET", "/scores", 303, "no-store").await;
}
