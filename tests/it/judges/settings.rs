//! Settings of judges, and the errors for mistakes in them.

use spanscore::config::{ConfigPart, ResolvedConfig, load};

fn check(config: &str, expected: &str) {
    let text = config.to_owned();
    let part = ConfigPart::Text { name: "c.yaml".into(), text };
    let loaded = load(&[part], &|_: &str| None).unwrap();
    let told = match ResolvedConfig::new(&loaded) {
        Ok(_) => "fine".to_owned(),
        Err(error) => error.to_string(),
    };
    assert!(told.contains(expected), "{config}\n{told}");
}

#[test]
fn mistakes_are_told_with_their_place_and_what_to_do() {
    let with = |judge: &str, evaluator: &str| {
        format!("judges: {{small: {{api: openai, model: m{judge}}}}}\nevaluators:\n  {evaluator}\n")
    };
    let tasks = "criteria: {tasks: [x]}";
    let asking = |more: &str| format!("task_completion/x: {{judge: small, {more}{tasks}}}");
    check(&with("", &asking("")), "fine");
    check(&with("", &asking("").replace("small", "smal")), "c.yaml:3:30: `judge` names `smal`");
    check(&with("", &asking("").replace("small", "smal")), "did you mean `small`?");
    check(&with("", &asking("escalate_to: large, ")), "`escalate_to` names `large`");
    check(&with("", &asking("level: call, ")), "reads whole traces");
    check(&with("", &asking("run_if: 'scores[\"a\"] < 1.0', ")), "fine");
    check(&with("", &asking("run_if: 'score[\"a\"] < 1.0', ")), "unknown name `score`");
    check(&with("", "tool_error: {run_if: 'true'}"), "`run_if` goes only with evaluators");
    check(&with("", "tool_error: {when: 'scores[\"a\"] < 1.0'}"), "unknown name `scores`");
    check(&with(", budget: {usd_per_hour: 1}", &asking("")), "needs a `price`");
    check(&with(", fallback: larg", &asking("")), "`fallback` names `larg`");
    check(&with(", fallback: small", &asking("")), "its own fallback");
    check(&with(", base_url: 'http://judge.example.com/v1'", &asking("")), "`insecure: true`");
    check(&with(", base_url: 'http://10.0.0.1/v1', insecure: true", &asking("")), "fine");
    check(&with(", base_url: 'http://127.0.0.1:1/v1'", &asking("")), "fine");
    check(&with(", base_url: nowhere", &asking("")), "is not an address");
    let bare = ", base_url: 'judge.example.com:8080/v1'";
    check(&with(bare, &asking("")), "write https://judge.example.com:8080/v1");
    check(&with(", api_key_env: my-key.v2", &asking("")), "fine");
    for name in ["''", "'sk-1'", "'$KEY'", "'A=b'", "'A KEY'"] {
        check(&with(&format!(", api_key_env: {name}"), &asking("")), "not the name of a variable");
    }
    check(
        &with(", tls: {cert_file: a.pem}", &asking("")),
        "`cert_file` and `key_file` go together",
    );
    check(&with(", aws: {region: eu-central-1}", &asking("")), "fine");
    check(&with(", aws: {region: 'eu/x'}", &asking("")), "c.yaml:1:46: `region` and `service`");
    check(&with(", aws: {}", &asking("")), "`region`");
    let key = ", aws: {region: eu-central-1}, api_key_env: KEY";
    check(&with(key, &asking("")), "`aws` and `api_key_env` are two ways to authenticate requests");
    let user = ", aws: {region: eu-central-1}, base_url: 'https://a:b@example.com'";
    check(&with(user, &asking("")), "`aws` and `base_url` are two ways to authenticate requests");
    check(&with(", tls: {ca_fil: a.pem}", &asking("")), "did you mean `ca_file`?");
    check(&(with("", &asking("")) + "judging: {dead_letter: al}\n"), "did you mean `all`?");
    check(&(with("", &asking("")) + "limits: {memory_mib: 64}\n"), "need");
    check(&with(", max_tokens: 0", &asking("")), "must be above zero");
    check(&with(", temprature: 1", &asking("")), "did you mean `temperature`?");
}
