//! An evaluator server over gRPC that does as it is told, and keeps what it was asked.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use crate::support::patience::eventually;
use bytes::{Buf, BufMut, Bytes};
use prost::Message;
use spanscore_evaluate::external::proto::{
    DescribeResponse, EvaluateRequest, EvaluateResponse, EvaluationMessage, NeededPart,
    OutcomeMessage, ScoreMessage, ServedKind,
};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::metadata::MetadataMap;
use tonic::server::{NamedService, UnaryService};
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Identity, Server, ServerTlsConfig};
use tonic::{Request, Response, Status};

/// Answer to one request: after a while, with these bytes or that status.
pub(super) struct Scripted {
    pub(super) delay: Duration,
    pub(super) answer: Result<Vec<u8>, Status>,
}

impl Scripted {
    pub(super) fn now(response: &EvaluateResponse) -> Self {
        Self { delay: Duration::ZERO, answer: Ok(response.encode_to_vec()) }
    }

    pub(super) fn refused(status: Status) -> Self {
        Self { delay: Duration::ZERO, answer: Err(status) }
    }
}

type Describe = dyn Fn() -> Result<Vec<u8>, Status> + Send + Sync;
type Evaluate = dyn Fn(&EvaluateRequest, usize) -> Scripted + Send + Sync;
type Health = dyn Fn() -> Result<i32, Status> + Send + Sync;

/// Script of the server.
pub(super) struct Script {
    pub(super) describe: Box<Describe>,
    pub(super) evaluate: Box<Evaluate>,
    pub(super) health: Box<Health>,
}

/// A kind that needs what the user asked, and the calls.
pub(super) fn kind() -> ServedKind {
    let needs = [NeededPart::UserInput, NeededPart::Arguments];
    ServedKind {
        name: "quality".to_owned(),
        version: "1".to_owned(),
        needs: needs.map(|need| need as i32).to_vec(),
        ..ServedKind::default()
    }
}

pub(super) fn described(kinds: Vec<ServedKind>) -> Vec<u8> {
    DescribeResponse { minor: 0, kinds }.encode_to_vec()
}

/// An answer to a task.
pub(super) fn scored(task_id: &str, value: f64) -> EvaluationMessage {
    EvaluationMessage {
        task_id: task_id.to_owned(),
        outcome: Some(OutcomeMessage::Scored(ScoreMessage { value, label: None })),
        ..EvaluationMessage::default()
    }
}

/// The same score for all tasks.
pub(super) fn all(request: &EvaluateRequest, value: f64) -> EvaluateResponse {
    let evaluations = request.tasks.iter().map(|task| scored(&task.id, value));
    EvaluateResponse { evaluations: evaluations.collect() }
}

impl Script {
    /// Describes [`kind`], and answers so; it does not speak of its health.
    pub(super) fn answering(
        evaluate: impl Fn(&EvaluateRequest, usize) -> Scripted + Send + Sync + 'static,
    ) -> Self {
        Self {
            describe: Box::new(|| Ok(described(vec![kind()]))),
            evaluate: Box::new(evaluate),
            health: Box::new(|| Err(Status::unimplemented("no health"))),
        }
    }
}

#[derive(Default)]
struct Kept {
    requests: Mutex<Vec<(EvaluateRequest, MetadataMap)>>,
    under_way: AtomicUsize,
    most_under_way: AtomicUsize,
}

/// A running server; it stops when it is dropped.
pub(super) struct FakeEvaluator {
    kept: Arc<Kept>,
    pub(super) address: SocketAddr,
    serving: JoinHandle<()>,
}

impl Drop for FakeEvaluator {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl FakeEvaluator {
    pub(super) async fn start(script: Script) -> Self {
        Self::at("127.0.0.1:0".parse().expect("an address"), script, None).await
    }

    /// At an address, which a server before it has left.
    pub(super) async fn at(address: SocketAddr, script: Script, tls: Option<Identity>) -> Self {
        let bind = || {
            let listener = std::net::TcpListener::bind(address)?;
            listener.set_nonblocking(true).map(|()| listener)
        };
        let listener = TcpListener::from_std(eventually(bind).await).expect("a listener");
        let address = listener.local_addr().expect("an address");
        let kept = Arc::<Kept>::default();
        let service = FakeService { script: Arc::new(script), kept: Arc::clone(&kept) };
        let health = HealthService(service.clone());
        let mut server = Server::builder();
        if let Some(identity) = tls {
            let tls = ServerTlsConfig::new().identity(identity);
            server = server.tls_config(tls).expect("a certificate");
        }
        let router = server.add_service(service).add_service(health);
        let serving = tokio::spawn(async move {
            let incoming = TcpIncoming::from(listener);
            router.serve_with_incoming(incoming).await.expect("it serves");
        });
        Self { kept, address, serving }
    }

    /// Returns the requests to evaluate.
    pub(super) fn requests(&self) -> Vec<(EvaluateRequest, MetadataMap)> {
        self.kept.requests.lock().expect("the requests").clone()
    }

    /// Most requests at the same time.
    pub(super) fn most_under_way(&self) -> usize {
        self.kept.most_under_way.load(Ordering::SeqCst)
    }
}

#[derive(Clone)]
struct FakeService {
    script: Arc<Script>,
    kept: Arc<Kept>,
}

impl NamedService for FakeService {
    const NAME: &'static str = "spanscore.evaluator.v1.Evaluator";
}

#[derive(Clone)]
struct HealthService(FakeService);

impl NamedService for HealthService {
    const NAME: &'static str = "grpc.health.v1.Health";
}

type Answering =
    Pin<Box<dyn Future<Output = Result<http::Response<tonic::body::Body>, Infallible>> + Send>>;

impl tower::Service<http::Request<tonic::body::Body>> for FakeService {
    type Response = http::Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = Answering;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<tonic::body::Body>) -> Answering {
        let service = self.clone();
        Box::pin(async move {
            let path = request.uri().path().to_owned();
            let mut grpc = tonic::server::Grpc::new(Raw);
            Ok(grpc.unary(Method { service, path }, request).await)
        })
    }
}

impl tower::Service<http::Request<tonic::body::Body>> for HealthService {
    type Response = http::Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = Answering;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<tonic::body::Body>) -> Answering {
        self.0.call(request)
    }
}

struct Method {
    service: FakeService,
    path: String,
}

impl UnaryService<Bytes> for Method {
    type Response = Vec<u8>;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Vec<u8>>, Status>> + Send>>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        let (service, path) = (self.service.clone(), self.path.clone());
        Box::pin(async move {
            let FakeService { script, kept } = service;
            match path.rsplit('/').next().unwrap_or_default() {
                "Describe" => (script.describe)().map(Response::new),
                // One field of varint: the status.
                "Check" => (script.health)().map(|it| Response::new(vec![8, it as u8])),
                _ => {
                    let asked = EvaluateRequest::decode(request.get_ref().clone());
                    let asked = asked.map_err(|it| Status::internal(it.to_string()))?;
                    let count = {
                        let mut requests = kept.requests.lock().expect("the requests");
                        requests.push((asked.clone(), request.metadata().clone()));
                        requests.len()
                    };
                    let now = kept.under_way.fetch_add(1, Ordering::SeqCst) + 1;
                    kept.most_under_way.fetch_max(now, Ordering::SeqCst);
                    let Scripted { delay, answer } = (script.evaluate)(&asked, count);
                    tokio::time::sleep(delay).await;
                    kept.under_way.fetch_sub(1, Ordering::SeqCst);
                    answer.map(Response::new)
                }
            }
        })
    }
}

/// Bytes as they are.
#[derive(Clone, Copy)]
struct Raw;

impl Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put_slice(&item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }
}
