//! A judge that is scripted: for each request a status, headers, a body, a wait, or half of an
//! answer. It keeps what it was asked.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

/// Request to a judge.
#[derive(Clone, Debug)]
pub(crate) struct JudgeAsked {
    /// Its place among all, from 0.
    pub(crate) count: usize,
    pub(crate) path: String,
    /// In lower case.
    pub(crate) headers: String,
    pub(crate) body: Value,
}

impl JudgeAsked {
    /// The user message.
    pub(crate) fn user(&self) -> String {
        let body = &self.body;
        let content = match &body["messages"] {
            Value::Null => &body["input"],
            messages => &messages[messages.as_array().map_or(0, Vec::len) - 1]["content"],
        };
        match content {
            Value::Array(parts) => {
                parts.iter().filter_map(|part| part["text"].as_str()).collect::<String>()
            }
            text => text.as_str().unwrap_or_default().to_owned(),
        }
    }

    /// Counts the statements that are asked.
    pub(crate) fn statements(&self) -> usize {
        let user = self.user();
        let (_, rest) = user.split_once("one entry for each of the ").expect("a count");
        rest.split_whitespace().next().and_then(|count| count.parse().ok()).expect("a number")
    }

    /// An answer with these verdicts, repeated as often as needed.
    pub(crate) fn answer(&self, verdicts: &[&str]) -> Scripted {
        let items = (0..self.statements()).map(|at| {
            let verdict = verdicts[at % verdicts.len()];
            json!({"id": at + 1, "cites": [1], "reason": "so it is", "verdict": verdict})
        });
        let items: Vec<Value> = items.collect();
        self.say(&json!({"items": items, "injection_suspected": false}).to_string())
    }

    /// An answer with this text, as the protocol of the request has it.
    pub(crate) fn say(&self, text: &str) -> Scripted {
        // What is counted is what was sent, so that nothing looks cut.
        let sent = self.body.to_string().len() as u64 / 4;
        let body = if self.path.ends_with("/chat/completions") {
            json!({"choices": [{"message": {"role": "assistant", "content": text},
                "finish_reason": "stop"}],
                "usage": {"prompt_tokens": sent, "completion_tokens": 50}})
        } else if self.path.ends_with("/responses") {
            json!({"status": "completed", "output": [{"type": "message",
                "content": [{"type": "output_text", "text": text}]}],
                "usage": {"input_tokens": sent, "output_tokens": 50}})
        } else {
            json!({"type": "message", "content": [{"type": "text", "text": text}],
                "stop_reason": "end_turn", "usage": {"input_tokens": sent, "output_tokens": 50}})
        };
        Scripted { body: body.to_string(), ..Scripted::default() }
    }
}

/// Answer of a judge to a request.
#[derive(Clone, Debug)]
pub(crate) struct Scripted {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: String,
    pub(crate) delay: Duration,
    /// Answers wait until this has a permit.
    pub(crate) gate: Option<Arc<Semaphore>>,
    /// Only half of the body comes, then the connection ends.
    pub(crate) is_cut: bool,
}

impl Default for Scripted {
    fn default() -> Self {
        let (headers, body) = (Vec::new(), String::new());
        Self { status: 200, headers, body, delay: Duration::ZERO, gate: None, is_cut: false }
    }
}

/// A running judge.
#[derive(Clone)]
pub(crate) struct FakeJudge {
    pub(crate) address: SocketAddr,
    asked: Arc<Mutex<Vec<JudgeAsked>>>,
    /// TLS of the next connections; without it they are in the clear.
    pub(crate) tls: Arc<Mutex<Option<Arc<rustls::ServerConfig>>>>,
}

type Script = Arc<dyn Fn(&JudgeAsked) -> Scripted + Send + Sync>;

impl FakeJudge {
    /// Starts one that does with each request what the script says.
    pub(crate) async fn start(
        script: impl Fn(&JudgeAsked) -> Scripted + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let judge = Self { address, asked: Arc::default(), tls: Arc::default() };
        let (own, script) = (judge.clone(), Arc::new(script) as Script);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (asked, script) = (Arc::clone(&own.asked), Arc::clone(&script));
                let tls = own.tls.lock().unwrap().clone();
                tokio::spawn(async move {
                    let Some(tls) = tls else { return serve(stream, asked, script).await };
                    if let Ok(stream) = TlsAcceptor::from(tls).accept(stream).await {
                        serve(stream, asked, script).await;
                    }
                });
            }
        });
        judge
    }

    /// One that says the same to all.
    pub(crate) async fn saying(verdict: &'static str) -> Self {
        Self::start(move |asked| asked.answer(&[verdict])).await
    }

    /// One that says the same to all once the gate has a permit.
    pub(crate) async fn behind(gate: &Arc<Semaphore>, verdict: &'static str) -> Self {
        let gate = Arc::clone(gate);
        Self::start(move |asked| {
            let gate = Some(Arc::clone(&gate));
            Scripted { gate, ..asked.answer(&[verdict]) }
        })
        .await
    }

    /// Returns the requests to it.
    pub(crate) fn asked(&self) -> Vec<JudgeAsked> {
        self.asked.lock().unwrap().clone()
    }

    /// Its settings, of a protocol; `more` stands behind them.
    pub(crate) fn settings(&self, api: &str, more: &str) -> String {
        let base = match api {
            "anthropic" => String::new(),
            _ => "/v1".to_owned(),
        };
        let address = self.address;
        let scheme = if self.tls.lock().unwrap().is_some() { "https" } else { "http" };
        format!("{{api: {api}, base_url: \"{scheme}://{address}{base}\", model: m-1{more}}}")
    }
}

async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    asked: Arc<Mutex<Vec<JudgeAsked>>>,
    script: Script,
) {
    let Some((head, body)) = read(&mut stream).await else { return };
    let path = head.split_whitespace().nth(1).unwrap_or_default().to_owned();
    let body = serde_json::from_slice(&body).unwrap_or_default();
    let one = {
        let mut all = asked.lock().unwrap();
        let one = JudgeAsked { count: all.len(), path, headers: head.to_lowercase(), body };
        all.push(one.clone());
        one
    };
    let Scripted { status, headers, body, delay, gate, is_cut } = script(&one);
    tokio::time::sleep(delay).await;
    if let Some(gate) = gate {
        let _permit = gate.acquire().await;
    }
    let length = body.len();
    let mut answer = format!(
        "HTTP/1.1 {status} Scripted\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\nconnection: close\r\n"
    );
    for (name, value) in headers {
        answer.push_str(&format!("{name}: {value}\r\n"));
    }
    answer.push_str("\r\n");
    answer.push_str(if is_cut { &body[..length / 2] } else { &body });
    let _ = stream.write_all(answer.as_bytes()).await;
    let _ = stream.shutdown().await;
}

async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Option<(String, Vec<u8>)> {
    let (mut bytes, mut chunk) = (Vec::new(), vec![0; 64 << 10]);
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
            let lower = head.to_lowercase();
            let length = lower.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length?.trim().parse().ok()?;
            if bytes.len() >= end + 4 + length {
                return Some((head, bytes[end + 4..end + 4 + length].to_vec()));
            }
        }
        match stream.read(&mut chunk).await {
            Ok(count @ 1..) => bytes.extend_from_slice(&chunk[..count]),
            _ => return None,
        }
    }
}
