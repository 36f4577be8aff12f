//! Chooses the threads of a trace that are the program under study.
//!
//! A foreign trace names no program. The default is the user program that used the most CPU time,
//! since that is where noise costs something. All processes of one name are one program: the
//! processes of a parallel program have the same name.

use idlewave_ftrace::SeenTask;
use idlewave_run::tables::TaskKind;
use idlewave_units::Pid;
use std::collections::{BTreeMap, BTreeSet};

/// Which program to study.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Program {
    /// The one that the trace names, otherwise the one that used the most CPU time.
    #[default]
    Busiest,
    /// All processes of this name, and what they start.
    Named(String),
    /// This process or thread, and what it starts.
    Process(Pid),
}

/// Why a text names no program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoProgramText {
    /// There is no text.
    #[error("a name or a process number is missing")]
    Empty,
    /// The number of the idle threads.
    #[error("process 0 is the idle CPU, not a program")]
    Idle,
    /// No process has such a number.
    #[error("no process has such a large number")]
    TooLarge,
}

impl std::str::FromStr for Program {
    type Err = NoProgramText;

    /// A number is a process, anything else a name.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() {
            return Err(NoProgramText::Empty);
        }
        if !text.bytes().all(|b| b.is_ascii_digit()) {
            return Ok(Self::Named(text.to_owned()));
        }
        match text.parse() {
            Ok(0) => Err(NoProgramText::Idle),
            Ok(number) => Ok(Self::Process(Pid::new(number))),
            Err(_) => Err(NoProgramText::TooLarge),
        }
    }
}

impl std::fmt::Display for Program {
    /// As in "no thread belongs to `crond`".
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Busiest => f.write_str("a user program"),
            Self::Named(name) => write!(f, "`{name}`"),
            Self::Process(pid) => write!(f, "process {pid}"),
        }
    }
}

/// Why this program was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The user named it.
    Asked,
    /// idlewave recorded it as the program.
    Recorded,
    /// It used the most CPU time.
    Busiest,
}

/// The program under study.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// Its name.
    pub name: String,
    /// Its threads that the trace saw.
    pub threads: u64,
    /// Time for which they had a CPU, nanoseconds.
    pub ran_ns: u64,
    /// The same for all user threads.
    pub users_ns: u64,
    /// Why it was chosen.
    pub rule: Rule,
    /// Other user programs, the busiest first.
    pub others: Vec<String>,
}

/// Recorders, which nobody wants to study unasked.
const RECORDERS: &[&str] = &[
    "trace-cmd",
    "perf",
    "idlewave",
    "lttng-sessiond",
    "lttng-consumerd",
];

/// How many other programs are named.
const OTHERS: usize = 5;

/// Marks the threads of the program; `None` if there are none.
pub(crate) fn choose(seen: &mut [SeenTask], program: &Program) -> Option<Chosen> {
    let is_user = |t: &SeenTask| !matches!(t.kind, TaskKind::Idle | TaskKind::Kernel);
    let is_program = |t: &SeenTask| matches!(t.kind, TaskKind::Program | TaskKind::Rank);
    let names = names(seen);
    let name_of = |t: &SeenTask| {
        let leader = t.process.and_then(|p| names.get(&p));
        leader.unwrap_or(&t.name).clone()
    };
    let mut times: BTreeMap<String, u64> = BTreeMap::new();
    for task in seen.iter().filter(|t| is_user(t)) {
        *times.entry(name_of(task)).or_default() += task.ran_ns;
    }
    let recorded = seen.iter().any(is_program);
    let mut order: Vec<(&String, u64)> = times.iter().map(|(name, ns)| (name, *ns)).collect();
    order.sort_by_key(|(name, ns)| (std::cmp::Reverse(*ns), *name));
    order.retain(|(name, ns)| *ns > 0 && !RECORDERS.contains(&name.as_str()));
    let order: Vec<String> = order.into_iter().map(|(name, _)| name.clone()).collect();
    let (rule, mut members): (Rule, BTreeSet<Pid>) = match program {
        Program::Busiest if recorded => {
            let members = seen.iter().filter(|t| is_program(t)).map(|t| t.pid);
            (Rule::Recorded, members.collect())
        }
        Program::Busiest => {
            let busiest = order.first()?;
            let of = |t: &&SeenTask| is_user(t) && name_of(t) == *busiest;
            (
                Rule::Busiest,
                seen.iter().filter(of).map(|t| t.pid).collect(),
            )
        }
        Program::Named(name) => {
            let of = |t: &&SeenTask| is_user(t) && (name_of(t) == *name || t.name == *name);
            (Rule::Asked, seen.iter().filter(of).map(|t| t.pid).collect())
        }
        Program::Process(pid) => {
            let of = |t: &&SeenTask| is_user(t) && (t.pid == *pid || t.process == Some(*pid));
            (Rule::Asked, seen.iter().filter(of).map(|t| t.pid).collect())
        }
    };
    if members.is_empty() {
        return None;
    }
    let first = members.iter().next().copied();
    add_descendants(seen, &mut members);
    for task in seen.iter_mut().filter(|t| is_user(t)) {
        if members.contains(&task.pid) {
            task.kind = TaskKind::Program;
        } else if is_program(task) {
            task.kind = TaskKind::User;
        }
    }
    let sum = |of: &dyn Fn(&SeenTask) -> bool| {
        let times = seen.iter().filter(|t| of(t)).map(|t| t.ran_ns);
        times.fold(0_u64, u64::saturating_add)
    };
    let busiest = seen
        .iter()
        .filter(|t| members.contains(&t.pid))
        .max_by_key(|t| (t.ran_ns, std::cmp::Reverse(t.pid)));
    let name = match program {
        Program::Named(name) => name.clone(),
        Program::Process(_) => {
            let asked = seen.iter().find(|t| Some(t.pid) == first);
            asked.map(name_of).unwrap_or_default()
        }
        Program::Busiest => busiest.map(name_of).unwrap_or_default(),
    };
    let others = order.into_iter().filter(|other| *other != name);
    Some(Chosen {
        threads: members.len() as u64,
        ran_ns: sum(&is_program),
        users_ns: sum(&is_user),
        rule,
        others: others.take(OTHERS).collect(),
        name,
    })
}

/// The busiest user programs, for the message that no program has the name asked for.
pub(crate) fn busiest(seen: &[SeenTask]) -> Vec<String> {
    let mut copy = seen.to_vec();
    match choose(&mut copy, &Program::Busiest) {
        Some(chosen) => [vec![chosen.name], chosen.others].concat(),
        None => Vec::new(),
    }
}

/// Names of processes, from the thread that leads each.
fn names(seen: &[SeenTask]) -> BTreeMap<Pid, String> {
    let leads = |t: &&SeenTask| t.process == Some(t.pid);
    seen.iter()
        .filter(leads)
        .map(|t| (t.pid, t.name.clone()))
        .collect()
}

/// Adds what the members start, and what that starts.
fn add_descendants(seen: &[SeenTask], members: &mut BTreeSet<Pid>) {
    let mut children: BTreeMap<Pid, Vec<Pid>> = BTreeMap::new();
    for task in seen.iter().filter(|t| t.kind != TaskKind::Kernel) {
        if let Some(parent) = task.parent {
            children.entry(parent).or_default().push(task.pid);
        }
    }
    let mut open: Vec<Pid> = members.iter().copied().collect();
    while let Some(parent) = open.pop() {
        for &child in children.get(&parent).into_iter().flatten() {
            if members.insert(child) {
                open.push(child);
            }
        }
    }
}

#[cfg(test)]
#[path = "program_tests.rs"]
mod tests;
