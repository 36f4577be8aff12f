//! Who ran on the CPU of a rank while that rank was late.
//!
//! A rank is late from the start to the end of a late step, and while another rank waits for it.

use crate::export::paraver::record::Record;
use crate::export::paraver::survey::Survey;
use crate::export::sorter::Sorter;
use crate::export::{ExportError, Job};
use crate::prv;
use idlewave_run::Ledger;
use idlewave_run::tables::{LateSteps, Waits};
use idlewave_units::Rank;
use std::collections::HashMap;

/// Stretches during which a rank was late, in order and without overlap.
struct OfRank {
    rank: Rank,
    stretches: Vec<(u64, u64)>,
}

/// The ranks of each CPU, by its number in the trace, and their threads.
pub(super) struct Late {
    by_cpu: HashMap<u32, Vec<OfRank>>,
    rank_of: HashMap<u32, Rank>,
}

impl Late {
    pub(super) fn of(
        job: &Job<'_>,
        survey: &Survey,
        losses: &mut Ledger,
    ) -> Result<Self, ExportError> {
        let mut by_rank: HashMap<Rank, Vec<(u64, u64)>> = HashMap::new();
        let mut add = |rank, begin, end| {
            let stretches = by_rank.entry(rank).or_default();
            stretches.push((begin, end));
        };
        job.run
            .for_each::<LateSteps>(|row| add(row.rank, row.begin_ns, row.end_ns))?;
        job.run
            .for_each::<Waits>(|row| add(row.culprit, row.begin_ns, row.end_ns))?;
        let mut by_cpu: HashMap<u32, Vec<OfRank>> = HashMap::new();
        let mut unbound = 0;
        for sheet in &job.run.manifest().ranks {
            let Some(mut stretches) = by_rank.remove(&sheet.rank) else {
                continue;
            };
            let Some(cpu) = sheet.cpu else {
                unbound += stretches.len() as u64;
                continue;
            };
            stretches.sort_unstable();
            stretches.dedup_by(|next, before| {
                let joined = next.0 <= before.1;
                if joined {
                    before.1 = before.1.max(next.1);
                }
                joined
            });
            let cpu = survey.objects.cpu(sheet.node, cpu);
            by_cpu.entry(cpu).or_default().push(OfRank {
                rank: sheet.rank,
                stretches,
            });
        }
        losses.enter(
            "late steps and waits for ranks that no CPU was bound to",
            unbound,
            "event \"ran while a rank was late\" lacks them",
            "bind the ranks, as with `mpirun --bind-to core`",
        );
        let mut rank_of = HashMap::new();
        for (&rank, threads) in &survey.objects.ranks {
            rank_of.extend(threads.iter().map(|&thread| (thread, rank)));
        }
        Ok(Self { by_cpu, rank_of })
    }

    /// Writes the parts of a burst during which another rank of this CPU was late.
    pub(super) fn ran(
        &self,
        burst: &Record,
        end: u64,
        to: &mut Sorter<Record>,
    ) -> Result<(), ExportError> {
        let own = self.rank_of.get(&burst.object);
        for of in self.by_cpu.get(&burst.cpu).into_iter().flatten() {
            if own == Some(&of.rank) {
                continue;
            }
            let first = of
                .stretches
                .partition_point(|&(_, until)| until <= burst.time);
            for &(from, until) in &of.stretches[first..] {
                if from >= end {
                    break;
                }
                let value = u64::from(of.rank.get()) + 1;
                let (from, until) = (from.max(burst.time), until.min(end));
                to.push(Record::event(from, burst.object, prv::WHILE_LATE, value).on(burst.cpu))?;
                to.push(Record::event(until, burst.object, prv::WHILE_LATE, 0).on(burst.cpu))?;
            }
        }
        Ok(())
    }
}
