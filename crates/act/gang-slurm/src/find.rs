//! The processes of a job on this node.
//!
//! A process is identified first by what is hardest for it to lose: its control group, which only
//! root can change; then the variables it was started with; then its parent. So a process of a
//! step tracked by control groups is found whatever it does to its environment, and one of a step
//! tracked by parents (`proctrack/linuxproc`) as long as it keeps its parent or environment.

use crate::cgroup::Side;
use crate::ids::digits;
use crate::launcher::{has_rank, is_launcher};
use crate::proc::{self, Seen};
use crate::{JobId, SlurmError, Step};
use idlewave_sys::Uid;
use idlewave_units::{Pid, Rank};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// How a process was found to belong to the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum How {
    /// Its control group.
    Group,
    /// SLURM_JOB_ID in its environment.
    Environment,
    /// Its parent.
    Parent,
}

/// A process that is stopped together with the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Clock ticks from boot to its start; with the PID it identifies the process, since PIDs are
    /// reused.
    pub start: u64,
    /// The step; `None` for processes outside the steps, such as those below the mpirun of a
    /// salloc, and for the script of sbatch if no group identifies it.
    pub step: Option<Step>,
    /// SLURM_PROCID, or the number of the task's group: the number of the task in its step over
    /// all nodes. It is the MPI rank if srun started the program itself; below mpirun all ranks of
    /// a node have the daemon's number. `None` if neither is given.
    pub task: Option<Rank>,
    /// SLURM_LOCALID, the number of the task among those on this node.
    pub local: Option<u32>,
    /// SLURMD_NODENAME, the node of the step. It differs from this node's name only if several
    /// slurmd share a host; `None` for processes that no step started.
    pub node: Option<String>,
    /// How it was found.
    pub how: How,
}

/// A process of the job that keeps running when the job is stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launcher {
    /// Its own name for itself.
    pub name: String,
}

/// The processes of a job on this node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Those to be stopped with the job.
    pub processes: BTreeMap<Pid, Process>,
    /// Those that must not be stopped: exempt them before stopping their children.
    pub launchers: BTreeMap<Pid, Launcher>,
    /// Processes in the job's control groups that are not entirely the user's, above all
    /// slurmstepd; they are left alone.
    pub others: BTreeSet<Pid>,
    /// The groups that hold all of the user's processes of one step and none of Slurm's, as paths
    /// within their hierarchy.
    pub step_groups: BTreeSet<String>,
    /// Processes of the user that no group identifies and whose environment could not be read;
    /// they may belong to the job.
    pub unknown: BTreeSet<Pid>,
}

/// All processes of a machine at one moment, for finding several jobs.
#[derive(Debug)]
pub struct Table {
    root: PathBuf,
    all: BTreeMap<Pid, Seen>,
}

impl Table {
    /// Reads a directory like `/proc`.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn read(root: &Path) -> Result<Self, SlurmError> {
        Ok(Table {
            root: root.to_owned(),
            all: proc::all(root)?,
        })
    }

    /// The processes of a job, as [`find`] returns them. The variables of the user's processes are
    /// read now.
    pub fn find(&self, job: JobId, user: Uid) -> Found {
        find_in(&self.all, &self.root, job, user)
    }
}

/// The processes of that user's job, from a directory like `/proc`. Job and user come from the
/// controller, since any user can write any SLURM_JOB_ID into an environment. So a process belongs
/// to the job only if its real, effective and saved user are all that user. Processes start and
/// end meanwhile: the result is a snapshot, to be taken again.
///
/// # Errors
/// The directory cannot be read.
pub fn find(root: &Path, job: JobId, user: Uid) -> Result<Found, SlurmError> {
    Ok(Table::read(root)?.find(job, user))
}

fn find_in(all: &BTreeMap<Pid, Seen>, root: &Path, job: JobId, user: Uid) -> Found {
    let mut found = Found::default();
    let mut known = BTreeMap::new();
    for (pid, seen) in all {
        let own = seen.users.iter().all(|u| *u == user);
        let of_group = seen.group.as_ref().filter(|group| group.job == job);
        if !own {
            if of_group.is_some() {
                found.others.insert(*pid);
            }
            continue;
        }
        let variables = proc::environment(root, *pid);
        match whose(seen, job, variables.as_deref()) {
            Whose::Job(process) => {
                let group = of_group.and_then(|group| group.step_group.clone());
                found.step_groups.extend(group);
                known.insert(*pid, Some(process));
            }
            Whose::Another => {
                known.insert(*pid, None);
            }
            Whose::Unknown if variables.is_none() => {
                found.unknown.insert(*pid);
            }
            Whose::Unknown => {}
        }
    }
    for pid in all.keys() {
        inherit(*pid, all, user, &mut known);
    }
    let parents = known.iter().filter(|(_, process)| process.is_some());
    let parents: BTreeSet<Pid> = parents
        .filter_map(|(pid, _)| Some(all.get(pid)?.parent))
        .collect();
    for (pid, process) in known {
        let (Some(process), Some(seen)) = (process, all.get(&pid)) else {
            continue;
        };
        found.unknown.remove(&pid);
        let directory = root.join(pid.to_string());
        let rank = || proc::environment(root, pid).is_some_and(|block| has_rank(&block));
        let serves = || parents.contains(&pid);
        if of_slurm(seen) || is_launcher(&directory, &seen.name, rank, serves) {
            let name = seen.name.clone();
            found.launchers.insert(pid, Launcher { name });
        } else {
            found.processes.insert(pid, process);
        }
    }
    found
}

fn of_slurm(seen: &Seen) -> bool {
    seen.group
        .as_ref()
        .is_some_and(|group| group.side == Side::Slurm)
}

enum Whose {
    Job(Process),
    Another,
    Unknown,
}

fn whose(seen: &Seen, job: JobId, variables: Option<&[u8]>) -> Whose {
    let variable = |name| variables.and_then(|block| proc::variable(block, name));
    let number = |name| variable(name).and_then(digits);
    let of_environment = variable("SLURM_JOB_ID")
        .or_else(|| variable("SLURM_JOBID"))
        .and_then(|text| text.parse::<JobId>().ok());
    let (whose, step, how) = match (&seen.group, of_environment) {
        (Some(group), _) => (group.job, group.step, How::Group),
        (None, Some(other)) => {
            let step = variable("SLURM_STEP_ID").or_else(|| variable("SLURM_STEPID"));
            (other, step.and_then(Step::from_variable), How::Environment)
        }
        (None, None) => return Whose::Unknown,
    };
    if whose != job {
        return Whose::Another;
    }
    // Variables of another job, which an srun inside that job may carry, say nothing about the
    // tasks of this one.
    let same = of_environment == Some(job);
    let told = number("SLURM_PROCID").filter(|_| same);
    let task = told.or_else(|| seen.group.as_ref().and_then(|group| group.task));
    Whose::Job(Process {
        start: seen.start,
        step,
        task: task.map(Rank::new),
        local: number("SLURM_LOCALID").filter(|_| same),
        node: variable("SLURMD_NODENAME").map(str::to_owned),
        how,
    })
}

/// Decides for a process of the user that cannot be identified directly, by its nearest ancestor
/// that can, passing through processes of the user only.
fn inherit(
    pid: Pid,
    all: &BTreeMap<Pid, Seen>,
    user: Uid,
    known: &mut BTreeMap<Pid, Option<Process>>,
) {
    let mut path = Vec::new();
    let mut at = pid;
    let of = loop {
        if let Some(of) = known.get(&at) {
            break of.clone();
        }
        let Some(seen) = all.get(&at) else { return };
        // Parents may have been read at different moments, and may then form a cycle.
        if seen.users.iter().any(|u| *u != user) || path.contains(&at) {
            return;
        }
        path.push(at);
        at = seen.parent;
    };
    for pid in path {
        let process = of.as_ref().zip(all.get(&pid)).map(|(of, seen)| Process {
            start: seen.start,
            how: How::Parent,
            ..of.clone()
        });
        known.insert(pid, process);
    }
}
