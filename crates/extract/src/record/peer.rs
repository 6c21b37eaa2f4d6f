//! Peer of a span in another process, which lets completion wait for its spans.

use spanscore_base::model::{SpanFlags, fingerprint};
use spanscore_base::otlp::AnyValue;
use spanscore_base::otlp::number::span;
use spanscore_base::otlp::wire::{Field, Fields};

/// `SpanKind` values of calls to another process: client, and producer of a message.
const CALLS: [u64; 2] = [3, 4];

/// Attributes that name the peer in past and present semantic conventions.
const PEERS: [&str; 6] =
    ["server.address", "net.peer.name", "peer.service", "rpc.service", "url.full", "http.url"];

/// Returns a number for the peer called by a span; 0 without a call.
///
/// The span's name identifies a called tool or agent. A model call does not count: no model sends
/// its spans here.
pub(super) fn of(kind: u64, flags: SpanFlags, name: &[u8], encoded: &[u8]) -> u32 {
    if !CALLS.contains(&kind) {
        return 0;
    }
    let is_model = flags.has(SpanFlags::AGENT) && !name.starts_with(b"invoke_agent");
    if is_model {
        return 0;
    }
    if flags.has(SpanFlags::TOOL) || flags.has(SpanFlags::AGENT) {
        return fingerprint(name).max(1);
    }
    address(encoded).unwrap_or_else(|| fingerprint(name).max(1))
}

fn address(encoded: &[u8]) -> Option<u32> {
    let mut fields = Fields::new(encoded);
    let mut found: Option<(usize, u32)> = None;
    while let Ok(Some(field)) = fields.next() {
        let (span::ATTRIBUTES, Field::Bytes(entry)) = field else { continue };
        let mut entry = Fields::new(entry);
        let Some(key) = entry.next_bytes(1) else { continue };
        let Some(rank) = PEERS.iter().position(|peer| peer.as_bytes() == key) else { continue };
        let value = entry.next_bytes(2).map(AnyValue::read);
        let Some(Ok(AnyValue::String(value))) = value else { continue };
        if found.is_none_or(|(known, _)| rank < known) {
            found = Some((rank, fingerprint(host(value).as_bytes()).max(1)));
        }
    }
    found.map(|(_, peer)| peer)
}

/// Returns the host of a URL; other texts unchanged.
fn host(value: &str) -> &str {
    let rest = value.split_once("://").map_or(value, |(_, rest)| rest);
    rest.split(['/', '?', '#']).next().unwrap_or(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_of_a_url_is_what_stands_before_its_path() {
        assert_eq!(host("https://tools.example:8443/pay?x=1"), "tools.example:8443");
        assert_eq!(host("tools.example"), "tools.example");
    }
}
