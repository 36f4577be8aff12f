//! Looks for the processes of gangs beside the agent: reading /proc takes milliseconds, which a switch must not wait for.

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

/// Between two looks while ranks are waited for.
const EAGER: Duration = Duration::from_millis(50);
/// Between two looks while jobs of Slurm are there, whose ranks come when their scripts want them.
const SLURM: Duration = Duration::from_millis(250);
/// Between two readings of CPU times otherwise. At every second one it looks: ends are seen by handles, and a look costs some 10 us
/// for each process of the machine.
pub const USUAL: Duration = Duration::from_millis(500);

/// The processes of each gang that was asked for.
pub type Found = BTreeMap<GangId, Vec<Marked>>;

/// What was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sightings {
    /// At the last look.
    pub found: Found,
    /// CPU time that each of them has used by now, launchers left out.
    pub cpu: BTreeMap<Pid, Nanos>,
}

/// What is to be looked for.
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

/// A thread that looks again and again. It ends when this is dropped.
#[derive(Debug)]
pub struct Scout {
    /// `None`: look for the same again, at once.
    orders: Sender<Option<Order>>,
    last: Arc<Mutex<Option<Sightings>>>,
    bell: UnixStream,
}

impl Scout {
    /// Starts looking; for nothing yet. With nothing that calls for more it reads times so often.
    ///
    /// # Errors
    /// No thread, or no pair of sockets.
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

    /// From now on these gangs are looked for; `eager`ly if processes are expected soon.
    pub fn look_for(&self, gangs: Vec<Spec>, eager: bool) {
        // Without the thread nothing is found any more, which the controller sees.
        let _ = self.orders.send(Some(Order { gangs, eager }));
    }

    /// Has it look now: something has ended.
    pub fn look_now(&self) {
        let _ = self.orders.send(None);
    }

    /// What was seen last, once.
    pub fn take(&mut self) -> Option<Sightings> {
        let mut rung = [0; 64];
        while matches!(self.bell.read(&mut rung), Ok(n) if n > 0) {}
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.take()
    }

    /// What becomes readable when something was seen.
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
        // Each second time only CPU times are read, unless somebody asks or may come.
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
        // A full socket rings already.
        let _ = ring.write(&[1]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::wait;
    use idlewave_freeze::Uid;

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
        let limit = clock::now() + Nanos::from_secs(20);
        assert_eq!(wait(&[scout.socket()], Some(limit)).unwrap(), [true]);
        let found = scout.take().unwrap();
        assert_eq!(found.found, BTreeMap::from([(GangId::new(4), Vec::new())]));
        assert_eq!(found.cpu, BTreeMap::new());
        // It looks again, without being asked.
        assert_eq!(wait(&[scout.socket()], Some(limit)).unwrap(), [true]);
    }
}
