//! Index of the records and resources of a large trace. Small traces are scanned, so only large
//! ones have an index.

use hashbrown::HashMap;

/// Optional index of records and resources in a trace.
#[derive(Debug, Default)]
pub(super) struct PlaceIndex(Option<Box<IndexParts>>);

#[derive(Debug, Default)]
struct IndexParts {
    /// Index of each record by its key.
    records: HashMap<u64, u32>,
    /// Index of each resource by its address.
    resources: HashMap<usize, u32>,
}

impl PlaceIndex {
    /// Returns the records by key, after indexing all of them if necessary.
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

    /// Returns the resources by address, after indexing all of them if necessary.
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

    /// Adds a record, if records are indexed.
    pub(super) fn add_record(&mut self, key: impl FnOnce() -> u64, place: u32) {
        if let Some(index) = self.0.as_mut().filter(|index| !index.records.is_empty()) {
            index.records.insert(key(), place);
        }
    }

    /// Adds a resource, if resources are indexed.
    pub(super) fn add_resource(&mut self, address: usize, place: u32) {
        if let Some(index) = self.0.as_mut().filter(|index| !index.resources.is_empty()) {
            index.resources.insert(address, place);
        }
    }

    /// Returns the bytes held for it.
    pub(super) fn bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |index| {
            let IndexParts { records, resources } = &**index;
            size_of::<IndexParts>() + records.allocation_size() + resources.allocation_size()
        })
    }
}
