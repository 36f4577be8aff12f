//! What the explorer shows: its rows, its names, and how a row of a table becomes an event.

use super::super::pieces::cpu_name;
use idlewave_explain::catalog::Catalog;
use idlewave_run::findings::Findings;
use idlewave_run::tables::{
    Burst, Bursts, Call, Calls, Detour, Detours, Interrupt, Interrupts, LateStep, LateSteps,
    Operations, Region, RegionKind, Regions, Sources, Tasks, Wait, Waits,
};
use idlewave_run::{RunError, RunReader, SourceKind};
use idlewave_units::foreign::one_line;
use idlewave_units::{Cpu, NodeId, Pid};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Most rows of CPUs, and of ranks.
const MOST_ROWS: usize = 64;
/// Most rows of sources.
const MOST_SOURCES: usize = 24;
/// Offsets are exact in a browser up to here.
const LONGEST: u64 = 1 << 53;
/// Most MPI functions that are told apart; a larger number means damage.
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
    /// Of a source: its entry of the names.
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
    /// The row of its source, where it appears once more.
    pub source: Option<u32>,
    /// 0 below, 1 on top of it.
    pub lane: u8,
    pub class: u8,
    pub what: u32,
    pub begin: u64,
    pub end: u64,
    /// Of an interrupt: how many it interrupted.
    pub depth: u8,
    pub certain: bool,
    /// By which it is ranked: its length; of a late step, its lateness.
    pub weight: u64,
    /// Region: iteration. Late step: lateness, rank, iteration. Wait: the awaited rank.
    pub more: [u64; 3],
    pub mores: u8,
}

/// How many events begin where: counts in cells of `1 << shift` nanoseconds.
#[derive(Debug, Default)]
pub(super) struct Density {
    shift: u32,
    cells: BTreeMap<u64, u64>,
    /// The cell of the last event, not yet in `cells`: events of a table are close to each other.
    last: (u64, u64),
}

impl Density {
    /// Cells kept at most; 16 bytes each and some more for the tree.
    const MOST: usize = 1 << 19;

    fn put(&mut self, at: u64) {
        let cell = at >> self.shift;
        if cell == self.last.0 {
            self.last.1 += 1;
            return;
        }
        self.flush();
        self.last = (at >> self.shift, 1);
    }

    fn flush(&mut self) {
        let (cell, count) = std::mem::take(&mut self.last);
        if count > 0 {
            *self.cells.entry(cell).or_default() += count;
        }
        while self.cells.len() > Self::MOST {
            self.shift += 1;
            for (cell, count) in std::mem::take(&mut self.cells) {
                *self.cells.entry(cell >> 1).or_default() += count;
            }
        }
    }

    /// Start of every cell and the number of events before it, in order of time.
    pub(super) fn sums(mut self, base: u64) -> Vec<(u64, u64)> {
        self.flush();
        let mut before = 0;
        let mut sums = Vec::with_capacity(self.cells.len() + 1);
        for (cell, count) in &self.cells {
            sums.push(((cell << self.shift).saturating_sub(base), before));
            before += count;
        }
        sums.push((u64::MAX, before));
        sums
    }
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
    /// Where the names of regions begin; those of the functions, and the last three, follow them.
    regions: u32,
    operations: u32,
}

/// What the first pass over the tables finds.
#[derive(Default)]
struct Survey {
    first: Option<u64>,
    last: u64,
    events: u64,
    density: Density,
    cpus: BTreeSet<(NodeId, Cpu)>,
    ranks: BTreeSet<u32>,
    /// Time by source.
    taken: HashMap<u32, u64>,
    threads: HashMap<(NodeId, Pid), u32>,
    interrupts: HashMap<u32, u32>,
    has_late: bool,
}

impl Survey {
    fn see(&mut self, begin: u64, end: u64) {
        self.first = Some(self.first.map_or(begin, |first| first.min(begin)));
        self.last = self.last.max(end.max(begin));
        self.events += 1;
        self.density.put(begin);
    }

    fn kernel(&mut self, run: &RunReader, catalog: &mut Catalog) -> Result<(), RunError> {
        run.for_each::<Bursts>(|b| {
            if b.pid == Pid::IDLE {
                return;
            }
            self.see(b.begin_ns, b.end_ns);
            self.cpus.insert((b.node, b.cpu));
            let thread = self.threads.entry((b.node, b.pid));
            let id = *thread.or_insert_with(|| catalog.thread(b.node, b.pid).index() as u32);
            *self.taken.entry(id).or_default() += b.end_ns.saturating_sub(b.begin_ns);
        })?;
        run.for_each::<Interrupts>(|i| {
            self.see(i.begin_ns, i.end_ns);
            self.cpus.insert((i.node, i.cpu));
            let row = self.interrupts.entry(i.source);
            let id = *row.or_insert_with(|| catalog.interrupt(i.source).index() as u32);
            *self.taken.entry(id).or_default() += i.end_ns.saturating_sub(i.begin_ns);
        })
    }

    fn of_ranks(&mut self, run: &RunReader) -> Result<(), RunError> {
        run.for_each::<Regions>(|r| {
            self.see(r.begin_ns, r.end_ns);
            self.ranks.insert(r.rank.get());
        })?;
        run.for_each::<Detours>(|d| {
            if let Some(rank) = d.rank {
                self.see(d.begin_ns, d.begin_ns.saturating_add(d.length.get()));
                self.ranks.insert(rank.get());
            }
        })?;
        run.for_each::<Calls>(|c| {
            self.see(c.begin_ns, c.end_ns);
            self.ranks.insert(c.rank.get());
        })?;
        run.for_each::<Waits>(|w| {
            self.see(w.begin_ns, w.end_ns);
            self.ranks.insert(w.rank.get());
        })
    }

    fn late(&mut self, run: &RunReader, untabled: &[LateStep]) -> Result<(), RunError> {
        for late in untabled {
            self.see(late.begin_ns, late.end_ns);
            self.has_late = true;
        }
        run.for_each::<LateSteps>(|l| {
            self.see(l.begin_ns, l.end_ns);
            self.has_late = true;
        })
    }
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
    /// Reads the tables once, in any order. `untabled`: late steps that are in none.
    pub(super) fn survey(
        run: &RunReader,
        findings: &Findings,
        untabled: &[LateStep],
    ) -> Result<(Self, Density), RunError> {
        let mut catalog = Catalog::new(&run.read::<Tasks>()?, &run.read::<Sources>()?);
        let mut seen = Survey::default();
        seen.kernel(run, &mut catalog)?;
        seen.of_ranks(run)?;
        seen.late(run, untabled)?;
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
        let functions = functions
            .iter()
            .map(|f| of_rank(f, "MPI call", COMMUNICATING));
        self.names.extend(functions);
        self.names
            .push(of_rank("another call", "MPI call", COMMUNICATING));
        self.names
            .push(of_rank("detour", "seen by the rank", DETOUR));
        self.names
            .push(of_rank("wait for another rank", "wait", WAITING));
        self.names.push(Name {
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

    /// The name of late steps, the last one.
    pub(super) fn late(&self) -> u32 {
        self.names.len() as u32 - 1
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
            ..self.event(row, self.late() - 2, d.begin_ns, end)
        })
    }

    pub(super) fn call(&self, c: Call) -> Option<Event> {
        let row = *self.ranks.get(&c.rank.get())?;
        let others = self.late() - 3;
        let what = self.operations.saturating_add(c.operation).min(others);
        Some(self.event(row, what, c.begin_ns, c.end_ns))
    }

    pub(super) fn wait(&self, w: Wait) -> Option<Event> {
        let row = *self.ranks.get(&w.rank.get())?;
        Some(Event {
            lane: 1,
            more: [w.culprit.get().into(), 0, 0],
            mores: 1,
            ..self.event(row, self.late() - 1, w.begin_ns, w.end_ns)
        })
    }

    pub(super) fn late_step(&self, l: LateStep) -> Option<Event> {
        let lateness = l.lateness.get().min(LONGEST);
        Some(Event {
            weight: lateness,
            more: [lateness, l.rank.get().into(), l.iteration],
            mores: 3,
            ..self.event(0, self.late(), l.begin_ns, l.end_ns)
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
    }
}
