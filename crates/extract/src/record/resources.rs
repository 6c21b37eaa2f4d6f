//! Cache of resources, shared by all traces with the same one.

use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::BuildHasher;

use spanscore_base::model::Resource;
use spanscore_base::otlp::any_value::key_values;
use spanscore_base::otlp::semconv::SERVICE_NAME;
use spanscore_base::value::Value;

/// Limit on cached resources, then on their bytes; beyond either the cache is cleared, which only
/// costs memory, as traces hold theirs.
const RESOURCES_MAX: usize = 1024;
const KEPT_BYTES_MAX: usize = 1 << 20;

/// Largest cached resource, bytes: it may be as large as a request.
const RESOURCE_BYTES_MAX: usize = 16 << 10;

/// Cache of resources.
#[derive(Default)]
pub(crate) struct ResourceCache {
    known: HashTable<Arc<Resource>>,
    /// Bytes of the cached resources.
    bytes: usize,
    hasher: DefaultHashBuilder,
}

impl ResourceCache {
    /// Returns the resource with that encoding.
    pub(crate) fn intern(&mut self, encoded: &[u8]) -> Arc<Resource> {
        let hash = self.hasher.hash_one(encoded);
        if let Some(known) = self.known.find(hash, |known| known.encoded == encoded) {
            return Arc::clone(known);
        }
        let resource =
            Arc::new(Resource { encoded: encoded.to_vec(), service_name: service_name(encoded) });
        if encoded.len() > RESOURCE_BYTES_MAX {
            return resource;
        }
        let bytes = resource.bytes();
        if self.known.len() >= RESOURCES_MAX || self.bytes + bytes > KEPT_BYTES_MAX {
            self.known.clear();
            self.bytes = 0;
        }
        self.bytes += bytes;
        let hasher = &self.hasher;
        self.known.insert_unique(hash, Arc::clone(&resource), |known| {
            hasher.hash_one(known.encoded.as_slice())
        });
        resource
    }
}

/// Attributes are field 1 of a resource, as in a `KeyValueList`.
fn service_name(encoded: &[u8]) -> String {
    let found = key_values(encoded).flatten().find(|(key, _)| *key == SERVICE_NAME);
    match found.map(|(_, value)| value.to_value()) {
        Some(Ok(Value::String(name))) => name.into_owned(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_resources_are_one() {
        let mut cache = ResourceCache::default();
        let one = cache.intern(b"\x0a\x16\x0a\x0cservice.name\x12\x06\x0a\x04shop");
        let same = cache.intern(&one.encoded);
        assert!(Arc::ptr_eq(&one, &same));
        assert_eq!(one.service_name, "shop");
    }

    #[test]
    fn the_cache_stays_bounded() {
        let mut cache = ResourceCache::default();
        for number in 0..3 * RESOURCES_MAX {
            cache.intern(&number.to_le_bytes());
        }
        assert!(cache.known.len() <= RESOURCES_MAX);
        let count = cache.known.len();
        cache.intern(&vec![0; RESOURCE_BYTES_MAX + 1]);
        assert_eq!(cache.known.len(), count);
        for number in 0..300_u32 {
            cache.intern(&number.to_le_bytes().repeat(2_000));
            assert!(cache.bytes <= KEPT_BYTES_MAX);
        }
    }
}
