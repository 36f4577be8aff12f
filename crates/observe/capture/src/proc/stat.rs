//! CPU time of the system and of one process in clock ticks (proc_stat(5), proc_pid_stat(5)).

use idlewave_units::{Cpu, Nanos};
use std::collections::BTreeMap;

/// CPU time since boot in ticks (`USER_HZ`, 100 per second on all common machines). `user` and
/// `nice` include the time of guests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuTicks {
    pub(crate) user: u64,
    pub(crate) nice: u64,
    pub(crate) system: u64,
    /// Idle, waiting for I/O, interrupts and softirqs.
    pub(crate) rest: u64,
    pub(crate) steal: u64,
}

impl CpuTicks {
    /// Increase since `earlier`; a field that decreased (idle and iowait may) counts as unchanged.
    pub(crate) fn since(self, earlier: CpuTicks) -> CpuTicks {
        CpuTicks {
            user: self.user.saturating_sub(earlier.user),
            nice: self.nice.saturating_sub(earlier.nice),
            system: self.system.saturating_sub(earlier.system),
            rest: self.rest.saturating_sub(earlier.rest),
            steal: self.steal.saturating_sub(earlier.steal),
        }
    }

    /// Ticks of user and system code.
    pub(crate) fn used(self) -> u64 {
        self.user
            .saturating_add(self.nice)
            .saturating_add(self.system)
    }

    /// All ticks.
    pub(crate) fn all(self) -> u64 {
        self.used()
            .saturating_add(self.rest)
            .saturating_add(self.steal)
    }
}

/// Per CPU, from /proc/stat. Invalid lines are skipped.
pub(crate) fn cpu_ticks(stat: &str) -> BTreeMap<Cpu, CpuTicks> {
    stat.lines()
        .filter_map(|line| {
            let (label, numbers) = line.split_once(' ')?;
            let cpu = Cpu::new(label.strip_prefix("cpu")?.parse().ok()?);
            let numbers: Vec<u64> = numbers
                .split_ascii_whitespace()
                .map_while(|word| word.parse().ok())
                .collect();
            let [user, nice, system, idle, ref others @ ..] = numbers[..] else {
                return None;
            };
            // iowait, irq, softirq, steal; kernels without steal have fewer columns.
            let rest = others
                .iter()
                .take(3)
                .fold(idle, |sum, n| sum.saturating_add(*n));
            let steal = others.get(3).copied().unwrap_or(0);
            Some((
                cpu,
                CpuTicks {
                    user,
                    nice,
                    system,
                    rest,
                    steal,
                },
            ))
        })
        .collect()
}

/// A line of /proc/PID/stat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TaskStat {
    pub(crate) pid: u32,
    /// Shortened by [`short_name`].
    pub(crate) name: String,
    pub(crate) kernel: bool,
    /// Number of the process that started it, or adopted it.
    pub(crate) parent: u32,
    /// User and system time in ticks.
    pub(crate) ticks: u64,
    /// The same of the children that it has waited for, including their children.
    pub(crate) children: u64,
    /// Start in ticks since boot; identifies the thread together with its number, since numbers are
    /// reused.
    pub(crate) started: u64,
}

/// `PF_KTHREAD` of include/linux/sched.h.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// Parses a line of /proc/PID/stat. The name may contain blanks and parentheses.
pub(crate) fn task_stat(line: &str) -> Option<TaskStat> {
    let (pid, rest) = line.split_once(" (")?;
    let (name, rest) = rest.rsplit_once(") ")?;
    // Starts with field 3 (state).
    let fields: Vec<&str> = rest.split_ascii_whitespace().take(20).collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    Some(TaskStat {
        pid: pid.trim().parse().ok()?,
        kernel: field(9)? & KERNEL_THREAD != 0,
        parent: field(4)? as u32,
        ticks: field(14)?.saturating_add(field(15)?),
        children: field(16)?.saturating_add(field(17)?),
        started: field(22)?,
        name: short_name(name),
    })
}

/// The name of a thread in a trace: at most 15 bytes, and a worker without its current work
/// (`kworker/0:1-events` is `kworker/0:1`).
pub(crate) fn short_name(name: &str) -> String {
    let mut name = name.trim_end_matches('\n');
    if let Some(worker) = name.strip_prefix("kworker/") {
        if let Some(end) = worker.find(':') {
            let digits = worker[end + 1..].find(|c: char| !c.is_ascii_alphanumeric());
            name = digits.map_or(name, |n| &name[.."kworker/".len() + end + 1 + n]);
        }
    }
    let mut end = name.len().min(15);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name[..end].to_owned()
}

/// Nanoseconds of a number of ticks.
pub(crate) fn of_ticks(ticks: u64) -> Nanos {
    // `USER_HZ`.
    let per_second = rustix::param::clock_ticks_per_second();
    Nanos::from_nanos(ticks.saturating_mul(1_000_000_000 / per_second.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_time_of_a_cpu_is_split_into_its_kinds() {
        let stat = "cpu  9 9 9 9\ncpu0 1 2 3 40 5 6 7 8 1 1\ncpu12 1 2 3 4\ncpux 1 2 3 4\ncpu3 1 x\nintr 5\n";
        let ticks = cpu_ticks(stat);
        assert_eq!(ticks.len(), 2);
        let cpu0 = CpuTicks {
            user: 1,
            nice: 2,
            system: 3,
            rest: 58,
            steal: 8,
        };
        assert_eq!(ticks[&Cpu::new(0)], cpu0);
        assert_eq!(cpu0.all(), 72);
        assert_eq!(ticks[&Cpu::new(12)].steal, 0);
    }

    #[test]
    fn a_falling_counter_is_no_increase() {
        let earlier = CpuTicks {
            rest: 10,
            steal: 1,
            ..Default::default()
        };
        let later = CpuTicks {
            rest: 9,
            steal: 3,
            ..Default::default()
        };
        assert_eq!(
            later.since(earlier),
            CpuTicks {
                steal: 2,
                ..Default::default()
            }
        );
    }

    #[test]
    fn a_name_with_parentheses_and_blanks_is_read_whole() {
        let line = "77 (a) b (c) S 1 77 77 0 -1 4194304 1 0 0 0 30 12 0 0 20 0 1 0 555 1 2";
        let stat = task_stat(line).unwrap();
        assert_eq!((stat.pid, stat.name.as_str()), (77, "a) b (c"));
        assert_eq!((stat.ticks, stat.started, stat.kernel), (42, 555, false));
    }

    #[test]
    fn a_kernel_thread_is_known_by_its_flag() {
        let line = "2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 3 0 0 20 0 1 0 10 0 0";
        assert!(task_stat(line).unwrap().kernel);
    }

    #[test]
    fn a_worker_has_its_name_without_its_work() {
        for (name, short) in [
            ("kworker/0:1-events", "kworker/0:1"),
            ("kworker/u8:2+flush-8:0", "kworker/u8:2"),
            ("kworker/1:1H-kblockd", "kworker/1:1H"),
            ("kworker/R-rcu_gp", "kworker/R-rcu_g"),
            ("rcu_tasks_rude_kthread", "rcu_tasks_rude_"),
            (
                "ascii and \u{e4}\u{e4}\u{e4}\u{e4}",
                "ascii and \u{e4}\u{e4}",
            ),
        ] {
            assert_eq!(short_name(name), short);
        }
    }

    proptest! {
        #[test]
        fn foreign_text_never_panics(text in "\\PC*", odd in "[0-9a-z() /:+-]{0,60}") {
            for text in [&text, &odd] {
                cpu_ticks(&format!("cpu1 {text}"));
                task_stat(text);
                task_stat(&format!("1 ({text}) S {text}"));
                let name = short_name(&format!("kworker/{text}"));
                prop_assert!(name.len() <= 15);
            }
        }
    }
}
