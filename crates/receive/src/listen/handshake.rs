//! TLS handshakes, bounded in time and number.
//!
//! A peer can begin a handshake without ever ending it. So each is limited to [`HANDSHAKE_TIME`].
//! Beyond [`HANDSHAKES_MAX`] the oldest is ended, since an honest sender takes milliseconds.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio_util::either::Either;
use tokio_util::sync::CancellationToken;

use super::connection::Transported;
use spanscore_net::tls::{HandshakeFailure, ServerTls};

/// Longest time of a handshake.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
/// Limit on concurrent handshakes, over all ports.
const HANDSHAKES_MAX: usize = 512;

/// Running handshakes, oldest first.
#[derive(Clone, Default)]
pub(crate) struct Handshakes(Arc<Mutex<VecDeque<CancellationToken>>>);

impl Handshakes {
    /// Performs the handshake with a peer, within the given time and [`HANDSHAKE_TIME`].
    pub(super) async fn greet(
        &self,
        tls: &ServerTls,
        stream: TcpStream,
        within: Duration,
    ) -> Result<Transported, HandshakeFailure> {
        let place = self.enter(HANDSHAKES_MAX);
        let greeted = tokio::select! {
            biased;
            () = place.cancelled() => Err(HandshakeFailure::Crowded),
            greeted = tokio::time::timeout(within.min(HANDSHAKE_TIME), tls.accept(stream)) => {
                greeted.unwrap_or(Err(HandshakeFailure::Timeout))
            }
        };
        // The place is free, whatever the outcome.
        place.cancel();
        greeted.map(|stream| Either::Right(Box::new(stream)))
    }

    /// Returns a place among the running handshakes, cancelled when it is taken away.
    fn enter(&self, most: usize) -> CancellationToken {
        let place = CancellationToken::new();
        let mut open = self.0.lock();
        while open.front().is_some_and(CancellationToken::is_cancelled) {
            open.pop_front();
        }
        if open.len() >= most {
            open.retain(|place| !place.is_cancelled());
        }
        if open.len() >= most
            && let Some(oldest) = open.pop_front()
        {
            oldest.cancel();
        }
        open.push_back(place.clone());
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handshake_above_the_limit_ends_the_oldest_one() {
        let handshakes = Handshakes::default();
        let places: Vec<_> = (0..3).map(|_| handshakes.enter(2)).collect();
        let ended: Vec<_> = places.iter().map(CancellationToken::is_cancelled).collect();
        assert_eq!(ended, [true, false, false]);
        places[2].cancel();
        let next = handshakes.enter(2);
        assert!(!places[1].is_cancelled(), "one that is done has made room");
        assert!(!next.is_cancelled());
    }
}
