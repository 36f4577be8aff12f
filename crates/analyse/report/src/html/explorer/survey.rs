//! The first pass over the tables: what there is, and how many events begin where.

use idlewave_explain::catalog::Catalog;
use idlewave_run::tables::{
    Bursts, Calls, Detours, Interrupts, LateStep, LateSteps, Regions, Waits,
};
use idlewave_run::{RunError, RunReader};
use idlewave_units::{Cpu, NodeId, Pid};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// How many events begin where: counts in cells of `1 << shift` nanoseconds.
#[derive(Debug, Default)]
pub(super) struct Density {
    shift: u32,
    cells: BTreeMap<u64, u64>,
    /// The cell of the last event, not yet in `cells`: events of a table are close to each other.
    last: (u64, u64),
}

impl Density {
    /// Most cells kept; each takes 16 bytes and some more for the tree.
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

/// What the first pass over the tables finds.
#[derive(Default)]
pub(super) struct Survey {
    pub first: Option<u64>,
    pub last: u64,
    pub events: u64,
    pub density: Density,
    pub cpus: BTreeSet<(NodeId, Cpu)>,
    pub ranks: BTreeSet<u32>,
    /// Time by source.
    pub taken: HashMap<u32, u64>,
    pub threads: HashMap<(NodeId, Pid), u32>,
    pub interrupts: HashMap<u32, u32>,
    pub has_late: bool,
}

impl Survey {
    /// Reads the tables once, in any order. `untabled`: late steps that are in no table.
    pub(super) fn of(
        run: &RunReader,
        catalog: &mut Catalog,
        untabled: &[LateStep],
    ) -> Result<Self, RunError> {
        let mut seen = Self::default();
        seen.kernel(run, catalog)?;
        seen.of_ranks(run)?;
        seen.late(run, untabled)?;
        Ok(seen)
    }

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
