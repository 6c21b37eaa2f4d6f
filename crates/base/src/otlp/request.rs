//! Walk over an export request: resources, scopes, and the items of the scopes.

use super::wire::{Field, Fields, Malformed, contents};
use super::{Signal, number};

/// Part of a visited request.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum RequestStep<'a> {
    /// An encoded resource, empty if there is none; its scopes follow.
    Resource(&'a [u8]),
    /// A scope's name, empty if there is none; its items follow.
    Scope(&'a [u8]),
    /// An encoded span or log record.
    Item(&'a [u8]),
}

/// Place from which a request is malformed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "malformed protobuf: no complete field at byte {at} of {len}; at least {items} spans, log \
     records or data points are lost"
)]
pub struct Broken {
    /// Lost items: those that begin in the unreadable part, at least one for each break.
    pub items: u64,
    /// Start of the first unreadable field, in bytes from the start.
    pub at: usize,
    /// Length of the request in bytes.
    pub len: usize,
}

impl Broken {
    /// Returns the break of `request` at the start of its part `rest`. `path` lists the field
    /// numbers of each level from there to the items.
    pub(super) fn new(request: &[u8], rest: &[u8], path: &[&[u32]]) -> Self {
        let at = rest.as_ptr().addr().saturating_sub(request.as_ptr().addr());
        Self { items: items_begun(rest, path).max(1), at, len: request.len() }
    }
}

/// Counts the items that begin in a possibly truncated message.
fn items_begun(message: &[u8], path: &[&[u32]]) -> u64 {
    let Some((wanted, below)) = path.split_first() else { return 1 };
    let mut fields = Fields::new(message);
    let mut items = 0;
    loop {
        let here = fields;
        let (field, is_last) = match fields.next() {
            Ok(Some((number, Field::Bytes(inner)))) => (Some((number, inner)), false),
            Ok(Some(_)) => (None, false),
            Ok(None) => (None, true),
            Err(Malformed) => (here.cut(), true),
        };
        if let Some((number, inner)) = field
            && wanted.contains(&number)
        {
            items += items_begun(inner, below);
        }
        if is_last {
            return items;
        }
    }
}

/// Field numbers of each level down to the items.
const PATH: [&[u32]; 3] = [&[number::REQUEST_RESOURCES], &[number::SCOPES], &[number::ITEMS]];

/// Visits the parts of an encoded `ExportTraceServiceRequest` or `ExportLogsServiceRequest`: both
/// have the same field numbers down to the items.
///
/// # Errors
/// The first malformed place above the items, and the number of items lost at all such
/// places. Everything before a break, and whole messages after a broken one, are still visited.
pub fn walk<'a>(request: &'a [u8], mut visit: impl FnMut(RequestStep<'a>)) -> Result<(), Broken> {
    let mut broken: Option<Broken> = None;
    let mut note = |whole: Result<(), &'a [u8]>, level: usize| {
        let Err(rest) = whole else { return };
        let this = Broken::new(request, rest, &PATH[level..]);
        let before = broken.unwrap_or(Broken { items: 0, ..this });
        let items = before.items + this.items;
        let at = before.at.min(this.at);
        broken = Some(Broken { items, at, ..this });
    };
    let whole = each(request, number::REQUEST_RESOURCES, |group| {
        visit(RequestStep::Resource(first(group, number::RESOURCE)));
        let whole = each(group, number::SCOPES, |scope| {
            visit(RequestStep::Scope(first(first(scope, number::SCOPE), number::SCOPE_NAME)));
            note(each(scope, number::ITEMS, |item| visit(RequestStep::Item(item))), 2);
        });
        note(whole, 1);
    });
    note(whole, 0);
    broken.map_or(Ok(()), Err)
}

/// Calls `visit` with each field of a number; if the message is malformed, returns the unread rest.
#[inline]
fn each<'a>(
    message: &'a [u8],
    wanted: u32,
    mut visit: impl FnMut(&'a [u8]),
) -> Result<(), &'a [u8]> {
    let mut fields = Fields::new(message);
    loop {
        let left = fields.rest();
        match fields.next() {
            Ok(Some((number, Field::Bytes(bytes)))) if number == wanted => visit(bytes),
            Ok(Some(_)) => {}
            Ok(None) => return Ok(()),
            Err(Malformed) => return Err(left),
        }
    }
}

/// Returns the first field of a number, which encoders write before all others; empty if absent.
fn first(message: &[u8], wanted: u32) -> &[u8] {
    contents(message, wanted).map_while(Result::ok).next().unwrap_or_default()
}

/// Returns the trace id of an encoded span or log record; `None` without one. Of repeated fields
/// the last counts, as in decoders.
pub fn trace_id(signal: Signal, item: &[u8]) -> Option<&[u8]> {
    let wanted = match signal {
        Signal::Traces => number::span::TRACE_ID,
        Signal::Logs => number::log::TRACE_ID,
        Signal::Metrics => return None,
    };
    contents(item, wanted).map_while(Result::ok).last().filter(|id| !id.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(fields: &[&[u8]]) -> Vec<u8> {
        let mut message = Vec::new();
        for field in fields {
            prost::encoding::encode_key(
                2,
                prost::encoding::WireType::LengthDelimited,
                &mut message,
            );
            prost::encoding::encode_varint(field.len() as u64, &mut message);
            message.extend_from_slice(field);
        }
        message
    }

    /// Encodes a request with this many items per group, each group with one scope.
    fn request(groups: &[usize]) -> Vec<u8> {
        let groups = groups.iter().map(|items| {
            let scope = message(&vec![&b"\x22\x01x"[..]; *items]);
            let mut group = vec![1 << 3 | 2, 0];
            group.extend(message(&[&scope]));
            group
        });
        let mut request = Vec::new();
        for group in groups {
            request.extend([1 << 3 | 2, group.len() as u8]);
            request.extend(group);
        }
        request
    }

    fn check(request: &[u8], items: usize, broken: Option<(u64, usize)>) {
        let mut visited = 0;
        let walked =
            walk(request, |step| visited += usize::from(matches!(step, RequestStep::Item(_))));
        let len = request.len();
        let expected = broken.map(|(items, at)| Broken { items, at, len });
        assert_eq!((visited, walked.err()), (items, expected), "{request:?}");
    }

    #[test]
    fn a_cut_is_told_with_its_place_and_the_items_behind_it() {
        let whole = request(&[2, 3]);
        let second = request(&[2]).len();
        check(&whole, 5, None);
        check(&whole[..whole.len() - 1], 2, Some((3, second)));
        check(&whole[..whole.len() - 6], 2, Some((2, second)));
        check(&whole[..second + 1], 2, Some((1, second)));
        check(&whole[..second - 1], 0, Some((2, 0)));
    }

    #[test]
    fn last_of_several_trace_ids_of_an_item_counts() {
        for (ids, expected) in [
            (&[&[1; 16][..], &[2; 16]][..], Some(&[2; 16][..])),
            (&[&[1; 16], &[]], None),
            (&[], None),
        ] {
            let fields = ids.iter().flat_map(|id| [&[10, id.len() as u8], *id].concat());
            let item = fields.collect::<Vec<u8>>();
            assert_eq!(trace_id(Signal::Traces, &item), expected, "{ids:?}");
        }
    }

    #[test]
    fn breaks_inside_whole_messages_are_added_up() {
        let mut broken = request(&[2, 3, 1]);
        let second = request(&[2]).len();
        let third = request(&[2, 3]).len();
        // The last item of each of the first two groups is longer than its scope.
        broken[second - 4] += 1;
        broken[third - 4] += 1;
        check(&broken, 1 + 2 + 1, Some((2, second - 5)));
        // A byte that begins no field.
        broken.push(0xff);
        check(&broken, 1 + 2 + 1, Some((3, second - 5)));
    }
}
