//! Locates a process in the cgroup hierarchies: `/proc/PID/cgroup` (`cgroups(7)`) and
//! `/proc/self/mountinfo` (`proc_pid_mountinfo(5)`).

use crate::kind::Kind;
use idlewave_units::foreign::mounted_path;
use std::path::PathBuf;

/// One mounted hierarchy.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    /// The directory of the hierarchy that is mounted; not `/` in some containers.
    top: String,
    /// The mount point.
    at: String,
    writable: bool,
    kind: Kind,
}

/// Location of a process in one hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The directory of its cgroup.
    pub(crate) directory: PathBuf,
    /// Whether the hierarchy is mounted writable.
    pub(crate) writable: bool,
}

impl Mount {
    /// Parses a line of mountinfo if it is cgroup v2, or a v1 hierarchy with the freezer.
    fn parse(line: &str) -> Option<Self> {
        let (before, after) = line.split_once(" - ")?;
        let mut fields = before.split(' ').skip(3);
        let (top, at) = (mounted_path(fields.next()?), mounted_path(fields.next()?));
        let has = |options: &str, option| options.split(',').any(|o| o == option);
        let own_options = fields.next()?;
        let mut after = after.split(' ');
        let (file_system, options) = (after.next()?, after.nth(1).unwrap_or_default());
        let kind = match file_system {
            "cgroup2" => Kind::V2,
            "cgroup" if has(options, "freezer") => Kind::V1,
            _ => return None,
        };
        let writable = !has(own_options, "ro") && !has(options, "ro");
        Some(Mount {
            top,
            at,
            writable,
            kind,
        })
    }

    /// The directory of the group `path`; `None` if it is outside the mounted part.
    fn directory(&self, path: &str) -> Option<PathBuf> {
        let inside = path.strip_prefix(self.top.trim_end_matches('/'))?;
        let outside = !(inside.is_empty() || inside.starts_with('/'));
        if outside || inside.split('/').any(|part| part == "..") {
            return None;
        }
        let mut directory = PathBuf::from(&self.at);
        directory.extend(inside.split('/').filter(|part| !part.is_empty()));
        Some(directory)
    }
}

/// The group in the hierarchy of that kind, according to a `cgroup` file.
fn group(kind: Kind, membership: &str) -> Option<&str> {
    membership.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let fits = match kind {
            Kind::V2 => controllers.is_empty(),
            Kind::V1 => controllers.split(',').any(|c| c == "freezer"),
            Kind::Signals => false,
        };
        fits.then_some(path)
    })
}

/// The location of the process with that `cgroup` file, or the reason if its directory is not
/// accessible. A writable mount is preferred to a read-only one of the same hierarchy.
pub(crate) fn place(kind: Kind, membership: &str, mountinfo: &str) -> Result<Place, String> {
    let mounts: Vec<Mount> = mountinfo
        .lines()
        .filter_map(Mount::parse)
        .filter(|m| m.kind == kind)
        .collect();
    if mounts.is_empty() {
        return Err(match kind {
            Kind::V1 => "no hierarchy with the freezer controller is mounted".to_owned(),
            _ => "no hierarchy is mounted".to_owned(),
        });
    }
    let path = group(kind, membership).ok_or("the process is in no group of it")?;
    let mut places: Vec<Place> = mounts
        .iter()
        .filter_map(|mount| {
            Some(Place {
                directory: mount.directory(path)?,
                writable: mount.writable,
            })
        })
        .collect();
    places.sort_by_key(|place| !place.writable);
    places
        .into_iter()
        .next()
        .ok_or_else(|| format!("group {path} is outside the mounted part"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HYBRID: &str = "\
31 23 0:28 / /sys/fs/cgroup ro,relatime - tmpfs tmpfs ro,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
37 31 0:34 / /sys/fs/cgroup/freezer rw,relatime - cgroup cgroup rw,freezer
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate
";
    const MEMBER: &str =
        "9:name=systemd:/\n6:freezer:/slurm/uid_5\n4:memory:/a:b\n0::/user.slice\n";

    fn directory(kind: Kind, membership: &str, mountinfo: &str) -> Result<String, String> {
        let place = place(kind, membership, mountinfo)?;
        Ok(place.directory.display().to_string())
    }

    #[test]
    fn both_hierarchies_of_a_hybrid_machine_are_found() {
        let found = |kind| directory(kind, MEMBER, HYBRID).unwrap();
        assert_eq!(found(Kind::V2), "/sys/fs/cgroup/unified/user.slice");
        assert_eq!(found(Kind::V1), "/sys/fs/cgroup/freezer/slurm/uid_5");
    }

    #[test]
    fn what_is_not_mounted_or_not_reachable_is_said() {
        let why = |kind, membership, mountinfo| place(kind, membership, mountinfo).unwrap_err();
        assert_eq!(why(Kind::V2, MEMBER, ""), "no hierarchy is mounted");
        let without: String = HYBRID
            .lines()
            .filter(|l| !l.contains("freezer"))
            .collect::<Vec<_>>()
            .join("\n");
        assert_eq!(
            why(Kind::V1, MEMBER, &without),
            "no hierarchy with the freezer controller is mounted"
        );
        assert_eq!(
            why(Kind::V2, "1:freezer:/\n", HYBRID),
            "the process is in no group of it"
        );
        assert_eq!(
            why(Kind::V2, "0::/../above\n", HYBRID),
            "group /../above is outside the mounted part"
        );
    }

    #[test]
    fn in_a_container_the_mounted_directory_is_the_mount_point() {
        let line = "1 2 0:3 /docker/ab /sys/fs/my\\040groups ro - cgroup2 cgroup2 rw\n";
        let place = place(Kind::V2, "0::/docker/ab/x\n", line).unwrap();
        assert_eq!(place.directory, PathBuf::from("/sys/fs/my groups/x"));
        assert!(!place.writable);
        assert!(directory(Kind::V2, "0::/docker/abc\n", line).is_err());
    }

    #[test]
    fn of_two_mounts_the_writable_one_is_taken() {
        let lines =
            "1 2 0:3 / /ro ro - cgroup2 cgroup2 rw\n1 2 0:3 / /rw rw - cgroup2 cgroup2 rw\n";
        assert_eq!(directory(Kind::V2, "0::/\n", lines).unwrap(), "/rw");
        let read_only = "1 2 0:3 / /ro rw - cgroup2 cgroup2 ro\n";
        assert!(!place(Kind::V2, "0::/\n", read_only).unwrap().writable);
    }

    proptest! {
        #[test]
        fn any_text_gives_a_place_or_a_reason(member in "[0:/a.\n]{0,40}", mounts in "[a/ \n,-]{0,60}") {
            let _ = place(Kind::V2, &member, &mounts);
            let _ = Mount::parse(&mounts);
        }
    }
}
