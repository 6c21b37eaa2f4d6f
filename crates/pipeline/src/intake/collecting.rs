//! Collection of other processes' evaluations: events from named clients go to the store.
//!
//! The requests also go to the shards, which ignore our own scope. If a later step refuses such a
//! request, its retry has the same evaluation ids.

use std::sync::Arc;

use tokio::time::Instant;

use crate::{PipelineIntake, RETRY_AFTER};
use spanscore_base::model::Sender;
use spanscore_base::otlp::Signal;
use spanscore_evaluate::kind;
use spanscore_receive::{Accepted, ConnectionAccount, Intake, Lack, Received, Refused};
use spanscore_store::{Store, read_events};

/// Intake before the pipeline's, for receivers with known clients.
pub(crate) struct CollectingIntake {
    inner: Arc<PipelineIntake>,
    store: Option<Arc<Store>>,
}

impl CollectingIntake {
    pub(crate) fn new(inner: Arc<PipelineIntake>, store: &Option<Arc<Store>>) -> Self {
        Self { inner, store: store.clone() }
    }

    /// Stores the evaluations of a request; returns the number of those without room, or malformed.
    async fn collect(&self, received: &Received) -> Result<usize, Refused> {
        let sent = received.client.as_ref().zip(self.store.as_ref());
        let Some((client, store)) = sent.filter(|(client, store)| store.accepts(client)) else {
            return Ok(0);
        };
        if received.signal != Signal::Logs {
            return Ok(0);
        }
        // A sender apart from its group, so that it has its own share beside other clients.
        let sender = Sender::of_client(received.sender.group, client);
        if !store.has_room_for(sender) {
            return Err(Refused::Later { lack: Lack::StoreRoom, retry_after: RETRY_AFTER });
        }
        let client = Arc::clone(client);
        let store = Arc::clone(store);
        let request = received.request.clone();
        // A large request would block a network thread.
        let collecting = tokio::task::spawn_blocking(move || {
            let events = read_events(&request, sender, |name| kind(name).map(|kind| kind.name));
            let malformed = events.malformed;
            malformed + store.collect(events, &client)
        });
        collecting.await.map_err(|_| Refused::ShuttingDown)
    }
}

impl Intake for CollectingIntake {
    async fn accept_by(
        &self,
        received: Received,
        sender: &Arc<ConnectionAccount>,
        deadline: Instant,
    ) -> Result<Accepted, Refused> {
        let unstored = self.collect(&received).await? as u64;
        let mut accepted = self.inner.accept_by(received, sender, deadline).await?;
        if unstored > 0 {
            accepted.accepted = accepted.accepted.saturating_sub(unstored);
            accepted.rejected += unstored;
            let note = format!("{unstored} evaluations were not stored: malformed, or no room");
            if !accepted.message.is_empty() {
                accepted.message.push_str("; ");
            }
            accepted.message.push_str(&note);
        }
        Ok(accepted)
    }
}
