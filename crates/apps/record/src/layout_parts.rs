//! Where the time of a recorded run went, rank by rank: the sums of a placement study.

use idlewave_measure::PlacedRun;
use idlewave_run::tables::{Call, Calls, OperationClass as Class, Operations};
use idlewave_run::{RunError, RunReader};
use idlewave_units::{NodeId, Pid, Rank, counted};
use std::collections::BTreeMap;

/// How the ranks of a run differ from those of its layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mismatch {
    /// Each process is a program of one rank: the library does not recognise the launcher.
    Launcher,
    /// No process called MPI_Init.
    NoMpi,
    /// Something else: "it ...".
    Wrong(String),
}

impl Mismatch {
    pub fn text(self) -> String {
        match self {
            Self::Launcher => "each process ran as a program of one rank: the launcher is not that of its MPI library"
                .to_owned(),
            Self::NoMpi => "it called no MPI".to_owned(),
            Self::Wrong(text) => text,
        }
    }
}

/// Sums over the calls of one thread, nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Thread {
    /// When MPI_Init returned.
    begin: Option<u64>,
    /// When MPI_Finalize was entered.
    end: Option<u64>,
    collective: u64,
    point_to_point: u64,
}

/// How an operation counts.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Part {
    Init,
    Finalize,
    Collective,
    PointToPoint,
    Computation,
}

impl Part {
    /// Making and freeing communicators is collective (MPI 4.1, 7.4). A wait or test for a request
    /// counts as point-to-point: whose request it completes is not known.
    fn of(name: &str, class: Class) -> Self {
        match class {
            Class::Life if matches!(name, "MPI_Init" | "MPI_Init_thread") => Self::Init,
            Class::Life if name == "MPI_Finalize" => Self::Finalize,
            Class::AllToAll
            | Class::FromRoot
            | Class::ToRoot
            | Class::Prefix
            | Class::Neighbour
            | Class::StartCollective
            | Class::Communicator => Self::Collective,
            Class::Send | Class::Receive | Class::SendReceive | Class::Complete => {
                Self::PointToPoint
            }
            Class::Life | Class::Other => Self::Computation,
        }
    }
}

impl Thread {
    fn add(&mut self, part: Part, call: &Call) {
        let time = call.end_ns.saturating_sub(call.begin_ns);
        match part {
            Part::Init => self.begin = Some(call.end_ns),
            Part::Finalize => self.end = Some(call.begin_ns),
            Part::Collective => self.collective += time,
            Part::PointToPoint => self.point_to_point += time,
            Part::Computation => {}
        }
    }
}

/// The sums of a run that was started with `ranks` ranks, `per_node` on each node. Each rank counts
/// by the thread that called MPI_Init, from its return to the call of MPI_Finalize, on the rank's
/// own clock.
///
/// # Errors
/// The bundle cannot be read, or the ranks are not those of the layout.
pub(crate) fn parts(
    run: &RunReader,
    ranks: u32,
    per_node: u32,
) -> Result<Result<PlacedRun, Mismatch>, RunError> {
    if let Some(mismatch) = mismatch(run, ranks, per_node) {
        return Ok(Err(mismatch));
    }
    let mut of: BTreeMap<u32, Part> = BTreeMap::new();
    run.for_each::<Operations>(|o| {
        of.insert(o.id, Part::of(&o.name, o.class));
    })?;
    let mut threads: BTreeMap<(Rank, Pid), Thread> = BTreeMap::new();
    run.for_each::<Calls>(|call| {
        let part = of.get(&call.operation).copied();
        let thread = threads.entry((call.rank, call.thread)).or_default();
        thread.add(part.unwrap_or(Part::Computation), &call);
    })?;
    Ok(sum(&threads, ranks))
}

/// The slowest rank's total, and the mean of all parts.
fn sum(threads: &BTreeMap<(Rank, Pid), Thread>, ranks: u32) -> Result<PlacedRun, Mismatch> {
    let mut done = 0;
    let (mut longest, mut all, mut collective, mut point_to_point) = (0, 0.0, 0.0, 0.0);
    for thread in threads.values() {
        let (Some(begin), Some(end)) = (thread.begin, thread.end) else {
            continue;
        };
        done += 1;
        let total = end.saturating_sub(begin);
        longest = longest.max(total);
        all += total as f64;
        collective += thread.collective as f64;
        point_to_point += thread.point_to_point as f64;
    }
    if done < ranks {
        return Err(Mismatch::Wrong(format!(
            "{} of {} did not call MPI_Finalize",
            ranks - done,
            counted(ranks, "rank")
        )));
    }
    let mean = |sum: f64| sum * 1e-9 / f64::from(done.max(1));
    Ok(PlacedRun {
        total: longest as f64 * 1e-9,
        collective: mean(collective),
        point_to_point: mean(point_to_point),
        computation: mean((all - collective - point_to_point).max(0.0)),
    })
}

/// Why the ranks of a run are not those of the layout, if so.
fn mismatch(run: &RunReader, ranks: u32, per_node: u32) -> Option<Mismatch> {
    let sheets = &run.manifest().ranks;
    let mut on: BTreeMap<NodeId, u32> = BTreeMap::new();
    for sheet in sheets.iter().filter(|sheet| sheet.process.is_some()) {
        *on.entry(sheet.node).or_default() += 1;
    }
    let recorded: u32 = on.values().sum();
    match (sheets.len() as u32, recorded) {
        (0, _) => Some(Mismatch::NoMpi),
        (1, _) if ranks > 1 => Some(Mismatch::Launcher),
        (size, _) if size != ranks => Some(Mismatch::Wrong(format!(
            "it ran with {}",
            counted(size, "rank")
        ))),
        (_, recorded) if recorded < ranks => Some(Mismatch::Wrong(format!(
            "{} of {} were not recorded",
            ranks - recorded,
            counted(ranks, "rank")
        ))),
        _ if on.values().any(|&count| count != per_node) => {
            let nodes = &run.manifest().nodes;
            let name = |node: &NodeId| nodes.get(node.index()).map_or("?", |n| &*n.host.name);
            let there: Vec<String> = on
                .iter()
                .map(|(node, count)| format!("{count} on {}", name(node)))
                .collect();
            Some(Mismatch::Wrong(format!(
                "the launcher placed its ranks otherwise: {}",
                there.join(", ")
            )))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(begin_ns: u64, end_ns: u64) -> Call {
        Call {
            rank: Rank::new(0),
            thread: Pid::new(1),
            operation: 0,
            begin_ns,
            end_ns,
            comm: None,
            sequence: None,
            root: None,
            sent: None,
            received: None,
            request: None,
        }
    }

    /// A thread of a rank with these calls.
    fn thread(calls: &[(Part, u64, u64)]) -> Thread {
        let mut thread = Thread::default();
        for &(part, begin, end) in calls {
            thread.add(part, &call(begin, end));
        }
        thread
    }

    #[test]
    fn the_slowest_rank_gives_the_total_and_all_ranks_the_mean_of_the_parts() {
        const S: u64 = 1_000_000_000;
        let first = thread(&[
            (Part::Init, 0, S),
            (Part::Collective, 2 * S, 3 * S),
            (Part::PointToPoint, 4 * S, 4 * S),
            (Part::Finalize, 5 * S, 9 * S),
        ]);
        let second = thread(&[
            (Part::Init, S, 2 * S),
            (Part::PointToPoint, 3 * S, 5 * S),
            (Part::Collective, 6 * S, 9 * S),
            (Part::Computation, 6 * S, 9 * S),
            (Part::Finalize, 10 * S, 20 * S),
        ]);
        // A thread that only helps.
        let helper = thread(&[(Part::Collective, 0, 100 * S)]);
        let threads = BTreeMap::from([
            ((Rank::new(0), Pid::new(1)), first),
            ((Rank::new(1), Pid::new(2)), second),
            ((Rank::new(1), Pid::new(3)), helper),
        ]);
        let run = sum(&threads, 2).map_err(|m| m.text()).unwrap();
        assert_eq!(
            run,
            PlacedRun {
                total: 8.0,
                collective: 2.0,
                point_to_point: 1.0,
                computation: 3.0,
            }
        );
        let missing = sum(&threads, 3).unwrap_err().text();
        assert_eq!(missing, "1 of 3 ranks did not call MPI_Finalize");
    }

    #[test]
    fn operations_are_parted_by_class_and_the_two_ends_by_name() {
        for (name, class, part) in [
            ("MPI_Init_thread", Class::Life, Part::Init),
            ("MPI_Finalize", Class::Life, Part::Finalize),
            ("MPI_Abort", Class::Life, Part::Computation),
            ("MPI_Waitall", Class::Complete, Part::PointToPoint),
            ("MPI_Comm_split", Class::Communicator, Part::Collective),
            ("MPI_Iallreduce", Class::StartCollective, Part::Collective),
            ("MPI_Wtime", Class::Other, Part::Computation),
        ] {
            assert_eq!(Part::of(name, class), part, "{name}");
        }
    }
}
