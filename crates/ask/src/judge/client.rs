//! HTTP client of one judge: sends a request and reads the reply, or replays a recorded one.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use http::HeaderMap;
use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt;

use super::aws::AwsSigner;
use super::cache::{QuestionKey, QuestionKeys};
use super::settings::JudgeSettings;
use super::wire::{
    self, Fault, Finish, HttpAnswer, JudgeQuestion, ProviderCapabilities, Reply, TokenUsage,
    WireRequest,
};
use spanscore_base::settings::Secret;
use spanscore_net::client::{self, Withheld};

/// Limit of an answer's body, bytes.
const ANSWER_BYTES_MAX: usize = 4 << 20;

/// Recording or replay of replies, with its folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplyRecording {
    /// Writes each reply to this folder.
    Record(PathBuf),
    /// Reads replies from this folder without sending requests.
    Replay(PathBuf),
}

/// Start-up error of judges.
#[derive(Debug, thiserror::Error)]
pub enum JudgeStartError {
    /// The environment variable with the key is not set.
    #[error(
        "judge `{judge}`: the environment variable {variable}, which `api_key_env` names, is not \
         set"
    )]
    NoKey {
        /// Name of the judge.
        judge: String,
        /// Name of the variable.
        variable: String,
    },
    /// A variable with AWS credentials is not set.
    #[error(
        "judge `{judge}`: the environment variable {variable}, which `aws` signs with, is not set: \
         set it, or leave `aws` out and name a variable with an API key (`api_key_env`)"
    )]
    NoAwsKey {
        /// Name of the judge.
        judge: String,
        /// Name of the variable.
        variable: &'static str,
    },
    /// The HTTP client cannot be built.
    #[error("failed to set up the client of judge `{judge}`: {error}")]
    Client {
        /// Name of the judge.
        judge: String,
        /// Cause.
        error: String,
    },
    /// More judges over the life of the process than the limit: each one stays known.
    #[error(
        "the process has used {count} judges since its start, which is the limit: restart it to \
         forget removed ones"
    )]
    TooMany {
        /// Limit.
        count: usize,
    },
    /// The system gave no random bytes.
    #[error("failed to mark records: the system gave no random numbers")]
    NoRandomness,
    /// The folder for recordings cannot be created.
    #[error("failed to create {path}: {error}")]
    Folder {
        /// Folder.
        path: String,
        /// Cause.
        error: std::io::Error,
    },
}

/// Key or credentials of one judge, from the environment.
#[derive(Default)]
struct JudgeSignIn {
    key: Option<Secret>,
    signer: Option<AwsSigner>,
}

impl JudgeSignIn {
    fn read(name: &str, settings: &JudgeSettings) -> Result<Self, JudgeStartError> {
        let key = settings.api_key_env.as_ref().map(|own| {
            let missing =
                || JudgeStartError::NoKey { judge: name.to_owned(), variable: own.clone() };
            variable(own).map(Secret).ok_or_else(missing)
        });
        let key = key.transpose()?;
        let aws = settings.aws.as_ref();
        let signer = aws.map(|aws| AwsSigner::from_environment(name, settings, aws)).transpose()?;
        Ok(Self { key, signer })
    }
}

/// Returns the error of a judge without its key or credentials in the environment.
pub fn missing_key(name: &str, settings: &JudgeSettings) -> Option<JudgeStartError> {
    JudgeSignIn::read(name, settings).err()
}

/// Client of one judge, with its key and its recording.
#[derive(Clone)]
pub(super) struct JudgeClient {
    settings: Arc<JudgeSettings>,
    key: Option<Secret>,
    signer: Option<AwsSigner>,
    http: reqwest::Client,
    withheld: Withheld,
    recording: Option<ReplyRecording>,
}

/// File format of a recorded reply, JSON.
#[derive(Serialize, Deserialize)]
struct RecordedReply {
    model: String,
    /// Place of its judge; absent in earlier versions.
    place: Option<String>,
    text: String,
    is_refused: bool,
    input_tokens: u64,
    cached_tokens: u64,
    output_tokens: u64,
}

impl JudgeClient {
    pub(super) fn new(
        name: &str,
        settings: &JudgeSettings,
        recording: Option<ReplyRecording>,
    ) -> Result<Self, JudgeStartError> {
        client::use_cryptography();
        let is_replayed = matches!(recording, Some(ReplyRecording::Replay(_)));
        let JudgeSignIn { key, signer } =
            if is_replayed { JudgeSignIn::default() } else { JudgeSignIn::read(name, settings)? };
        let failed = |error: String| JudgeStartError::Client { judge: name.to_owned(), error };
        let base = settings.base_url();
        let timeout = settings.timeout.0;
        let http = client::http_client(&base, &settings.tls, HeaderMap::new(), timeout);
        let http = http.map_err(failed)?;
        let address = settings.base_url.clone().unwrap_or_default();
        let signing = signer.iter().flat_map(AwsSigner::secrets);
        let values = key.as_ref().map(Secret::reveal).into_iter().chain(signing);
        let withheld = Withheld::of_values(values, &address);
        Ok(Self { settings: Arc::new(settings.clone()), key, signer, http, withheld, recording })
    }

    /// Sends one request, or reads the recorded reply, without retries. A reply recorded under the
    /// other key, with or without the judge's place, also counts, unless a judge elsewhere gave it.
    pub(super) async fn ask(
        &self,
        keys: QuestionKeys,
        capabilities: &ProviderCapabilities,
        question: &JudgeQuestion,
    ) -> Result<Reply, Fault> {
        if let Some(ReplyRecording::Replay(folder)) = &self.recording {
            let own = read_recorded(&file_of(folder, keys.own), None).await;
            return match own {
                Err(Fault::NotRecorded) => {
                    let place = self.settings.place();
                    read_recorded(&file_of(folder, keys.other), Some(&place)).await
                }
                read => read,
            };
        }
        let request = wire::request(
            &self.settings,
            self.key.as_ref().map(Secret::reveal),
            capabilities,
            question,
        );
        let answer = self.send(request).await?;
        let reply = wire::reply(&self.settings, capabilities, question, &answer)?;
        if let Some(ReplyRecording::Record(folder)) = &self.recording {
            self.record(&file_of(folder, keys.own), &reply).await;
        }
        Ok(reply)
    }

    async fn send(&self, request: WireRequest) -> Result<HttpAnswer, Fault> {
        let WireRequest { url, mut headers, body } = request;
        headers.push(("content-type", "application/json".to_owned()));
        let body = body.to_string();
        if let Some(signer) = &self.signer {
            let signed = signer.sign(&url, &headers, body.as_bytes(), SystemTime::now());
            headers.extend(signed.map_err(Fault::Unreachable)?);
        }
        let mut post = self.http.post(url);
        for (name, value) in headers {
            post = post.header(name, value);
        }
        let sent = post.body(body).send().await;
        let response = sent.map_err(broken)?;
        let header = |name: &str| response.headers().get(name).and_then(|it| it.to_str().ok());
        let status = response.status().as_u16();
        let arrived = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let mut answer = HttpAnswer {
            status,
            arrived,
            after: wire::wait::in_headers(status, header, arrived),
            should_retry: header("x-should-retry").and_then(|value| value.parse().ok()),
            body: Vec::new(),
        };
        let body = client::read_body(response, ANSWER_BYTES_MAX).await.map_err(broken)?;
        let too_long = || Fault::Unreadable("its answer is longer than 4 MiB".to_owned());
        answer.body = self.withheld.without_bytes(body.ok_or_else(too_long)?);
        Ok(answer)
    }

    /// Records a reply. One truncated by a length limit is skipped, since the question is repeated
    /// with more room.
    async fn record(&self, file: &std::path::Path, reply: &Reply) {
        if matches!(reply.finish, Finish::Length | Finish::Overflow) {
            return;
        }
        let recorded = RecordedReply {
            model: self.settings.model.clone(),
            place: Some(self.settings.place()),
            text: reply.text.clone(),
            is_refused: reply.finish == Finish::Refused,
            input_tokens: reply.usage.input,
            cached_tokens: reply.usage.cached,
            output_tokens: reply.usage.output,
        };
        let written = match serde_json::to_vec_pretty(&recorded) {
            Ok(bytes) => write_own(file, &bytes).await.map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        if let Err(error) = written {
            tracing::error!(file = %file.display(), error, "a reply could not be recorded");
        }
    }
}

/// Reads an environment variable; `None` if it is unset or blank.
pub(super) fn variable(name: &str) -> Option<String> {
    let value = std::env::var(name).ok()?;
    Some(value.trim().to_owned()).filter(|value| !value.is_empty())
}

fn file_of(folder: &std::path::Path, key: QuestionKey) -> PathBuf {
    let digits: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    folder.join(format!("{digits}.json"))
}

/// Writes a file with mode 0600, since replies quote judged data.
async fn write_own(file: &std::path::Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut options = tokio::fs::OpenOptions::new();
    let file = options.write(true).create(true).truncate(true).mode(0o600).open(file).await;
    let mut file = file?;
    file.write_all(bytes).await?;
    file.flush().await
}

/// Reads a recorded reply, unless a judge at another place gave it.
async fn read_recorded(file: &std::path::Path, place: Option<&str>) -> Result<Reply, Fault> {
    let bytes = tokio::fs::read(file).await.map_err(|_| Fault::NotRecorded)?;
    let recorded: RecordedReply = serde_json::from_slice(&bytes)
        .map_err(|error| Fault::Rejected { status: 0, text: error.to_string() })?;
    if place.is_some_and(|place| recorded.place.is_some_and(|other| other != place)) {
        return Err(Fault::NotRecorded);
    }
    let finish = if recorded.is_refused { Finish::Refused } else { Finish::Stop };
    let usage = TokenUsage {
        input: recorded.input_tokens,
        cached: recorded.cached_tokens,
        output: recorded.output_tokens,
    };
    Ok(Reply { text: recorded.text, finish, usage })
}

/// Converts a transport error to a fault, without the URL, which may hold a key.
fn broken(error: reqwest::Error) -> Fault {
    let is_unsent = error.is_connect() || error.is_builder();
    let is_late = error.is_timeout();
    let text = client::chain(error.without_url());
    match (is_unsent, is_late) {
        (true, _) => Fault::Unreachable(text),
        (false, true) => Fault::Broken("no answer within `timeout`".to_owned()),
        (false, false) => Fault::Broken(text),
    }
}
