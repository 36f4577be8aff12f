//! Looks for the processes of gangs in a thread beside the agent's: reading /proc takes
//! milliseconds, and a switch must not wait that long.

use crate::marked::{Marked, Marks, cpu_time};
use crate::parcel::{Mark, Spec};
use idlewave_freeze::clock;
use idlewave_gang::GangId;
use idlewave_units::{Nanos, Pid};
use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Interval of looks while ranks are expected.
const EAGER: Duration = Duration::from_millis(50);
/// Interval of looks while there are Slurm jobs, whose ranks appear when their scripts start them.
const SLURM: Duration = Duration::from_millis(250);
/// Otherwise, the interval at which CPU times are read. Every second reading is a look: ends are
/// noticed through handles, and a look costs some 10 us per process of the machine.
pub const USUAL: Duration = Duration::from_millis(500);

/// The processes of each requested gang.
pub type Found = BTreeMap<GangId, Vec<Marked>>;

/// The result of a look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sightings {
    /// Processes at the last look.
    pub found: Found,
    /// CPU time that each of them has used by now, without launchers.
    pub cpu: BTreeMap<Pid, Nanos>,
}

/// What to look for.
#[derive(Debug, Default)]
struct Order {
    gangs: Vec<Spec>,
    eager: bool,
}

impl Order {
    fn pause(&self, usual: Duration) -> Duration {
        let of_slurm = |spec: &Spec| matches!(spec.mark, Mark::Slurm(_));
        match self.eager {
            true => EAGER,
            false if self.gangs.iter().any(of_slurm) => SLURM,
            false => usual,
        }
    }
}

/// A thread that looks repeatedly. Dropping this ends it.
#[derive(Debug)]
pub struct Scout {
    /// `None`: look for the same again, at once.
    orders: Sender<Option<Order>>,
    last: Arc<Mutex<Option<Sightings>>>,
    bell: UnixStream,
}

impl Scout {
    /// Starts the thread, which looks for nothing yet. Unless there is a reason to look more often,
    /// it reads CPU times at this interval.
    ///
    /// # Errors
    /// No thread, or no socket pair.
    pub fn start(usual: Duration) -> io::Result<Scout> {
        let (orders, asked) = channel();
        let (bell, ring) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        ring.set_nonblocking(true)?;
        let last = Arc::new(Mutex::new(None));
        let there = Arc::clone(&last);
        let thread = std::thread::Builder::new().name("scout".to_owned());
        thread.spawn(move || look(&asked, &there, ring, usual))?;
        Ok(Scout { orders, last, bell })
    }

    /// Looks for these gangs from now on; `eager`ly if processes are expected soon.
    pub fn look_for(&self, gangs: Vec<Spec>, eager: bool) {
        // If the thread is gone, nothing is found, which the controller notices.
        let _ = self.orders.send(Some(Order { gangs, eager }));
    }

    /// Looks now: something has ended.
    pub fn look_now(&self) {
        let _ = self.orders.send(None);
    }

    /// The latest result, once.
    pub fn take(&mut self) -> Option<Sightings> {
        let mut rung = [0; 64];
        while matches!(self.bell.read(&mut rung), Ok(n) if n > 0) {}
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.take()
    }

    /// Becomes readable with a new result.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

fn look(
    asked: &Receiver<Option<Order>>,
    last: &Mutex<Option<Sightings>>,
    mut ring: UnixStream,
    usual: Duration,
) {
    idlewave_freeze::follow_realtime();
    let mut marks = Marks::new();
    let mut order = Order::default();
    let mut found = Found::new();
    let mut looked = false;
    loop {
        let pause = order.pause(usual);
        let first = match asked.recv_timeout(pause) {
            Ok(first) => Some(first),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        // Every second time only CPU times are read, unless a look was requested or processes are
        // expected.
        looked = first.is_some() || pause < usual || !looked;
        // Only the newest counts.
        for new in first.into_iter().chain(asked.try_iter()).flatten() {
            order = new;
        }
        if order.gangs.is_empty() {
            continue;
        }
        if looked {
            found = marks.find(&order.gangs, clock::now());
        }
        let measured = found.values().flatten().filter(|marked| !marked.launcher);
        let cpu = measured.map(|marked| (marked.pid, cpu_time(marked.pid)));
        let sightings = Sightings {
            cpu: cpu.collect(),
            found: found.clone(),
        };
        *last.lock().unwrap_or_else(PoisonError::into_inner) = Some(sightings);
        // A full socket wakes the agent anyway.
        let _ = ring.write(&[1]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::wait;
    use idlewave_sys::Uid;

    #[test]
    fn it_rings_when_it_has_looked_and_tells_each_look_once() {
        let mut scout = Scout::start(USUAL).unwrap();
        assert_eq!(scout.take(), None);
        let spec = Spec {
            gang: 4,
            user: Uid::own().get(),
            mark: Mark::Token("nobody has this".to_owned()),
            rows: Vec::new(),
            end: false,
        };
        scout.look_for(vec![spec], true);
        let limit = clock::now() + Nanos::from_secs(60);
        assert_eq!(wait(&[scout.socket()], Some(limit)).unwrap(), [true]);
        let found = scout.take().unwrap();
        assert_eq!(found.found, BTreeMap::from([(GangId::new(4), Vec::new())]));
        assert_eq!(found.cpu, BTreeMap::new());
        // It looks again without a request.
        assert_eq!(wait(&[scout.socket()], Some(limit)).unwrap(), [true]);
    }
}
