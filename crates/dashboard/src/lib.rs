//! Pages of the store: ES modules, style sheets and one document, served from `assets/` unchanged.
//!
//! There is no build step. A release build embeds the files; a debug build reads them from the
//! source, so that reloading the page shows a change. All files are public: the displayed data
//! comes from the API, which requires a token.

mod table;

use std::borrow::Cow;

pub use table::ASSETS;

/// Returns a file of the pages by its path without a leading slash: media type and bytes.
#[must_use]
pub fn asset(path: &str) -> Option<(&'static str, Cow<'static, [u8]>)> {
    let at = ASSETS.binary_search_by(|(known, _)| (*known).cmp(path)).ok()?;
    let (known, bytes) = ASSETS[at];
    Some((media_type(known), from_source(known).map_or(Cow::Borrowed(bytes), Cow::Owned)))
}

/// Reads a file from the source if present. The path is one of the table's.
#[cfg(debug_assertions)]
fn from_source(known: &str) -> Option<Vec<u8>> {
    std::fs::read(format!("{}/assets/{known}", env!("CARGO_MANIFEST_DIR"))).ok()
}

#[cfg(not(debug_assertions))]
fn from_source(_: &str) -> Option<Vec<u8>> {
    None
}

fn media_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map(|(_, extension)| extension) {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests;
