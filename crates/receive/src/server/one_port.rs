//! Both protocols on one port: the content type selects gRPC, anything else is OTLP/HTTP.

use std::net::SocketAddr;
use std::sync::Arc;

use http::{Request, Response};
use hyper::body::Incoming;

use super::http_limits;
use crate::answer::Answer;
use crate::grpc::{GrpcService, is_grpc};
use crate::http::{HttpService, paths};
use crate::ingest::{BodyLimit, Ingest};
use crate::listen::{Admitted, Port, ReceiverStartError, Serve};
use crate::metrics::Transport;
use crate::settings::HttpSettings;
use crate::{ConnectionAccount, Intake};

/// Free port of the loopback address.
const ENDPOINT: &str = "127.0.0.1:0";

/// Largest body in bytes, for both protocols.
const BODY_LIMIT: BodyLimit = BodyLimit { bytes_max: 64 << 20, setting: "the limit of 64 MiB" };

/// Service for both protocols.
pub(super) struct OnePortService<I> {
    grpc: GrpcService<I>,
    http: HttpService<I>,
}

impl<I: Intake> Serve for OnePortService<I> {
    fn admit(&self, request: Request<Incoming>) -> Admitted {
        if is_grpc(request.headers()) { self.grpc.admit(request) } else { self.http.admit(request) }
    }

    async fn serve(
        &self,
        request: Request<Incoming>,
        sender: &Arc<ConnectionAccount>,
    ) -> Response<Answer> {
        if is_grpc(request.headers()) {
            self.grpc.serve(request, sender).await
        } else {
            self.http.serve(request, sender).await
        }
    }
}

/// Binds the port.
pub(super) async fn port<I: Intake>(
    ingest: Arc<Ingest<I>>,
) -> Result<(Port<OnePortService<I>>, SocketAddr), ReceiverStartError> {
    let http = HttpSettings::default();
    let service = OnePortService {
        grpc: GrpcService { ingest: Arc::clone(&ingest), limit: BODY_LIMIT },
        http: HttpService { ingest, limit: BODY_LIMIT, paths: paths(&http), cors: None },
    };
    let place = (ENDPOINT, "the loopback address");
    Port::bind(place, Transport::Http, service, http_limits(&http), None).await
}
