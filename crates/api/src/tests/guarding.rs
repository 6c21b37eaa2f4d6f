//! Tests of hosts, origins and tokens of requests, and of headers of answers.

use std::os::unix::fs::PermissionsExt;

use axum::body::Body;
use http::{Request, StatusCode};
use spanscore_base::settings::Secret;

use super::{Answer, Harness, request, with_token};
use crate::{DashboardSettings, LocalAccess, LocalAccessError, RequestRefusal, access_folder};

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
            "localhost", "LOCALHOST:1", "127.0.0.1:8890", "[::1]:8890", "10.1.2.3",
            "scores.local:8890", "scores.example",
        ] {
            check(host, path, true).await;
        }
        for host in [
            "", "evil.example", "localhost.evil.example", "evil.example:8890", "user@localhost",
            "127.0.0.1.evil.example", "scores.example.evil", "/",
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
    let bearer = harness.bearer();
    let check = async |path: &str, headers: &[(&str, &str)], is_taken: bool| {
        let headers = [&[("authorization", bearer.as_str())], headers].concat();
        let answer = harness.send(request("GET", path, &headers)).await;
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

/// Sends a body to the login; returns the answer.
async fn log_in(harness: &Harness, body: &str, origin: &str) -> Answer {
    let mut post = request("POST", "/login", &[("origin", origin)]);
    *post.body_mut() = Body::from(body.to_owned());
    harness.send(post).await
}

/// Returns name and value of the cookie of an answer.
fn cookie(answer: &Answer) -> String {
    let cookie = answer.headers["set-cookie"].to_str().unwrap();
    let (pair, attributes) = cookie.split_at(cookie.find(';').unwrap());
    assert_eq!(attributes, "; Path=/; HttpOnly; SameSite=Strict");
    pair.to_owned()
}

const OWN: &str = "http://localhost:8890";

#[tokio::test]
async fn every_path_of_the_interface_wants_a_token_or_a_cookie() {
    // On loopback, and without a configured token, too.
    for settings in [DashboardSettings::default(), with_token(TOKEN)] {
        let has_token = settings.token.is_some();
        let harness = Harness::with(settings);
        let check = async |headers: &[(&str, &str)], is_known: bool| {
            for path in ["/status", "/traces", "/stream", "/openapi.json", "/nothing"] {
                let path = format!("/api/v1{path}");
                let response = harness.router.clone();
                let request = request("GET", &path, headers);
                let status = tower::ServiceExt::oneshot(response, request).await.unwrap().status();
                assert_eq!(status != StatusCode::UNAUTHORIZED, is_known, "{path} {headers:?}");
            }
        };
        let bearer = harness.bearer();
        check(&[], false).await;
        check(&[("authorization", &bearer)], true).await;
        check(&[("authorization", &bearer[..bearer.len() - 1])], false).await;
        check(&[("authorization", "Bearer ")], false).await;
        check(&[("authorization", "Bearer 0123456789abcdee")], false).await;
        check(&[("authorization", "Bearer 0123456789abcdef0")], false).await;
        check(&[("authorization", "Basic 0123456789abcdef")], false).await;
        check(&[("authorization", "bearer 0123456789abcdef")], has_token).await;
        let access = LocalAccess::of(&harness.api, ([127, 0, 0, 1], 8890).into());
        let link = access.link().unwrap();
        let code = link.strip_prefix("http://127.0.0.1:8890/#/login?code=").unwrap();
        let pair = cookie(&log_in(&harness, &format!("code={code}"), OWN).await);
        check(&[("cookie", &format!("a=b; {pair}"))], true).await;
        check(&[("cookie", &format!("{pair}0"))], false).await;
        let name = pair.split_once('=').unwrap().0;
        check(&[("cookie", &format!("{name}={TOKEN}"))], false).await;
        // A wrong token is refused despite a valid cookie.
        check(&[("cookie", &pair), ("authorization", "Bearer x")], false).await;
        let page = harness.send(request("GET", "/", &[])).await;
        assert_eq!((page.status, page.text.as_str()), (StatusCode::OK, "<p>page"));
    }
}

#[tokio::test]
async fn a_browser_logs_in_by_the_token_or_by_a_code_that_is_used_up() {
    let harness = Harness::with(with_token(TOKEN));
    let check = async |body: &str, origin: &str, status: u16| {
        let answer = log_in(&harness, body, origin).await;
        assert_eq!(answer.status.as_u16(), status, "{body} from {origin}: {}", answer.text);
    };
    let form = harness.send(request("GET", "/login", &[])).await;
    assert!(form.text.contains("type=\"password\""), "{}", form.text);
    let link = LocalAccess::of(&harness.api, ([0, 0, 0, 0], 8890).into()).link().unwrap();
    let (page, code) = link.split_once("#/login?").unwrap();
    assert_eq!(page, "http://localhost:8890/");
    check("token=wrong", OWN, 401).await;
    check(&format!("token={TOKEN}"), "", 403).await;
    check(&format!("token={TOKEN}"), "http://evil", 403).await;
    check(&format!("token={TOKEN}"), OWN, 303).await;
    check(code, "http://evil", 403).await;
    check(code, OWN, 303).await;
    check(code, OWN, 401).await;
    check("code=", OWN, 401).await;
    let refused = |reason| harness.api.counters.get(reason);
    assert_eq!((refused(RequestRefusal::Code), refused(RequestRefusal::Token)), (2, 1));
    assert_eq!(refused(RequestRefusal::Origin), 3);
    check(&"x".repeat(4 << 10), OWN, 401).await;
    check(&"x".repeat((4 << 10) + 1), OWN, 413).await;
}

#[tokio::test]
async fn what_writes_needs_the_right_and_from_browsers_the_origin() {
    let read_token = Some(Secret("fedcba9876543210".to_owned()));
    let harness = Harness::with(DashboardSettings { read_token, ..with_token(TOKEN) });
    let check = async |method: &str, headers: &[(&str, &str)], kind: &str| {
        let answer = harness.send(request(method, "/api/v1/status", headers)).await;
        let found = if answer.status.is_success() { String::new() } else { answer.problem().1 };
        assert_eq!(found, kind, "{method} {headers:?}");
    };
    let read_cookie = cookie(&log_in(&harness, "token=fedcba9876543210", OWN).await);
    let write_cookie = cookie(&log_in(&harness, &format!("token={TOKEN}"), OWN).await);
    let reading = ("authorization", "Bearer fedcba9876543210");
    let writing = ("authorization", "Bearer 0123456789abcdef");
    // The path itself takes no writes: requests that reach it were admitted.
    let through = "bad_method";
    check("GET", &[reading], "").await;
    check("GET", &[("cookie", &read_cookie)], "").await;
    for method in ["POST", "PATCH", "DELETE", "PUT"] {
        check(method, &[], "foreign_origin").await;
        check(method, &[("origin", OWN)], "unauthorised").await;
        check(method, &[reading], "read_only").await;
        check(method, &[writing], through).await;
        check(method, &[writing, ("origin", "http://evil")], "foreign_origin").await;
        check(method, &[writing, ("sec-fetch-site", "cross-site")], "foreign_origin").await;
        check(method, &[("cookie", &read_cookie), ("origin", OWN)], "read_only").await;
        check(method, &[("cookie", &write_cookie)], "foreign_origin").await;
        check(method, &[("cookie", &write_cookie), ("origin", "null")], "foreign_origin").await;
        check(method, &[("cookie", &write_cookie), ("origin", OWN)], through).await;
    }
    assert_eq!(harness.api.counters.get(RequestRefusal::ReadOnly), 8);
}

#[test]
fn files_for_commands_are_private_and_go_with_the_collector() {
    let data_dir = tempfile::tempdir().unwrap();
    let folder = access_folder(Some(data_dir.path()), 8890);
    let harness = Harness::with(DashboardSettings::default());
    let access = LocalAccess::of(&harness.api, ([127, 0, 0, 1], 8890).into());
    let left = access.leave(folder.clone()).unwrap();
    let mode = |name: &str| {
        let file = std::fs::metadata(folder.join(name)).unwrap();
        file.permissions().mode() & 0o777
    };
    assert_eq!((mode(""), mode("url"), mode("header")), (0o700, 0o600, 0o600));
    let header = std::fs::read_to_string(folder.join("header")).unwrap();
    assert_eq!(header, format!("Authorization: {}\n", harness.bearer()));
    let found = LocalAccess::find(&folder).unwrap();
    assert_eq!(found.url(), "http://127.0.0.1:8890/");
    // A collector that starts there takes it over: the end of the earlier one leaves its files.
    let other = Harness::with(DashboardSettings::default());
    let next = LocalAccess::of(&other.api, ([127, 0, 0, 1], 8891).into());
    let next = next.leave(folder.clone()).unwrap();
    drop(left);
    assert_eq!(LocalAccess::find(&folder).unwrap().url(), "http://127.0.0.1:8891/");
    drop(next);
    assert!(!folder.exists());
    assert!(matches!(LocalAccess::find(&folder), Err(LocalAccessError::Missing { .. })));
    // A mount has opened it to a group: the permissions are removed again.
    let leave = || {
        let access = LocalAccess::of(&harness.api, ([127, 0, 0, 1], 8890).into());
        access.leave(folder.clone())
    };
    std::fs::create_dir(&folder).unwrap();
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o2775)).unwrap();
    assert!(matches!(LocalAccess::find(&folder), Err(LocalAccessError::Io { .. })));
    let left = leave().unwrap();
    assert_eq!(mode(""), 0o700);
    drop(left);
    // A folder chosen by another user.
    let elsewhere = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), &folder).unwrap();
    assert!(matches!(leave(), Err(LocalAccessError::Io { .. })));
}

#[tokio::test]
async fn every_answer_has_the_headers_that_hold_pages_back() {
    let settings =
        DashboardSettings { base_path: "/scores/".to_owned(), ..DashboardSettings::default() };
    let harness = Harness::with(settings);
    let check = async |method: &str, path: &str, status: u16, cached: &str| {
        let bearer = harness.bearer();
        let headers = [("origin", "http://localhost:8890"), ("authorization", &bearer)];
        let answer = harness.send(request(method, path, &headers)).await;
        assert_eq!(answer.status.as_u16(), status, "{path}");
        let header = |name: &str| answer.headers[name].to_str().unwrap().to_owned();
        assert!(header("content-security-policy").starts_with("default-src 'none'; "), "{path}");
        assert_eq!(header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(header("referrer-policy"), "same-origin", "{path}");
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
    check("GET", "/scores/login", 200, "no-cache").await;
    check("GET", "/scores", 303, "no-store").await;
}

#[tokio::test]
async fn an_exporter_that_is_pointed_at_the_pages_is_told_so() {
    let harness = Harness::with(with_token(TOKEN));
    for path in ["/v1/traces", "/v1/logs"] {
        let answer = harness.send(request("POST", path, &[])).await;
        assert_eq!(answer.problem(), (404, "not_found".to_owned()), "{path}");
    }
}
