//! Walks an export request: resources, scopes, and the items of the scopes.

use super::number;
use super::wire::{Field, Fields, Malformed};

/// What a walk over a request meets.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Step<'a> {
    /// An encoded resource, empty if there is none; its scopes follow.
    Resource(&'a [u8]),
    /// A scope's name, empty if there is none; its items follow.
    Scope(&'a [u8]),
    /// An encoded span or log record.
    Item(&'a [u8]),
}

/// Visits what an encoded `ExportTraceServiceRequest` or `ExportLogsServiceRequest` holds: both
/// have the same field numbers down to the items.
///
/// # Errors
/// The number of broken messages above the items; what stands before a break, and whole messages
/// behind a broken one, are visited all the same.
pub fn walk<'a>(request: &'a [u8], mut visit: impl FnMut(Step<'a>)) -> Result<(), u64> {
    let mut broken = 0;
    let whole = each(request, number::REQUEST_RESOURCES, |group| {
        visit(Step::Resource(first(group, number::RESOURCE)));
        let whole = each(group, number::SCOPES, |scope| {
            visit(Step::Scope(first(first(scope, number::SCOPE), number::SCOPE_NAME)));
            let whole = each(scope, number::ITEMS, |item| visit(Step::Item(item)));
            broken += u64::from(whole.is_err());
        });
        broken += u64::from(whole.is_err());
    });
    broken += u64::from(whole.is_err());
    if broken == 0 { Ok(()) } else { Err(broken) }
}

/// Calls `visit` with each field of that number.
#[inline]
fn each<'a>(
    message: &'a [u8],
    wanted: u32,
    mut visit: impl FnMut(&'a [u8]),
) -> Result<(), Malformed> {
    let mut fields = Fields::new(message);
    while let Some((number, field)) = fields.next()? {
        if let (true, Field::Bytes(bytes)) = (number == wanted, field) {
            visit(bytes);
        }
    }
    Ok(())
}

/// The first field of that number, which encoders write before all others; empty if there is none.
fn first(message: &[u8], wanted: u32) -> &[u8] {
    let mut fields = Fields::new(message);
    while let Ok(Some((number, field))) = fields.next() {
        if let (true, Field::Bytes(bytes)) = (number == wanted, field) {
            return bytes;
        }
    }
    &[]
}
