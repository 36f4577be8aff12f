//! Writes the bundle of a measurement, with the kernel trace of the node.

use crate::clocks::Clocks;
use crate::node_watch::{Ends, Sheets};
use crate::rank_run::{RankPlan, RankRecord, THRESHOLD};
use crate::ranks::Ranks;
use crate::{MeasureError, MeasureOptions, What};
use idlewave_run::tables::{Detour, Detours, Region, RegionKind, Regions};
use idlewave_run::{
    Coupling, Decomposition, Incomplete, Ledger, Manifest, NodeSheet, Phase, PhaseKind, RankSheet,
    RunError, RunReader, RunState, RunWriter, SchemaVersion, TableWriter, Turn,
};
use idlewave_session::{KernelView, Lock, SessionError, Utc, failed};
use idlewave_units::{Bytes, CpuSet, Nanos, NodeId, Rank};
use idlewave_workloads::Member;
use std::path::Path;

/// A bundle being written, on rank 0.
pub struct Bundle {
    out: RunWriter,
    view: KernelView,
    regions: TableWriter<Regions>,
    detours: TableWriter<Detours>,
    lost_gaps: u64,
    /// Held until the bundle is complete.
    _lock: Lock,
}

impl Bundle {
    /// Begins a bundle if the options request one. The kernel trace covers everything from here to
    /// [`close`](Self::close), on the first node only: that of rank 0. It covers the CPUs of the
    /// ranks, and those `beside` them.
    pub fn begin(
        options: &MeasureOptions,
        ranks: &Ranks,
        sheets: Sheets,
        beside: &CpuSet,
    ) -> Result<Option<Self>, MeasureError> {
        let Some(path) = &options.output else {
            return Ok(None);
        };
        let sheets = whole(sheets, ranks.nodes.names())?;
        let out = RunWriter::record(path, manifest(options, ranks, sheets))
            .map_err(SessionError::from)?;
        Self::start(options, ranks, beside, out)
            .map(Some)
            .map_err(|error| match error {
                MeasureError::Recording(error) => failed(path, error).into(),
                other => other,
            })
    }

    /// Starts the kernel trace.
    fn start(
        options: &MeasureOptions,
        ranks: &Ranks,
        beside: &CpuSet,
        mut out: RunWriter,
    ) -> Result<Self, MeasureError> {
        let root = Path::new("/");
        let lock = Lock::take(out.path())?;
        let first = NodeId::new(0);
        let here = || {
            ranks.nodes.ranks_of(first).filter_map(|rank| {
                let &(cpu, thread, _) = ranks.members.get(rank.index())?;
                Some((rank, cpu, thread))
            })
        };
        let cpus: CpuSet = here().map(|(_, cpu, _)| cpu).chain(beside.iter()).collect();
        let mut view = match options.trace {
            true => KernelView::start(root, out.path(), &cpus, false)?,
            false => KernelView::off("idlewave measure"),
        };
        let (mut members, mut threads) = (Vec::new(), Vec::new());
        for (rank, cpu, thread) in here() {
            let name = format!("iw-rank-{rank}");
            members.push(Member {
                name,
                cpu,
                realtime: None,
            });
            threads.push(thread);
        }
        view.watch(&members, &threads, true)?;
        let traced = view.numbers(&threads)?;
        for ((rank, _, _), traced) in here().zip(traced) {
            let sheet = out.manifest.ranks.get_mut(rank.index());
            if let (Some(sheet), Some(traced)) = (sheet, traced) {
                sheet.threads = vec![traced];
            }
        }
        out.manifest.nodes[0].trace.mode = view.mode();
        out.save().map_err(SessionError::from)?;
        Ok(Self {
            regions: out.table().map_err(SessionError::from)?,
            detours: out.table().map_err(SessionError::from)?,
            view,
            lost_gaps: 0,
            out,
            _lock: lock,
        })
    }

    /// Adds a lockstep run of the first ranks; `turn` is its place among ways that take turns.
    pub fn add(
        &mut self,
        plan: &RankPlan,
        records: &[RankRecord],
        turn: Option<Turn>,
    ) -> Result<(), MeasureError> {
        let pattern = &plan.pattern;
        let ranks = records.len() as u32;
        let phase = self.out.manifest.phases.len() as u32;
        let iterations = records
            .iter()
            .map(RankRecord::iterations)
            .min()
            .unwrap_or(0);
        let begin_ns = records.iter().filter_map(|r| r.begins.first()).max();
        let end_ns = records.iter().filter_map(|r| r.begins.last()).min();
        let begin_ns = begin_ns.copied().unwrap_or(0);
        self.out.manifest.phases.push(Phase {
            kind: PhaseKind::Lockstep {
                coupling: pattern.coupling,
                work_steps: plan.steps,
                work_target: plan.work,
                message_bytes: pattern.bytes as u64,
                sides: pattern.sides.clone(),
                neighbourhood: Default::default(),
                variant: pattern.variant,
                ranks: Some(ranks),
                iterations: iterations as u64,
                threshold: THRESHOLD,
                turn,
            },
            begin_ns,
            end_ns: end_ns.copied().unwrap_or(0).max(begin_ns),
        });
        let grid = Decomposition::of_sides(&pattern.sides, ranks);
        let wait = RegionKind::wait_of(pattern.coupling);
        for (rank, record) in records.iter().enumerate() {
            let links = grid.as_ref().map_or(0, |g| g.links(rank as u32).len());
            let bytes = (pattern.coupling == Coupling::Neighbours && links > 0)
                .then(|| Bytes::new((links * pattern.bytes) as u64));
            let rank = Rank::new(rank as u32);
            for (k, &arrival) in record.arrivals.iter().enumerate() {
                let region = |kind, begin_ns, end_ns, bytes| Region {
                    rank,
                    phase,
                    iteration: k as u64,
                    kind,
                    begin_ns,
                    end_ns,
                    bytes,
                };
                let (begin, end) = (record.begins[k], record.begins[k + 1]);
                let compute = region(RegionKind::Compute, begin, arrival, None);
                self.regions.push(compute).map_err(SessionError::from)?;
                let wait = region(wait, arrival, end, bytes);
                self.regions.push(wait).map_err(SessionError::from)?;
            }
            let cpu = self.out.manifest.ranks[rank.index()].cpu;
            for &(begin_ns, length) in &record.gaps {
                let detour = Detour {
                    phase,
                    cpu: cpu.unwrap_or(idlewave_units::Cpu::new(0)),
                    rank: Some(rank),
                    begin_ns,
                    length: Nanos::from_nanos(length),
                };
                self.detours.push(detour).map_err(SessionError::from)?;
            }
            self.lost_gaps += record.lost_gaps;
        }
        Ok(())
    }

    /// Adds a phase without detours; `rows` gets its number and writes its regions.
    pub fn add_regions(
        &mut self,
        phase: Phase,
        rows: impl FnOnce(u32, &mut TableWriter<Regions>) -> Result<(), RunError>,
    ) -> Result<(), MeasureError> {
        let number = self.out.manifest.phases.len() as u32;
        self.out.manifest.phases.push(phase);
        rows(number, &mut self.regions).map_err(SessionError::from)?;
        Ok(())
    }

    /// Notes why the run lacks a result.
    pub fn note(&mut self, why: &str) {
        // What keeps this from being written also fails below.
        let _ = self.out.note(Incomplete::Error(why.to_owned()));
    }

    /// Enters iterations of a benchmark that are not in the table.
    pub fn lost_iterations(&mut self, count: u64) {
        self.out.manifest.losses.enter(
            "iterations of benchmarks for which there was no room",
            count,
            "their computations and calls are not in the analysis",
            "measure fewer iterations, or fewer ranks",
        );
    }

    /// Records the correction of the rows that follow.
    pub fn align(&mut self, clocks: &Clocks) {
        for (node, sheet) in self.out.manifest.nodes.iter_mut().enumerate() {
            sheet.alignment = clocks.alignment(node).cloned();
        }
    }

    /// Ends the kernel trace and completes the bundle, as far as possible if something `failed`
    /// before.
    pub fn close(
        mut self,
        ends: Ends,
        clocks: &mut Clocks,
        signal: Option<i32>,
        failed: Option<&MeasureError>,
    ) -> Result<(), MeasureError> {
        if let Some(error) = failed {
            // A failure to note the error has the same cause.
            let _ = self.out.note(Incomplete::Error(error.to_string()));
        }
        let path = self.out.path().to_owned();
        self.finish(ends, clocks, signal).inspect_err(|error| {
            // Reopen the bundle: its tables are closed now.
            if let Ok(run) = RunReader::open(&path) {
                let _ = run.into_writer().note(Incomplete::Error(error.to_string()));
            }
        })
    }

    fn finish(
        mut self,
        ends: Ends,
        clocks: &mut Clocks,
        signal: Option<i32>,
    ) -> Result<(), MeasureError> {
        let root = Path::new("/");
        let out = &mut self.out;
        for sheet in &mut out.manifest.ranks {
            // The single thread of a rank runs all phases in which the rank takes part.
            let phases = out.manifest.phases.len();
            sheet.threads = sheet
                .threads
                .first()
                .map_or_else(Vec::new, |t| vec![*t; phases]);
        }
        out.finish_table(self.regions).map_err(SessionError::from)?;
        out.finish_table(self.detours).map_err(SessionError::from)?;
        out.manifest.losses.enter(
            "gaps of ranks for which there was no room",
            self.lost_gaps,
            "hypervisor gaps among them count as unexplained",
            "measure for a shorter time",
        );
        self.view.unwatch(out).map_err(SessionError::from)?;
        let viewed = self.view.stop(root, out);
        for (sheet, end) in out.manifest.nodes.iter_mut().zip(ends) {
            if let Some((clock, contamination)) = end {
                (sheet.clock, sheet.contamination) = (clock, contamination);
            }
        }
        out.manifest.losses.append(clocks.take_losses());
        let noted = out.manifest.incomplete.take();
        let incomplete = noted.or(signal.map(Incomplete::Signal));
        match viewed {
            Ok(sheet) => {
                out.manifest.nodes[0].trace = sheet;
                out.close(incomplete).map_err(SessionError::from)?;
                Ok(())
            }
            Err(error) => {
                let incomplete = Incomplete::Error(error.to_string());
                out.close(Some(incomplete)).map_err(SessionError::from)?;
                Err(error.into())
            }
        }
    }
}

/// The sheets of all nodes, if all of them have one.
fn whole(sheets: Sheets, hosts: &[String]) -> Result<Vec<NodeSheet>, SessionError> {
    let named = sheets.into_iter().zip(hosts);
    named
        .map(|(sheet, host)| {
            sheet.map_err(|reason| SessionError::NotPossible {
                reason: format!("node {host}: {reason}"),
                next: "measure without that node, or without -o".to_owned(),
            })
        })
        .collect()
}

/// The ledger's entry for nodes that are not traced although the first one is.
fn not_traced(options: &MeasureOptions, nodes: &[NodeSheet]) -> Ledger {
    let mut losses = Ledger::default();
    let others: Vec<&str> = nodes.iter().skip(1).map(|n| n.host.name.as_str()).collect();
    if options.trace {
        losses.enter(
            format!(
                "kernel's view of nodes that were not traced ({})",
                some(&others)
            ),
            others.len() as u64,
            "delays of ranks there are known only by their lengths: they count as unexplained",
            "put `idlewave record -o RUN --` before the launcher, which records every node",
        );
    }
    losses
}

/// The first few names.
fn some(names: &[&str]) -> String {
    const SHOWN: usize = 8;
    let shown = names[..names.len().min(SHOWN)].join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn manifest(options: &MeasureOptions, ranks: &Ranks, nodes: Vec<NodeSheet>) -> Manifest {
    Manifest {
        schema: SchemaVersion::CURRENT,
        idlewave: env!("CARGO_PKG_VERSION").to_owned(),
        state: RunState::Recording,
        incomplete: None,
        command: options.command.clone(),
        started: Utc::now().rfc3339(),
        simulated: None,
        seed: match options.what {
            What::MolecularDynamics { seed, .. } => seed,
            _ => 1,
        },
        losses: not_traced(options, &nodes),
        nodes,
        conditions: Default::default(),
        phases: Vec::new(),
        ranks: ranks
            .members
            .iter()
            .zip(ranks.nodes.of_ranks())
            .enumerate()
            .map(|(rank, (&(cpu, thread, process), &node))| RankSheet {
                process: Some(process),
                rank: Rank::new(rank as u32),
                node,
                cpu: Some(cpu),
                threads: vec![thread],
                priority: None,
            })
            .collect(),
        tables: Vec::new(),
    }
}
