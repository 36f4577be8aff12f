//! Creates cgroups, and moves processes into them and back, in a thread beside the agent's. The
//! kernel takes milliseconds for that, or seconds on a busy machine, and a switch must not wait
//! that long. Freezing and thawing stay with the agent, which has the brake of each group.

use idlewave_freeze::{Brake, FreezeError, Freezer, Group, Moves, Watchdog};
use idlewave_sys::Uid;
use idlewave_units::Pid;
use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// How to create a group that does not exist yet.
#[derive(Clone, Debug)]
pub struct Making {
    pub freezer: Freezer,
    pub user: Uid,
    pub watchdog: Option<Arc<Watchdog>>,
}

/// Processes that enter a group, and that leave it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Never included, even if their parents or children are.
    pub exempt: Vec<Pid>,
    pub add: Vec<Pid>,
    pub let_go: Vec<Pid>,
}

#[derive(Debug)]
enum Order {
    Change(u64, Making, Changes),
    Guard(u64, Arc<Watchdog>),
    Remove(u64),
}

/// A completed order.
#[derive(Debug)]
pub enum Done {
    /// Processes were moved, or some of them if it failed. With the brake of the group, if it
    /// exists.
    Changed(u64, Option<Brake>, Result<(), FreezeError>),
    /// The group was registered with the watchdog that its new brake uses.
    Guarded(u64, Option<Brake>, Result<(), FreezeError>),
    /// The group is removed, as far as possible.
    Removed,
}

/// The thread that owns the groups. Dropping this gives them up, and waits for the thread to end.
#[derive(Debug)]
pub struct Mover {
    /// `None` once the thread is to end.
    orders: Option<Sender<Order>>,
    done: Receiver<Done>,
    bell: UnixStream,
    moves: Arc<Moves>,
    thread: Option<JoinHandle<()>>,
    groups: u64,
}

impl Mover {
    /// Starts the thread, which moves processes when `moves` permits. `before` is called before
    /// each order.
    ///
    /// # Errors
    /// No thread, or no socket pair.
    pub fn start(moves: Arc<Moves>, before: impl FnMut() + Send + 'static) -> io::Result<Self> {
        let ((orders, ordered), (tell, done)) = (channel(), channel());
        let (bell, ring) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        ring.set_nonblocking(true)?;
        let own = Arc::clone(&moves);
        let thread = std::thread::Builder::new().name("mover".to_owned());
        let thread = thread.spawn(move || work(&ordered, &tell, ring, &own, before))?;
        Ok(Self {
            orders: Some(orders),
            done,
            bell,
            moves,
            thread: Some(thread),
            groups: 0,
        })
    }

    /// The number of a new group, which is created with the first change.
    pub fn number(&mut self) -> u64 {
        self.groups += 1;
        self.groups
    }

    /// Orders a move; its result is reported once.
    pub fn change(&self, group: u64, making: Making, changes: Changes) {
        self.order(Order::Change(group, making, changes));
    }

    /// Registers a group, if it exists, with this watchdog.
    pub fn guard(&self, group: u64, watchdog: Arc<Watchdog>) {
        self.order(Order::Guard(group, watchdog));
    }

    /// Orders a group to be thawed, its processes to be moved back, and the group to be removed.
    pub fn remove(&self, group: u64) {
        self.order(Order::Remove(group));
    }

    fn order(&self, order: Order) {
        if let Some(orders) = &self.orders {
            // The thread lives as long as this, unless it panics.
            let _ = orders.send(order);
        }
    }

    /// Orders completed since the last call.
    pub fn take(&mut self) -> Vec<Done> {
        let mut rung = [0; 64];
        while matches!(self.bell.read(&mut rung), Ok(n) if n > 0) {}
        self.done.try_iter().collect()
    }

    /// Becomes readable when an order has completed.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

impl Drop for Mover {
    fn drop(&mut self) {
        self.orders = None;
        self.moves.resume();
        if let Some(thread) = self.thread.take() {
            // The thread itself reported a panic.
            let _ = thread.join();
        }
    }
}

fn work(
    ordered: &Receiver<Order>,
    done: &Sender<Done>,
    mut ring: UnixStream,
    moves: &Arc<Moves>,
    mut before: impl FnMut(),
) {
    idlewave_freeze::follow_realtime();
    let mut groups: BTreeMap<u64, Group> = BTreeMap::new();
    while let Ok(order) = ordered.recv() {
        before();
        let brake = |group: Option<&Group>| group.and_then(Group::brake);
        let came = match order {
            Order::Change(number, making, changes) => {
                let changed = change(&mut groups, number, &making, &changes, moves);
                Done::Changed(number, brake(groups.get(&number)), changed)
            }
            Order::Guard(number, watchdog) => {
                let group = groups.get_mut(&number);
                let guarded = group.map_or(Ok(()), |group| group.guard(&watchdog));
                Done::Guarded(number, brake(groups.get(&number)), guarded)
            }
            Order::Remove(number) => {
                // The watchdog or the next agent removes what is left.
                groups.remove(&number);
                Done::Removed
            }
        };
        // The receiver may be gone. A full socket wakes it anyway.
        let _ = done.send(came);
        let _ = ring.write(&[1]);
    }
}

fn change(
    groups: &mut BTreeMap<u64, Group>,
    number: u64,
    making: &Making,
    changes: &Changes,
    moves: &Arc<Moves>,
) -> Result<(), FreezeError> {
    if let std::collections::btree_map::Entry::Vacant(vacant) = groups.entry(number) {
        let mut group = Group::create(&making.freezer, making.user)?;
        group.yield_to(moves);
        if let Some(watchdog) = &making.watchdog {
            group.guard(watchdog)?;
        }
        vacant.insert(group);
    }
    match groups.get_mut(&number) {
        Some(group) => changes.carry_out(group),
        None => Ok(()),
    }
}

impl Changes {
    /// Moves processes into the group and releases others.
    ///
    /// # Errors
    /// The first error.
    pub fn carry_out(&self, group: &mut Group) -> Result<(), FreezeError> {
        // Before their parents and children are added.
        for pid in &self.exempt {
            group.exempt(*pid);
        }
        for pid in &self.add {
            match group.add(*pid) {
                // It has ended in the meantime: the next look will not find it.
                Ok(_) | Err(FreezeError::NoProcess(_)) => {}
                Err(error) => return Err(error),
            }
        }
        self.let_go.iter().try_for_each(|pid| group.let_go(*pid))
    }
}
