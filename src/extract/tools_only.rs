//! Which parts of a model's messages speak of tools.
//!
//! Calls may stand only in messages, so messages are looked at whatever is evaluated; but most of
//! their bytes are prose that nobody asked for. What is kept here is what may hold a call or its
//! result; what is left out holds neither, in any of the known shapes.

/// Whether an attribute key names a tool or function call.
pub(super) fn names_tools(key: &[u8]) -> bool {
    let holds = |word: &[u8]| memchr::memmem::find(key, word).is_some();
    holds(b"tool") || holds(b"function_call")
}
