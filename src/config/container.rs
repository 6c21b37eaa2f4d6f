//! Memory limit of the process's container: the cgroup's, version 1 or 2.
//!
//! A process is in one group of each hierarchy, subject to the limits of that group and all its
//! parents. Inside a container its group usually appears as the root.

use std::fs;
use std::path::{Path, PathBuf};

/// Memory of an idle process, without senders' data, bytes.
const IDLE_BYTES: u64 = 48 << 20;
/// Bounds of a derived `limits.memory_mib`.
const MIB_BOUNDS: [u64; 2] = [32, u32::MAX as u64];
/// Limits from here on mean none: version 1 writes the largest number of pages.
const UNLIMITED: u64 = 1 << 60;

/// Returns the limit of this process in bytes, if any.
pub(super) fn memory_limit() -> Option<u64> {
    memory_limit_below(Path::new("/"))
}

/// Returns the `limits.memory_mib` that keeps a process within this limit.
pub(super) fn memory_mib(container: u64) -> u32 {
    let [least, most] = MIB_BOUNDS;
    let bytes = container.saturating_sub(IDLE_BYTES).saturating_mul(10) / 11;
    u32::try_from((bytes >> 20).clamp(least, most)).unwrap_or(u32::MAX)
}

/// Returns the container size for a `limits.memory_mib`, MiB.
pub(super) fn container_mib(memory_mib: usize) -> usize {
    memory_mib.saturating_mul(11).div_ceil(10).saturating_add(48)
}

fn memory_limit_below(root: &Path) -> Option<u64> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let mounts = fs::read_to_string(root.join("proc/self/mountinfo")).ok()?;
    let limits = mounts.lines().filter_map(Mount::parse).filter_map(|mount| {
        let group = groups.lines().find_map(|line| mount.group(line))?;
        lowest(root, &mount, group)
    });
    limits.min()
}

/// Mounted cgroup hierarchy that limits memory.
struct Mount<'a> {
    /// Group at its root.
    group: &'a str,
    folder: &'a str,
    is_v2: bool,
}

impl<'a> Mount<'a> {
    /// Parses a line of `mountinfo`: `36 25 0:31 /group /folder options - type source options`.
    fn parse(line: &'a str) -> Option<Self> {
        let (place, system) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(3);
        let [group, folder] = [place.next()?, place.next()?];
        let mut system = system.split(' ');
        let is_v2 = match system.next()? {
            "cgroup2" => true,
            "cgroup" if system.nth(1)?.split(',').any(|it| it == "memory") => false,
            _ => return None,
        };
        Some(Self { group, folder, is_v2 })
    }

    /// Returns the group in this hierarchy from a line of `cgroup`: `4:memory:/group`, or
    /// `0::/group` of version 2.
    fn group<'l>(&self, line: &'l str) -> Option<&'l str> {
        let mut parts = line.splitn(3, ':');
        let [number, kinds] = [parts.next()?, parts.next()?];
        let is_own = if self.is_v2 {
            number == "0" && kinds.is_empty()
        } else {
            kinds.split(',').any(|kind| kind == "memory")
        };
        parts.next().filter(|_| is_own)
    }
}

/// Returns the lowest limit of a group and its parents, up to the mounted one.
fn lowest(root: &Path, mount: &Mount<'_>, group: &str) -> Option<u64> {
    let top = root.join(mount.folder.trim_start_matches('/'));
    // A group outside of the mount appears as its root.
    let below = Path::new(group).strip_prefix(mount.group).ok();
    let below = below.filter(|path| !path.iter().any(|part| part == ".."));
    let own: PathBuf = below.map_or_else(|| top.clone(), |below| top.join(below));
    let name = if mount.is_v2 { "memory.max" } else { "memory.limit_in_bytes" };
    let folders = own.ancestors().take_while(|folder| folder.starts_with(&top));
    let limits = folders.filter_map(|folder| {
        let text = fs::read_to_string(folder.join(name)).ok()?;
        text.trim().parse::<u64>().ok().filter(|limit| *limit < UNLIMITED)
    });
    limits.min()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Checks the limit found in these files.
    fn check(files: &[(&str, &str)], expected: Option<u64>) {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        assert_eq!(memory_limit_below(root.path()), expected, "{files:?}");
    }

    #[test]
    fn the_lowest_limit_of_a_group_and_those_around_it_is_found() {
        const V2: (&str, &str) = (
            "proc/self/mountinfo",
            "25 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
             36 25 0:31 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup rw,nsdelegate\n",
        );
        const IN_V2: (&str, &str) = ("proc/self/cgroup", "0::/pods/one\n");
        let own = ("sys/fs/cgroup/pods/one/memory.max", "536870912\n");
        let unlimited = ("sys/fs/cgroup/pods/one/memory.max", "max\n");
        let around = ("sys/fs/cgroup/pods/memory.max", "268435456\n");
        check(&[V2, IN_V2, own], Some(512 * MIB));
        check(&[V2, IN_V2, own, around], Some(256 * MIB));
        check(&[V2, IN_V2, unlimited], None);
        check(&[V2, IN_V2, unlimited, around], Some(256 * MIB));
        // A container sees its own group as the root.
        let root = ("sys/fs/cgroup/memory.max", "1073741824\n");
        check(&[V2, ("proc/self/cgroup", "0::/\n"), root], Some(1024 * MIB));
        check(&[V2, ("proc/self/cgroup", "0::/../one\n"), root], Some(1024 * MIB));
        check(&[V2, root], None);
        check(&[], None);
    }

    #[test]
    fn version_1_and_mounts_of_one_group_are_understood() {
        const V1: (&str, &str) = (
            "proc/self/mountinfo",
            "40 25 0:34 /docker/a /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu,cpuacct\n\
             41 25 0:35 /docker/a /sys/fs/cgroup/memory ro master:17 - cgroup cgroup rw,memory\n",
        );
        const IN_V1: (&str, &str) =
            ("proc/self/cgroup", "5:cpu,cpuacct:/docker/a\n4:memory:/docker/a\n1:name=systemd:/\n");
        let own = ("sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912\n");
        let none = ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
        check(&[V1, IN_V1, own], Some(512 * MIB));
        check(&[V1, IN_V1, none], None);
    }

    #[test]
    fn the_process_stays_within_its_container() {
        for (container, memory) in [(1024, 887), (512, 421), (48, 32), (0, 32), (1175, 1024)] {
            assert_eq!(memory_mib(container * MIB), memory, "{container}");
        }
        assert_eq!(container_mib(1024), 1175);
    }
}
