//! What the kernel keeps of every CPU for ordinary threads.
//!
//! Source: Documentation/scheduler/sched-rt-group.rst and sched-deadline.rst of the kernel. Since
//! Linux 6.12, real-time threads are throttled only within control groups; a deadline server runs
//! ordinary threads that starve.

use super::root::Root;
use idlewave_run::{Reserve, ReservedBy};
use idlewave_units::Nanos;
use std::path::Path;

/// The first kernel with a fair server.
const FAIR_SERVER: [u64; 2] = [6, 12];
/// What the fair server has unless somebody changed it: the kernel shows it to root at most
/// (`/sys/kernel/debug/sched/fair_server`).
const USUAL: [Nanos; 2] = [Nanos::from_millis(50), Nanos::from_secs(1)];

/// Time that real-time threads do not get; `None` if there is none, or if the kernel does not say.
pub fn realtime_reserve(root: &Path) -> Option<Reserve> {
    let root = Root::new(root);
    let read = |path: &str| root.text(path).ok().flatten();
    let nanos = |path: &str, unit: u64| {
        let text = read(path)?;
        let number: u64 = text.trim().parse().ok()?;
        Some(Nanos::from_nanos(number.checked_mul(unit)?))
    };
    let release = read("proc/sys/kernel/osrelease")?;
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut number = || numbers.next()?.parse::<u64>().ok();
    let version = [number()?, number()?];
    if version >= FAIR_SERVER {
        let of_cpu = |field: &str| {
            nanos(
                &format!("sys/kernel/debug/sched/fair_server/cpu0/{field}"),
                1,
            )
        };
        let time = of_cpu("runtime").unwrap_or(USUAL[0]);
        return (time > Nanos::ZERO).then_some(Reserve {
            time,
            period: of_cpu("period").unwrap_or(USUAL[1]),
            by: ReservedBy::FairServer,
        });
    }
    // -1 is no limit, and no number here.
    let runtime = nanos("proc/sys/kernel/sched_rt_runtime_us", 1_000)?;
    let period = nanos("proc/sys/kernel/sched_rt_period_us", 1_000)?;
    let time = period.saturating_sub(runtime);
    (time > Nanos::ZERO).then_some(Reserve {
        time,
        period,
        by: ReservedBy::Throttling,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_kernel_says_how_much_it_keeps_and_the_version_says_how() {
        let dir = tempfile::tempdir().expect("a directory");
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            fs::write(path, text).expect("a file");
        };
        assert_eq!(realtime_reserve(dir.path()), None);
        write("proc/sys/kernel/osrelease", "6.1.0-13-amd64\n");
        write("proc/sys/kernel/sched_rt_runtime_us", "950000\n");
        write("proc/sys/kernel/sched_rt_period_us", "1000000\n");
        let reserve = |by, millis| {
            Some(Reserve {
                time: Nanos::from_millis(millis),
                period: Nanos::from_secs(1),
                by,
            })
        };
        let found = || realtime_reserve(dir.path());
        assert_eq!(found(), reserve(ReservedBy::Throttling, 50));
        write("proc/sys/kernel/sched_rt_runtime_us", "-1\n");
        assert_eq!(found(), None);
        write("proc/sys/kernel/osrelease", "6.12.3\n");
        assert_eq!(found(), reserve(ReservedBy::FairServer, 50));
        let server = "sys/kernel/debug/sched/fair_server/cpu0";
        write(&format!("{server}/runtime"), "20000000\n");
        write(&format!("{server}/period"), "1000000000\n");
        assert_eq!(found(), reserve(ReservedBy::FairServer, 20));
        write(&format!("{server}/runtime"), "0\n");
        assert_eq!(found(), None);
    }
}
