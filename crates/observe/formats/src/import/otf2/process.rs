//! Reads the locations of a process side by side, in order of time: a thread may complete what
//! another one started, and collectives of a communicator are numbered in the order of their calls.
//! At equal times, the first location comes first.

use super::anchor::Anchor;
use super::build::Build;
use super::lane::Lane;
use super::local::Local;
use super::records::{Event, Next, Records};
use super::requests::Requests;
use crate::import::ask::Ask;
use crate::import::error::ImportError;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::Ordering;

/// Events between two checks of the stop flag.
const LOOK: u64 = 1 << 16;
/// Limit on the bytes of chunks in memory: 128 locations with Score-P's chunks of 1 MiB.
const MOST_BYTES: u64 = 128 << 20;
/// Limit on the open files: a quarter of the usual limit.
const MOST_FILES: usize = 256;

/// A location that is being read.
struct Open {
    lane: Lane,
    records: Records,
}

impl Open {
    /// Opens the files of a location; `None` if it has no events.
    fn of(anchor: &Anchor, build: &mut Build, location: u64) -> Result<Option<Self>, ImportError> {
        let local = Local::read(anchor, location)?;
        build.losses.local(local.is_some());
        let Some(records) = Records::open(anchor, location)? else {
            build.no_events(location);
            return Ok(None);
        };
        let lane = build.lane(location, local.unwrap_or_default());
        Ok(Some(Self { lane, records }))
    }

    /// The next event, whose time becomes the location's; `None` at the end.
    fn next(&mut self, build: &mut Build) -> Result<Option<Event>, ImportError> {
        match self.records.next()? {
            Next::Event(ticks, event) => {
                build.at(&mut self.lane, ticks);
                return Ok(Some(event));
            }
            Next::Cut => build.losses.cut += 1,
            Next::End => {}
        }
        build.end(&mut self.lane)?;
        Ok(None)
    }
}

/// Reads the events of all processes, one after the other.
pub(super) fn read_all(
    ask: &Ask<'_>,
    anchor: &Anchor,
    build: &mut Build,
) -> Result<(), ImportError> {
    let mut processes = std::mem::take(&mut build.processes).into_iter();
    processes.try_for_each(|locations| read(ask, anchor, build, &locations))
}

fn read(
    ask: &Ask<'_>,
    anchor: &Anchor,
    build: &mut Build,
    locations: &[u64],
) -> Result<(), ImportError> {
    let most = ((MOST_BYTES / anchor.chunk) as usize).min(MOST_FILES);
    build.losses.later_threads += locations.len().saturating_sub(most) as u64;
    let mut requests = Requests::default();
    for locations in locations.chunks(most) {
        together(ask, anchor, build, &mut requests, locations)?;
    }
    build.end_process(requests)
}

fn together(
    ask: &Ask<'_>,
    anchor: &Anchor,
    build: &mut Build,
    requests: &mut Requests,
    locations: &[u64],
) -> Result<(), ImportError> {
    let mut all = Vec::new();
    let mut first = BinaryHeap::new();
    for &location in locations {
        let Some(mut open) = Open::of(anchor, build, location)? else {
            continue;
        };
        if let Some(event) = open.next(build)? {
            first.push(Reverse((open.lane.now_ns, all.len())));
            all.push((open, event));
        }
    }
    while let Some(Reverse((_, index))) = first.pop() {
        let (open, event) = &mut all[index];
        // While this location has the earliest event, the heap is not needed.
        loop {
            build.take(&mut open.lane, requests, event)?;
            if build.events % LOOK == 0 {
                (ask.progress)(build.share());
                // The flag carries no data, so no ordering is needed.
                if ask.stop.load(Ordering::Relaxed) {
                    return Err(ImportError::Interrupted);
                }
            }
            let Some(next) = open.next(build)? else {
                break;
            };
            *event = next;
            let place = (open.lane.now_ns, index);
            if first.peek().is_some_and(|Reverse(other)| *other < place) {
                first.push(Reverse(place));
                break;
            }
        }
    }
    Ok(())
}
