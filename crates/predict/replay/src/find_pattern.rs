//! Finds what all ranks have in common: one loop, whose peers follow from the rank.

use crate::ReplayError;
use crate::looped::{LoopPhase, Looped, Times, brief, looped, merged, together};
use crate::neighbours::{exchange, lengths};
use crate::pattern::{NoPattern, PatternOfRun, PhaseKindOfRun, PhaseOfRun};
use crate::phases::{What, phases};
use crate::script::{Script, Taken};
use idlewave_run::RunReader;
use idlewave_simulate::collectives::Kind;
use idlewave_units::counted;
use std::cmp::Reverse;
use std::ops::Range;

/// At most this many exchanges are merged into one: enough for a stencil with three axes, two sides
/// and two neighbours per side, with sends apart from receives.
const MOST_TOGETHER: usize = 24;
/// Exchanges are first merged only while the longest message is at most this many times the
/// shortest; if no stencil fits that way, the limit is dropped.
const ALIKE_LENGTHS: u64 = 4;

/// The pattern of a run's recorded program, without the time that others took from its
/// computations.
///
/// # Errors
/// Like [`schedule_of`](crate::schedule_of).
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
        let found = looped(&all).ok_or_else(|| {
            none(
                all.first().map(|p| p.row),
                "most of its exchanges and collectives are not repeated in one loop",
            )
        })?;
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
    let phases =
        match aligned(&loops).and_then(|own| grouped(script, &own, &mut notes)) {
            Ok(phases) => phases,
            // Ranks at open ends have fewer exchanges, so back-to-back exchanges count as one.
            Err(parted) => {
                let one = |l: &Looped| Looped {
                    phases: together(l.phases.clone()),
                    ..l.clone()
                };
                let joined: Vec<Looped> = loops.iter().map(one).collect();
                let own = aligned(&joined)?;
                let whole = (0..own.first().map_or(0, |l| l.phases.len())).map(|i| i..i + 1);
                phases_of(script, &own, whole.collect(), &mut notes).map_err(
                    |whole| match aligned(&loops).is_ok() {
                        true => parted,
                        false => whole,
                    },
                )?
            }
        };
    Ok(PatternOfRun {
        ranks: script.ranks,
        steps: least,
        phases,
        span_ns: loops.iter().map(|l| l.span_ns).max().unwrap_or(0),
        notes,
    })
}

/// Whether two phases match across ranks, regardless of their peers.
fn alike(a: &LoopPhase, b: &LoopPhase) -> bool {
    match (&a.what, &b.what) {
        (What::Exchange { .. }, What::Exchange { .. }) => true,
        (a, b) => a == b,
    }
}

/// The loops, each rotated to start like the first rank's.
fn aligned(loops: &[Looped]) -> Result<Vec<Looped>, NoPattern> {
    let mut all = loops.to_vec();
    if let Some((first, others)) = all.split_first_mut() {
        for (rank, own) in (1..).zip(others) {
            align(first, own, rank)?;
        }
    }
    Ok(all)
}

/// Rotates a rank's loop to match the first rank's. Of the rotations that match, takes the one in
/// which most exchanges have messages as long as the first rank's (the first on a tie).
fn align(first: &Looped, own: &mut Looped, rank: u32) -> Result<(), NoPattern> {
    let turned = |turn: usize| {
        let (begin, end) = own.phases.split_at(turn);
        end.iter().chain(begin)
    };
    let fits = |turn: &usize| {
        let mut pairs = first.phases.iter().zip(turned(*turn));
        first.phases.len() == own.phases.len() && pairs.all(|(a, b)| alike(a, b))
    };
    let as_long = |turn: usize| {
        let pairs = first.phases.iter().zip(turned(turn));
        pairs.filter(|(a, b)| sent(a) == sent(b)).count()
    };
    let turns = (0..own.phases.len()).filter(fits);
    match turns.max_by_key(|&turn| (as_long(turn), Reverse(turn))) {
        Some(turn) => {
            own.phases.rotate_left(turn);
            Ok(())
        }
        None => Err(different(first, own, rank)),
    }
}

/// Lengths of the messages sent, ascending.
fn sent(phase: &LoopPhase) -> Vec<u64> {
    let What::Exchange { sends, .. } = &phase.what else {
        return Vec::new();
    };
    let mut lengths: Vec<u64> = sends.iter().map(|s| s.1).collect();
    lengths.sort_unstable();
    lengths
}

/// Where a rank's loop differs from the first rank's.
fn different(first: &Looped, own: &Looped, rank: u32) -> NoPattern {
    let (here, there) = (own.phases.len(), first.phases.len());
    let pairs = first.phases.iter().zip(&own.phases);
    let parts = pairs.take_while(|(a, b)| alike(a, b)).count();
    let (own, other) = (own.phases.get(parts), first.phases.get(parts));
    let place = ordinal(parts + 1);
    let what = match (own, other) {
        (Some(own), Some(other)) => format!(
            "the {place} thing in each turn of its loop is {}, where rank 0 has {}",
            named(&own.what),
            named(&other.what)
        ),
        (Some(own), None) => format!(
            "its {place}, {}, has no counterpart on rank 0",
            named(&own.what)
        ),
        (None, Some(other)) => format!(
            "it has no counterpart to the {place} of rank 0, {}",
            named(&other.what)
        ),
        (None, None) => "they come in another order".to_owned(),
    };
    NoPattern {
        rank,
        call: own.map(|p| p.row),
        reason: match here == there {
            true => what,
            false => format!(
                "each turn of its loop has {here} exchanges and collectives, each of rank 0's has {there}: {what}"
            ),
        },
    }
}

fn ordinal(number: usize) -> String {
    match number {
        1 => "first".to_owned(),
        2 => "second".to_owned(),
        3 => "third".to_owned(),
        n => format!("{n}th"),
    }
}

fn named(what: &What) -> String {
    match what {
        What::Exchange { sends, receives } => {
            let some = |n: usize, what: &str| match n {
                1 => format!("1 {what}"),
                n => format!("{n} {what}s"),
            };
            format!(
                "an exchange of {} and {}",
                some(sends.len(), "send"),
                some(receives.len(), "receive")
            )
        }
        What::Collective { kind, bytes, .. } => {
            let name = format!("{kind:?}").to_lowercase();
            let article = if name.starts_with('a') { "an" } else { "a" };
            match bytes {
                0 => format!("{article} {name}"),
                _ => format!(
                    "{article} {name} of {bytes}",
                    bytes = counted(*bytes, "byte")
                ),
            }
        }
    }
}

/// The phases of loops that match part by part. Merges as many back-to-back exchanges as still fit
/// a stencil.
fn grouped(
    script: &Script,
    loops: &[Looped],
    notes: &mut Vec<String>,
) -> Result<Vec<PhaseOfRun>, NoPattern> {
    let limits: Vec<f64> = loops.iter().map(|l| brief(&l.phases)).collect();
    let follows = |at: usize| {
        let mut all = loops.iter().zip(&limits);
        all.all(|(l, &limit)| {
            let exchanges = |p: &LoopPhase| matches!(p.what, What::Exchange { .. });
            exchanges(&l.phases[at - 1])
                && exchanges(&l.phases[at])
                && l.phases[at].work.mean < limit
        })
    };
    let mut groups: Vec<Range<usize>> = Vec::new();
    for at in 0..loops.first().map_or(0, |l| l.phases.len()) {
        match groups.last_mut() {
            Some(group) if follows(at) => group.end = at + 1,
            _ => groups.push(at..at + 1),
        }
    }
    phases_of(script, loops, groups, notes)
}

/// The phases of all ranks from groups of parts.
fn phases_of(
    script: &Script,
    loops: &[Looped],
    groups: Vec<Range<usize>>,
    notes: &mut Vec<String>,
) -> Result<Vec<PhaseOfRun>, NoPattern> {
    let mut out: Vec<PhaseOfRun> = Vec::new();
    // Work around messages that ranks send to themselves. It belongs to the next phase.
    let mut more = vec![Times::default(); loops.len()];
    for group in groups {
        let mut at = group.start;
        while at < group.end {
            let (end, mut phase) = phase(script, loops, at..group.end, notes)?;
            at = end;
            for (more, work) in more.iter_mut().zip(&mut phase.work) {
                *work = std::mem::take(more).plus(*work);
            }
            match phase.kind {
                Some(kind) => out.push(PhaseOfRun {
                    kind,
                    work: phase.work,
                    meanwhile: phase.meanwhile,
                }),
                None => {
                    let both = phase.work.iter().zip(&phase.meanwhile);
                    more = both.map(|(a, b)| a.plus(*b)).collect();
                }
            }
        }
    }
    if let Some(first) = out.first_mut() {
        for (work, more) in first.work.iter_mut().zip(more) {
            *work = work.plus(more);
        }
    }
    Ok(out)
}

/// A phase of all ranks; its kind is `None` if ranks send only to themselves.
struct Common {
    kind: Option<PhaseKindOfRun>,
    work: Vec<Times>,
    meanwhile: Vec<Times>,
}

/// The next phase of all ranks, and where the one after it starts. Merges as many exchanges as
/// still fit a stencil.
fn phase(
    script: &Script,
    loops: &[Looped],
    parts: Range<usize>,
    notes: &mut Vec<String>,
) -> Result<(usize, Common), NoPattern> {
    let merged = |end: usize| -> Vec<LoopPhase> {
        let one = |l: &Looped| merged(&l.phases[parts.start..end]);
        loops.iter().map(one).collect()
    };
    let common = |all: &[LoopPhase], kind| Common {
        kind,
        work: all.iter().map(|p| p.work).collect(),
        meanwhile: all.iter().map(|p| p.meanwhile).collect(),
    };
    let single = merged(parts.start + 1);
    if let What::Collective {
        kind,
        bytes,
        root,
        comm,
    } = &single[0].what
    {
        let kind = collective(script, &single[0], *kind, (*bytes, *root, *comm), notes)?;
        return Ok((parts.start + 1, common(&single, Some(kind))));
    }
    let most = parts.end.min(parts.start + MOST_TOGETHER);
    let mut refused = None;
    for alike in [true, false] {
        for end in (parts.start + 1..=most).rev() {
            let all = merged(end);
            let (shortest, longest) = lengths(&all);
            if alike && longest > shortest.saturating_mul(ALIKE_LENGTHS) {
                continue;
            }
            match exchange(&all) {
                Ok(found) => {
                    for note in found.notes {
                        note_once(notes, note);
                    }
                    return Ok((end, common(&all, found.kind)));
                }
                Err(none) => refused = refused.or(Some(none)),
            }
        }
    }
    // There is at least one part.
    Err(refused.unwrap_or(NoPattern {
        rank: 0,
        call: Some(single[0].row),
        reason: "it exchanges with nobody".to_owned(),
    }))
}

fn note_once(notes: &mut Vec<String>, note: String) {
    if !notes.contains(&note) {
        notes.push(note);
    }
}

/// A collective of all ranks.
fn collective(
    script: &Script,
    phase: &LoopPhase,
    kind: Kind,
    (bytes, root, comm): (u64, u32, u32),
    notes: &mut Vec<String>,
) -> Result<PhaseKindOfRun, NoPattern> {
    let broken = |reason: String| NoPattern {
        rank: 0,
        call: Some(phase.row),
        reason,
    };
    if script.members[comm as usize].len() != script.ranks as usize {
        return Err(broken("a collective of some of the ranks only".to_owned()));
    }
    let operation = kind.in_bulk().ok_or_else(|| {
        broken(format!(
            "{kind:?} is none of the collectives that programs of steps have"
        ))
    })?;
    if root != 0 {
        note_once(
            notes,
            format!("{operation} has root {root}; rank 0 is taken"),
        );
    }
    Ok(PhaseKindOfRun::Collective { operation, bytes })
}
