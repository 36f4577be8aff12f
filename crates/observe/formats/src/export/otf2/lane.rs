//! Records of a location as events whose regions are properly nested.

use super::archive::{Event, Events};
use super::record::{CALL, Record, kind};
use crate::export::ExportError;
use std::collections::HashMap;

/// Maximum nesting depth of the regions in a location; deeper ones are left out. The end of a
/// region may split all that are open within it.
const DEEPEST: usize = 1_024;

/// A region that is open.
#[derive(Clone, Copy)]
struct Frame {
    region: u32,
    /// Whether it is a call: calls are never split.
    is_call: bool,
    /// Whether it has ended while a call within it has not.
    ended: bool,
}

/// A location that is being written.
pub(super) struct Lane<'a> {
    events: Events<'a>,
    ended: Ended,
    now: u64,
    open: Vec<Frame>,
    /// By region, how many began deeper than [`DEEPEST`] and have not ended.
    too_deep: HashMap<u32, u64>,
    /// The CPU that the thread lost, and the region of what has it.
    lost: Option<u32>,
    taken: Option<u32>,
    interrupts: Vec<u32>,
}

/// Counts of a location that has ended.
#[derive(Default)]
pub(super) struct Ended {
    pub events: u64,
    /// Regions that ended during a call that began in them; they end with the call.
    pub outlived: u64,
    /// Regions that outlasted one that they began in; they are split in two.
    pub split: u64,
    /// Regions that were never left.
    pub open: u64,
    /// Regions that began deeper than [`DEEPEST`].
    pub too_deep: u64,
}

impl<'a> Lane<'a> {
    pub(super) fn on(events: Events<'a>) -> Self {
        Self {
            events,
            ended: Ended::default(),
            now: 0,
            open: Vec::new(),
            too_deep: HashMap::new(),
            lost: None,
            taken: None,
            interrupts: Vec::new(),
        }
    }

    fn write(&mut self, event: Event) -> Result<(), ExportError> {
        self.ended.events += 1;
        self.events.write(self.now, event)
    }

    pub(super) fn take(&mut self, record: &Record) -> Result<(), ExportError> {
        self.now = record.time;
        if let Some(event) = record.event() {
            return self.write(event);
        }
        match record.kind {
            kind::ENTER | kind::LEAVE => {
                // The clocks of the program and of the kernel differ a little.
                let kernel = [self.taken.as_slice(), &self.interrupts].concat();
                for &region in kernel.iter().rev() {
                    self.write(Event::Leave(region))?;
                }
                match record.kind {
                    kind::ENTER if self.open.len() < DEEPEST => {
                        self.enter(record.what, record.tag == CALL)?;
                    }
                    kind::ENTER => {
                        *self.too_deep.entry(record.what).or_default() += 1;
                        self.ended.too_deep += 1;
                    }
                    _ => self.leave(record.what)?,
                }
                let again = |&region| self.write(Event::Enter(region));
                kernel.iter().try_for_each(again)
            }
            kind::RUNS => {
                self.lost = None;
                self.end_of_taken()
            }
            kind::PREEMPTED => {
                self.lost = Some(record.tag);
                Ok(())
            }
            // Once the thread runs elsewhere, it does not matter who has its last CPU.
            kind::TAKEN if self.lost == Some(record.tag) => {
                self.end_of_taken()?;
                self.taken = Some(record.what);
                self.write(Event::Enter(record.what))
            }
            kind::GIVEN if self.lost == Some(record.tag) => self.end_of_taken(),
            kind::INTERRUPTED if self.lost.is_none() => {
                self.interrupts.push(record.what);
                self.write(Event::Enter(record.what))
            }
            kind::RESUMED if self.interrupts.last() == Some(&record.what) => {
                self.interrupts.pop();
                self.write(Event::Leave(record.what))
            }
            _ => Ok(()),
        }
    }

    fn enter(&mut self, region: u32, is_call: bool) -> Result<(), ExportError> {
        self.open.push(Frame {
            region,
            is_call,
            ended: false,
        });
        self.write(Event::Enter(region))
    }

    fn leave(&mut self, region: u32) -> Result<(), ExportError> {
        if let Some(left_out) = self.too_deep.get_mut(&region).filter(|count| **count > 0) {
            *left_out -= 1;
            return Ok(());
        }
        let open = |frame: &Frame| frame.region == region && !frame.ended;
        let Some(at) = self.open.iter().rposition(open) else {
            return Ok(());
        };
        if self.open[at + 1..].iter().any(|frame| frame.is_call) {
            self.ended.outlived += 1;
            self.open[at].ended = true;
            return Ok(());
        }
        let above = self.open.split_off(at + 1);
        self.ended.split += above.len() as u64;
        for frame in above.iter().rev() {
            self.write(Event::Leave(frame.region))?;
        }
        self.open.pop();
        self.write(Event::Leave(region))?;
        while self.open.last().is_some_and(|frame| frame.ended) {
            if let Some(frame) = self.open.pop() {
                self.write(Event::Leave(frame.region))?;
            }
        }
        for frame in above {
            self.enter(frame.region, frame.is_call)?;
        }
        Ok(())
    }

    fn end_of_taken(&mut self) -> Result<(), ExportError> {
        match self.taken.take() {
            Some(region) => self.write(Event::Leave(region)),
            None => Ok(()),
        }
    }

    /// Ends the location and everything that is open in it.
    pub(super) fn end(mut self) -> Result<Ended, ExportError> {
        while let Some(region) = self.interrupts.pop() {
            self.write(Event::Leave(region))?;
        }
        self.end_of_taken()?;
        self.ended.open = self.open.len() as u64;
        while let Some(frame) = self.open.pop() {
            self.write(Event::Leave(frame.region))?;
        }
        self.events.close()?;
        Ok(self.ended)
    }
}
