//! Bursts and wake-ups in order of time, from which the states of threads follow.

use crate::export::kernel::enter_inferred;
use crate::export::paraver::record::Record;
use crate::export::paraver::survey::Survey;
use crate::export::sorter::Sorter;
use crate::export::{ExportError, Job};
use idlewave_run::Ledger;
use idlewave_run::tables::{Bursts, Wakeups};

/// A wake-up comes before the burst that it leads to.
pub(super) const WAKEUP: u32 = 0;
/// A burst: `a` is its end, `b` the code of its end reason.
pub(super) const BURST: u32 = 1;

pub(super) fn gather(
    job: &Job<'_>,
    survey: &Survey,
    losses: &mut Ledger,
) -> Result<Sorter<Record>, ExportError> {
    let mut turns = Sorter::new(job.output);
    let (mut uncertain, mut rows, mut failed) = (0, 0_u64, Ok(()));
    job.run.for_each::<Bursts>(|row| {
        rows += 1;
        uncertain += u64::from(!row.certain);
        let Some(object) = survey.objects.ran(row.node, row.cpu, row.pid) else {
            return;
        };
        let turn = Record {
            a: row.end_ns,
            b: row.end_reason.code().into(),
            ..Record::new(BURST, row.begin_ns, object)
        };
        turns.cover(turn.a);
        if failed.is_ok() {
            failed = turns.push(turn.on(survey.objects.cpu(row.node, row.cpu)));
        }
    })?;
    job.run.for_each::<Wakeups>(|row| {
        let object = survey.objects.by_pid(row.node, row.pid);
        if let Some(object) = object.filter(|_| failed.is_ok()) {
            failed = turns.push(Record::new(WAKEUP, row.time_ns, object));
        }
    })?;
    failed?;
    enter_inferred(losses, "bursts", uncertain);
    losses.enter(
        "kernel trace: the run has none",
        u64::from(rows == 0),
        "the trace has no states and no CPUs of threads",
        "record with root's rights: docs/tracing-permissions.md",
    );
    Ok(turns)
}
