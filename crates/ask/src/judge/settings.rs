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

/// Language model that scores traces.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JudgeSettings {
    /// Protocol of the judge's API. Ollama, vLLM, llama.cpp and most gateways use `openai`.
    pub api: JudgeApi,
    /// Base URL of the API, up to the path that the protocol adds, such as
    /// `http://localhost:11434/v1`. Default: the URL of the provider.
    #[serde(default)]
    pub base_url: Option<Address>,
    /// Name of the environment variable that holds the API key. By default requests carry no key.
    #[serde(default)]
    pub api_key_env: Option<String>,
    /// Allows unencrypted requests to another machine, including the key and the traces. Default
    /// `false`.
    #[serde(default)]
    pub insecure: bool,
    /// Name of the model, as the provider spells it.
    pub model: String,
    /// Sampling temperature, 0 to 2. Requests omit it if the model refuses the parameter. Default
    /// 0.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 2.0))]
    pub temperature: f64,
    /// Seed of the sampling, for models that support one. By default requests carry no seed.
    #[serde(default)]
    pub seed: Option<i64>,
    /// Limit on the tokens of one answer, reasoning included. An answer about many statements may
    /// use twice as many. Default 2048.
    #[serde(default = "default_max_tokens", deserialize_with = "above_zero")]
    pub max_tokens: u32,
    /// Reasoning effort, in the words of the provider, such as `low`. By default requests carry
    /// none.
    #[serde(default)]
    pub reasoning_effort: Option<String>,
    /// Time limit of one request. Default `60s`.
    #[serde(default = "default_timeout", deserialize_with = "above_zero")]
    pub timeout: HumanDuration,
    /// Technique that makes the judge answer in a fixed form. Default `auto`: the strictest that
    /// the judge supports.
    #[serde(default)]
    pub structured_output: StructuredOutput,
    /// Context size of the model, in tokens: request and answer together. Default 128000.
    #[serde(default = "default_context", deserialize_with = "above_zero")]
    pub context_tokens: u32,
    /// Price of the model, in US dollars per million tokens. A budget in dollars requires it.
    #[serde(default)]
    pub price: Option<JudgePrice>,
    /// Limits on concurrent requests, and on requests and tokens per minute.
    #[serde(default)]
    pub limits: JudgeLimits,
    /// Limits on the dollars and tokens that the judge may use.
    #[serde(default)]
    pub budget: JudgeBudget,
    /// Name of another judge. It takes over while this one is unavailable or gives no answer.
    #[serde(default)]
    pub fallback: Option<String>,
    /// TLS of the connection to the judge.
    #[serde(default)]
    pub tls: TlsSettings,
    /// Azure's older addresses, which contain the name of a deployment.
    #[serde(default)]
    pub azure: Option<AzureSettings>,
    /// AWS request signatures (SigV4), for Bedrock. The credentials are in the environment
    /// variables `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and `AWS_SESSION_TOKEN`.
    #[serde(default)]
    pub aws: Option<AwsSettings>,
}

/// Queue of requests to judges, and its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct JudgingSettings {
    /// Wait between the completion of a trace and the first request to a judge. A span that arrives
    /// during the wait causes no second, paid request. Default `10s`.
    #[default(HumanDuration::from_secs(10))]
    pub settle: HumanDuration,
    /// Time limit for the answer, from the end of `settle`, retries included. Default `5m`.
    #[serde(deserialize_with = "above_zero")]
    #[default(HumanDuration::from_secs(300))]
    pub deadline: HumanDuration,
    /// Limit on the number of queued requests. Default 10000.
    #[serde(deserialize_with = "above_zero")]
    #[default = 10_000]
    pub waiting_max: u32,
    /// Limit on the size of queued requests, in mebibytes. Default 64.
    #[serde(deserialize_with = "above_zero")]
    #[default = 64]
    pub waiting_mib: u32,
    /// Unanswered requests that `data_dir` keeps for `spanscore rejudge`. Default `failed`.
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

/// Unanswered requests that are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeadLetterChoice {
    /// No request.
    None,
    /// Requests that failed, and requests that were never sent because time, room or a working
    /// judge was missing.
    #[default]
    Failed,
    /// All of `failed`, and requests that the budget refused.
    All,
}

/// Protocol of a judge's API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum JudgeApi {
    /// OpenAI Chat Completions.
    #[serde(rename = "openai")]
    OpenAi,
    /// OpenAI Responses.
    #[serde(rename = "openai_responses")]
    OpenAiResponses,
    /// Anthropic Messages.
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

/// Technique that makes the judge answer in a fixed form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StructuredOutput {
    /// The first of the other values that the judge supports.
    #[default]
    Auto,
    /// A JSON Schema that the API enforces.
    Schema,
    /// A tool call that the API forces.
    Tool,
    /// Any JSON object; the prompt describes its fields.
    JsonObject,
    /// Free text; only the prompt describes the form.
    None,
}

/// Prices in US dollars per million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JudgePrice {
    /// Price of input tokens.
    #[schemars(range(min = 0.0))]
    pub input: f64,
    /// Price of input tokens from the provider's prompt cache. Default: the value of `input`.
    #[serde(default)]
    #[schemars(range(min = 0.0))]
    pub cached_input: Option<f64>,
    /// Price of output tokens.
    #[schemars(range(min = 0.0))]
    pub output: f64,
}

/// Limits on the requests to one judge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct JudgeLimits {
    /// Limit on concurrent requests. While the judge reports overload, fewer are sent. Default 4.
    #[serde(deserialize_with = "above_zero")]
    #[default = 4]
    pub concurrency: u32,
    /// Limit on requests per minute. Default 300.
    #[serde(deserialize_with = "above_zero")]
    #[default = 300]
    pub requests_per_minute: u32,
    /// Limit on tokens per minute, requests and answers together. Default 200000.
    #[serde(deserialize_with = "above_zero")]
    #[default = 200_000]
    pub tokens_per_minute: u32,
}

/// Budget of one judge. A limit without a value is unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct JudgeBudget {
    /// US dollars in any 60 minutes.
    #[schemars(range(min = 0.0))]
    pub usd_per_hour: Option<f64>,
    /// US dollars in any 24 hours.
    #[schemars(range(min = 0.0))]
    pub usd_per_day: Option<f64>,
    /// Tokens in any 60 minutes.
    pub tokens_per_hour: Option<u64>,
    /// Tokens in any 24 hours.
    pub tokens_per_day: Option<u64>,
    /// Distribution of the hourly budget over time: `even` (default) or `any`.
    pub pace: BudgetPace,
}

/// Distribution of the hourly budget over time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BudgetPace {
    /// Even over the hour. Five minutes' worth may be spent at once.
    #[default]
    Even,
    /// As requests arrive.
    Any,
}

/// Azure's older form of addresses.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AzureSettings {
    /// Name of the deployment.
    pub deployment: String,
    /// API version, such as `2024-10-21`.
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
