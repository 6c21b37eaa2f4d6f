//! In-memory disk that loses unsynced bytes, and fails by a plan.

use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::disk::{Disk, DiskFile};

/// Call to a disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Call {
    Create,
    Open,
    Size,
    Append,
    Sync,
    SyncFolder,
    Rename,
    Remove,
    Cut,
    Read,
}

/// Fault of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// Nothing is done, and the call fails with this error.
    Error(io::ErrorKind),
    /// Half of the bytes are written, without an error.
    Short,
    /// Half of the bytes are written; then the disk is full.
    Torn,
}

#[derive(Default)]
struct FakeContent {
    bytes: Vec<u8>,
    synced: Vec<u8>,
    /// True if its name survives a loss of power.
    is_named: bool,
}

type Content = Arc<Mutex<FakeContent>>;
type Plan = Box<dyn FnMut(Call, usize) -> Option<Fault> + Send>;

#[derive(Default)]
struct FakeState {
    files: BTreeMap<String, Content>,
    /// Removed files, restored by a loss of power.
    removed: BTreeMap<String, Content>,
    plan: Option<Plan>,
    /// Limit on the bytes of all files.
    bytes_max: Option<usize>,
}

/// In-memory disk; clones share it.
#[derive(Clone, Default)]
pub(super) struct FakeDisk(Arc<Mutex<FakeState>>);

struct FakeFile {
    disk: FakeDisk,
    content: Content,
}

impl FakeDisk {
    fn lock(&self) -> MutexGuard<'_, FakeState> {
        self.0.lock().unwrap()
    }

    /// Sets the plan that gives each call its fault.
    pub(super) fn plan(&self, mut plan: impl FnMut(Call) -> Option<Fault> + Send + 'static) {
        self.plan_sized(move |call, _| plan(call));
    }

    /// Sets a plan that also sees the number of bytes to append.
    pub(super) fn plan_sized(
        &self,
        plan: impl FnMut(Call, usize) -> Option<Fault> + Send + 'static,
    ) {
        self.lock().plan = Some(Box::new(plan));
    }

    /// Limits the bytes of the disk from now on.
    pub(super) fn limit(&self, bytes_max: usize) {
        self.lock().bytes_max = Some(bytes_max);
    }

    fn is_full(&self, more: usize) -> bool {
        let state = self.lock();
        let used: usize = state.files.values().map(|it| it.lock().unwrap().bytes.len()).sum();
        state.bytes_max.is_some_and(|most| used + more > most)
    }

    /// Returns another disk with the same files, all synced.
    pub(super) fn copied(&self) -> Self {
        let copy = Self::default();
        for (name, content) in &self.lock().files {
            let bytes = content.lock().unwrap().bytes.clone();
            let content = FakeContent { synced: bytes.clone(), bytes, is_named: true };
            copy.lock().files.insert(name.clone(), Arc::new(Mutex::new(content)));
        }
        copy
    }

    /// Ends all faults.
    pub(super) fn heal(&self) {
        self.lock().plan = None;
    }

    fn fault(&self, call: Call, bytes: usize) -> Option<Fault> {
        self.lock().plan.as_mut().and_then(|plan| plan(call, bytes))
    }

    fn check(&self, call: Call) -> io::Result<()> {
        match self.fault(call, 0) {
            Some(Fault::Error(kind)) => Err(kind.into()),
            _ => Ok(()),
        }
    }

    /// Loses power: unsynced bytes are lost, except this many of each file.
    pub(super) fn lose_power(&self, kept: usize) {
        let mut state = self.lock();
        let removed = std::mem::take(&mut state.removed);
        state.files.extend(removed);
        state.files.retain(|_, content| {
            let mut content = content.lock().unwrap();
            let unsynced = content.bytes.get(content.synced.len()..).unwrap_or(&[]);
            let kept = unsynced[..unsynced.len().min(kept)].to_vec();
            content.bytes = [content.synced.clone(), kept].concat();
            content.is_named
        });
    }

    pub(super) fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = self.lock().files.keys().cloned().collect();
        names.sort();
        names
    }

    pub(super) fn bytes(&self, name: &str) -> Vec<u8> {
        self.lock().files[name].lock().unwrap().bytes.clone()
    }

    /// Returns a disk with one synced file.
    pub(super) fn with(name: &str, bytes: Vec<u8>) -> Self {
        let disk = Self::default();
        let content = FakeContent { synced: bytes.clone(), bytes, is_named: true };
        disk.lock().files.insert(name.to_owned(), Arc::new(Mutex::new(content)));
        disk
    }
}

impl Disk for FakeDisk {
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.check(Call::Create)?;
        let mut state = self.lock();
        if state.files.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let content = Content::default();
        state.files.insert(name.to_owned(), Arc::clone(&content));
        Ok(Box::new(FakeFile { disk: self.clone(), content }))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.check(Call::Open)?;
        let content = self.lock().files.get(name).cloned().ok_or(io::ErrorKind::NotFound)?;
        Ok(Box::new(FakeFile { disk: self.clone(), content }))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.names())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.check(Call::Rename)?;
        let mut state = self.lock();
        let content = state.files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        if let Some(replaced) = state.files.insert(to.to_owned(), content) {
            state.removed.insert(to.to_owned(), replaced);
        }
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.check(Call::Remove)?;
        let mut state = self.lock();
        if let Some(content) = state.files.remove(name) {
            state.removed.insert(name.to_owned(), content);
        }
        Ok(())
    }

    fn sync_folder(&self) -> io::Result<()> {
        self.check(Call::SyncFolder)?;
        let mut state = self.lock();
        state.removed.clear();
        for content in state.files.values() {
            content.lock().unwrap().is_named = true;
        }
        Ok(())
    }
}

impl DiskFile for FakeFile {
    fn append(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let all: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
        let fault = self.disk.fault(Call::Append, all.len());
        let fault = fault.or_else(|| {
            self.disk.is_full(all.len()).then_some(Fault::Error(io::ErrorKind::StorageFull))
        });
        let taken = match fault {
            None => all.len(),
            Some(Fault::Error(kind)) => return Err(kind.into()),
            // A write of nothing would be no progress.
            Some(Fault::Short) => all.len().div_ceil(2),
            Some(Fault::Torn) => all.len() / 2,
        };
        self.content.lock().unwrap().bytes.extend_from_slice(&all[..taken]);
        match fault {
            Some(Fault::Torn) => Err(io::ErrorKind::StorageFull.into()),
            _ => Ok(taken),
        }
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.disk.check(Call::Read)?;
        let content = self.content.lock().unwrap();
        let rest = content.bytes.get(offset as usize..).unwrap_or(&[]);
        let len = rest.len().min(buffer.len());
        buffer[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    fn cut(&self, len: u64) -> io::Result<()> {
        self.disk.check(Call::Cut)?;
        self.content.lock().unwrap().bytes.truncate(len as usize);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.check(Call::Sync)?;
        let mut content = self.content.lock().unwrap();
        content.synced = content.bytes.clone();
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        self.disk.check(Call::Size)?;
        Ok(self.content.lock().unwrap().bytes.len() as u64)
    }
}
