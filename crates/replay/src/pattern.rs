//! What all ranks have in common: one loop, with peers that follow from the rank.

use crate::ReplayError;
use crate::looped::{LoopPhase, Looped, looped};
use crate::phases::{What, phases};
use crate::script::{Script, Taken};
use idlewave_run::RunReader;
use idlewave_simulate::Shape;
use idlewave_simulate::Stencil;
use idlewave_simulate::bulk::Collective;
use std::fmt;

pub use crate::looped::Times;

/// Neighbours along an axis and side up to which are looked for: of a line, and of a plane or cuboid.
const REACH_LINE: u32 = 4;
const REACH_GRID: u32 = 2;
/// Computation while messages are under way counts from here on, or from this part of the longest computation on.
const OVERLAP_NS: f64 = 1_000.0;
const OVERLAP_PART: f64 = 20.0;

/// The loop that all ranks of a run go through.
#[derive(Clone, Debug, PartialEq)]
pub struct PatternOfRun {
    /// Number of ranks.
    pub ranks: u32,
    /// Iterations that all ranks did.
    pub steps: u64,
    /// One iteration.
    pub phases: Vec<PhaseOfRun>,
    /// How long the loop took the slowest rank in the run, from the begin of its first call to the end of its last, in nanoseconds.
    pub span_ns: u64,
    /// What was taken to be alike though it was not quite, and what else would fit, for people.
    pub notes: Vec<String>,
}

/// A phase of the loop with the computation before it.
#[derive(Clone, Debug, PartialEq)]
pub struct PhaseOfRun {
    /// What all ranks do together.
    pub kind: PhaseKindOfRun,
    /// What each rank computes before it.
    pub work: Vec<Times>,
    /// What each rank computes while messages are under way.
    pub meanwhile: Vec<Times>,
}

/// What all ranks do together.
#[derive(Clone, Debug, PartialEq)]
pub enum PhaseKindOfRun {
    /// Messages between neighbours.
    Exchange {
        /// Who is a neighbour.
        stencil: Stencil,
        /// The longest message.
        bytes: u64,
        /// Whether one direction is waited for before the next one begins.
        blocking: bool,
        /// Whether ranks compute while messages are under way.
        overlapped: bool,
    },
    /// A collective of all ranks.
    Collective {
        /// What is done.
        operation: Collective,
        /// Bytes of each rank.
        bytes: u64,
    },
}

/// Why a run has no pattern: the first rank that is not like the others, and its call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoPattern {
    /// The rank.
    pub rank: u32,
    /// Row of the table `calls`, where it is one call.
    pub call: Option<u32>,
    /// What is the matter.
    pub reason: String,
}

impl fmt::Display for NoPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.call {
            Some(row) => write!(f, "rank {}, row {row} of calls: {}", self.rank, self.reason),
            None => write!(f, "rank {}: {}", self.rank, self.reason),
        }
    }
}

/// The pattern of a run's recorded program, with what was taken by others removed from its computations.
///
/// # Errors
/// As [`schedule_of`](crate::schedule_of).
pub fn pattern_of(run: &RunReader) -> Result<Result<PatternOfRun, NoPattern>, ReplayError> {
    Ok(of_script(&Script::read(run, Taken::Removed)?))
}

pub(crate) fn of_script(script: &Script) -> Result<PatternOfRun, NoPattern> {
    let mut loops: Vec<Looped> = Vec::new();
    for rank in 0..script.ranks {
        let told = script.rank(rank);
        let none = |call, reason: &str| NoPattern {
            rank,
            call,
            reason: reason.to_owned(),
        };
        let all = phases(script, &told).map_err(|n| none(Some(n.row), n.reason))?;
        let mut found = looped(&all).ok_or_else(|| {
            none(
                all.first().map(|p| p.row),
                "most of its phases are not repeated in one loop",
            )
        })?;
        if let Some(first) = loops.first() {
            align(first, &mut found, rank)?;
        }
        loops.push(found);
    }
    let lost = script.left_out.entries().iter();
    let mut notes: Vec<String> = lost
        .map(|loss| {
            format!(
                "not in the pattern: {} ({}); {}",
                loss.what, loss.count, loss.consequence
            )
        })
        .collect();
    let least = loops.iter().map(|l| l.steps).min().unwrap_or(0);
    if loops.iter().any(|l| l.steps != least) {
        let most = loops.iter().map(|l| l.steps).max().unwrap_or(0);
        notes.push(format!(
            "ranks iterate {least} to {most} times; {least} is taken"
        ));
    }
    let count = loops.first().map_or(0, |l| l.phases.len());
    let together = (0..count)
        .map(|index| together(script, &loops, index, &mut notes))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(PatternOfRun {
        ranks: script.ranks,
        steps: least,
        phases: together,
        span_ns: loops.iter().map(|l| l.span_ns).max().unwrap_or(0),
        notes,
    })
}

/// What must be the same on all ranks; whom messages go to must not.
fn alike(a: &LoopPhase, b: &LoopPhase) -> bool {
    match (&a.what, &b.what) {
        (What::Exchange { .. }, What::Exchange { .. }) => true,
        (a, b) => a == b,
    }
}

/// Turns the loop of a rank until it begins as that of the first one does.
fn align(first: &Looped, own: &mut Looped, rank: u32) -> Result<(), NoPattern> {
    let fits = |own: &Looped| {
        let pairs = first.phases.iter().zip(&own.phases);
        first.phases.len() == own.phases.len() && pairs.into_iter().all(|(a, b)| alike(a, b))
    };
    for _ in 0..own.phases.len() {
        if fits(own) {
            return Ok(());
        }
        own.phases.rotate_left(1);
    }
    let pairs = first.phases.iter().zip(&own.phases);
    let different = pairs.into_iter().find(|(a, b)| !alike(a, b));
    Err(NoPattern {
        rank,
        call: different.map(|d| d.1.row),
        reason: format!(
            "its loop has {} phases and that of rank 0 {}, or others: {} where rank 0 has {}",
            own.phases.len(),
            first.phases.len(),
            different.map_or("nothing".to_owned(), |d| named(&d.1.what)),
            different.map_or("nothing".to_owned(), |d| named(&d.0.what)),
        ),
    })
}

fn named(what: &What) -> String {
    match what {
        What::Exchange { sends, receives } => {
            format!(
                "an exchange of {} sends and {} receives",
                sends.len(),
                receives.len()
            )
        }
        What::Collective {
            kind, bytes, root, ..
        } => format!("{kind:?} of {bytes} bytes, root {root}"),
    }
}

/// A phase of all ranks.
fn together(
    script: &Script,
    loops: &[Looped],
    index: usize,
    notes: &mut Vec<String>,
) -> Result<PhaseOfRun, NoPattern> {
    let all: Vec<&LoopPhase> = loops.iter().map(|l| &l.phases[index]).collect();
    let kind = match &all[0].what {
        What::Exchange { .. } => exchange(&all, notes)?,
        What::Collective {
            kind,
            bytes,
            root,
            comm,
        } => {
            let broken = |reason: String| NoPattern {
                rank: 0,
                call: Some(all[0].row),
                reason,
            };
            if script.members[*comm as usize].len() != loops.len() {
                return Err(broken("a collective of some of the ranks only".to_owned()));
            }
            let operation = kind.in_bulk().ok_or_else(|| {
                broken(format!(
                    "{kind:?} is none of the collectives that programs of steps have"
                ))
            })?;
            if *root != 0 {
                notes.push(format!("{operation} has root {root}; rank 0 is taken"));
            }
            PhaseKindOfRun::Collective {
                operation,
                bytes: *bytes,
            }
        }
    };
    Ok(PhaseOfRun {
        kind,
        work: all.iter().map(|p| p.work).collect(),
        meanwhile: all.iter().map(|p| p.meanwhile).collect(),
    })
}

/// The neighbours of a phase.
fn exchange(all: &[&LoopPhase], notes: &mut Vec<String>) -> Result<PhaseKindOfRun, NoPattern> {
    let peers: Vec<[Vec<usize>; 2]> = all.iter().map(|p| peers(&p.what)).collect();
    let candidates = candidates(all.len());
    let mut furthest = 0;
    let mut fitting = candidates.into_iter().filter(|stencil| {
        let fits = |rank: usize| {
            let sorted = |mut list: Vec<usize>| {
                list.sort_unstable();
                list
            };
            peers[rank][0] == sorted(stencil.targets(rank).collect())
                && peers[rank][1] == sorted(stencil.sources(rank).collect())
        };
        let broken = (0..peers.len()).find(|&rank| !fits(rank));
        furthest = furthest.max(broken.unwrap_or(0));
        broken.is_none()
    });
    let found = fitting.next();
    let others: Vec<String> = fitting.map(|s| described(&s)).collect();
    let Some(stencil) = found else {
        return Err(NoPattern {
            rank: furthest as u32,
            call: Some(all[furthest].row),
            reason: format!(
                "it sends to {:?} and receives from {:?}: {}",
                peers[furthest][0],
                peers[furthest][1],
                as_expression(&peers)
            ),
        });
    };
    if !others.is_empty() {
        notes.push(format!(
            "neighbours are {}; so few ranks could as well be {}",
            described(&stencil),
            others.join(", ")
        ));
    }
    let sizes = || {
        all.iter().flat_map(|p| match &p.what {
            What::Exchange { sends, .. } => sends.as_slice(),
            What::Collective { .. } => &[],
        })
    };
    let longest = sizes().map(|s| s.1).max().unwrap_or(0);
    let shortest = sizes().map(|s| s.1).min().unwrap_or(0);
    if shortest < longest {
        notes.push(format!(
            "messages of an exchange have {shortest} to {longest} bytes; the longest is taken"
        ));
    }
    let most = |of: fn(&LoopPhase) -> f64| all.iter().map(|p| of(p)).fold(0.0, f64::max);
    let limit = OVERLAP_NS.max(most(|p| p.work.mean) / OVERLAP_PART);
    let blocking = all.iter().any(|p| p.parts > 1);
    Ok(PhaseKindOfRun::Exchange {
        stencil,
        bytes: longest,
        blocking,
        overlapped: !blocking && most(|p| p.meanwhile.mean) >= limit,
    })
}

/// Whom a rank sends to and receives from, in ascending order.
fn peers(what: &What) -> [Vec<usize>; 2] {
    let sorted = |list: &[(u32, u64)]| {
        let mut peers: Vec<usize> = list.iter().map(|p| p.0 as usize).collect();
        peers.sort_unstable();
        peers
    };
    match what {
        What::Exchange { sends, receives } => [sorted(sends), sorted(receives)],
        What::Collective { .. } => [Vec::new(), Vec::new()],
    }
}

/// Neighbourhoods of so many ranks, the simplest first.
fn candidates(ranks: usize) -> Vec<Stencil> {
    let mut shapes = vec![Shape {
        x: ranks,
        y: 1,
        z: 1,
    }];
    let divisors: Vec<usize> = (2..ranks).filter(|d| ranks % d == 0).collect();
    for &x in &divisors {
        let rest = ranks / x;
        if rest >= 2 {
            shapes.push(Shape { x, y: rest, z: 1 });
        }
    }
    for &x in &divisors {
        for &y in &divisors {
            if ranks % (x * y) == 0 && ranks / (x * y) >= 2 {
                let z = ranks / (x * y);
                shapes.push(Shape { x, y, z });
            }
        }
    }
    let mut all = Vec::new();
    for shape in shapes {
        let longest = shape.x.max(shape.y).max(shape.z) as u32;
        let most = if shape.y == 1 { REACH_LINE } else { REACH_GRID };
        let most = most.min(longest.saturating_sub(1));
        for reach in 1..=most {
            for (periodic, one_sided) in
                [(true, true), (true, false), (false, false), (false, true)]
            {
                all.push(Stencil {
                    shape,
                    reach,
                    periodic,
                    one_sided,
                });
            }
        }
    }
    all
}

/// A neighbourhood in words.
pub(crate) fn described(stencil: &Stencil) -> String {
    let Shape { x, y, z } = stencil.shape;
    let shape = match (y, z) {
        (1, 1) => format!("a line of {x}"),
        (_, 1) => format!("a plane of {x} x {y}"),
        _ => format!("a cuboid of {x} x {y} x {z}"),
    };
    let ends = if stencil.periodic {
        "around the ends"
    } else {
        "open ends"
    };
    let sides = if stencil.one_sided {
        "to higher ranks only"
    } else {
        "both sides"
    };
    format!("{shape}, {ends}, {sides}, reach {}", stencil.reach)
}

/// What peers are of the rank, if something simple.
fn as_expression(peers: &[[Vec<usize>; 2]]) -> String {
    let ranks = peers.len();
    let all = |f: &dyn Fn(usize) -> usize| {
        let mut own = peers.iter().enumerate();
        own.all(|(rank, p)| p[0] == [f(rank)])
    };
    if let Some(&to) = peers.first().and_then(|p| p[0].first()) {
        if all(&|rank| rank ^ to) {
            return format!(
                "every rank sends to rank xor {to}, which programs of steps do not have"
            );
        }
        if all(&|rank| (rank + to) % ranks) {
            return format!(
                "every rank sends to rank + {to} modulo the number of ranks alone, which programs of steps do not have"
            );
        }
    }
    "no line, plane or cuboid has these neighbours".to_owned()
}
