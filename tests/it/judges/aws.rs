//! Judges on Bedrock: signatures of requests as they come over HTTP, and refusals of them.

use std::path::Path;
use std::process::Command;

use hmac::{Hmac, Mac};
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::asking;
use crate::support::fake_judge::{FakeJudge, JudgeAsked, Scripted};

/// In lower case, as the scripted judge keeps headers.
const CREDENTIALS: [(&str, &str); 3] = [
    ("AWS_ACCESS_KEY_ID", "akid-of-a-test"),
    ("AWS_SECRET_ACCESS_KEY", "pl4nt-secret-of-a-test"),
    ("AWS_SESSION_TOKEN", "pl4nt-token-of-a-test"),
];

/// Scores a trace with a signing judge at its most talkative; `unset` is no variable of it.
async fn score(judge: &FakeJudge, api: &str, aws: &str, unset: &str) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.yaml");
    std::fs::write(&path, asking(judge, api, &format!(", aws: {aws}"))).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_spanscore"));
    command.args(["score", "--format", "jsonl", "--config"]).arg(&path);
    command.arg("examples/traces/refund_agent.json");
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR"))).env_remove("SPANSCORE_CONFIG");
    command.env("RUST_LOG", "trace").envs(CREDENTIALS).env_remove(unset);
    let ran = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let said = String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned();
    let planted: Vec<_> = said.lines().filter(|line| line.contains("pl4nt-")).collect();
    assert_eq!(planted, [""; 0]);
    (ran.status.code(), said)
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Checks the signature of a request as AWS describes it, and its time.
fn check(asked: &JudgeAsked, service: &str) {
    let header = |name: &str| {
        let find = |line: &str| line.strip_prefix(&format!("{name}: ")).map(str::to_owned);
        asked.headers.lines().find_map(find).unwrap_or_else(|| panic!("no {name}"))
    };
    let time = header("x-amz-date").to_uppercase();
    let signed_at = DateTime::strptime("%Y%m%dT%H%M%SZ", &time).unwrap();
    let signed_at = signed_at.to_zoned(TimeZone::UTC).unwrap().timestamp();
    let age = jiff::Timestamp::now().as_second() - signed_at.as_second();
    assert!((0..300).contains(&age), "{age} s old");
    let authorization = header("authorization");
    let (rest, signature) = authorization.split_once(", signature=").unwrap();
    let (credential, names) = rest.split_once(", signedheaders=").unwrap();
    let scope = format!("{}/eu-central-1/{service}/aws4_request", &time[..8]);
    assert_eq!(credential, format!("aws4-hmac-sha256 credential=akid-of-a-test/{scope}"));
    let mut canonical = format!("POST\n{}\n\n", asked.path);
    for name in names.split(';') {
        let value = if name == "x-amz-date" { time.clone() } else { header(name) };
        canonical.push_str(&format!("{name}:{value}\n"));
    }
    let body = hex(&Sha256::digest(asked.body.to_string()));
    canonical.push_str(&format!("\n{names}\n{body}"));
    let canonical = hex(&Sha256::digest(canonical));
    let secret = format!("AWS4{}", CREDENTIALS[1].1);
    let key = [&time[..8], "eu-central-1", service, "aws4_request"]
        .iter()
        .fold(secret.into_bytes(), |key, part| mac(&key, part));
    let expected = mac(&key, &format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{canonical}"));
    assert_eq!(signature, hex(&expected));
    for name in ["content-type", "host", "x-amz-date", "x-amz-security-token"] {
        assert!(names.split(';').any(|signed| signed == name), "{name} of {names}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_request_is_signed_and_no_secret_is_told() {
    for (api, aws, service) in [
        ("openai", "{region: eu-central-1}", "bedrock"),
        ("openai_responses", "{region: eu-central-1}", "bedrock"),
        ("anthropic", "{region: eu-central-1, service: bedrock-mantle}", "bedrock-mantle"),
    ] {
        // The second try is signed anew.
        let judge = FakeJudge::start(|asked| match asked.count {
            0 => Scripted { status: 503, ..Scripted::default() },
            _ => asked.answer(&["yes"]),
        })
        .await;
        let (code, said) = score(&judge, api, aws, "").await;
        assert_eq!(code, Some(0), "{said}");
        let all = judge.asked();
        assert!(all.len() > 1, "{said}");
        all.iter().for_each(|asked| check(asked, service));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_credentials_stop_the_start_with_a_remedy() {
    let judge = FakeJudge::saying("yes").await;
    for variable in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"] {
        let (code, said) = score(&judge, "openai", "{region: eu-central-1}", variable).await;
        let told = format!("judge `small`: the environment variable {variable}");
        assert!(code != Some(0) && said.contains(&told) && said.contains("set it, or"), "{said}");
    }
    assert!(judge.asked().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_signatures_are_told_with_a_remedy_and_without_what_they_echo() {
    for (message, expected) in [
        ("Signature expired: 20250130T203827Z is now earlier", "set the clock of this machine"),
        ("The request signature we calculated does not match pl4nt-token-of-a-test", "[REDACTED]"),
    ] {
        let body = json!({"message": message}).to_string();
        let refused = Scripted { status: 403, body, ..Scripted::default() };
        let judge = FakeJudge::start(move |_| refused.clone()).await;
        let (_, said) = score(&judge, "openai", "{region: eu-central-1}", "").await;
        let is_told = said.contains("judge_unauthorized") && said.contains(expected);
        assert!(is_told && judge.asked().len() == 1, "{said}");
    }
}
