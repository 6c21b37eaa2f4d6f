//! Evaluators asked once whether they can do what the config wants, before anything depends on it.

use std::sync::Arc;
use std::time::Duration;

use super::transport::{ExternalClient, ExternalFault};
use spanscore_base::model::Level;
use spanscore_evaluate::external::ExternalPlan;

/// An evaluator that is to be asked.
#[derive(Clone, Debug)]
pub struct ExternalProbe {
    /// Its name in the config.
    pub evaluator: String,
    /// Level of the targets that it is to judge.
    pub level: Level,
    /// Plan to reach it.
    pub plan: Arc<ExternalPlan>,
}

/// Result of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeAnswer {
    /// It can do what the config wants.
    Fits,
    /// It cannot.
    Unfit {
        /// Reason.
        error: String,
        /// The setting in question: keys below the entry of the evaluator.
        at: Vec<String>,
    },
    /// It could not be asked, so nobody knows: what went wrong.
    Unknown(String),
}

/// Asks all of them at the same time, each at most so long; gives the answers in their order.
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
        // A client that cannot be made ends the start by itself.
        Err(error) => return ProbeAnswer::Unknown(error),
    };
    let described = client.describe(plan, evaluator).await;
    match described.and_then(|description| description.check_level(*level)) {
        Ok(()) => ProbeAnswer::Fits,
        Err(ExternalFault::Unfit { error, at, .. }) => ProbeAnswer::Unfit { error, at },
        Err(fault) => ProbeAnswer::Unknown(fault.told().1.to_owned()),
    }
}
