//! Cache of resources and keys, kept between requests.

use super::key_trie::KeyTrie;
use super::resources::ResourceCache;

/// Cache of resources and sequences of keys. It serves successive requests; concurrent ones need
/// one each.
#[derive(Default)]
pub struct ExtractionCache {
    pub(crate) resources: ResourceCache,
    pub(crate) trie: KeyTrie,
}
