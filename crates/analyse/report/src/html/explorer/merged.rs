//! The events of all tables in order of their start, with a few batches of rows in memory.

use super::scene::{Event, Scene};
use idlewave_run::tables::{
    Bursts, Calls, Detours, Interrupts, LateStep, LateSteps, Regions, Table, Waits,
};
use idlewave_run::{Ordered, RunError, RunReader};

/// Rows of one table.
trait Rows {
    /// Time of the next row; `None` at the end.
    fn peek(&self) -> Option<u64>;
    /// The event of the next row; `None` if it has none.
    fn event(&mut self) -> Result<Option<Event>, RunError>;
}

struct OfTable<'a, T: Table> {
    rows: Ordered<'a, T>,
    event: Box<dyn Fn(T::Row) -> Option<Event> + 'a>,
}

impl<T: Table> Rows for OfTable<'_, T> {
    fn peek(&self) -> Option<u64> {
        self.rows.peek()
    }
    fn event(&mut self) -> Result<Option<Event>, RunError> {
        Ok(self.rows.next_row()?.and_then(&self.event))
    }
}

/// Events that are in memory already, with their times, last first.
struct Listed(Vec<(u64, Event)>);

impl Rows for Listed {
    fn peek(&self) -> Option<u64> {
        self.0.last().map(|(time, _)| *time)
    }
    fn event(&mut self) -> Result<Option<Event>, RunError> {
        Ok(self.0.pop().map(|(_, event)| event))
    }
}

/// All events in order of their start; events with equal starts follow the order of `tables`.
pub(super) struct Merged<'a> {
    tables: Vec<Box<dyn Rows + 'a>>,
    next: Option<Event>,
}

/// Opens all tables that hold events. `untabled`: late steps that are in no table, in order.
pub(super) fn merged<'a>(
    run: &'a RunReader,
    untabled: Vec<LateStep>,
    scene: &'a Scene,
) -> Result<Merged<'a>, RunError> {
    fn table<'a, T: Table + 'a>(
        run: &'a RunReader,
        time: fn(&T::Row) -> u64,
        event: impl Fn(T::Row) -> Option<Event> + 'a,
    ) -> Result<Box<dyn Rows + 'a>, RunError> {
        let rows = run.in_order::<T>(time)?;
        let event = Box::new(event);
        Ok(Box::new(OfTable { rows, event }))
    }
    let late = untabled.into_iter().rev();
    let late = late.filter_map(|l| Some((l.begin_ns, scene.late_step(l)?)));
    let mut merged = Merged {
        tables: vec![
            Box::new(Listed(late.collect())),
            table::<LateSteps>(run, |l| l.begin_ns, |l| scene.late_step(l))?,
            table::<Bursts>(run, |b| b.begin_ns, |b| scene.burst(b))?,
            table::<Interrupts>(run, |i| i.begin_ns, |i| scene.interrupt(i))?,
            table::<Regions>(run, |r| r.begin_ns, |r| scene.region(r))?,
            table::<Detours>(run, |d| d.begin_ns, |d| scene.detour(d))?,
            table::<Calls>(run, |c| c.begin_ns, |c| scene.call(c))?,
            table::<Waits>(run, |w| w.begin_ns, |w| scene.wait(w))?,
        ],
        next: None,
    };
    merged.advance()?;
    Ok(merged)
}

impl Merged<'_> {
    fn advance(&mut self) -> Result<(), RunError> {
        self.next = None;
        while self.next.is_none() {
            let times = self.tables.iter().enumerate();
            let times = times.filter_map(|(i, t)| Some((t.peek()?, i)));
            let Some((_, first)) = times.min() else {
                break;
            };
            self.next = self.tables[first].event()?;
        }
        Ok(())
    }

    /// The next event that begins before `end`.
    pub(super) fn before(&mut self, end: u64) -> Result<Option<Event>, RunError> {
        match self.next.filter(|e| e.begin < end) {
            Some(event) => {
                self.advance()?;
                Ok(Some(event))
            }
            None => Ok(None),
        }
    }
}
