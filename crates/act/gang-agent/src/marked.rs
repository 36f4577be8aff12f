//! The processes of gangs on this node, found by their environment (`proc_pid_environ(5)`).
//!
//! A launcher passes a mark on to its ranks on every node. The launcher's own daemons are never
//! stopped: they serve ranks, forward output, and would mistake a stopped rank for a stopped job.
//! They are recognised by `idlewave_gang_slurm::is_launcher`.

use crate::parcel::{Mark, Spec};
use idlewave_fabric::netctx::device::Attachment;
use idlewave_gang::GangId;
use idlewave_gang_slurm::{How, JobId, Process, Step, Table, is_launcher};
use idlewave_sys::Uid;
use idlewave_units::{Nanos, Pid};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The variable that marks processes of a gang.
pub const VARIABLE: &str = "IDLEWAVE_GANG";

/// For this long after its start, an unmarked process may still execute a program with a mark.
const YOUNG: Nanos = Nanos::from_secs(10);

/// Variables that hold the rank, with those that hold the number of ranks.
const RANKS: [(&str, &str); 4] = [
    (Attachment::RANK, Attachment::SIZE),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("PMIX_RANK", "OMPI_COMM_WORLD_SIZE"),
];

/// A marked process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marked {
    /// Its PID.
    pub pid: Pid,
    /// Start time, in clock ticks since boot.
    pub start: u64,
    /// Whether it starts or serves ranks, and must not be stopped.
    pub launcher: bool,
    /// Its rank.
    pub rank: Option<u32>,
    /// Total number of ranks.
    pub size: Option<u32>,
    /// Its user.
    pub user: Uid,
    /// The step of its Slurm job, if found that way: ranks of several steps have the same numbers.
    pub step: Option<Step>,
    /// Whether Slurm tracks and limits it by a cgroup, so that it must not be moved.
    pub tracked: bool,
}

/// Contents of a process's environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Badge {
    token: Option<String>,
    rank: Option<u32>,
    size: Option<u32>,
    /// Number and count of tasks of a Slurm step.
    task: Option<u32>,
    tasks: Option<u32>,
}

/// Cached data of a process.
#[derive(Clone, Debug)]
struct Known {
    badge: Badge,
    since: Nanos,
}

impl Known {
    /// Whether it need not be read again: an old unmarked process will not get a mark.
    fn stays(&self, now: Nanos) -> bool {
        let is_old = !self.badge.marked() && now > self.since + YOUNG;
        is_old || self.badge.is_final()
    }
}

/// Looks for marked processes, with a cache.
#[derive(Debug)]
pub struct Marks {
    proc: PathBuf,
    known: BTreeMap<(Pid, u64), Known>,
}

impl Marks {
    /// For the processes of this machine.
    pub fn new() -> Self {
        Self::under(Path::new("/proc"))
    }

    fn under(proc: &Path) -> Self {
        Self {
            proc: proc.to_owned(),
            known: BTreeMap::new(),
        }
    }

    /// The current processes of each of these gangs in this network namespace. Processes that the
    /// caller may not inspect are left out.
    pub fn find(&mut self, gangs: &[Spec], now: Nanos) -> BTreeMap<GangId, Vec<Marked>> {
        let mut found: BTreeMap<GangId, Vec<Marked>> =
            gangs.iter().map(|spec| (spec.id(), Vec::new())).collect();
        let mut known = BTreeMap::new();
        // For marked processes: their parents, their names, and whether they have an MPI rank.
        let (mut parents, mut names) = (BTreeSet::new(), BTreeMap::new());
        let own = fs::read_link(self.proc.join("self/ns/net")).ok();
        for pid in processes(&self.proc) {
            let directory = self.proc.join(pid.to_string());
            let Some(Look {
                name,
                start,
                parent,
            }) = look(&directory)
            else {
                continue;
            };
            let before = self.known.remove(&(pid, start));
            let entry = match before {
                Some(known) if known.stays(now) => known,
                before => Known {
                    badge: badge(&directory),
                    since: before.map_or(now, |known| known.since),
                },
            };
            let of_mark = |spec: &&Spec| entry.badge.is_of(&spec.mark);
            let of: Vec<&Spec> = gangs.iter().filter(of_mark).collect();
            // Nearly all processes belong to no gang and need no further reads.
            let whose = |_: &&Spec| fs::metadata(&directory).ok().map(|m| Uid::of(&m));
            if let (Some(first), Some(user)) = (of.first(), of.first().and_then(whose)) {
                // Two users may use the same mark: each has only their own processes.
                let spec = of.iter().find(|spec| spec.uid() == user).unwrap_or(first);
                if own.is_none() || fs::read_link(directory.join("ns/net")).ok() == own {
                    let (rank, size) = entry.badge.rank();
                    parents.insert(parent);
                    names.insert(pid, (name, entry.badge.rank.is_some()));
                    found.entry(spec.id()).or_default().push(Marked {
                        pid,
                        start,
                        launcher: false,
                        rank,
                        size,
                        user,
                        step: None,
                        tracked: false,
                    });
                }
            }
            known.insert((pid, start), entry);
        }
        self.known = known;
        for marked in found.values_mut().flatten() {
            let Some((name, rank)) = names.get(&marked.pid) else {
                continue;
            };
            let directory = self.proc.join(marked.pid.to_string());
            let serves = || parents.contains(&marked.pid);
            marked.launcher = is_launcher(&directory, name, || *rank, serves);
        }
        self.find_jobs(gangs, now, &mut found);
        found
    }

    /// Adds the processes of Slurm jobs, except those marked for another gang.
    fn find_jobs(&self, gangs: &[Spec], now: Nanos, found: &mut BTreeMap<GangId, Vec<Marked>>) {
        let job = |spec: &Spec| match spec.mark {
            Mark::Slurm(job) => Some((spec.id(), JobId::new(job)?, spec.uid())),
            Mark::Token(_) => None,
        };
        let jobs: Vec<_> = gangs.iter().filter_map(job).collect();
        if jobs.is_empty() {
            return;
        }
        // Without it nothing is found, as with processes that may not be inspected.
        let Ok(table) = Table::read(&self.proc) else {
            return;
        };
        let taken: BTreeSet<Pid> = found.values().flatten().map(|marked| marked.pid).collect();
        for (gang, job, user) in jobs {
            let members = table.find(job, user);
            let launchers = members.launchers.keys().map(|pid| (*pid, None));
            let processes = members.processes.iter();
            let all = launchers.chain(processes.map(|(pid, process)| (*pid, Some(process))));
            let marked = all
                .filter(|(pid, _)| !taken.contains(pid) && self.is_here(*pid))
                .filter_map(|(pid, process)| {
                    let badge = self.badge_now(pid, now)?;
                    let is_taken = gangs.iter().any(|spec| badge.1.is_of(&spec.mark));
                    (!is_taken).then(|| of_job(pid, badge, process, user))
                });
            found.entry(gang).or_default().extend(marked);
        }
    }

    /// Start time and badge of a process. One that was young when it was looked at may have
    /// executed its program since.
    fn badge_now(&self, pid: Pid, now: Nanos) -> Option<(u64, Badge)> {
        let mut known = self.known.range((pid, 0)..=(pid, u64::MAX));
        let (&(_, start), known) = known.next()?;
        let badge = match known.stays(now) {
            true => known.badge.clone(),
            false => badge(&self.proc.join(pid.to_string())),
        };
        Some((start, badge))
    }

    /// Whether it is on this node: in tests, several nodes share a machine, each with a network of
    /// its own.
    fn is_here(&self, pid: Pid) -> bool {
        let net = |process: &str| fs::read_link(self.proc.join(process).join("ns/net")).ok();
        let own = net("self");
        own.is_none() || net(&pid.to_string()) == own
    }
}

impl Default for Marks {
    fn default() -> Self {
        Self::new()
    }
}

impl Badge {
    fn marked(&self) -> bool {
        self.token.is_some()
    }

    /// Whether its environment is final. Until a rank executes its program, it has its launcher's
    /// environment, with the mark but perhaps without the rank's number.
    fn is_final(&self) -> bool {
        self.marked() && self.rank().0.is_some()
    }

    /// Rank and number of ranks: from MPI, or from Slurm's tasks.
    fn rank(&self) -> (Option<u32>, Option<u32>) {
        let slurms = self.rank.is_none() || self.rank == self.task;
        let rank = self.rank.or(self.task);
        (rank, self.size.or(self.tasks.filter(|_| slurms)))
    }

    fn is_of(&self, mark: &Mark) -> bool {
        match mark {
            Mark::Token(token) => self.token.as_ref() == Some(token),
            Mark::Slurm(_) => false,
        }
    }

    /// From the zero-terminated strings of an environment.
    fn parse(environment: &[u8]) -> Badge {
        let mut values: BTreeMap<&str, &str> = BTreeMap::new();
        for variable in environment.split(|byte| *byte == 0) {
            let text = std::str::from_utf8(variable).ok();
            if let Some((name, value)) = text.and_then(|t| t.split_once('=')) {
                // Like getenv(3): the first one counts.
                values.entry(name).or_insert(value);
            }
        }
        let number = |name: &str| values.get(name)?.parse::<u32>().ok();
        let rank = RANKS.iter().find(|(rank, _)| number(rank).is_some());
        Badge {
            token: values.get(VARIABLE).map(|token| (*token).to_owned()),
            rank: rank.and_then(|(rank, _)| number(rank)),
            size: rank.and_then(|(_, size)| number(size)),
            task: number("SLURM_PROCID"),
            tasks: number("SLURM_STEP_NUM_TASKS").or_else(|| number("SLURM_NTASKS")),
        }
    }
}

/// A process of a Slurm job; a launcher has no rank.
fn of_job(pid: Pid, (start, badge): (u64, Badge), process: Option<&Process>, user: Uid) -> Marked {
    let step = process.and_then(|process| process.step);
    let tasks = matches!(step, Some(Step::Number(_) | Step::Component(..)));
    let (rank, size) = match tasks {
        true => badge.rank(),
        // The sbatch script, and what mpirun starts there, see their own task numbers.
        false => (badge.rank, badge.size),
    };
    Marked {
        pid,
        start,
        launcher: process.is_none(),
        rank,
        size,
        user,
        step,
        tracked: process.is_some_and(|process| process.how == How::Group),
    }
}

fn badge(directory: &Path) -> Badge {
    fs::read(directory.join("environ")).map_or_else(|_| Badge::default(), |e| Badge::parse(&e))
}

fn processes(proc: &Path) -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir(proc).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok().map(Pid::new))
}

/// The kernel's data of a process.
struct Look {
    name: String,
    start: u64,
    parent: Pid,
}

/// A process that has not ended; a zombie has.
fn look(directory: &Path) -> Option<Look> {
    let bytes = fs::read(directory.join("stat")).ok()?;
    let line = String::from_utf8_lossy(&bytes);
    let (_, rest) = line.split_once(" (")?;
    let (name, rest) = rest.rsplit_once(") ")?;
    let mut fields = rest.split_ascii_whitespace();
    if fields.next()? == "Z" {
        return None;
    }
    // The state is the third field of the line, the parent the fourth, the start the twenty-second.
    Some(Look {
        name: name.to_owned(),
        parent: Pid::new(fields.next()?.parse().ok()?),
        start: fields.nth(17)?.parse().ok()?,
    })
}

/// Whether a thread of a process has a CPU or waits for one; false if it has ended.
pub fn may_run(pid: Pid) -> bool {
    threads(pid).any(|thread| {
        let bytes = fs::read(thread.join("stat")).unwrap_or_default();
        // The state follows the name, which may contain anything.
        let line = String::from_utf8_lossy(&bytes);
        line.rsplit_once(") ")
            .is_some_and(|(_, rest)| rest.starts_with('R'))
    })
}

/// CPU time that the threads of a process have used; zero if it has ended.
pub fn cpu_time(pid: Pid) -> Nanos {
    let used = threads(pid).filter_map(|thread| {
        let text = fs::read_to_string(thread.join("schedstat")).ok()?;
        text.split_ascii_whitespace().next()?.parse::<u64>().ok()
    });
    Nanos::from_nanos(used.sum())
}

/// The directories of a process's threads; none if it has ended.
fn threads(pid: Pid) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter();
    entries.flatten().flatten().map(|entry| entry.path())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Ended, sleep, sleep_called};
    use std::time::{Duration, Instant};

    /// For what must happen, however late.
    const LONG: Duration = Duration::from_secs(60);

    fn spec(gang: u32, token: &str) -> Spec {
        Spec {
            gang,
            user: Uid::own().get(),
            mark: Mark::Token(token.to_owned()),
            rows: Vec::new(),
            end: false,
        }
    }

    /// Looks until the processes have executed their programs.
    fn find(marks: &mut Marks, specs: &[Spec], wanted: usize) -> BTreeMap<GangId, Vec<Marked>> {
        let begun = Instant::now();
        for turn in 0_u64.. {
            let found = marks.find(specs, Nanos::from_millis(turn));
            let late = begun.elapsed() > LONG;
            if found.values().map(Vec::len).sum::<usize>() >= wanted || late {
                return found;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        unreachable!()
    }

    #[test]
    fn processes_are_found_by_their_mark_with_rank_and_size() {
        let token = format!("marked-{}", std::process::id());
        let other = format!("{token}-other");
        let first = sleep(&[
            (VARIABLE, &token),
            ("OMPI_COMM_WORLD_RANK", "1"),
            ("OMPI_COMM_WORLD_SIZE", "4"),
        ]);
        let second = sleep(&[(VARIABLE, &other), ("PMI_RANK", "0"), ("PMI_SIZE", "2")]);
        let _unmarked = sleep(&[]);
        let specs = [spec(1, &token), spec(2, &other), spec(3, "nobody's")];
        let found = find(&mut Marks::new(), &specs, 2);
        let of = |gang| &found[&GangId::new(gang)];
        assert_eq!(of(1).len(), 1);
        assert_eq!(of(1)[0].pid, first.pid());
        assert_eq!((of(1)[0].rank, of(1)[0].size), (Some(1), Some(4)));
        assert_eq!(of(1)[0].user, Uid::own());
        assert!(!of(1)[0].launcher);
        assert_eq!(of(2)[0].pid, second.pid());
        assert_eq!((of(2)[0].rank, of(2)[0].size), (Some(0), Some(2)));
        assert!(of(3).is_empty());
    }

    #[test]
    fn a_marked_process_of_a_job_is_not_the_jobs_however_late_it_executed_its_program() {
        let (job, token) = (std::process::id(), format!("late-{}", std::process::id()));
        let process = sleep(&[("SLURM_JOB_ID", &job.to_string()), (VARIABLE, &token)]);
        let of_job = Spec {
            mark: Mark::Slurm(job),
            ..spec(1, "")
        };
        let specs = [of_job, spec(2, &token)];
        let mut marks = Marks::new();
        assert_eq!(find(&mut marks, &specs, 1)[&GangId::new(2)].len(), 1);
        // As if it had been looked at before it executed its program.
        for ((pid, _), known) in &mut marks.known {
            if *pid == process.pid() {
                known.badge = Badge::default();
            }
        }
        let mut found = BTreeMap::new();
        marks.find_jobs(&specs, Nanos::ZERO, &mut found);
        assert!(found[&GangId::new(1)].is_empty(), "{found:?}");
        // After a long time without a mark, the cached state counts.
        marks.find_jobs(&specs, YOUNG + Nanos::from_secs(100), &mut found);
        assert_eq!(found[&GangId::new(1)].len(), 1);
    }

    #[test]
    fn a_process_that_gets_its_rank_after_its_mark_is_found_to_have_it() {
        use std::process::{Command, Stdio};
        let token = format!("later-{}", std::process::id());
        let mut child = Command::new("sh")
            .args(["-c", "read go; OMPI_COMM_WORLD_RANK=2 exec sleep 60"])
            .env(VARIABLE, &token)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let specs = [spec(1, &token)];
        let mut marks = Marks::new();
        let rank = |found: &BTreeMap<GangId, Vec<Marked>>| found[&GangId::new(1)][0].rank;
        assert_eq!(rank(&find(&mut marks, &specs, 1)), None);
        drop(child.stdin.take());
        let begun = Instant::now();
        let mut turns = (1..).take_while(|_| begun.elapsed() < LONG);
        let came = turns.any(|turn| {
            std::thread::sleep(Duration::from_millis(10));
            // However late.
            rank(&marks.find(&specs, Nanos::from_secs(20 * turn))) == Some(2)
        });
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(came);
    }

    #[test]
    fn what_has_ended_is_not_found() {
        let token = format!("ended-{}", std::process::id());
        let mut process = sleep(&[(VARIABLE, &token)]);
        let specs = [spec(1, &token)];
        let mut marks = Marks::new();
        assert_eq!(find(&mut marks, &specs, 1)[&GangId::new(1)].len(), 1);
        // This includes a zombie: its parent has not reaped it.
        process.kill();
        let begun = Instant::now();
        while !marks.find(&specs, Nanos::ZERO)[&GangId::new(1)].is_empty() {
            assert!(begun.elapsed() < LONG, "it is still found");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn an_environment_is_read_as_programs_read_theirs() {
        let badge = Badge::parse(b"A\0IDLEWAVE_GANG=x=y\0IDLEWAVE_GANG=z\0\xff=1\0SLURM_JOB_ID=12\0SLURM_PROCID=3\0SLURM_NTASKS=4\0");
        assert_eq!(badge.token.as_deref(), Some("x=y"));
        assert_eq!(badge.rank(), (Some(3), Some(4)));
        // Below a daemon that is a Slurm task; there are fewer daemons than ranks.
        let below = Badge::parse(b"PMIX_RANK=3\0SLURM_PROCID=0\0SLURM_NTASKS=2\0");
        assert_eq!(below.rank(), (Some(3), None));
        assert_eq!(
            Badge::parse(b"SLURM_JOB_ID=\0PMI_RANK=-1"),
            Badge::default()
        );
        assert!(badge.is_of(&Mark::Token("x=y".to_owned())));
        assert!(!Badge::default().is_of(&Mark::Token(String::new())));
    }

    #[test]
    fn a_rank_that_calls_itself_a_launcher_is_a_rank_and_a_launcher_is_none() {
        let directory = tempfile::tempdir().unwrap();
        let token = format!("named-{}", std::process::id());
        let copy = |name: &str| {
            let path = directory.path().join(name);
            sleep_called(&path);
            path
        };
        let (srun, mpirun) = (copy("srun"), copy("mpirun"));
        let mark = (VARIABLE, token.as_str());
        let rank = |n| [mark, ("PMI_RANK", n), ("PMI_SIZE", "2")];
        // The first one's executable has this name, but it has a rank. The other one only changed
        // its name.
        let first = crate::testing::start(&srun, &rank("0"));
        let second = std::process::Command::new("python3")
            .args([
                "-c",
                "import time\nopen('/proc/self/comm','w').write('srun')\ntime.sleep(60)",
            ])
            .env_clear()
            .envs(rank("1"))
            .spawn();
        let second = crate::testing::Ended(second.unwrap());
        let launcher = crate::testing::start(&mpirun, &[mark]);
        let comm = format!("/proc/{}/comm", second.pid());
        while fs::read_to_string(&comm).unwrap() != "srun\n" {
            std::thread::sleep(Duration::from_millis(5));
        }
        let found = find(&mut Marks::new(), &[spec(1, &token)], 3);
        let all = &found[&GangId::new(1)];
        let is_launcher = |pid| all.iter().find(|m| m.pid == pid).unwrap().launcher;
        assert!(!is_launcher(first.pid()), "{all:?}");
        assert!(!is_launcher(second.pid()), "{all:?}");
        assert!(is_launcher(launcher.pid()), "{all:?}");
    }

    #[test]
    fn the_cpu_time_of_a_process_rises() {
        // Not the CPU time of this process: it falls when the thread of another test ends.
        let busy = std::process::Command::new("sh")
            .args(["-c", "while :; do :; done"])
            .spawn()
            .map(Ended)
            .unwrap();
        let before = cpu_time(busy.pid());
        let begun = Instant::now();
        while cpu_time(busy.pid()) <= before {
            assert!(begun.elapsed() < LONG, "it does not run");
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(cpu_time(Pid::new(u32::MAX)), Nanos::ZERO);
    }
}
