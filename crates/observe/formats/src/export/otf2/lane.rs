//! Records of a location as events whose regions lie within each other.

use super::archive::{Event, Events};
use super::record::{CALL, Record, kind};
use crate::export::ExportError;

/// A region that is open.
#[derive(Clone, Copy)]
struct Frame {
    region: u32,
    /// It is a call, which is never shown in pieces.
    is_call: bool,
    /// It has ended, but a call within it has not.
    ended: bool,
}

/// A location that is being written.
pub(super) struct Lane<'a> {
    events: Events<'a>,
    count: u64,
    outlived: u64,
    split: u64,
    now: u64,
    open: Vec<Frame>,
    /// The CPU that the thread lost, and the region of what has it.
    lost: Option<u32>,
    taken: Option<u32>,
    interrupts: Vec<u32>,
}

/// How a location ended.
pub(super) struct Ended {
    pub events: u64,
    /// Regions that ended within a call that began in them, and end with it.
    pub outlived: u64,
    /// Regions that lasted longer than one that they began in, and are in two pieces.
    pub split: u64,
    /// Regions that were never left.
    pub open: u64,
}

impl<'a> Lane<'a> {
    pub(super) fn on(events: Events<'a>) -> Self {
        Self {
            events,
            count: 0,
            outlived: 0,
            split: 0,
            now: 0,
            open: Vec::new(),
            lost: None,
            taken: None,
            interrupts: Vec::new(),
        }
    }

    fn write(&mut self, event: Event) -> Result<(), ExportError> {
        self.count += 1;
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
                    kind::ENTER => self.enter(record.what, record.tag == CALL)?,
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
            // After the thread went on elsewhere, it does not matter who has its last CPU.
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
        let ended = false;
        self.open.push(Frame {
            region,
            is_call,
            ended,
        });
        self.write(Event::Enter(region))
    }

    fn leave(&mut self, region: u32) -> Result<(), ExportError> {
        let open = |frame: &Frame| frame.region == region && !frame.ended;
        let Some(at) = self.open.iter().rposition(open) else {
            return Ok(());
        };
        if self.open[at + 1..].iter().any(|frame| frame.is_call) {
            self.outlived += 1;
            self.open[at].ended = true;
            return Ok(());
        }
        let above = self.open.split_off(at + 1);
        self.split += above.len() as u64;
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

    /// Ends the location, and what is open in it.
    pub(super) fn end(mut self) -> Result<Ended, ExportError> {
        while let Some(region) = self.interrupts.pop() {
            self.write(Event::Leave(region))?;
        }
        self.end_of_taken()?;
        let open = self.open.len() as u64;
        while let Some(frame) = self.open.pop() {
            self.write(Event::Leave(frame.region))?;
        }
        self.events.close()?;
        Ok(Ended {
            events: self.count,
            outlived: self.outlived,
            split: self.split,
            open,
        })
    }
}
