//! What the explorer shows: its rows, its names, and how a row of a table becomes an event.

use super::super::pieces::cpu_name;
use super::survey::{Density, Survey};
use idlewave_explain::catalog::Catalog;
use idlewave_explain::program::is_of_mpi;
use idlewave_run::findings::Findings;
use idlewave_run::tables::{
    Burst, Call, Detour, Interrupt, LateStep, Operations, Region, RegionKind, Sources, Tasks, Wait,
};
use idlewave_run::{RunError, RunReader, SourceKind};
use idlewave_units::foreign::one_line;
use idlewave_units::{Cpu, NodeId, Pid};
use serde::Serialize;
use std::collections::{BTreeSet, HashMap};

/// Most rows of CPUs, and of ranks.
const MOST_ROWS: usize = 64;
/// Most rows of sources.
const MOST_SOURCES: usize = 24;
/// Offsets are exact in a browser up to here.
const LONGEST: u64 = 1 << 53;
/// Most MPI functions that are distinguished; a larger number means damage.
const MOST_OPERATIONS: u32 = 4_096;

/// Classes of a row's events, by which its bins are split.
pub(super) const CLASSES: usize = 4;

/// Of a CPU: rank, other programs, idlewave itself, interrupts.
const RANK: u8 = 0;
const OTHERS: u8 = 1;
const OWN: u8 = 2;
const INTERRUPT: u8 = 3;
/// Of a rank: computing, in communication, detour, waiting for another rank.
const COMPUTING: u8 = 0;
const COMMUNICATING: u8 = 1;
const DETOUR: u8 = 2;
const WAITING: u8 = 3;

/// What a row shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RowKind {
    Late,
    Cpu,
    Rank,
    Source,
}

/// A row.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub kind: RowKind,
    pub label: String,
    /// Of a source: its index into the names.
    pub what: Option<u32>,
}

/// What an event is.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Name {
    pub name: String,
    /// Class of a source, or what else it is.
    pub kind: &'static str,
    pub class: u8,
    /// Kind of the rows that it is in.
    pub of: RowKind,
}

/// A stretch of time in a row. Times are nanoseconds after the scene's base.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    pub row: u32,
    /// The row of its source, where it appears again.
    pub source: Option<u32>,
    /// 0 below, 1 on top.
    pub lane: u8,
    pub class: u8,
    pub what: u32,
    pub begin: u64,
    pub end: u64,
    /// Of an interrupt: how many it interrupted.
    pub depth: u8,
    pub certain: bool,
    /// What ranks it: its length, or the lateness of a late step.
    pub weight: u64,
    /// Region: iteration. Late step: lateness, rank, iteration. Wait: the awaited rank.
    pub more: [u64; 3],
    pub mores: u8,
}

/// Everything that is known before the events are read in order.
#[derive(Debug)]
pub(super) struct Scene {
    pub base: u64,
    pub span: u64,
    pub events: u64,
    pub rows: Vec<Row>,
    /// CPUs and ranks without a row.
    pub hidden: (usize, usize),
    pub names: Vec<Name>,
    threads: HashMap<(NodeId, Pid), u32>,
    interrupts: HashMap<u32, u32>,
    cpus: HashMap<(NodeId, Cpu), u32>,
    ranks: HashMap<u32, u32>,
    /// Rows of sources, by name.
    sources: HashMap<u32, u32>,
    /// Where the names of regions and of MPI functions begin.
    regions: u32,
    operations: u32,
    /// Kinds of events with a single name each.
    other_call: u32,
    detour: u32,
    wait: u32,
    pub late: u32,
}

/// At most `most` of `all`: `first` if they are in it, then some at even distances.
fn chosen<T: Ord + Copy>(all: &BTreeSet<T>, first: impl Iterator<Item = T>, most: usize) -> Vec<T> {
    let mut chosen: BTreeSet<T> = first.filter(|t| all.contains(t)).take(most / 2).collect();
    let left: Vec<T> = all
        .iter()
        .copied()
        .filter(|t| !chosen.contains(t))
        .collect();
    let room = most.saturating_sub(chosen.len()).min(left.len());
    chosen.extend((0..room).map(|i| left[i * left.len() / room]));
    chosen.into_iter().collect()
}

impl Scene {
    /// Reads the tables once, in any order. `untabled`: late steps that are in no table.
    pub(super) fn survey(
        run: &RunReader,
        findings: &Findings,
        untabled: &[LateStep],
    ) -> Result<(Self, Density), RunError> {
        let mut catalog = Catalog::new(&run.read::<Tasks>()?, &run.read::<Sources>()?);
        let mut seen = Survey::of(run, &mut catalog, untabled)?;
        let base = seen.first.unwrap_or(0);
        let density = std::mem::take(&mut seen.density);
        let mut scene = Scene {
            base,
            span: (seen.last - base.min(seen.last)).min(LONGEST - 2) + 1,
            events: seen.events,
            rows: Vec::new(),
            hidden: (0, 0),
            names: Vec::new(),
            threads: std::mem::take(&mut seen.threads),
            interrupts: std::mem::take(&mut seen.interrupts),
            cpus: HashMap::new(),
            ranks: HashMap::new(),
            sources: HashMap::new(),
            regions: 0,
            operations: 0,
            other_call: 0,
            detour: 0,
            wait: 0,
            late: 0,
        };
        scene.name(run, &catalog)?;
        scene.lay_out(run, findings, &seen);
        Ok((scene, density))
    }

    fn name(&mut self, run: &RunReader, catalog: &Catalog) -> Result<(), RunError> {
        let interrupts: BTreeSet<u32> = self.interrupts.values().copied().collect();
        let of_source = |id| {
            let kind = catalog.kind(id);
            let is_rank = kind == SourceKind::Rank;
            Name {
                name: if is_rank {
                    "thread of a rank".to_owned()
                } else {
                    one_line(catalog.name(id))
                },
                kind: if is_rank {
                    "rank of this run"
                } else {
                    kind.label()
                },
                class: match kind {
                    _ if interrupts.contains(&(id.index() as u32)) => INTERRUPT,
                    SourceKind::Rank => RANK,
                    SourceKind::Recorder => OWN,
                    _ => OTHERS,
                },
                of: RowKind::Cpu,
            }
        };
        self.names = catalog.ids().map(of_source).collect();
        let of_rank = |name: &str, kind, class| Name {
            name: one_line(name),
            kind,
            class,
            of: RowKind::Rank,
        };
        self.regions = self.names.len() as u32;
        for kind in RegionKind::ALL {
            let (name, class) = region(*kind);
            self.names.push(of_rank(name, "region", class));
        }
        self.operations = self.names.len() as u32;
        let mut functions = Vec::new();
        run.for_each::<Operations>(|o| {
            if o.id < MOST_OPERATIONS {
                functions.resize(functions.len().max(o.id as usize + 1), String::new());
                functions[o.id as usize] = o.name;
            }
        })?;
        let functions = functions.iter().map(|f| match is_of_mpi(f) {
            true => of_rank(f, "MPI call", COMMUNICATING),
            false => of_rank(f, "call", COMMUNICATING),
        });
        self.names.extend(functions);
        let mut put = |name| {
            self.names.push(name);
            self.names.len() as u32 - 1
        };
        self.other_call = put(of_rank("another call", "call", COMMUNICATING));
        self.detour = put(of_rank("detour", "seen by the rank", DETOUR));
        self.wait = put(of_rank("wait for another rank", "wait", WAITING));
        self.late = put(Name {
            name: "late step".to_owned(),
            kind: "late",
            class: 0,
            of: RowKind::Late,
        });
        Ok(())
    }

    fn lay_out(&mut self, run: &RunReader, findings: &Findings, seen: &Survey) {
        let manifest = run.manifest();
        let mut row = |kind, label, what| {
            self.rows.push(Row { kind, label, what });
            self.rows.len() as u32 - 1
        };
        if seen.has_late {
            row(RowKind::Late, "late steps".to_owned(), None);
        }
        let is_listed = |what: u32| {
            let name = &self.names[what as usize];
            let mut sources = findings.sources.iter();
            sources.any(|s| one_line(&s.name) == name.name && s.kind.label() == name.kind)
        };
        let mut taken: Vec<(bool, u64, u32)> = seen
            .taken
            .iter()
            .filter(|(what, _)| self.names[**what as usize].class != RANK)
            .map(|(&what, &time)| (is_listed(what), time, what))
            .collect();
        taken
            .sort_unstable_by_key(|&(listed, time, what)| (!listed, std::cmp::Reverse(time), what));
        for &(_, _, what) in taken.iter().take(MOST_SOURCES) {
            let label = self.names[what as usize].name.clone();
            self.sources
                .insert(what, row(RowKind::Source, label, Some(what)));
        }
        let program = findings.program.iter().flat_map(|p| &p.latest);
        let late = findings.latest.iter().map(|l| l.last_rank);
        let named: Vec<u32> = late
            .chain(program.flat_map(|w| [w.origin, w.culprit, w.rank]))
            .map(|r| r.get())
            .collect();
        let place = |rank: &u32| {
            let sheet = manifest.ranks.get(*rank as usize)?;
            Some((sheet.node, sheet.cpu?))
        };
        let cpus = chosen(&seen.cpus, named.iter().filter_map(place), MOST_ROWS);
        for &(node, cpu) in &cpus {
            let label = one_line(&cpu_name(manifest, (node, cpu)));
            self.cpus
                .insert((node, cpu), row(RowKind::Cpu, label, None));
        }
        let ranks = chosen(&seen.ranks, named.iter().copied(), MOST_ROWS);
        for &rank in &ranks {
            self.ranks
                .insert(rank, row(RowKind::Rank, format!("rank {rank}"), None));
        }
        self.hidden = (seen.cpus.len() - cpus.len(), seen.ranks.len() - ranks.len());
    }

    /// An event without anything special. A damaged end before the start counts as the start.
    fn event(&self, row: u32, what: u32, begin_ns: u64, end_ns: u64) -> Event {
        let begin = begin_ns.saturating_sub(self.base).min(self.span - 1);
        let end = end_ns.saturating_sub(self.base).clamp(begin, self.span);
        Event {
            row,
            source: None,
            lane: 0,
            class: self.names[what as usize].class,
            what,
            begin,
            end,
            depth: 0,
            certain: true,
            weight: end - begin,
            more: [0; 3],
            mores: 0,
        }
    }

    pub(super) fn burst(&self, b: Burst) -> Option<Event> {
        let row = *self.cpus.get(&(b.node, b.cpu))?;
        let what = *self.threads.get(&(b.node, b.pid))?;
        Some(Event {
            source: self.sources.get(&what).copied(),
            certain: b.certain,
            ..self.event(row, what, b.begin_ns, b.end_ns)
        })
    }

    pub(super) fn interrupt(&self, i: Interrupt) -> Option<Event> {
        let row = *self.cpus.get(&(i.node, i.cpu))?;
        let what = *self.interrupts.get(&i.source)?;
        Some(Event {
            source: self.sources.get(&what).copied(),
            lane: 1,
            depth: i.depth,
            certain: i.certain,
            ..self.event(row, what, i.begin_ns, i.end_ns)
        })
    }

    pub(super) fn region(&self, r: Region) -> Option<Event> {
        let row = *self.ranks.get(&r.rank.get())?;
        let what = self.regions + u32::from(r.kind.code());
        Some(Event {
            more: [r.iteration, 0, 0],
            mores: 1,
            ..self.event(row, what, r.begin_ns, r.end_ns)
        })
    }

    pub(super) fn detour(&self, d: Detour) -> Option<Event> {
        let row = *self.ranks.get(&d.rank?.get())?;
        let end = d.begin_ns.saturating_add(d.length.get());
        Some(Event {
            lane: 1,
            ..self.event(row, self.detour, d.begin_ns, end)
        })
    }

    pub(super) fn call(&self, c: Call) -> Option<Event> {
        let row = *self.ranks.get(&c.rank.get())?;
        // A number beyond the names means damage.
        let what = self.operations.saturating_add(c.operation);
        let what = what.min(self.other_call);
        Some(self.event(row, what, c.begin_ns, c.end_ns))
    }

    pub(super) fn wait(&self, w: Wait) -> Option<Event> {
        let row = *self.ranks.get(&w.rank.get())?;
        Some(Event {
            lane: 1,
            more: [w.culprit.get().into(), 0, 0],
            mores: 1,
            ..self.event(row, self.wait, w.begin_ns, w.end_ns)
        })
    }

    pub(super) fn late_step(&self, l: LateStep) -> Option<Event> {
        let lateness = l.lateness.get().min(LONGEST);
        Some(Event {
            weight: lateness,
            more: [lateness, l.rank.get().into(), l.iteration],
            mores: 3,
            ..self.event(0, self.late, l.begin_ns, l.end_ns)
        })
    }
}

/// Name and class of a region.
fn region(kind: RegionKind) -> (&'static str, u8) {
    match kind {
        RegionKind::Compute => ("compute", COMPUTING),
        RegionKind::Force => ("forces", COMPUTING),
        RegionKind::Rebuild => ("rebuild of the list", COMPUTING),
        RegionKind::Update => ("update", COMPUTING),
        RegionKind::Exchange => ("exchange", COMMUNICATING),
        RegionKind::Barrier => ("barrier", COMMUNICATING),
        RegionKind::Allreduce => ("allreduce", COMMUNICATING),
        RegionKind::Reduce => ("reduce", COMMUNICATING),
        RegionKind::Alltoall => ("all-to-all", COMMUNICATING),
        RegionKind::Communication => ("communication", COMMUNICATING),
        RegionKind::RoundTrip => ("round trip", COMMUNICATING),
    }
}
