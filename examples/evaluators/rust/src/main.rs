//! An evaluator of your own in Rust: a function of a trajectory, served over gRPC.

use std::io::Write;

use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

use v1::evaluation::Outcome;
use v1::evaluator_server::{Evaluator, EvaluatorServer};
use v1::{
    DescribeRequest, DescribeResponse, EvaluateRequest, EvaluateResponse, Evaluation, Fact, Kind,
    Score, Trajectory,
};

/// The protocol, generated from `proto/spanscore/evaluator/v1/evaluator.proto`.
mod v1;

const KIND: &str = "repeated_arguments";
/// Change it whenever scores may change: it is a part of every evaluation's identity.
const VERSION: &str = "1";

/// No call is made twice with the same arguments: a score from 0 to 1 and a sentence, or why it
/// cannot be judged.
fn repeated_arguments(trajectory: &Trajectory) -> Result<(f64, String), String> {
    let calls = &trajectory.tool_calls;
    if calls.is_empty() {
        return Err("no tool was called".to_owned());
    }
    let key = |at: usize| (&calls[at].name, calls[at].arguments.as_ref().map(|it| &it.value));
    let is_repeated = |at: &usize| (0..*at).any(|before| key(before) == key(*at));
    let repeated: Vec<&str> =
        (0..calls.len()).filter(is_repeated).map(|at| calls[at].name.as_str()).collect();
    let score = 1.0 - repeated.len() as f64 / calls.len() as f64;
    match repeated.is_empty() {
        true => Ok((score, "no call is repeated".to_owned())),
        false => Ok((score, format!("repeated: {}", repeated.join(", ")))),
    }
}

struct Evaluators;

#[tonic::async_trait]
impl Evaluator for Evaluators {
    async fn describe(
        &self,
        _: Request<DescribeRequest>,
    ) -> Result<Response<DescribeResponse>, Status> {
        let kind = Kind {
            name: KIND.to_owned(),
            version: VERSION.to_owned(),
            // What the function looks at; nothing else is sent.
            needs: vec![Fact::ToolCalls.into(), Fact::Arguments.into()],
            ..Kind::default()
        };
        Ok(Response::new(DescribeResponse { minor: 0, kinds: vec![kind] }))
    }

    async fn evaluate(
        &self,
        request: Request<EvaluateRequest>,
    ) -> Result<Response<EvaluateResponse>, Status> {
        let answer = |task: v1::Task| {
            // The turns of a session; of a trace the one there is.
            let last = task.trajectories.last().cloned().unwrap_or_default();
            let (outcome, explanation) = match repeated_arguments(&last) {
                Ok((value, words)) => (Outcome::Scored(Score { value, label: None }), words),
                Err(why) => (Outcome::NotEvaluable(why), String::new()),
            };
            let (task_id, outcome) = (task.id, Some(outcome));
            Evaluation { task_id, outcome, explanation, ..Evaluation::default() }
        };
        let evaluations = request.into_inner().tasks.into_iter().map(answer).collect();
        Ok(Response::new(EvaluateResponse { evaluations }))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:9001".to_owned());
    let listener = tokio::net::TcpListener::bind(address).await?;
    writeln!(std::io::stdout(), "evaluators at http://{}", listener.local_addr()?)?;
    let evaluators = EvaluatorServer::new(Evaluators);
    Server::builder()
        .add_service(evaluators)
        .serve_with_incoming(TcpIncoming::from(listener))
        .await?;
    Ok(())
}
