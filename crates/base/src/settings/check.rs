//! Validating readers of settings, for `deserialize_with`.

use std::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};

/// Reads a number or duration that must not be zero.
pub fn above_zero<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default + PartialEq,
{
    let value = T::deserialize(deserializer)?;
    if value == T::default() { Err(D::Error::custom("must be above zero")) } else { Ok(value) }
}

/// Reads an optional number that must not be zero.
pub fn some_above_zero<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default + PartialEq,
{
    let value = Option::<T>::deserialize(deserializer)?;
    if value.as_ref().is_some_and(|value| *value == T::default()) {
        return Err(D::Error::custom("must be above zero"));
    }
    Ok(value)
}

/// Reads a listen address, `host:port`.
pub fn listen_address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = on_all_addresses(ListenAddress::deserialize(deserializer)?.0);
    check_address(&text).map_err(D::Error::custom)?;
    Ok(text)
}

/// Unchecked text of a listen address.
struct ListenAddress(String);

impl<'de> Deserialize<'de> for ListenAddress {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AddressText;
        impl Visitor<'_> for AddressText {
            type Value = ListenAddress;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an address to listen on, such as \"127.0.0.1:4318\"")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<ListenAddress, E> {
                Ok(ListenAddress(text.to_owned()))
            }
        }
        deserializer.deserialize_str(AddressText)
    }
}

/// Expands `:4317` to all addresses, as the OpenTelemetry Collector does.
fn on_all_addresses(text: String) -> String {
    if text.starts_with(':') { format!("0.0.0.0{text}") } else { text }
}

/// Reads an optional listen address; `null` means none.
pub fn optional_listen_address<'de, D>(deserializer: D) -> Result<Option<String>, D::Error>
where
    D: Deserializer<'de>,
{
    let text = Option::<ListenAddress>::deserialize(deserializer)?;
    let text = text.map(|address| on_all_addresses(address.0));
    text.as_deref().map_or(Ok(()), check_address).map_err(D::Error::custom)?;
    Ok(text)
}

fn check_address(text: &str) -> Result<(), String> {
    let is_host = |host: &str| match host.strip_prefix('[') {
        Some(address) => address.ends_with(']'),
        // `4317:4317` maps a port, as containers do.
        None => {
            host == "0"
                || host.contains(|it: char| !it.is_ascii_digit()) && !host.contains([':', '/'])
        }
    };
    match text.rsplit_once(':') {
        Some((host, port)) if is_host(host) && port.parse::<u16>().is_ok() => Ok(()),
        _ => Err(format!(
            "{text:?} is no address to listen on; write host:port, such as 127.0.0.1:4318, or \
             0.0.0.0:4318 for all addresses"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_host_and_a_port() {
        for good in ["127.0.0.1:0", "localhost:4317", "[::1]:4318", "0.0.0.0:65535", "0:4317"] {
            assert_eq!(check_address(good), Ok(()));
        }
        for bad in ["", "4317", "localhost", "http://localhost:4317", "::1:4317", "a:70000", "1:1"]
        {
            assert!(check_address(bad).is_err(), "{bad}");
        }
        for (written, meant) in [(":4317", "0.0.0.0:4317"), ("[::]:4317", "[::]:4317")] {
            assert_eq!(on_all_addresses(written.to_owned()), meant);
        }
        assert!(check_address(&on_all_addresses("::1:4317".to_owned())).is_err());
    }
}
