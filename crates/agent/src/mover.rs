//! Makes control groups, moves processes into them and home again, beside the agent: the kernel takes milliseconds for that, or seconds
//! on a busy machine, which a switch must not wait for. Freezing and thawing are the agent's: it has the brake of each group.

use idlewave_freeze::{Brake, FreezeError, Freezer, Group, Moves, Uid, Watchdog};
use idlewave_units::Pid;
use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// What a group is made with, should it not be there yet.
#[derive(Clone, Debug)]
pub struct Making {
    pub freezer: Freezer,
    pub user: Uid,
    pub watchdog: Option<Arc<Watchdog>>,
}

/// Who comes into a group, and who leaves it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Never taken in, also where their parents or children are.
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

/// What has been done.
#[derive(Debug)]
pub enum Done {
    /// Processes have been moved, or some of them where it failed. The brake is of the group, if there is one.
    Changed(u64, Option<Brake>, Result<(), FreezeError>),
    /// The group is watched, by the watchdog that its new brake asks.
    Guarded(u64, Option<Brake>, Result<(), FreezeError>),
    /// The group is gone, as far as that worked.
    Removed,
}

/// A thread that has the groups. When this is dropped, it gives them up and ends, which is waited for.
#[derive(Debug)]
pub struct Mover {
    /// `None` when it is to end.
    orders: Option<Sender<Order>>,
    done: Receiver<Done>,
    bell: UnixStream,
    moves: Arc<Moves>,
    thread: Option<JoinHandle<()>>,
    groups: u64,
}

impl Mover {
    /// Starts the thread, which moves processes when that may be. `before` is called before it carries out an order.
    ///
    /// # Errors
    /// No thread, or no pair of sockets.
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

    /// The number of a new group, which is made with the first change.
    pub fn number(&mut self) -> u64 {
        self.groups += 1;
        self.groups
    }

    /// Has processes moved; that it was done, or not, is told once.
    pub fn change(&self, group: u64, making: Making, changes: Changes) {
        self.order(Order::Change(group, making, changes));
    }

    /// Has a group, if it is there, watched by this watchdog.
    pub fn guard(&self, group: u64, watchdog: Arc<Watchdog>) {
        self.order(Order::Guard(group, watchdog));
    }

    /// Has a group thawed, its processes sent home, and it removed.
    pub fn remove(&self, group: u64) {
        self.order(Order::Remove(group));
    }

    fn order(&self, order: Order) {
        if let Some(orders) = &self.orders {
            // The thread is there as long as this: it would have to panic.
            let _ = orders.send(order);
        }
    }

    /// What was done since this was asked last.
    pub fn take(&mut self) -> Vec<Done> {
        let mut rung = [0; 64];
        while matches!(self.bell.read(&mut rung), Ok(n) if n > 0) {}
        self.done.try_iter().collect()
    }

    /// What becomes readable when something was done.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

impl Drop for Mover {
    fn drop(&mut self) {
        self.orders = None;
        self.moves.resume();
        if let Some(thread) = self.thread.take() {
            // What panicked there was told by the thread.
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
                // What stays behind is its watchdog's, or the next agent's.
                groups.remove(&number);
                Done::Removed
            }
        };
        // Nobody may be there any more to hear it. A full socket rings already.
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
    /// Puts processes into the group and lets others go.
    ///
    /// # Errors
    /// The first that it failed with.
    pub fn carry_out(&self, group: &mut Group) -> Result<(), FreezeError> {
        // Before their parents and children are added.
        for pid in &self.exempt {
            group.exempt(*pid);
        }
        for pid in &self.add {
            match group.add(*pid) {
                // It has ended meanwhile: the next look will not find it.
                Ok(_) | Err(FreezeError::NoProcess(_)) => {}
                Err(error) => return Err(error),
            }
        }
        self.let_go.iter().try_for_each(|pid| group.let_go(*pid))
    }
}
