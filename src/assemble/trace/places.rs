//! Where records and resources of a large trace stand. Those of a small one are looked through, so
//! the index is held beside the traces that have one.

use hashbrown::HashMap;

/// An index, where there is one, of what stands where in a trace.
#[derive(Debug, Default)]
pub(super) struct PlaceIndex(Option<Box<IndexParts>>);

#[derive(Debug, Default)]
struct IndexParts {
    /// Where each record stands, by its key.
    records: HashMap<u64, u32>,
    /// Where the resource at an address stands.
    resources: HashMap<usize, u32>,
}

impl PlaceIndex {
    /// Records by key, after all of them were indexed if none was.
    pub(super) fn records(
        &mut self,
        all: impl FnOnce() -> HashMap<u64, u32>,
    ) -> &mut HashMap<u64, u32> {
        let records = &mut self.0.get_or_insert_default().records;
        if records.is_empty() {
            *records = all();
        }
        records
    }

    /// Resources by address, after all of them were indexed if none was.
    pub(super) fn resources(
        &mut self,
        all: impl FnOnce() -> HashMap<usize, u32>,
    ) -> &mut HashMap<usize, u32> {
        let resources = &mut self.0.get_or_insert_default().resources;
        if resources.is_empty() {
            *resources = all();
        }
        resources
    }

    /// Adds a record, if there is an index of them.
    pub(super) fn add_record(&mut self, key: impl FnOnce() -> u64, place: u32) {
        if let Some(index) = self.0.as_mut().filter(|index| !index.records.is_empty()) {
            index.records.insert(key(), place);
        }
    }

    /// Adds a resource, if there is an index of them.
    pub(super) fn add_resource(&mut self, address: usize, place: u32) {
        if let Some(index) = self.0.as_mut().filter(|index| !index.resources.is_empty()) {
            index.resources.insert(address, place);
        }
    }

    /// Bytes held for it.
    pub(super) fn bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |index| {
            let IndexParts { records, resources } = &**index;
            size_of::<IndexParts>() + records.allocation_size() + resources.allocation_size()
        })
    }
}
