//! What both renderings say of a recorded program: its headline, which waits belong together, and
//! their causes.

use crate::facts::source_name;
use crate::number::{capitalised, plain};
use idlewave_explain::catalog::LONG_CALLS;
use idlewave_explain::program::is_of_mpi;
use idlewave_run::findings::{
    Findings, PathFinding, ProgramFindings, RankTime, SourceFinding, WaitFinding,
};
use idlewave_run::{ClockSheet, Manifest, NodeSheet, PhaseKind, Priority, SourceKind};
use idlewave_units::show::percent;
use idlewave_units::{Nanos, Rank, counted, grouped};
use std::collections::BTreeMap;

/// Below this share of the ranks' time, waiting is not worth hunting.
const HARDLY: f64 = 0.01;

/// A recorded program, as described by the manifest.
pub(crate) struct Recorded<'a> {
    /// The MPI library; `None` if the program never called MPI_Init.
    pub library: Option<&'a str>,
    /// Exit code of the command, if the recorder lived to see it.
    pub exit_code: Option<i32>,
    /// Start of the recording, CLOCK_MONOTONIC nanoseconds of node 0.
    pub begin_ns: u64,
    /// End of the recording.
    pub end_ns: u64,
}

/// The recording of a run; `None` if the run measured something itself.
pub(crate) fn recorded(manifest: &Manifest) -> Option<Recorded<'_>> {
    manifest.phases.iter().find_map(|p| match &p.kind {
        PhaseKind::Recorded { library, exit_code } => Some(Recorded {
            library: library.as_deref(),
            exit_code: *exit_code,
            begin_ns: p.begin_ns,
            end_ns: p.end_ns,
        }),
        _ => None,
    })
}

/// Whether nobody waits for anybody in a run, so that only the time counts that was taken from its
/// threads: those of a program without ranks, or loops that measure single CPUs. The same of
/// benchmarks, whose ranks wait, but it is not known for whom.
pub(crate) fn nobody_waits(manifest: &Manifest, findings: &Findings) -> bool {
    manifest.is_of_cpus()
        || manifest.is_of_benchmarks()
        || (recorded(manifest).is_some() && findings.program.is_none())
}

/// The short name of an MPI library: "Open MPI v4.1.4, package: ..." becomes "Open MPI v4.1.4", and
/// "MPICH Version:    4.0.2" with more lines becomes "MPICH 4.0.2".
pub fn library_name(full: &str) -> String {
    let first = full
        .split([',', '\n', '\r', '\0'])
        .next()
        .unwrap_or_default();
    let words: Vec<&str> = first
        .split_whitespace()
        .filter(|w| *w != "Version:")
        .collect();
    plain(&words.join(" "))
}

/// The program's own part of the command line: what follows `--`.
pub(crate) fn own_command(manifest: &Manifest) -> String {
    let all = &manifest.command;
    if is_imported(manifest) {
        let option = all.iter().position(|w| w == "--program");
        let name = option.and_then(|at| all.get(at + 1));
        return name.map(|n| plain(n)).unwrap_or_default();
    }
    let own = all.iter().position(|w| w == "--").map_or(0, |i| i + 1);
    let words: Vec<String> = all
        .get(own..)
        .unwrap_or_default()
        .iter()
        .map(|w| plain(w))
        .collect();
    words.join(" ")
}

/// Whether another tool recorded the run.
pub(crate) fn is_imported(manifest: &Manifest) -> bool {
    manifest.command.get(1).is_some_and(|word| word == "import")
}

/// The format of the program trace that the run was imported from; `None` for kernel traces, and
/// for runs that idlewave recorded.
pub(crate) fn program_trace(manifest: &Manifest) -> Option<&'static str> {
    let format = |counter: &str| match counter {
        ClockSheet::PARAVER => Some("Paraver"),
        ClockSheet::OTF2 => Some("OTF2"),
        ClockSheet::KINETO => Some("PyTorch"),
        _ => None,
    };
    let mut nodes = manifest.nodes.iter();
    nodes
        .find_map(|n| format(&n.clock.counter))
        .filter(|_| is_imported(manifest))
}

/// Whether the program's calls are those of MPI, not of another library.
pub(crate) fn calls_mpi(program: &ProgramFindings) -> bool {
    let mut operations = program.operations.iter();
    program.operations.is_empty() || operations.any(|o| is_of_mpi(&o.name))
}

/// What the ranks call to communicate.
pub(crate) fn calls(program: &ProgramFindings) -> &'static str {
    match calls_mpi(program) {
        true => "MPI",
        false => "collectives and messages",
    }
}

/// Which stretch of a program was analysed.
pub(crate) fn analysed(program: &ProgramFindings) -> &'static str {
    match calls_mpi(program) {
        true => "between MPI_Init and MPI_Finalize",
        false => "from when all ranks were seen to the last call",
    }
}

/// What an imported run without MPI calls is; `None` if idlewave recorded it.
pub(crate) fn imported_fact(manifest: &Manifest) -> Option<String> {
    let kind = program_trace(manifest).unwrap_or("kernel");
    let ranks = match manifest.ranks.len() {
        0 => "no ranks".to_owned(),
        ranks => counted(ranks, "rank"),
    };
    is_imported(manifest).then(|| format!("from an imported {kind} trace: {ranks}, no MPI calls"))
}

/// "rank 2", with its node if there are several.
pub(crate) fn rank_name(manifest: &Manifest, rank: Rank) -> String {
    match node_of(manifest, rank).filter(|_| manifest.nodes.len() > 1) {
        Some(node) => format!("rank {rank} on {}", plain(node)),
        None => format!("rank {rank}"),
    }
}

fn node_sheet(manifest: &Manifest, rank: Rank) -> Option<&NodeSheet> {
    let sheet = manifest.ranks.get(rank.get() as usize)?;
    manifest.nodes.iter().find(|n| n.node == sheet.node)
}

/// Name of a rank's node.
pub(crate) fn node_of(manifest: &Manifest, rank: Rank) -> Option<&str> {
    node_sheet(manifest, rank).map(|n| n.host.name.as_str())
}

/// Whether the recording saw what was taken from a rank: that needs at least the context switches
/// of its own threads.
pub(crate) fn sees_taken(manifest: &Manifest, rank: Rank) -> bool {
    node_sheet(manifest, rank).is_some_and(|n| n.trace.mode.sees_switches())
}

/// "ranks 0, 1 and 3"; of many, the first ones and how many more.
pub(crate) fn rank_list(ranks: &[Rank]) -> String {
    const SHOWN: usize = 6;
    let name = |r: &[Rank]| {
        r.iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(", ")
    };
    match ranks {
        [] => "no rank".to_owned(),
        [one] => format!("rank {one}"),
        [first @ .., last] if ranks.len() <= SHOWN => format!("ranks {} and {last}", name(first)),
        _ => format!(
            "ranks {} and {} more",
            name(&ranks[..SHOWN - 1]),
            ranks.len() - SHOWN + 1
        ),
    }
}

/// What a source does to a rank, worded to follow "rank 2, which ...".
pub(crate) fn did(source: Option<&SourceFinding>) -> String {
    let Some(s) = source else {
        return "was late for a reason that is not in the table of sources".to_owned();
    };
    let name = plain(&s.name);
    match s.kind {
        SourceKind::Task | SourceKind::KernelThread => {
            format!("was preempted by {name}")
        }
        SourceKind::Rank => "shared its CPU with another rank".to_owned(),
        SourceKind::OtherTask => "was preempted by a task that could not be seen".to_owned(),
        SourceKind::Irq | SourceKind::Softirq | SourceKind::Ipi | SourceKind::Nmi => {
            format!("was interrupted by {name}")
        }
        SourceKind::TimerTick => "was interrupted by the timer tick".to_owned(),
        SourceKind::RunQueueWait => "could run but waited for its CPU".to_owned(),
        SourceKind::Migration => "was moved to another CPU".to_owned(),
        SourceKind::PageFault => "touched memory that was not mapped".to_owned(),
        SourceKind::Blocked => "slept voluntarily".to_owned(),
        SourceKind::SlowLevel => "ran on a slow CPU".to_owned(),
        SourceKind::Hypervisor => {
            "was stopped while its kernel recorded nothing (hypervisor gap)".to_owned()
        }
        SourceKind::Recorder | SourceKind::Tracing => {
            "was held up by the recording itself".to_owned()
        }
        SourceKind::Unexplained => "was late for a reason that no record names".to_owned(),
        SourceKind::Throttled => "was stopped by the CPU quota of its group".to_owned(),
        SourceKind::Imbalance => "had more to compute".to_owned(),
        SourceKind::Network if s.name == LONG_CALLS => {
            "was there in time, but its call took long".to_owned()
        }
        SourceKind::Network => "was there in time: the message itself took long".to_owned(),
        SourceKind::SharedMemory => {
            "was there in time: the transfer through shared memory took long".to_owned()
        }
    }
}

/// The rank from which most of a source's waiting came, among the listed waits, with its share of
/// them.
fn struck(program: &ProgramFindings, source: usize) -> Option<(Rank, f64)> {
    let mut by_rank: BTreeMap<Rank, u64> = BTreeMap::new();
    for wait in &program.latest {
        for part in wait.parts.iter().filter(|p| p.source as usize == source) {
            *by_rank.entry(wait.origin).or_default() += part.time.get();
        }
    }
    let all: u64 = by_rank.values().sum();
    let (rank, most) = by_rank
        .into_iter()
        .max_by_key(|(r, t)| (*t, std::cmp::Reverse(*r)))?;
    Some((rank, most as f64 / all.max(1) as f64))
}

/// How long other ranks waited because of a source: what all ranks lost, without the delay of the
/// origin itself.
fn waited_for(source: &SourceFinding) -> u64 {
    source.lost.get().saturating_sub(source.lateness.get())
}

/// The one sentence to read if the reader reads only one.
pub(crate) fn headline(
    manifest: &Manifest,
    findings: &Findings,
    program: &ProgramFindings,
) -> String {
    if program.waited.get() == 0 {
        return "No rank waited for another one.".to_owned();
    }
    let named = |s: &&SourceFinding| s.kind != SourceKind::Unexplained && waited_for(s) > 0;
    let Some(worst) = findings
        .sources
        .iter()
        .filter(named)
        .max_by_key(|s| waited_for(s))
    else {
        return format!(
            "Ranks waited {} in all, and no record names why.",
            program.waited
        );
    };
    let share = percent(waited_for(worst) as f64 / program.waited.as_f64());
    let index = findings.sources.iter().position(|s| std::ptr::eq(s, worst));
    let struck = index.and_then(|i| struck(program, i));
    let name = source_name(worst.kind, &worst.name);
    let whom = match struck {
        Some((rank, part)) if part >= 0.5 => rank_name(manifest, rank),
        Some(_) => "several ranks".to_owned(),
        None => "ranks".to_owned(),
    };
    let whom = match struck {
        Some((_, part)) if (0.5..0.95).contains(&part) => format!("{whom} most of all"),
        _ => whom,
    };
    match worst.kind {
        SourceKind::Imbalance => {
            let verb = if matches!(struck, Some((_, p)) if p >= 0.5) {
                "has"
            } else {
                "have"
            };
            format!(
                "{} {verb} more to compute than the others: {share} of all waiting.",
                capital(&whom)
            )
        }
        SourceKind::Rank => {
            format!("Ranks share CPUs, which held back {whom}: {share} of all waiting.")
        }
        SourceKind::Network if worst.name == LONG_CALLS => format!(
            "Calls took long although nobody came late: {share} of all waiting. A kernel trace would tell whether their messages or missing CPUs made them long."
        ),
        SourceKind::Network => format!("Messages themselves took long: {share} of all waiting."),
        SourceKind::SharedMemory => {
            format!("Transfers through shared memory took long: {share} of all waiting.")
        }
        _ => format!(
            "{} held back {whom}: {share} of all waiting.",
            capital(&name)
        ),
    }
}

/// Task names keep their case; only our own words are capitalised.
fn capital(text: &str) -> String {
    match text.starts_with("rank") || text.starts_with("several") {
        true => capitalised(text),
        false => text.to_owned(),
    }
}

/// Shares of the time of all ranks.
pub(crate) struct Shares {
    pub computing: f64,
    /// `None` if not recorded: then the other parts include it.
    pub taken: Option<f64>,
    pub waiting: f64,
    pub communicating: f64,
}

/// The parts of the given ranks' time; `None` if there is no time.
pub(crate) fn shares<'a>(
    manifest: &Manifest,
    ranks: impl IntoIterator<Item = &'a RankTime>,
) -> Option<Shares> {
    let mut sums = [0u64; 4];
    let mut seen = true;
    for r in ranks {
        seen &= sees_taken(manifest, r.rank);
        for (sum, part) in sums
            .iter_mut()
            .zip([r.computing, r.taken, r.waiting, r.communicating])
        {
            *sum = sum.saturating_add(part.get());
        }
    }
    let all: u64 = sums.iter().sum();
    let [computing, taken, waiting, communicating] = sums.map(|s| s as f64 / all.max(1) as f64);
    (all > 0).then_some(Shares {
        computing,
        taken: seen.then_some(taken),
        waiting,
        communicating,
    })
}

/// Where the ranks' time went, as a sentence; `None` if there is no time.
pub(crate) fn time_sentence(manifest: &Manifest, program: &ProgramFindings) -> Option<String> {
    let s = shares(manifest, &program.ranks_time)?;
    let taken = s.taken.map_or_else(
        || "what was taken from them was not recorded, and is among these".to_owned(),
        |taken| format!("{} was taken from them", percent(taken)),
    );
    Some(format!(
        "Of their time ranks computed {}, waited {} for each other, communicated {}; {taken}.",
        percent(s.computing),
        percent(s.waiting),
        percent(s.communicating),
    ))
}

/// What the computing part of the critical path holds.
pub(crate) fn path_computing(manifest: &Manifest, program: &ProgramFindings) -> &'static str {
    let taken = shares(manifest, &program.ranks_time).and_then(|s| s.taken);
    match taken {
        Some(_) => "computing",
        None => "computing, or off the CPU",
    }
}

/// Most ranks named for the critical path.
const PATH_RANKS: usize = 3;

/// Which ranks the critical path goes through, as a sentence.
pub(crate) fn path_ranks(program: &ProgramFindings, path: &PathFinding) -> String {
    let total = program.total.as_f64().max(1.0);
    let of =
        |(rank, time): &(Rank, Nanos)| format!("{} on rank {rank}", percent(time.as_f64() / total));
    let most: Vec<String> = path.ranks.iter().take(PATH_RANKS).map(of).collect();
    let hops = match path.hops {
        0 => "It never leaves one rank".to_owned(),
        hops => format!("It goes from one rank to another {}", times(hops)),
    };
    format!("{hops}: it spends {}.", most.join(", "))
}

fn times(n: u64) -> String {
    match n {
        1 => "once".to_owned(),
        n => format!("{} times", grouped(n)),
    }
}

/// Shown when there is nothing to hunt for.
pub(crate) fn verdict_sentence(
    manifest: &Manifest,
    program: &ProgramFindings,
) -> Option<&'static str> {
    let s = shares(manifest, &program.ranks_time)?;
    (s.waiting < HARDLY && s.taken? < HARDLY)
        .then_some("Ranks hardly waited and hardly anything was taken from them: there is little to gain from removing noise.")
}

/// Ranks whose scheduling priority differs from the others', or all ranks if they run below other
/// programs; `None` if neither.
pub(crate) fn priority_sentence(manifest: &Manifest, program: &ProgramFindings) -> Option<String> {
    let known = || {
        manifest
            .ranks
            .iter()
            .filter_map(|r| Some((r.rank, r.priority?)))
    };
    let mut counts: BTreeMap<Priority, usize> = BTreeMap::new();
    for (_, priority) in known() {
        *counts.entry(priority).or_default() += 1;
    }
    // If each of two ranks has its own priority, the system's default counts as usual.
    let rank_of =
        |(priority, count): &(&Priority, &usize)| (**count, **priority == Priority::Nice(0));
    let usual = *counts.iter().max_by_key(rank_of)?.0;
    let odd: Vec<(Rank, Priority)> = known().filter(|(_, of)| *of != usual).collect();
    let Some(&(rank, priority)) = odd.first() else {
        let behind = matches!(
            usual,
            Priority::Nice(1..) | Priority::Batch(_) | Priority::Idle
        );
        return behind.then(|| {
            format!("All ranks ran at {usual}: whatever else wants their CPUs goes first.")
        });
    };
    let taken = |keep: &dyn Fn(Rank) -> bool| {
        let of = program.ranks_time.iter().filter(|of| keep(of.rank));
        shares(manifest, of)?.taken
    };
    let is_odd = |rank: Rank| odd.iter().any(|(of, _)| *of == rank);
    let compared = match (taken(&is_odd), taken(&|rank| !is_odd(rank))) {
        (Some(own), Some(others)) => format!(
            " It was taken off its CPU for {} of its time, the others for {}.",
            percent(own),
            percent(others)
        ),
        _ => String::new(),
    };
    Some(match odd.len() {
        1 => format!(
            "Rank {rank} ran at {priority}, the other ranks at {usual}: the kernel does not treat them alike.{compared}"
        ),
        n => format!(
            "{n} ran at another priority than the others ({usual}), rank {rank} at {priority}: the kernel does not treat them alike.",
            n = counted(n, "rank")
        ),
    })
}

/// How much of the waiting has a named cause and how much travelled, as a sentence; `None` if no
/// rank waited.
pub(crate) fn charged_sentence(program: &ProgramFindings) -> Option<String> {
    let all = program.waited.as_f64();
    (all > 0.0).then(|| {
        format!(
            "{} of the waiting has a name or a class; {} reached the rank that waited through others (idle waves).",
            percent(program.named.as_f64() / all),
            percent(program.propagated.as_f64() / all),
        )
    })
}

/// Waits that one late rank caused at the same time: one event to look at.
pub(crate) struct Event<'a> {
    /// The longest wait, with its index in `latest`.
    pub first: (usize, &'a WaitFinding),
    /// The ranks that waited, in order.
    pub ranks: Vec<Rank>,
}

/// The listed waits, grouped by culprit, end and operation; longest first.
pub(crate) fn events(program: &ProgramFindings) -> Vec<Event<'_>> {
    let mut index: BTreeMap<(Rank, u64, &str), usize> = BTreeMap::new();
    let mut events: Vec<Event<'_>> = Vec::new();
    for (i, wait) in program.latest.iter().enumerate() {
        let key = (wait.culprit, wait.end_ns, wait.operation.as_str());
        match index.get(&key) {
            Some(&e) => events[e].ranks.push(wait.rank),
            None => {
                index.insert(key, events.len());
                events.push(Event {
                    first: (i, wait),
                    ranks: vec![wait.rank],
                });
            }
        }
    }
    for e in &mut events {
        e.ranks.sort_unstable();
        e.ranks.dedup();
    }
    events
}

/// Index of the wave to which a wait belongs.
pub(crate) fn wave_of(program: &ProgramFindings, wait: &WaitFinding) -> Option<usize> {
    let is = |p: &(Rank, u32, u64, Nanos)| p.0 == wait.rank && p.2 == wait.begin_ns;
    program.waves.iter().position(|w| w.points.iter().any(is))
}

/// Length of a wait.
pub(crate) fn length(wait: &WaitFinding) -> Nanos {
    Nanos::from_nanos(wait.end_ns.saturating_sub(wait.begin_ns))
}

/// "ranks 0, 1 and 3 waited up to 25.0 us in MPI_Barrier for rank 2, which was preempted by X (24.9
/// us)".
pub(crate) fn event_sentence(
    manifest: &Manifest,
    findings: &Findings,
    event: &Event<'_>,
) -> String {
    let wait = event.first.1;
    let part = wait.parts.first();
    let source = part.and_then(|p| findings.sources.get(p.source as usize));
    let time = part.map_or_else(String::new, |p| format!(" ({})", p.time));
    let up_to = if event.ranks.len() > 1 { "up to " } else { "" };
    let mut text = format!(
        "{} waited {up_to}{} in {} for {}",
        rank_list(&event.ranks),
        length(wait),
        plain(&wait.operation),
        rank_name(manifest, wait.culprit),
    );
    if wait.origin == wait.culprit {
        text.push_str(&format!(", which {}{time}", did(source)));
    } else {
        let hops = match wait.hops {
            1 => "1 hop".to_owned(),
            n => format!("{n} hops"),
        };
        let origin = rank_name(manifest, wait.origin);
        text.push_str(&format!(
            ", which waited itself; {hops} back {origin} {}{time}",
            did(source)
        ));
    }
    text
}

/// For a program without MPI: what kept its threads from running.
pub(crate) fn threads_sentence(findings: &Findings) -> String {
    let taken = |s: &&SourceFinding| s.kind != SourceKind::Unexplained && s.stolen.get() > 0;
    let worst = findings
        .sources
        .iter()
        .filter(taken)
        .max_by_key(|s| s.stolen);
    match worst {
        Some(s) => format!(
            "What kept its threads from running most: {} ({}).",
            source_name(s.kind, &s.name),
            s.stolen
        ),
        None => "No record shows its threads kept from running.".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use idlewave_run::testing::empty_manifest;

    #[test]
    fn libraries_are_named_shortly() {
        let open = "Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4, repo rev: v4.1.4, May 26, 2022";
        assert_eq!(library_name(open), "Open MPI v4.1.4");
        assert_eq!(
            library_name("MPICH Version:      4.0.2\nMPICH Release date: x"),
            "MPICH 4.0.2"
        );
        assert_eq!(library_name(""), "");
    }

    #[test]
    fn many_ranks_are_counted_and_few_are_named() {
        let ranks = |n: u32| (0..n).map(Rank::new).collect::<Vec<_>>();
        assert_eq!(rank_list(&[]), "no rank");
        assert_eq!(rank_list(&ranks(1)), "rank 0");
        assert_eq!(rank_list(&ranks(3)), "ranks 0, 1 and 2");
        assert_eq!(rank_list(&ranks(6)), "ranks 0, 1, 2, 3, 4 and 5");
        assert_eq!(rank_list(&ranks(7)), "ranks 0, 1, 2, 3, 4 and 2 more");
    }

    #[test]
    fn the_parts_of_the_time_are_shares_of_one() {
        let ns = Nanos::from_nanos;
        let rank = RankTime {
            rank: Rank::new(0),
            computing: ns(50),
            taken: ns(10),
            waiting: ns(30),
            communicating: ns(10),
        };
        // The manifest does not know the rank, so it is unknown what was taken from it.
        let manifest = empty_manifest();
        let s = shares(&manifest, [&rank]).unwrap();
        assert_eq!(
            (s.computing, s.taken, s.waiting, s.communicating),
            (0.5, None, 0.3, 0.1)
        );
        assert!(shares(&manifest, []).is_none());
    }
}
