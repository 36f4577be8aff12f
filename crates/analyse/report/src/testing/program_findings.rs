//! Findings of the synthetic MPI program, summed from its own tables.

use super::SyntheticProgram;
use super::findings::bare_findings;
use super::program::{MESSAGE_BYTES, OPERATIONS, Pattern, Planted, Recording};
use idlewave_run::findings::{
    Advice, Estimate, Findings, Gain, GainOf, LatePartFinding, MarkFinding, OperationFinding,
    PathFinding, ProgramFindings, RankTime, SourceFinding, WaitClass, WaitFinding, WaveFinding,
};
use idlewave_run::tables::{WaitKind, WaitPart};
use idlewave_run::{Manifest, SourceKind, Table};
use idlewave_units::{Cpu, Nanos, Rank};
use std::cmp::Reverse;
use std::collections::BTreeMap;

const NS: fn(u64) -> Nanos = Nanos::from_nanos;

/// Time from the last return from MPI_Init to the first call of MPI_Finalize.
fn total(r: &Recording) -> u64 {
    r.span.1 - r.span.0
}

pub(super) fn find(what: &SyntheticProgram, r: &Recording, manifest: &Manifest) -> Findings {
    let waited: u64 = r.waited.iter().sum();
    let mut findings = bare_findings();
    findings.trace = manifest.nodes[0].trace.clone();
    findings.contamination = manifest.nodes[0].contamination.clone();
    findings.losses = manifest.losses.clone();
    findings.sources = sources(what, r);
    findings.advice = vec![Advice {
        action: format!(
            "move `{}` off the CPUs of the ranks",
            what.culprit.escape_debug()
        ),
        reason: "most of what the ranks waited began where it took a CPU".to_owned(),
        command: Some("taskset -a -c -p 3 4242".to_owned()),
        gain: Some(Gain {
            of: GainOf::RankTime,
            topology: None,
            ranks: None,
            saved: Estimate {
                value: 0.08,
                low: 0.06,
                high: 0.11,
                n: 40,
                method: "synthetic".to_owned(),
            },
            now: 1.0,
        }),
        inferred: false,
    }];
    findings.program = Some(ProgramFindings {
        library: Some("Open MPI v4.1.4".to_owned()),
        ranks: what.ranks.max(1),
        total: NS(total(r)),
        ranks_time: ranks_time(r),
        operations: operations(r),
        message_bytes: r.messages.bytes.iter().map(|b| b.get()).sum(),
        messages: r.messages.len() as u64,
        matrix: matrix(r),
        waits: classes(what, r),
        waited: NS(waited),
        named: NS(waited),
        propagated: NS(r
            .waits
            .rows()
            .filter(|w| w.hops > 0)
            .map(|w| w.end_ns - w.begin_ns)
            .sum()),
        latest: latest(what, r),
        waves: waves(r),
        path: path(r),
        marks: marks(r),
    });
    findings
}

fn ranks_time(r: &Recording) -> Vec<RankTime> {
    let mut inside = vec![0; r.taken.len()];
    for d in r.done.iter().filter(|d| ![0, 5].contains(&d.operation)) {
        inside[d.rank as usize] += d.length;
    }
    inside
        .iter()
        .enumerate()
        .map(|(i, inside)| RankTime {
            rank: Rank::new(i as u32),
            computing: NS(total(r) - inside - r.taken[i]),
            taken: NS(r.taken[i]),
            waiting: NS(r.waited[i]),
            communicating: NS(inside - r.waited[i]),
        })
        .collect()
}

/// The whole path lies on the rank from which most was taken, and the first source took all of
/// that.
fn path(r: &Recording) -> PathFinding {
    let (rank, &taken) = (0..)
        .zip(&r.taken)
        .max_by_key(|(_, ns)| **ns)
        .unwrap_or((0, &0));
    PathFinding {
        computing: NS(total(r) - taken),
        communicating: NS(0),
        sources: vec![(0, NS(taken))],
        ranks: vec![(Rank::new(rank), NS(total(r)))],
        hops: 0,
    }
}

fn operations(r: &Recording) -> Vec<OperationFinding> {
    let mut list: Vec<OperationFinding> = (0..)
        .zip(OPERATIONS)
        .filter_map(|(id, (name, _))| {
            let mut lengths: Vec<u64> = r
                .done
                .iter()
                .filter(|d| d.operation == id)
                .map(|d| d.length)
                .collect();
            lengths.sort_unstable();
            let waits = r
                .waits
                .rows()
                .filter(|w| r.calls.operation[w.call as usize] == id);
            Some(OperationFinding {
                name: name.to_owned(),
                calls: lengths.len() as u64,
                time: NS(lengths.iter().sum()),
                waiting: NS(waits.map(|w| w.end_ns - w.begin_ns).sum()),
                median: NS(*lengths.get(lengths.len() / 2)?),
                max: NS(*lengths.last()?),
                bytes: if name == "MPI_Isend" {
                    lengths.len() as u64 * MESSAGE_BYTES
                } else {
                    0
                },
            })
        })
        .collect();
    list.sort_by_key(|o| Reverse(o.time));
    list
}

fn matrix(r: &Recording) -> Vec<(Rank, Rank, u64, u64)> {
    let mut pairs: BTreeMap<(Rank, Rank), (u64, u64)> = BTreeMap::new();
    for m in r.messages.rows() {
        let pair = pairs.entry((m.from, m.to)).or_default();
        pair.0 += 1;
        pair.1 += m.bytes.get();
    }
    pairs
        .into_iter()
        .map(|((a, b), (n, bytes))| (a, b, n, bytes))
        .collect()
}

fn kind_name(kind: WaitKind) -> &'static str {
    if kind == WaitKind::Collective {
        "wait at a collective"
    } else {
        "late sender"
    }
}

fn classes(what: &SyntheticProgram, r: &Recording) -> Vec<WaitClass> {
    if r.waits.is_empty() {
        return Vec::new();
    }
    vec![WaitClass {
        name: match what.pattern {
            Pattern::Barrier => "wait at MPI_Barrier".to_owned(),
            Pattern::Ring => "late sender".to_owned(),
        },
        count: r.waits.len() as u64,
        time: NS(r.waited.iter().sum()),
    }]
}

fn parts(r: &Recording) -> BTreeMap<u32, Vec<WaitPart>> {
    let mut of: BTreeMap<u32, Vec<WaitPart>> = BTreeMap::new();
    for p in r.parts.rows() {
        of.entry(p.wait).or_default().push(p);
    }
    for list in of.values_mut() {
        list.sort_by_key(|p| Reverse(p.time));
    }
    of
}

fn latest(what: &SyntheticProgram, r: &Recording) -> Vec<WaitFinding> {
    let of = parts(r);
    let mut rows: Vec<usize> = (0..r.waits.len()).collect();
    rows.sort_by_key(|&i| (Reverse(r.waits.end_ns[i] - r.waits.begin_ns[i]), i));
    rows.truncate(100);
    rows.into_iter()
        .map(|i| {
            let w = r.waits.row(i);
            let list = of.get(&(i as u32)).cloned().unwrap_or_default();
            let origin = list.first().map_or(w.culprit, |p| p.origin);
            WaitFinding {
                wait: i as u32,
                operation: OPERATIONS[r.calls.operation[w.call as usize] as usize]
                    .0
                    .to_owned(),
                kind: kind_name(w.kind).to_owned(),
                rank: w.rank,
                culprit: w.culprit,
                cpu: Some(Recording::place(origin.get(), what.ranks.max(1), what.nodes).1),
                origin,
                hops: w.hops,
                begin_ns: w.begin_ns,
                end_ns: w.end_ns,
                parts: list
                    .iter()
                    .map(|p| LatePartFinding {
                        source: p.finding,
                        time: p.time,
                    })
                    .collect(),
            }
        })
        .collect()
}

fn sources(what: &SyntheticProgram, r: &Recording) -> Vec<SourceFinding> {
    let of = parts(r);
    // A delay for which several ranks waited is one delay: the largest part of their waits counts.
    let mut delays: BTreeMap<(Rank, u64), (u32, u64)> = BTreeMap::new();
    for (i, w) in r
        .waits
        .rows()
        .enumerate()
        .filter(|(_, w)| w.parent.is_none())
    {
        let part = &of[&(i as u32)][0];
        let known = delays
            .entry((w.culprit, w.end_ns))
            .or_insert((part.finding, 0));
        known.1 = known.1.max(part.time.get());
    }
    let kinds = [
        (SourceKind::Task, what.culprit.as_str(), Some(Planted::Task)),
        (SourceKind::Irq, "eth0-rx-0", Some(Planted::Irq)),
        (SourceKind::Imbalance, "imbalance", None),
        (SourceKind::Unexplained, "unexplained", None),
    ];
    (0u32..)
        .zip(kinds)
        .map(|(i, (kind, name, by))| {
            let hits: Vec<_> = what.delays.iter().filter(|d| Some(d.by) == by).collect();
            let stolen: u64 = hits.iter().map(|d| d.length_ns).sum();
            let waited: u64 = r
                .parts
                .rows()
                .filter(|p| p.finding == i)
                .map(|p| p.time.get())
                .sum();
            let own = || delays.values().filter(|d| d.0 == i).map(|d| d.1);
            let lateness: u64 = own().sum();
            let lost = waited + lateness;
            SourceFinding {
                kind,
                name: name.to_owned(),
                events: by.map(|_| hits.len() as u64),
                stolen: NS(stolen),
                late_steps: own().count() as u64,
                lateness: NS(lateness),
                lost: NS(lost),
                amplification: (stolen > 0).then(|| lost as f64 / stolen as f64),
                absorbed: None,
                length: None,
                period: None,
                relation: None,
                cpus: hits
                    .iter()
                    .map(|d| Recording::place(d.rank, what.ranks.max(1), what.nodes).1)
                    .collect::<std::collections::BTreeSet<Cpu>>()
                    .into_iter()
                    .collect(),
                detail: None,
            }
        })
        .collect()
}

/// A wave is all waits that descend from the same delay, if one of them is at least two hops away.
fn waves(r: &Recording) -> Vec<WaveFinding> {
    let mut root: Vec<usize> = Vec::new();
    for (i, w) in r.waits.rows().enumerate() {
        root.push(w.parent.map_or(i, |p| root[p as usize]));
    }
    let mut groups: BTreeMap<(u32, u64), Vec<usize>> = BTreeMap::new();
    for (i, &top) in root.iter().enumerate() {
        let (first, length) = (r.waits.row(top), r.waits.end_ns[i] - r.waits.begin_ns[i]);
        if length > 20_000 {
            groups
                .entry((first.culprit.get(), first.end_ns))
                .or_default()
                .push(i);
        }
    }
    let of = parts(r);
    let mut waves: Vec<WaveFinding> = groups
        .into_iter()
        .filter(|(_, rows)| rows.iter().any(|&i| r.waits.hops[i] >= 2))
        .map(|((origin, _), mut rows)| {
            rows.sort_by_key(|&i| (r.waits.hops[i], r.waits.begin_ns[i], i));
            let length = |i: usize| r.waits.end_ns[i] - r.waits.begin_ns[i];
            let hops = rows.iter().map(|&i| r.waits.hops[i]).max().unwrap_or(0);
            let (first, last) = (rows[0], rows[rows.len() - 1]);
            let time = (r.waits.end_ns[last] - r.waits.end_ns[first]) as f64;
            let speed = f64::from(hops) / time * 1e9;
            let share = length(last) as f64 / length(first) as f64;
            WaveFinding {
                origin: Rank::new(origin),
                begin_ns: r.waits.begin_ns[first],
                source: of.get(&(first as u32)).map_or(3, |l| l[0].finding),
                ranks: rows
                    .iter()
                    .map(|&i| r.waits.rank[i])
                    .collect::<std::collections::BTreeSet<_>>()
                    .len() as u32,
                hops: hops + 1,
                lost: NS(rows.iter().map(|&i| length(i)).sum()),
                speed: Some(Estimate {
                    value: speed,
                    low: speed * 0.98,
                    high: speed * 1.02,
                    n: rows.len() as u64,
                    method: "slope of hops against the ends of the waits, 95 %".to_owned(),
                }),
                first: NS(length(first)),
                decay: Some(1.0 - share.powf(1.0 / f64::from(hops.max(1)))),
                points: rows
                    .iter()
                    .map(|&i| {
                        (
                            r.waits.rank[i],
                            r.waits.hops[i] + 1,
                            r.waits.begin_ns[i],
                            NS(length(i)),
                        )
                    })
                    .collect(),
            }
        })
        .collect();
    waves.sort_by_key(|w| (Reverse(w.lost), w.begin_ns));
    waves.truncate(20);
    waves
}

fn marks(r: &Recording) -> Vec<MarkFinding> {
    let mut lengths: Vec<u64> = r
        .marks
        .rows()
        .filter_map(|m| Some(m.end_ns? - m.begin_ns))
        .collect();
    lengths.sort_unstable();
    let (Some(max), Some(median)) = (lengths.last(), lengths.get(lengths.len() / 2)) else {
        return Vec::new();
    };
    vec![MarkFinding {
        name: "time step".to_owned(),
        count: lengths.len() as u64,
        time: NS(lengths.iter().sum()),
        median: NS(*median),
        max: NS(*max),
        waiting: NS(r.waited.iter().sum()),
    }]
}
