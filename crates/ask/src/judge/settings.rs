//! Settings of the `judges:` section: available models and their budgets.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use smart_default::SmartDefault;

use super::aws::{AwsSettings, check_sign_in};
use spanscore_base::model::WaitingRoom;
use spanscore_base::settings::tls::TlsSettings;
use spanscore_base::settings::{Address, HumanDuration, Node, SettingsError, above_zero};
use spanscore_evaluate::inquiry::unknown_judge;

/// Limit on judges in one config.
const JUDGES_MAX: usize = 100;

/// Model that evaluators may use.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JudgeSettings {
    /// Protocol of the judge. Most servers support `openai`: Ollama, vLLM, llama.cpp, gateways.
    pub api: JudgeApi,
    /// Base URL, with the path before the protocol's own, such as `http://localhost:11434/v1`.
    /// Default: the provider's.
    #[serde(default)]
    pub base_url: Option<Address>,
    /// Environment variable with the key. Without it no key is sent.
    #[serde(default)]
    pub api_key_env: Option<String>,
    /// Allows keys and records to be sent unencrypted to another machine. Default `false`.
    #[serde(default)]
    pub insecure: bool,
    /// Name of the model at the provider.
    pub model: String,
    /// Sampling temperature; omitted if the model does not support it. Default 0.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 2.0))]
    pub temperature: f64,
    /// Sampling seed, for models that support one.
    #[serde(default)]
    pub seed: Option<i64>,
    /// Limit on the tokens of an answer, including thoughts; an answer to many statements may take
    /// twice as many. Default 2048.
    #[serde(default = "default_max_tokens", deserialize_with = "above_zero")]
    pub max_tokens: u32,
    /// Effort of a reasoning model, in its own terms, such as `low`.
    #[serde(default)]
    pub reasoning_effort: Option<String>,
    /// Time limit of one request. Default 60s.
    #[serde(default = "default_timeout", deserialize_with = "above_zero")]
    pub timeout: HumanDuration,
    /// Mode of structured output. Default `auto`: the strictest that the judge supports.
    #[serde(default)]
    pub structured_output: StructuredOutput,
    /// Context size in tokens, for request and answer together. Default 128000.
    #[serde(default = "default_context", deserialize_with = "above_zero")]
    pub context_tokens: u32,
    /// Price, in US dollars per million tokens. Required by a budget in money.
    #[serde(default)]
    pub price: Option<JudgePrice>,
    /// Limits of concurrency and rate.
    #[serde(default)]
    pub limits: JudgeLimits,
    /// Budget in money and tokens.
    #[serde(default)]
    pub budget: JudgeBudget,
    /// Another judge for use while this one is unavailable or does not answer.
    #[serde(default)]
    pub fallback: Option<String>,
    /// TLS of the connection: authorities, and a client certificate.
    #[serde(default)]
    pub tls: TlsSettings,
    /// Azure's older addresses, which name a deployment.
    #[serde(default)]
    pub azure: Option<AzureSettings>,
    /// AWS signatures (SigV4), for Bedrock. Credentials come from the environment:
    /// `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`.
    #[serde(default)]
    pub aws: Option<AwsSettings>,
}

/// Waiting times and limits of inquiries to judges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct JudgingSettings {
    /// Wait after the completion of a trace before a judge is asked, since a late span would cause
    /// a second, paid question. Default 10s.
    #[default(HumanDuration::from_secs(10))]
    pub settle: HumanDuration,
    /// Time for an answer after that. Default 5m.
    #[serde(deserialize_with = "above_zero")]
    #[default(HumanDuration::from_secs(300))]
    pub deadline: HumanDuration,
    /// Limit on waiting inquiries. Default 10000.
    #[serde(deserialize_with = "above_zero")]
    #[default = 10_000]
    pub waiting_max: u32,
    /// Limit on their size in mebibytes. Default 64.
    #[serde(deserialize_with = "above_zero")]
    #[default = 64]
    pub waiting_mib: u32,
    /// Unanswered inquiries stored in `data_dir` for `spanscore rejudge`. Default `failed`.
    pub dead_letter: DeadLetterChoice,
}

impl JudgingSettings {
    /// Returns a waiting room within `waiting_max` and `waiting_mib`.
    pub fn room(&self) -> Arc<WaitingRoom> {
        let (count_max, bytes_max) = self.room_max();
        WaitingRoom::new(count_max, bytes_max)
    }

    /// Returns the limits of the waiting room: inquiries and bytes.
    pub fn room_max(&self) -> (usize, usize) {
        (self.waiting_max as usize, (self.waiting_mib as usize) << 20)
    }
}

/// Stored unanswered inquiries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeadLetterChoice {
    /// None.
    None,
    /// Those that failed, and those never asked for lack of time, room or a working judge.
    #[default]
    Failed,
    /// Also those refused by the budget.
    All,
}

/// Protocol of a judge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum JudgeApi {
    /// Chat completions.
    #[serde(rename = "openai")]
    OpenAi,
    /// OpenAI's responses.
    #[serde(rename = "openai_responses")]
    OpenAiResponses,
    /// Anthropic's messages.
    Anthropic,
}

impl JudgeApi {
    /// Returns the path of the interface below a base URL.
    pub(super) fn path(self) -> &'static str {
        match self {
            Self::OpenAi => "/chat/completions",
            Self::OpenAiResponses => "/responses",
            Self::Anthropic => "/v1/messages",
        }
    }

    /// Returns the base URL of the protocol's provider.
    fn base_url(self) -> &'static str {
        match self {
            Self::OpenAi | Self::OpenAiResponses => "https://api.openai.com/v1",
            Self::Anthropic => "https://api.anthropic.com",
        }
    }
}

/// Mode of structured output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StructuredOutput {
    /// The first of the others that the judge supports.
    #[default]
    Auto,
    /// A JSON Schema.
    Schema,
    /// A forced tool call.
    Tool,
    /// Any JSON object.
    JsonObject,
    /// Only the words of the prompt.
    None,
}

/// US dollars per million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JudgePrice {
    /// Input.
    #[schemars(range(min = 0.0))]
    pub input: f64,
    /// Input from the provider's prompt cache; default `input`.
    #[serde(default)]
    #[schemars(range(min = 0.0))]
    pub cached_input: Option<f64>,
    /// Output.
    #[schemars(range(min = 0.0))]
    pub output: f64,
}

/// Limits of concurrency and rate of one judge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct JudgeLimits {
    /// Concurrent requests; fewer while the judge reports overload.
    #[serde(deserialize_with = "above_zero")]
    #[default = 4]
    pub concurrency: u32,
    /// Requests a minute.
    #[serde(deserialize_with = "above_zero")]
    #[default = 300]
    pub requests_per_minute: u32,
    /// Tokens a minute, of requests and answers.
    #[serde(deserialize_with = "above_zero")]
    #[default = 200_000]
    pub tokens_per_minute: u32,
}

/// Budget of a judge. Omitted quantities are unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct JudgeBudget {
    /// US dollars in any hour.
    #[schemars(range(min = 0.0))]
    pub usd_per_hour: Option<f64>,
    /// US dollars in any 24 hours.
    #[schemars(range(min = 0.0))]
    pub usd_per_day: Option<f64>,
    /// Tokens in any hour.
    pub tokens_per_hour: Option<u64>,
    /// Tokens in any 24 hours.
    pub tokens_per_day: Option<u64>,
    /// Pace of spending: an hour's budget spread evenly, or spent on demand.
    pub pace: BudgetPace,
}

/// Pace of spending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BudgetPace {
    /// Spread evenly, with a burst of five minutes' worth.
    #[default]
    Even,
    /// On demand.
    Any,
}

/// Azure's older form of addresses.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AzureSettings {
    /// The deployment.
    pub deployment: String,
    /// The API version, such as `2024-10-21`.
    pub api_version: String,
}

fn default_max_tokens() -> u32 {
    2048
}

fn default_timeout() -> HumanDuration {
    HumanDuration(Duration::from_secs(60))
}

fn default_context() -> u32 {
    128_000
}

impl JudgeSettings {
    /// Returns the base URL without a trailing slash, by default the provider's.
    pub fn base_url(&self) -> Cow<'_, str> {
        match (&self.base_url, &self.aws) {
            (Some(own), _) => own.reveal().trim_end_matches('/').into(),
            (None, Some(aws)) => aws.base_url(self.api).into(),
            (None, None) => self.api.base_url().into(),
        }
    }

    /// Returns the provider's name in the GenAI conventions.
    pub(super) fn provider(&self) -> &'static str {
        match self.api {
            _ if self.aws.is_some() => "aws.bedrock",
            JudgeApi::OpenAi | JudgeApi::OpenAiResponses => "openai",
            JudgeApi::Anthropic => "anthropic",
        }
    }

    /// Returns the place of its model: the address without secrets, and Azure's deployment.
    pub(super) fn place(&self) -> String {
        let address = Address::from(self.base_url().as_ref());
        let deployment = self.azure.as_ref().map_or("", |azure| &azure.deployment);
        format!("{address} {deployment}")
    }

    /// Returns model and parameters, which determine its answers and so identities.
    pub fn identity(&self) -> String {
        let Self { model, temperature, seed, max_tokens, reasoning_effort, .. } = self;
        let seed = seed.map_or_else(String::new, |seed| seed.to_string());
        let effort = reasoning_effort.as_deref().unwrap_or_default();
        format!("{model}\n{temperature}\n{seed}\n{max_tokens}\n{effort}")
    }
}

/// Checks the judges of a config against each other; single settings are checked when read.
pub fn check_judges(judges: &BTreeMap<String, JudgeSettings>, node: &Node) -> Vec<SettingsError> {
    let mut errors = Vec::new();
    if judges.len() > JUDGES_MAX {
        let message = format!("more than {JUDGES_MAX} judges");
        errors.push(SettingsError::new(message).at(node.place));
    }
    for (name, judge) in judges {
        let own = node.get(name).unwrap_or(node);
        errors.extend(check_address(judge).map(|error| error.at(own.place_of("base_url"))));
        errors.extend(check_path(judge).map(|error| error.at(own.place_of("base_url"))));
        errors.extend(check_key(judge).map(|error| error.at(own.place_of("api_key_env"))));
        errors.extend(check_sign_in(judge).map(|(key, error)| error.at(own.place_of(key))));
        errors.extend(judge.tls.check().err().map(|error| error.at(own.place_of("tls"))));
        let has_money = judge.budget.usd_per_hour.or(judge.budget.usd_per_day).is_some();
        if has_money && judge.price.is_none() {
            let error = SettingsError::new("a budget in dollars needs a `price`").with_help(
                "add `price: {input: 0.25, output: 2.0}`, US dollars per million tokens",
            );
            errors.push(error.at(own.place_of("budget")));
        }
        if let Some(fallback) = &judge.fallback {
            let error = match judges.get(fallback) {
                None => {
                    Some(unknown_judge("fallback", fallback, judges.keys().map(String::as_str)))
                }
                Some(_) if fallback == name => {
                    Some(SettingsError::new("a judge cannot be its own fallback"))
                }
                Some(_) => None,
            };
            errors.extend(error.map(|error| error.at(own.place_of("fallback"))));
        }
        errors.extend(check_numbers(judge).map(|error| error.at(own.place)));
    }
    errors
}

fn check_numbers(judge: &JudgeSettings) -> Option<SettingsError> {
    let bad = |value: f64, most: f64| !(0.0..=most).contains(&value);
    let price = judge.price.unwrap_or(JudgePrice { input: 0.0, cached_input: None, output: 0.0 });
    let prices = [Some(price.input), price.cached_input, Some(price.output)];
    let budgets = [judge.budget.usd_per_hour, judge.budget.usd_per_day];
    if bad(judge.temperature, 2.0) {
        return Some(SettingsError::new("`temperature` is outside 0 to 2"));
    }
    if prices.into_iter().chain(budgets).flatten().any(|value| bad(value, 1e9)) {
        return Some(SettingsError::new("prices and budgets are numbers from 0"));
    }
    None
}

fn check_address(judge: &JudgeSettings) -> Option<SettingsError> {
    let base = judge.base_url();
    let shown = Address::from(base.as_ref());
    let Ok(url) = reqwest::Url::parse(&base) else {
        let message = format!("`{shown}` is not an address");
        return Some(SettingsError::new(message).with_help("such as https://api.example.com/v1"));
    };
    match url.scheme() {
        "https" => None,
        "http" if is_loopback(&url) || judge.insecure => None,
        "http" => Some(
            SettingsError::new(format!("`{shown}` is not encrypted and on another machine"))
                .with_help("use https, or say `insecure: true` if the network is yours"),
        ),
        _ => {
            let error = SettingsError::new(format!("`{shown}` is not an http or https address"));
            if base.contains("://") {
                return Some(error);
            }
            let meant = reqwest::Url::parse(&format!("http://{base}"));
            let scheme = if meant.is_ok_and(|url| is_loopback(&url)) { "http" } else { "https" };
            Some(error.with_help(format!("write {scheme}://{shown}")))
        }
    }
}

fn is_loopback(url: &reqwest::Url) -> bool {
    url.host_str().is_some_and(|host| {
        let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
        host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    })
}

/// Start of several providers' keys, never of a variable name.
const KEY_START: &str = "sk-";

/// Checks that a variable is named rather than its value or a reference. A wrong text may be the
/// key, so it is not shown.
fn check_key(judge: &JudgeSettings) -> Option<SettingsError> {
    let is_strange = |c: char| c.is_whitespace() || ['$', '{', '}', '='].contains(&c);
    let name = judge.api_key_env.as_deref()?;
    let error = SettingsError::new("`api_key_env` is not the name of a variable");
    let help = "write the name alone, such as `OPENAI_API_KEY`: no `$`, and never the key itself";
    let is_key = name.starts_with(KEY_START);
    (name.is_empty() || name.contains(is_strange) || is_key).then(|| error.with_help(help))
}

/// Checks that an address ends before the API's own path.
fn check_path(judge: &JudgeSettings) -> Option<SettingsError> {
    let base = judge.base_url();
    let base = base.trim_end_matches('/');
    if base.ends_with("/v1/v1") {
        let error = SettingsError::new("`base_url` has `/v1` twice");
        return Some(error.with_help("write it once"));
    }
    let path = judge.api.path();
    let start = base.strip_suffix(path)?;
    let error = SettingsError::new(format!("`base_url` ends in {path}, which is appended to it"));
    Some(error.with_help(format!("write `{}`", Address::from(start))))
}
