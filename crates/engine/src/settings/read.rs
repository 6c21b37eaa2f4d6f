//! Readers of settings that report all errors.

use spanscore_base::settings::{Node, NodeKind, Place, SettingsError};
use spanscore_base::value::Value;

/// Limit on the errors reported for one part of a config.
const MISTAKES_MAX: usize = 20;

/// Reads a node with `build`. After an error the entry at its place is removed and the rest is read
/// again, so that one run reports all errors.
pub fn read_all<T>(
    node: &Node,
    errors: &mut Vec<SettingsError>,
    build: impl Fn(&Node) -> Result<T, SettingsError>,
) -> Option<T> {
    let mut error = match build(node) {
        Ok(read) => return Some(read),
        Err(error) => error.at(node.place),
    };
    let mut rest = node.clone();
    // The lack of a removed entry is not the user's error.
    let mut reported = Vec::new();
    for _ in 0..MISTAKES_MAX {
        let place = error.place;
        errors.push(error);
        let Some(place) = place else { break };
        reported.push(place);
        if !remove(&mut rest, place, &mut reported) {
            break;
        }
        match build(&rest).map_err(|error| error.at(node.place)) {
            Err(next) if next.place.is_some_and(|place| !reported.contains(&place)) => error = next,
            _ => break,
        }
    }
    None
}

/// Removes the innermost entry or item at a place, and collects the places of its containers.
fn remove(node: &mut Node, place: Place, around: &mut Vec<Place>) -> bool {
    let own = node.place;
    let removed = match &mut node.kind {
        NodeKind::List(items) => {
            items.iter_mut().any(|item| remove(item, place, around)) || {
                // In a list of texts and numbers each has its place: later ones move up.
                if is_mixed(items) {
                    around.extend(items.iter().map(|item| item.place));
                }
                take(items, |item| item.place == place)
            }
        }
        NodeKind::Map(entries) => {
            entries.iter_mut().any(|(_, value)| remove(value, place, around))
                || take(entries, |(key, value)| key.place == place || value.place == place)
        }
        _ => false,
    };
    if removed {
        around.push(own);
    }
    removed
}

/// Returns true if a list holds texts beside other scalars.
fn is_mixed(items: &[Node]) -> bool {
    let is_text = |item: &Node| matches!(&item.kind, NodeKind::Scalar(Value::String(_)));
    let is_scalar = |item: &Node| matches!(&item.kind, NodeKind::Scalar(_));
    items.iter().all(is_scalar) && items.iter().any(is_text) && !items.iter().all(is_text)
}

fn take<T>(items: &mut Vec<T>, is_it: impl Fn(&T) -> bool) -> bool {
    match items.iter().position(is_it) {
        Some(index) => {
            items.remove(index);
            true
        }
        None => false,
    }
}
