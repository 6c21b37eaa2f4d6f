//! The least that a server of a protocol can do: take each request's bytes and acknowledge.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::hint::black_box;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::{BoxFuture, Service};

use super::Protocol;

/// Serves until the process is killed.
pub(crate) fn serve(protocol: Protocol) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        println!("{}", listener.local_addr().unwrap());
        match protocol {
            Protocol::Grpc => grpc(listener).await,
            Protocol::Http => http(listener).await,
        }
    });
}

async fn grpc(listener: TcpListener) {
    let incoming = tonic::transport::server::TcpIncoming::from(listener).with_nodelay(Some(true));
    tonic::transport::Server::builder()
        .add_service(Raw)
        .serve_with_incoming(incoming)
        .await
        .unwrap();
}

async fn http(listener: TcpListener) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let _ = stream.set_nodelay(true);
        tokio::spawn(async move {
            let service = service_fn(acknowledge);
            let connection = hyper::server::conn::http1::Builder::new();
            let _ = connection.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn acknowledge(
    request: http::Request<Incoming>,
) -> Result<http::Response<Full<Bytes>>, hyper::Error> {
    let mut body = request.into_body();
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            whole.extend_from_slice(&data);
        }
    }
    black_box(whole.len());
    Ok(http::Response::new(Full::default()))
}

#[derive(Clone)]
struct Raw;

impl tonic::server::NamedService for Raw {
    const NAME: &'static str = "opentelemetry.proto.collector.trace.v1.TraceService";
}

impl Service<http::Request<tonic::body::Body>> for Raw {
    type Response = http::Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<tonic::body::Body>) -> Self::Future {
        Box::pin(async move {
            let mut grpc = tonic::server::Grpc::new(RawCodec)
                .apply_max_message_size_config(Some(64 << 20), None);
            Ok(grpc.unary(Acknowledge, request).await)
        })
    }
}

struct Acknowledge;

impl tonic::server::UnaryService<Bytes> for Acknowledge {
    type Response = ();
    type Future = Ready<Result<tonic::Response<()>, Status>>;

    fn call(&mut self, request: tonic::Request<Bytes>) -> Self::Future {
        black_box(request.into_inner().len());
        ready(Ok(tonic::Response::new(())))
    }
}

/// Hands over the bytes of messages as they came.
#[derive(Clone, Copy, Default)]
struct RawCodec;

impl Codec for RawCodec {
    type Encode = ();
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for RawCodec {
    type Item = ();
    type Error = Status;

    fn encode(&mut self, (): (), _: &mut EncodeBuf<'_>) -> Result<(), Status> {
        Ok(())
    }
}

impl Decoder for RawCodec {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        let len = buffer.remaining();
        Ok(Some(buffer.copy_to_bytes(len)))
    }
}
