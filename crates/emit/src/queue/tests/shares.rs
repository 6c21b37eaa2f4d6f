//! Queue filled by several senders.

use super::*;
use spanscore_base::model::{Sender, Source};

/// Destination that records the senders of its evaluations.
#[derive(Clone, Default)]
struct Naming(Arc<Mutex<Vec<u32>>>);

impl Deliver for Naming {
    async fn deliver(&self, batch: EvaluationBatch) -> Delivery {
        let sent = count_of(&batch);
        let peers = batch.iter().flat_map(|part| part.iter()).map(|it| it.target.sender.peer);
        self.0.lock().expect("not poisoned").extend(peers);
        Delivery { sent, lost: Vec::new() }
    }
}

/// Offers one evaluation of 100 bytes, from a connection of a peer.
fn offer(fixture: &Fixture, (peer, connection): (u32, u16), receipt: Option<&Receipt>) {
    let mut evaluation = sample::scored(1.0);
    Arc::make_mut(&mut evaluation.target).sender = Sender { peer, connection, ..Sender::default() };
    fixture.queue.offer(&[evaluation].into(), 100, receipt);
}

#[tokio::test(start_paused = true)]
async fn full_queue_makes_room_from_the_sender_that_has_most_in_it() {
    let end = Naming::default();
    let mut fixture = Fixture::start(LIMITS, end.clone());
    let source = Arc::<Source>::default();
    let kept = Receipt::new(source.claim(1, 70).into(), || ());
    let lost = Arrivals::default();
    (0..8).for_each(|connection| offer(&fixture, (1, connection), None));
    offer(&fixture, (1, 8), Some(&kept));
    offer(&fixture, (1, 9), Some(&lost.receipt()));
    offer(&fixture, (1, 10), None);
    for _ in 0..3 {
        offer(&fixture, (2, 1), None);
    }
    fixture.shows(&format!(r#"{REFUSED}{{exporter="x",reason="queue_full"}} 1"#));
    fixture.shows(&format!(r#"{REFUSED}{{exporter="x",reason="displaced"}} 2"#));
    assert_eq!((fixture.queue.left(), lost.count()), (1, 1), "the log keeps the third");
    fixture.adds_up();
    fixture.end().await;
    let mut sent = end.0.lock().expect("not poisoned").clone();
    assert_eq!(sent[..6].iter().filter(|peer| **peer == 2).count(), 3, "in turns");
    sent.sort_unstable();
    assert_eq!(sent, [1, 1, 1, 1, 1, 1, 1, 2, 2, 2]);
    fixture.adds_up();
}
