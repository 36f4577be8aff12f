//! Limits on CPU time and memory of this process's cgroup and its parents, versions 1 and 2
//! (Documentation/admin-guide/cgroup-v2.rst and scheduler/sched-bwc.rst of the kernel).

use super::root::Root;
use idlewave_run::CgroupQuota;
use idlewave_units::Nanos;
use idlewave_units::foreign::mounted_path;

/// Most mounts examined; container hosts have a few thousand.
const MAX_MOUNTS: usize = 100_000;

/// Directories of this process's cgroup that control CPU time, relative to the root, from its own
/// group up to the topmost visible one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuGroups {
    /// Directories with `cpu.max` and `cpu.stat`.
    v2: Vec<String>,
    /// Directories with `cpu.cfs_quota_us` and `cpu.stat`.
    v1: Vec<String>,
}

/// One mounted hierarchy.
struct Mount<'a> {
    /// The directory of the hierarchy that is mounted; not `/` in some containers.
    top: String,
    /// The mount point.
    at: String,
    /// Names of controllers (version 1), empty for version 2.
    controllers: Vec<&'a str>,
    version_2: bool,
}

impl CpuGroups {
    /// The cgroup of this process, from /proc/self/cgroup and /proc/self/mountinfo.
    pub(crate) fn find(root: &Root) -> Result<Self, String> {
        Self::find_for("cpu", root)
    }

    /// The same for a controller other than CPU time.
    fn find_for(controller: &str, root: &Root) -> Result<Self, String> {
        let membership = root.text("proc/self/cgroup")?.unwrap_or_default();
        let mounts = root.text("proc/self/mountinfo")?.unwrap_or_default();
        let mounts: Vec<Mount<'_>> = mounts
            .lines()
            .take(MAX_MOUNTS)
            .filter_map(Mount::parse)
            .collect();
        let mut groups = CpuGroups::default();
        for line in membership.lines() {
            let mut fields = line.splitn(3, ':');
            let (Some(_), Some(controllers), Some(path)) =
                (fields.next(), fields.next(), fields.next())
            else {
                continue;
            };
            let version_2 = controllers.is_empty();
            if !version_2 && !controllers.split(',').any(|c| c == controller) {
                continue;
            }
            let mount = mounts.iter().find(|m| {
                m.version_2 == version_2 && (version_2 || m.controllers.contains(&controller))
            });
            if let Some(mount) = mount {
                let directories = mount.directories(path);
                if version_2 {
                    groups.v2 = directories
                } else {
                    groups.v1 = directories
                }
            }
        }
        Ok(groups)
    }

    /// The tightest limit of all groups on the path up; `Ok(None)` if there is none.
    pub(crate) fn quota(&self, root: &Root) -> Result<Option<CgroupQuota>, String> {
        let mut limits = Vec::new();
        for directory in &self.v2 {
            let max = root.text(&format!("{directory}/cpu.max"))?;
            limits.extend(max.as_deref().and_then(quota_v2));
        }
        for directory in &self.v1 {
            let quota = root.text(&format!("{directory}/cpu.cfs_quota_us"))?;
            let period = root.text(&format!("{directory}/cpu.cfs_period_us"))?;
            limits.extend(quota.zip(period).and_then(|(q, p)| quota_v1(&q, &p)));
        }
        Ok(limits.into_iter().min_by(|a, b| {
            // Compare quota / period without division: the product of two u64 fits u128.
            let left = u128::from(a.quota.get()) * u128::from(b.period.get());
            let right = u128::from(b.quota.get()) * u128::from(a.period.get());
            left.cmp(&right)
        }))
    }

    /// How often any of the groups was throttled; `None` if no group counts it.
    pub(crate) fn throttled(&self, root: &Root) -> Option<u64> {
        let counts: Vec<u64> = self
            .v2
            .iter()
            .chain(&self.v1)
            .filter_map(|directory| root.text(&format!("{directory}/cpu.stat")).ok()?)
            .filter_map(|stat| {
                stat.lines()
                    .find_map(|l| l.strip_prefix("nr_throttled ")?.trim().parse().ok())
            })
            .collect();
        (!counts.is_empty()).then(|| counts.iter().fold(0u64, |sum, n| sum.saturating_add(*n)))
    }
}

/// Bytes that this process's group and its parents may still use; `None` without a limit. Unused
/// page cache counts as free, since the kernel reclaims it first.
pub(crate) fn memory_left(root: &Root) -> Option<u64> {
    let groups = CpuGroups::find_for("memory", root).ok()?;
    let left = |directory: &String, files: [&str; 2], unused: &str| {
        let text = |file: &str| root.text(&format!("{directory}/{file}")).ok()?;
        let number = |file: &str| text(file)?.trim().parse::<u64>().ok();
        let [limit, used] = [number(files[0])?, number(files[1])?];
        let stat = text("memory.stat").unwrap_or_default();
        let line = stat.lines().find_map(|line| line.strip_prefix(unused));
        let unused = line.and_then(|n| n.trim().parse::<u64>().ok()).unwrap_or(0);
        Some(limit.saturating_sub(used.saturating_sub(unused)))
    };
    let v2 = groups
        .v2
        .iter()
        .filter_map(|d| left(d, ["memory.max", "memory.current"], "inactive_file "));
    let v1 = groups.v1.iter().filter_map(|d| {
        left(
            d,
            ["memory.limit_in_bytes", "memory.usage_in_bytes"],
            "total_inactive_file ",
        )
    });
    v2.chain(v1).min()
}

impl<'a> Mount<'a> {
    /// Parses a line of mountinfo (proc_pid_mountinfo(5)) if it is a cgroup hierarchy.
    fn parse(line: &'a str) -> Option<Self> {
        let (before, after) = line.split_once(" - ")?;
        let mut fields = before.split(' ').skip(3);
        let (top, at) = (mounted_path(fields.next()?), mounted_path(fields.next()?));
        let mut after = after.split(' ');
        let (kind, options) = (after.next()?, after.nth(1).unwrap_or_default());
        let version_2 = match kind {
            "cgroup2" => true,
            "cgroup" => false,
            _ => return None,
        };
        Some(Mount {
            top,
            at,
            controllers: options.split(',').collect(),
            version_2,
        })
    }

    /// Directories from the group `path` up to the mount point.
    fn directories(&self, path: &str) -> Vec<String> {
        // In a container the mounted directory may be the hierarchy's /docker/X, which then is the
        // mount point itself. A path that leads out of the mount ("/../..") counts as the mount
        // point.
        let inside = match path.strip_prefix(self.top.trim_end_matches('/')) {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => rest,
            _ => "",
        };
        let parts: Vec<&str> = inside.split('/').filter(|p| !p.is_empty()).collect();
        let parts = if parts.contains(&"..") {
            Vec::new()
        } else {
            parts
        };
        (0..=parts.len())
            .rev()
            .map(|depth| {
                let below = parts
                    .iter()
                    .take(depth)
                    .map(|p| format!("/{p}"))
                    .collect::<String>();
                format!("{}{below}", self.at.trim_end_matches('/'))
            })
            .collect()
    }
}

/// `cpu.max`: quota and period in us, or `max 100000`.
fn quota_v2(text: &str) -> Option<CgroupQuota> {
    let (quota, period) = text.trim().split_once(' ')?;
    quota_v1(quota, period)
}

/// Quota and period in us; -1 or `max` is no limit.
fn quota_v1(quota: &str, period: &str) -> Option<CgroupQuota> {
    let us = |text: &str| {
        text.trim()
            .parse::<u64>()
            .ok()?
            .checked_mul(1_000)
            .filter(|n| *n > 0)
    };
    Some(CgroupQuota {
        quota: Nanos::from_nanos(us(quota)?),
        period: Nanos::from_nanos(us(period)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn limit(quota_us: u64, period_us: u64) -> CgroupQuota {
        CgroupQuota {
            quota: Nanos::from_micros(quota_us),
            period: Nanos::from_micros(period_us),
        }
    }

    #[test]
    fn limits_of_both_versions_are_read_and_no_limit_is_none() {
        assert_eq!(quota_v2("150000 100000\n"), Some(limit(150_000, 100_000)));
        assert_eq!(quota_v2("max 100000\n"), None);
        assert_eq!(quota_v1("50000\n", "20000\n"), Some(limit(50_000, 20_000)));
        assert_eq!(quota_v1("-1\n", "100000\n"), None);
    }

    #[test]
    fn a_group_is_looked_up_to_its_mount_point() {
        let line = "32 31 0:29 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw,nsdelegate";
        let mount = Mount::parse(line).unwrap();
        let at = "/sys/fs/cgroup";
        assert_eq!(
            mount.directories("/a/b"),
            [format!("{at}/a/b"), format!("{at}/a"), at.into()]
        );
        assert_eq!(mount.directories("/../x"), [at]);
    }

    #[test]
    fn a_container_without_a_namespace_sees_its_group_at_the_mount_point() {
        let line = "1 2 0:3 /docker/ab /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu,cpuacct";
        let mount = Mount::parse(line).unwrap();
        assert_eq!(mount.controllers, ["rw", "cpu", "cpuacct"]);
        assert_eq!(mount.directories("/docker/ab"), ["/sys/fs/cgroup/cpu"]);
        assert_eq!(mount.directories("/docker/abc"), ["/sys/fs/cgroup/cpu"]);
    }

    proptest! {
        #[test]
        fn foreign_text_never_panics(text in "\\PC{0,80}", line in "[a-z0-9 /\\-\\\\.]{0,80}") {
            for text in [&text, &line] {
                quota_v2(text);
                quota_v1(text, text);
                if let Some(mount) = Mount::parse(text) {
                    mount.directories(text);
                }
            }
        }
    }
}
