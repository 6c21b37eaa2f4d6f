//! Memo of resources and of keys, carried from request to request.

use super::key_trie::KeyTrie;
use super::resources::ResourceCache;

/// Resources and paths of keys that came before. It serves one request after the other; requests
/// that are read at once need one each.
#[derive(Default)]
pub struct ExtractionCache {
    pub(crate) resources: ResourceCache,
    pub(crate) trie: KeyTrie,
}
