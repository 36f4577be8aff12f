//! Which ranks exchange messages: lines, planes and cuboids that fit the peers of all ranks.
//!
//! Along an axis of one rank, the ranks of a periodic program may or may not send to themselves. If
//! they do, a line is a plane and a plane is a cuboid. Along an axis of two, both neighbours are
//! the same rank, which may get one message or two.

use crate::looped::LoopPhase;
use crate::pattern::{NoPattern, PhaseKindOfRun};
use crate::phases::What;
use idlewave_simulate::{Shape, Stencil};

/// At most this many neighbours are tried per axis and side: on a line, and in a plane or cuboid.
const REACH_LINE: u32 = 4;
const REACH_GRID: u32 = 2;
/// Computation while messages are in flight counts as overlap if it takes at least `OVERLAP_NS` and
/// at least 1 / `OVERLAP_PART` of the longest computation.
const OVERLAP_NS: f64 = 1_000.0;
const OVERLAP_PART: f64 = 20.0;

/// The ranks that a rank exchanges messages with.
struct Peers {
    /// The ranks it sends to and the ranks it receives from, each ascending and without itself.
    others: [Vec<usize>; 2],
    /// Number of messages to itself.
    to_itself: usize,
}

impl Peers {
    fn of(rank: usize, what: &What) -> Peers {
        let (sends, receives) = match what {
            What::Exchange { sends, receives } => (sends.as_slice(), receives.as_slice()),
            What::Collective { .. } => (&[][..], &[][..]),
        };
        let others = |list: &[(u32, u64)]| {
            let all = list.iter().map(|p| p.0 as usize);
            let mut peers: Vec<usize> = all.filter(|&peer| peer != rank).collect();
            peers.sort_unstable();
            peers
        };
        let others = [others(sends), others(receives)];
        Peers {
            to_itself: sends.len() - others[0].len(),
            others,
        }
    }

    /// Whether these are the rank's neighbours in a stencil. With `once`, two neighbours that are
    /// the same rank count once.
    fn fit(&self, rank: usize, stencil: &Stencil, once: bool) -> bool {
        let fits = |own: &[usize], mut list: Vec<usize>| {
            list.sort_unstable();
            if once {
                list.dedup();
            }
            own == list
        };
        fits(&self.others[0], stencil.targets(rank).collect())
            && fits(&self.others[1], stencil.sources(rank).collect())
    }
}

/// The exchange of all ranks.
pub(crate) struct Exchanged {
    /// `None` if ranks send only to themselves, which costs nothing.
    pub kind: Option<PhaseKindOfRun>,
    /// Ignored differences, and other stencils that would fit.
    pub notes: Vec<String>,
}

/// The shortest and the longest message to another rank.
pub(crate) fn lengths(all: &[LoopPhase]) -> (u64, u64) {
    let sent = (0..).zip(all).flat_map(|(rank, p)| match &p.what {
        What::Exchange { sends, .. } => sends.iter().filter(|s| s.0 != rank).map(|s| s.1).collect(),
        What::Collective { .. } => Vec::new(),
    });
    let range = sent.fold(None, |range: Option<(u64, u64)>, bytes| {
        Some(range.map_or((bytes, bytes), |(l, h)| (l.min(bytes), h.max(bytes))))
    });
    range.unwrap_or((0, 0))
}

/// The neighbours of an exchange; `all` has one entry per rank.
pub(crate) fn exchange(all: &[LoopPhase]) -> Result<Exchanged, NoPattern> {
    let peers: Vec<Peers> = (0..)
        .zip(all)
        .map(|(rank, p)| Peers::of(rank, &p.what))
        .collect();
    let mut notes = Vec::new();
    if peers.iter().all(|p| p.others.iter().all(Vec::is_empty)) {
        return Ok(Exchanged { kind: None, notes });
    }
    let mut furthest = 0;
    let tried = [false, true].into_iter().flat_map(|once| {
        let all = candidates(all.len()).into_iter();
        all.filter(move |s| !once || has_pairs(s))
            .map(move |s| (s, once))
    });
    let mut fitting = tried.filter_map(|(stencil, once)| {
        let broken = (0..peers.len()).find(|&rank| !peers[rank].fit(rank, &stencil, once));
        furthest = furthest.max(broken.unwrap_or(0));
        let stencil = with_itself(stencil, &peers)?;
        broken.is_none().then_some((stencil, once))
    });
    let found = fitting.next();
    let others: Vec<String> = fitting.map(|(s, _)| described(&s)).collect();
    let Some((stencil, once)) = found else {
        return Err(NoPattern {
            rank: furthest as u32,
            call: Some(all[furthest].row),
            reason: format!(
                "it sends to {} and receives from {}: {}",
                counted(&peers[furthest].others[0]),
                counted(&peers[furthest].others[1]),
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
    if once {
        notes.push(
            "ranks send one message where both neighbours along an axis are the same rank; among more ranks they send to both"
                .to_owned(),
        );
    }
    let (shortest, longest) = lengths(all);
    if shortest < longest {
        notes.push(format!(
            "messages of an exchange have {shortest} to {longest} bytes; the longest is taken"
        ));
    }
    let most = |of: fn(&LoopPhase) -> f64| all.iter().map(of).fold(0.0, f64::max);
    let limit = OVERLAP_NS.max(most(|p| p.work.mean) / OVERLAP_PART);
    let blocking = all.iter().any(|p| p.parts > 1);
    let kind = PhaseKindOfRun::Exchange {
        stencil,
        bytes: longest,
        blocking,
        overlapped: !blocking && most(|p| p.meanwhile.mean) >= limit,
    };
    Ok(Exchanged {
        kind: Some(kind),
        notes,
    })
}

/// Whether two neighbours may be the same rank.
fn has_pairs(stencil: &Stencil) -> bool {
    let Shape { x, y, z } = stencil.shape;
    stencil.periodic && !stencil.one_sided && [x, y, z].contains(&2)
}

/// Adds an axis of one rank for each set of messages that ranks send to themselves; `None` if the
/// messages do not fit.
fn with_itself(stencil: Stencil, peers: &[Peers]) -> Option<Stencil> {
    let count = peers.first()?.to_itself;
    if peers.iter().any(|p| p.to_itself != count) {
        return None;
    }
    let sides = if stencil.one_sided { 1 } else { 2 };
    let along = sides * stencil.reach as usize;
    let Shape { x, y, z } = stencil.shape;
    let shape = match (count / along, count % along, y, z) {
        (0, 0, ..) => Some(stencil.shape),
        (1, 0, 1, 1) => Some(Shape { x: 1, y: x, z: 1 }),
        (2, 0, 1, 1) => Some(Shape { x: 1, y: 1, z: x }),
        (1, 0, _, 1) => Some(Shape { x: 1, y: x, z: y }),
        _ => None,
    };
    shape.map(|shape| Stencil { shape, ..stencil })
}

/// Ranks in words, each with its count if it occurs more than once.
fn counted(ranks: &[usize]) -> String {
    let parts = ranks.chunk_by(|a, b| a == b);
    let one = |same: &[usize]| match same.len() {
        1 => same[0].to_string(),
        n => format!("{} ({n} times)", same[0]),
    };
    let all: Vec<String> = parts.map(one).collect();
    match all.is_empty() {
        true => "nobody".to_owned(),
        false => all.join(", "),
    }
}

/// Candidate neighbourhoods of this many ranks, the simplest first.
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

/// The peers as an expression of the rank, if there is a simple one.
fn as_expression(peers: &[Peers]) -> String {
    let ranks = peers.len();
    let all = |f: &dyn Fn(usize) -> usize| {
        let mut own = peers.iter().enumerate();
        own.all(|(rank, p)| p.others[0] == [f(rank)])
    };
    if let Some(&to) = peers.first().and_then(|p| p.others[0].first()) {
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
