//! Headers of records: the signal, and the client group of the sender.

use rdkafka::message::{Headers, Message};

use crate::{GROUP_HEADER, SIGNAL_HEADER};
use spanscore_base::model::ClientGroup;

/// Returns the name of a record's signal, if present.
pub(super) fn signal_name<M: Message>(message: &M) -> Option<&[u8]> {
    values(message, SIGNAL_HEADER).flatten().next()
}

/// Returns the group of a record: the default one without a header, `None` for an invalid header.
pub(super) fn group<M: Message>(message: &M) -> Option<ClientGroup> {
    let mut named = values(message, GROUP_HEADER);
    let Some(digits) = named.next() else { return Some(ClientGroup::default()) };
    // Of two headers neither can be trusted.
    digits.and_then(ClientGroup::from_hex).filter(|_| named.next().is_none())
}

/// Returns the values of all headers with a name; a value may be missing.
fn values<'a, M: Message>(
    message: &'a M,
    name: &'static str,
) -> impl Iterator<Item = Option<&'a [u8]>> {
    let headers = message.headers().into_iter().flat_map(|headers| headers.iter());
    headers.filter(move |header| header.key == name).map(|header| header.value)
}

#[cfg(test)]
mod tests {
    use rdkafka::Timestamp;
    use rdkafka::message::{Header, OwnedHeaders, OwnedMessage};

    use super::*;

    fn message(headers: &[(&str, Option<&str>)]) -> OwnedMessage {
        let headers = headers.iter().fold(OwnedHeaders::new(), |headers, (key, value)| {
            headers.insert(Header { key, value: *value })
        });
        let time = Timestamp::NotAvailable;
        OwnedMessage::new(None, None, "spans".to_owned(), time, 0, 0, Some(headers))
    }

    #[track_caller]
    fn check(headers: &[(&str, Option<&str>)], expected: Option<ClientGroup>) {
        assert_eq!(group(&message(headers)), expected, "{headers:?}");
    }

    #[test]
    fn group_is_everybodys_without_a_header_and_unknown_with_one_that_names_none() {
        let one = ClientGroup::named("one");
        let digits = one.to_hex();
        let named = (GROUP_HEADER, Some(digits.as_str()));
        check(&[], Some(ClientGroup::default()));
        check(&[("traceparent", None)], Some(ClientGroup::default()));
        check(&[named], Some(one));
        check(&[(SIGNAL_HEADER, Some("logs")), named], Some(one));
        check(&[(GROUP_HEADER, None)], None);
        check(&[(GROUP_HEADER, Some(""))], None);
        check(&[(GROUP_HEADER, Some("one"))], None);
        check(&[(GROUP_HEADER, Some(&digits[1..]))], None);
        check(&[named, named], None);
    }
}
