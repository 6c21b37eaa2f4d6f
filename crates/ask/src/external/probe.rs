//! Probe of evaluators: checks once that they support the config before it is used.

use std::sync::Arc;
use std::time::Duration;

use super::transport::{ExternalClient, ExternalFault};
use spanscore_base::model::Level;
use spanscore_evaluate::external::ExternalPlan;

/// Evaluator to probe.
#[derive(Clone, Debug)]
pub struct ExternalProbe {
    /// Its name in the config.
    pub evaluator: String,
    /// Level of its targets.
    pub level: Level,
    /// Plan to reach it.
    pub plan: Arc<ExternalPlan>,
}

/// Result of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeAnswer {
    /// It supports the config.
    Fits,
    /// It does not.
    Unfit {
        /// Reason.
        error: String,
        /// The setting in question: keys below the evaluator's entry.
        at: Vec<String>,
    },
    /// It could not be queried: the error.
    Unknown(String),
}

/// Probes all evaluators concurrently, each within a time limit; returns the answers in order.
pub async fn probe(probes: Vec<ExternalProbe>, within: Duration) -> Vec<ProbeAnswer> {
    let asking = probes.into_iter().map(|probe| {
        tokio::spawn(async move {
            let late = || ProbeAnswer::Unknown(format!("it gave no answer within {within:?}"));
            tokio::time::timeout(within, ask(&probe)).await.unwrap_or_else(|_| late())
        })
    });
    let mut answers = Vec::new();
    for asked in asking.collect::<Vec<_>>() {
        let broken = |_| ProbeAnswer::Unknown("asking it ended by an internal error".to_owned());
        answers.push(asked.await.unwrap_or_else(broken));
    }
    answers
}

async fn ask(ExternalProbe { evaluator, level, plan }: &ExternalProbe) -> ProbeAnswer {
    let client = match ExternalClient::new(plan) {
        Ok(client) => client,
        // A client that cannot be created also fails the start.
        Err(error) => return ProbeAnswer::Unknown(error),
    };
    let described = client.describe(plan, evaluator).await;
    match described.and_then(|description| description.check_level(*level)) {
        Ok(()) => ProbeAnswer::Fits,
        Err(ExternalFault::Unfit { error, at, .. }) => ProbeAnswer::Unfit { error, at },
        Err(fault) => ProbeAnswer::Unknown(fault.told().1.to_owned()),
    }
}
