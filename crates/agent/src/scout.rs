//! Looks for the processes of gangs beside the agent: reading /proc takes milliseconds, which a switch must not wait for.

use crate::marked::{Marked, Marks};
use crate::parcel::Spec;
use idlewave_freeze::clock;
use idlewave_gang::GangId;
use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Between two looks while ranks are waited for.
const EAGER: Duration = Duration::from_millis(50);
/// Between two looks otherwise.
const USUAL: Duration = Duration::from_millis(250);

/// What was found of each gang that was asked for.
pub type Sightings = BTreeMap<GangId, Vec<Marked>>;

/// What is to be looked for.
#[derive(Debug)]
struct Order {
    gangs: Vec<Spec>,
    eager: bool,
}

/// A thread that looks again and again. It ends when this is dropped.
#[derive(Debug)]
pub struct Scout {
    orders: Sender<Order>,
    last: Arc<Mutex<Option<Sightings>>>,
    bell: UnixStream,
}

impl Scout {
    /// Starts looking; for nothing yet.
    ///
    /// # Errors
    /// No thread, or no pair of sockets.
    pub fn start() -> io::Result<Scout> {
        let (orders, asked) = channel();
        let (bell, ring) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        ring.set_nonblocking(true)?;
        let last = Arc::new(Mutex::new(None));
        let there = Arc::clone(&last);
        let thread = std::thread::Builder::new().name("scout".to_owned());
        thread.spawn(move || look(&asked, &there, ring))?;
        Ok(Scout { orders, last, bell })
    }

    /// From now on these gangs are looked for; `eager`ly if processes are expected soon.
    pub fn look_for(&self, gangs: Vec<Spec>, eager: bool) {
        // Without the thread nothing is found any more, which the controller sees.
        let _ = self.orders.send(Order { gangs, eager });
    }

    /// What was found last, once.
    pub fn take(&mut self) -> Option<Sightings> {
        let mut rung = [0; 64];
        while matches!(self.bell.read(&mut rung), Ok(n) if n > 0) {}
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.take()
    }

    /// What becomes readable when something was found.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

fn look(asked: &Receiver<Order>, last: &Mutex<Option<Sightings>>, mut ring: UnixStream) {
    let mut marks = Marks::new();
    let mut order: Option<Order> = None;
    loop {
        let pause = match &order {
            Some(order) if order.eager => EAGER,
            _ => USUAL,
        };
        match asked.recv_timeout(pause) {
            Ok(new) => order = Some(new),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        // Only the newest counts.
        while let Ok(new) = asked.try_recv() {
            order = Some(new);
        }
        let Some(order) = order.as_ref().filter(|order| !order.gangs.is_empty()) else {
            continue;
        };
        let found = marks.find(&order.gangs, clock::now());
        *last.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
        // A full socket rings already.
        let _ = ring.write(&[1]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parcel::Mark;
    use crate::wait::wait;
    use idlewave_freeze::Uid;
    use idlewave_units::Nanos;

    #[test]
    fn it_rings_when_it_has_looked_and_tells_each_look_once() {
        let mut scout = Scout::start().unwrap();
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
        assert_eq!(found, BTreeMap::from([(GangId::new(4), Vec::new())]));
        // It looks again, without being asked.
        assert_eq!(wait(&[scout.socket()], Some(limit)).unwrap(), [true]);
    }
}
