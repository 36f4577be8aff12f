//! Load by other processes during a run.

use super::stat::{CpuTicks, TaskStat, cpu_ticks, task_stat};
use super::tasks::{TaskReading, differences, readings};
use crate::host::cgroup::CpuGroups;
use crate::host::root::Root;
use idlewave_run::Contamination;
use idlewave_units::{Cpu, Nanos, Pid};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// Most names listed.
const TOP: usize = 10;
/// The program's processes are examined again after this fraction, 1/50, of the time since the
/// start: their use after the last look is then at most about this fraction of their total.
const AGAIN: u32 = 50;
/// Parents followed from a process to this one.
const GENERATIONS: usize = 64;

/// Reads the system's counters at the start of a run and at its end.
#[derive(Debug)]
pub struct ContaminationMeter {
    root: Root,
    groups: CpuGroups,
    started: Instant,
    before: Reading,
    /// Processes of the recorded program, by number.
    program: BTreeMap<u32, OfProgram>,
    looked: Option<Duration>,
}

/// Last reading of a process of the recorded program.
#[derive(Clone, Copy, Debug)]
struct OfProgram {
    ticks: u64,
    /// Its use before the meter was started.
    before: u64,
    /// Whether it descends from this process, to which the kernel adds its CPU time when it ends.
    descends: bool,
}

/// Counters at one time; `None` and empty if they cannot be read.
#[derive(Debug, Default)]
struct Reading {
    cpus: BTreeMap<Cpu, CpuTicks>,
    own: Option<Own>,
    pressure_us: Option<u64>,
    throttled: Option<u64>,
    tasks: BTreeMap<u32, TaskReading>,
}

/// All threads of this process.
#[derive(Clone, Copy, Debug)]
struct Own {
    process: u32,
    ticks: u64,
    /// CPU time of the children that it has waited for.
    children: u64,
}

impl ContaminationMeter {
    /// Reads the counters below `root` (`/` for this machine).
    pub fn start(root: &Path) -> ContaminationMeter {
        let root = Root::new(root);
        // Without the cgroup, throttling is unknown and the field is `None`.
        let groups = CpuGroups::find(&root).unwrap_or_default();
        let before = Reading::take(&root, &groups);
        ContaminationMeter {
            root,
            groups,
            started: Instant::now(),
            before,
            program: BTreeMap::new(),
            looked: None,
        }
    }

    /// Counts these processes as the program's. Call it often while they run: it examines them
    /// often at first, and then ever more rarely. A descendant of this process that was waited for
    /// need not be named.
    pub fn look_at_program(&mut self, processes: &[Pid]) {
        let now = self.started.elapsed();
        let due = self.looked.is_none_or(|last| now - last >= now / AGAIN);
        if due {
            self.looked = Some(now);
            self.look(processes);
        }
    }

    /// Says that these processes of the program are already running; their use so far is excluded.
    pub fn set_running(&mut self, processes: &[Pid]) {
        let own = self.before.own.map(|own| own.process);
        for pid in processes.iter().map(|pid| pid.get()) {
            if let Some(stat) = self.stat(pid).filter(|_| Some(pid) != own) {
                let ticks = stat.ticks.saturating_add(stat.children);
                let seen = OfProgram {
                    ticks,
                    before: ticks,
                    descends: self.descends(stat.parent),
                };
                self.program.insert(pid, seen);
            }
        }
    }

    fn look(&mut self, processes: &[Pid]) {
        for pid in processes.iter().map(|pid| pid.get()) {
            // A process that has ended keeps its last reading.
            if let Some(stat) = self.stat(pid) {
                let seen = OfProgram {
                    ticks: stat.ticks.saturating_add(stat.children),
                    before: self.program.get(&pid).map_or(0, |p| p.before),
                    descends: self.descends(stat.parent),
                };
                self.program.insert(pid, seen);
            }
        }
    }

    fn stat(&self, pid: u32) -> Option<TaskStat> {
        let line = self.root.text(&format!("proc/{pid}/stat")).ok().flatten();
        task_stat(&line?)
    }

    fn descends(&self, mut parent: u32) -> bool {
        let Some(own) = self.before.own else {
            return false;
        };
        for _ in 0..GENERATIONS {
            if parent == own.process || parent <= 1 {
                break;
            }
            match self.stat(parent) {
                Some(stat) => parent = stat.parent,
                None => break,
            }
        }
        parent == own.process
    }

    /// Reads the counters again. Shares are of the time of all CPUs that were online both times.
    ///
    /// `others` is all user and system time minus that of this process, of the children that it
    /// waited for in between, and of the program's processes, in steps of a clock tick. Interrupts
    /// and idle time belong to no one. Tasks of the same name are added up; those that started and
    /// ended in between are in `others` but not in `top_tasks`.
    pub fn finish(mut self) -> Contamination {
        let wall = Nanos::from(self.started.elapsed());
        let alive: Vec<Pid> = self.program.keys().map(|&pid| Pid::new(pid)).collect();
        self.look(&alive);
        let after = Reading::take(&self.root, &self.groups);
        self.before.until(&after, wall, &self.program)
    }
}

impl Reading {
    fn take(root: &Root, groups: &CpuGroups) -> Reading {
        let text = |path: &str| root.text(path).ok().flatten();
        let own = text("proc/self/stat").and_then(|line| task_stat(&line));
        Reading {
            cpus: cpu_ticks(&text("proc/stat").unwrap_or_default()),
            own: own.map(|stat| Own {
                process: stat.pid,
                ticks: stat.ticks,
                children: stat.children,
            }),
            pressure_us: text("proc/pressure/cpu").as_deref().and_then(pressure_us),
            throttled: groups.throttled(root),
            tasks: readings(root),
        }
    }

    fn until(
        &self,
        after: &Reading,
        wall: Nanos,
        program: &BTreeMap<u32, OfProgram>,
    ) -> Contamination {
        let both = after
            .cpus
            .iter()
            .filter_map(|(cpu, ticks)| self.cpus.get(cpu).map(|before| ticks.since(*before)));
        let (mut used, mut steal, mut all, mut cpus) = (0u64, 0u64, 0u64, 0u32);
        for ticks in both {
            used = used.saturating_add(ticks.used());
            steal = steal.saturating_add(ticks.steal);
            all = all.saturating_add(ticks.all());
            cpus += 1;
        }
        let share = |ticks: u64| (all > 0).then(|| (ticks as f64 / all as f64).min(1.0));
        let own = self.own.zip(after.own).map(|(b, a)| {
            let waited_for = a.children.saturating_sub(b.children);
            // A parent may ignore its children's end; then the looks have seen more.
            let descending = waited_for.max(ticks_of(program, true));
            a.ticks
                .saturating_sub(b.ticks)
                .saturating_add(descending)
                .saturating_add(ticks_of(program, false))
        });
        Contamination {
            wall,
            cpus,
            others: own.and_then(|own| share(used.saturating_sub(own))),
            steal: share(steal),
            top_tasks: self.top_tasks(after, program),
            cpu_pressure: self
                .pressure_us
                .zip(after.pressure_us)
                .filter(|_| wall.get() > 0)
                .map(|(b, a)| (a.saturating_sub(b) as f64 * 1e3 / wall.as_f64()).min(1.0)),
            throttled: self
                .throttled
                .zip(after.throttled)
                .map(|(b, a)| a.saturating_sub(b)),
        }
    }

    fn top_tasks(&self, after: &Reading, program: &BTreeMap<u32, OfProgram>) -> Vec<(String, u64)> {
        let own = after.own.map(|own| own.process);
        let mut by_name: BTreeMap<&str, u64> = BTreeMap::new();
        for (task, used) in differences(&self.tasks, &after.tasks) {
            let ours = Some(task.process) == own || program.contains_key(&task.process);
            if !ours && used.ran_ns > 0 {
                let sum = by_name.entry(&task.stat.name).or_default();
                *sum = sum.saturating_add(used.ran_ns);
            }
        }
        let mut top: Vec<(String, u64)> = by_name
            .into_iter()
            .map(|(name, ns)| (name.to_owned(), ns))
            .collect();
        // Entries with equal times stay in order of name.
        top.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
        top.truncate(TOP);
        top
    }
}

fn ticks_of(program: &BTreeMap<u32, OfProgram>, descending: bool) -> u64 {
    let processes = program.values().filter(|p| p.descends == descending);
    processes.fold(0, |sum: u64, p| {
        sum.saturating_add(p.ticks.saturating_sub(p.before))
    })
}

/// Microseconds during which some task waited for a CPU (Documentation/accounting/psi.rst).
fn pressure_us(text: &str) -> Option<u64> {
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    some.split_ascii_whitespace()
        .find_map(|word| word.strip_prefix("total=")?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pressure_is_the_total_of_some() {
        let text = "some avg10=0.05 avg60=0.48 avg300=0.21 total=20721395\nfull avg10=0 total=3\n";
        assert_eq!(pressure_us(text), Some(20_721_395));
        assert_eq!(pressure_us("full avg10=0 total=3\n"), None);
    }
}
