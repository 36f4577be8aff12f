//! Records of a location as events whose regions lie within each other.

use super::archive::{Event, Events};
use super::record::{Record, kind};
use crate::export::ExportError;

/// A region that is open.
struct Frame {
    region: u32,
    /// It has ended, but one within it has not.
    ended: bool,
}

/// A location that is being written.
pub(super) struct Lane<'a> {
    events: Events<'a>,
    count: u64,
    crossing: u64,
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
    /// Regions that ended while one within them was open.
    pub crossing: u64,
    /// Regions that were never left.
    pub open: u64,
}

impl<'a> Lane<'a> {
    pub(super) fn on(events: Events<'a>) -> Self {
        Self {
            events,
            count: 0,
            crossing: 0,
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
                    kind::ENTER => self.enter(record.what)?,
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

    fn enter(&mut self, region: u32) -> Result<(), ExportError> {
        let ended = false;
        self.open.push(Frame { region, ended });
        self.write(Event::Enter(region))
    }

    fn leave(&mut self, region: u32) -> Result<(), ExportError> {
        let mut open = self.open.iter().rev();
        match open.position(|frame| frame.region == region && !frame.ended) {
            Some(0) => {
                self.open.pop();
                self.write(Event::Leave(region))?;
            }
            Some(above) => {
                self.crossing += 1;
                let at = self.open.len() - 1 - above;
                self.open[at].ended = true;
            }
            None => {}
        }
        while let Some(&Frame {
            region,
            ended: true,
        }) = self.open.last()
        {
            self.open.pop();
            self.write(Event::Leave(region))?;
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
            crossing: self.crossing,
            open,
        })
    }
}
