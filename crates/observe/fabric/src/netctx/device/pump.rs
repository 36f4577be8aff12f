//! A device with the thread that moves its frames, which sleeps while there is nothing to move.

use super::memory::{Bell, wait_for};
use super::owner::Owner;
use super::shape::{Shape, Shared};
use super::{DeviceError, Doing, Gang, Setup, Within};
use crate::netctx::Counts;
use crate::netctx::talk::Traffic;
use crate::netctx::transport::Transport;
use idlewave_units::Nanos;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Interval between checks for a gang that is drained and whose ranks are outside: nothing signals
/// that.
const LOOK: Duration = Duration::from_micros(100);

/// After this many false alarms in a row, the bell is ignored for [`DEAF`]. A few are normal: a
/// rank rings after it has put something in or made room, perhaps a moment after the owner saw
/// that.
const ALARMS: u32 = 16;
/// See [`ALARMS`].
const DEAF: Duration = Duration::from_millis(1);

/// How a wait for the network ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Whether nothing is in flight and no rank is inside the device.
    pub complete: bool,
    /// Frames of the gang on this node so far.
    pub counts: Counts,
}

/// What the thread and the [`Device`] share.
struct Inner<T> {
    owner: Mutex<Owner<T>>,
    /// Notified after each turn.
    turned: Condvar,
    bell: Bell,
    ended: AtomicBool,
    began: Instant,
}

impl<T: Transport> Inner<T> {
    fn owner(&self) -> MutexGuard<'_, Owner<T>> {
        self.owner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Nanos {
        Nanos::from_nanos(self.began.elapsed().as_nanos() as u64)
    }

    /// One turn. `alarms` is the number of false alarms in a row before it; returns the new number.
    fn turn(&self, alarms: u32) -> u32 {
        let now = self.now();
        let (waits, moved) = {
            let mut owner = self.owner();
            let before = owner.traffic();
            owner.turn(now);
            (owner.wait(now), owner.traffic() != before)
        };
        self.turned.notify_all();
        let idle = waits.is_some() && !moved;
        if idle && alarms >= ALARMS {
            // Any process of the user can ring. One that rings for nothing must not keep this
            // thread busy, which may have real-time priority.
            std::thread::sleep(DEAF);
        }
        // While there is more to do, this does not block, and others can lock the owner in between.
        let (mut descriptors, longest) = waits.unwrap_or_default();
        descriptors.push(self.bell.descriptor());
        let ready = wait_for(&descriptors, longest);
        self.bell.quiet();
        let ended = |descriptor| {
            let mut both = descriptors.iter().zip(&ready);
            both.any(|(other, ready)| *ready && *other == descriptor)
        };
        self.owner().woke(ended);
        match idle && ready.last() == Some(&true) {
            true => alarms.saturating_add(1),
            false => 0,
        }
    }
}

/// A node's network, for the process that switches gangs. Its thread inherits the scheduling of the
/// thread that creates the device.
///
/// A switch is [`stop`](Self::stop), then [`wait_drained`](Self::wait_drained) or
/// [`is_drained`](Self::is_drained), optionally freezing the processes, then
/// [`switch`](Self::switch) and [`resume`](Self::resume). All nodes must finish each step before
/// any starts the next, except for the last two. After freezing, check once more whether the gang
/// is drained: a rank may have been frozen just as it was about to enter. If it is not drained, the
/// switch must be abandoned on all nodes before any of them switches. To abandon a switch, at any
/// time before [`switch`](Self::switch), thaw the processes and [`resume`](Self::resume). If the
/// device is dropped, its ranks fail as soon as they wait for anything.
pub struct Device<T: Transport + 'static> {
    inner: Arc<Inner<T>>,
    thread: Option<JoinHandle<()>>,
    path: PathBuf,
}

impl<T: Transport + 'static> Device<T> {
    /// Creates a device without gangs.
    ///
    /// # Errors
    /// The file exists already, there is no memory or thread for it, or the setup is invalid.
    pub fn new(setup: &Setup, transport: T) -> Result<Self, DeviceError> {
        let shape = Shape::new(setup)?;
        let shared = Shared::create(&setup.path, shape, setup.user)?;
        let path = setup.path.clone();
        let bell = Bell::create(&path, setup.user).inspect_err(|_| {
            // Ours, and now useless.
            let _ = std::fs::remove_file(&path);
        })?;
        let inner = Arc::new(Inner {
            owner: Mutex::new(Owner::new(shared, transport, setup.policy, setup.timeout)),
            turned: Condvar::new(),
            bell,
            ended: AtomicBool::new(false),
            began: Instant::now(),
        });
        let mut device = Self {
            inner,
            thread: None,
            path,
        };
        let inner = Arc::clone(&device.inner);
        let pump = move || {
            let mut alarms = 0;
            // Relaxed: no other read depends on it.
            while !inner.ended.load(Ordering::Relaxed) {
                alarms = inner.turn(alarms);
            }
        };
        let named = std::thread::Builder::new().name("netctx".to_owned());
        let thread = named.spawn(pump).map_err(|source| DeviceError::File {
            action: "start the thread of",
            path: device.path.clone(),
            source,
        })?;
        device.thread = Some(thread);
        Ok(device)
    }

    /// The path of its file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Applies `act` to the owner, and then wakes the thread.
    fn order<R>(&self, act: impl FnOnce(&mut Owner<T>) -> R) -> R {
        let done = {
            let mut owner = self.inner.owner();
            let done = act(&mut owner);
            owner.turn(self.inner.now());
            done
        };
        self.inner.bell.ring();
        done
    }

    /// Creates the contexts of a gang, before its ranks start. The running gang keeps running.
    ///
    /// # Errors
    /// The gang is there already, or there is no room for it.
    pub fn admit(&self, gang: &Gang) -> Result<(), DeviceError> {
        self.order(|owner| owner.admit(gang))
    }

    /// Removes a gang. Its ranks that are still alive fail.
    ///
    /// # Errors
    /// There is no such gang, or it is the active one and not stopped.
    pub fn dismiss(&self, gang: u32) -> Result<(), DeviceError> {
        self.order(|owner| owner.dismiss(gang))
    }

    /// The node of each rank of a gang.
    ///
    /// # Errors
    /// There is no such gang.
    pub fn nodes(&self, gang: u32) -> Result<Vec<u32>, DeviceError> {
        self.inner.owner().nodes(gang)
    }

    /// By place, the process of each rank of a gang on this node; `None` if it has not attached
    /// yet. If a process dies before it attaches, only its parent notices, and must call
    /// [`fail`](Self::fail).
    ///
    /// # Errors
    /// There is no such gang.
    pub fn processes(&self, gang: u32) -> Result<Vec<Option<u32>>, DeviceError> {
        self.inner.owner().processes(gang)
    }

    /// The gang whose context is active; `None` before the first switch.
    pub fn active(&self) -> Option<u32> {
        self.inner.owner().active()
    }

    /// Stops the ranks of a gang from putting anything more on the network, and keeps them out of
    /// the device. Does nothing if another gang is active.
    ///
    /// # Errors
    /// There is no such gang.
    pub fn stop(&self, gang: u32) -> Result<(), DeviceError> {
        self.order(|owner| owner.stop(gang))
    }

    /// Whether the active gang is stopped, its ranks are outside, and it has nothing in flight. For
    /// a failed gang, what is in flight does not count.
    pub fn is_drained(&self) -> bool {
        self.order(|owner| owner.is_drained())
    }

    /// Sleeps until the gang [`is_drained`](Self::is_drained), for at most `limit`. If it is not
    /// drained by then, nothing is lost: it may stay stopped or go on.
    pub fn wait_drained(&self, limit: Duration) -> Drained {
        let begin = Instant::now();
        let mut owner = self.inner.owner();
        loop {
            let complete = owner.is_drained();
            if complete || begin.elapsed() >= limit {
                let counts = owner.counts();
                return Drained { complete, counts };
            }
            let waited = self.inner.turned.wait_timeout(owner, LOOK);
            owner = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Frames of the active gang on this node so far, each counted once. Summed over all nodes, the
    /// two counts are equal exactly when nothing is in flight.
    pub fn counts(&self) -> Counts {
        self.inner.owner().counts()
    }

    /// What the active gang's ranks on this node are doing: the number of the gang, then rank by
    /// rank. `None` if the gang failed, or is not stopped and drained. If it is stopped and drained
    /// on all nodes at the same moment, the results of all nodes are the state of the gang at that
    /// moment: nothing is in flight.
    pub fn doing(&self) -> Option<(u32, Vec<(u32, Doing)>)> {
        self.inner.owner().doing()
    }

    /// Makes the context of a gang the active one and returns the number of bytes copied. The gang
    /// does not run before [`resume`](Self::resume). Sleeps up to `limit` until ranks that were
    /// about to enter when the gate was closed have left.
    ///
    /// # Errors
    /// There is no such gang, the active one is not stopped, or one of its ranks is inside the
    /// device, perhaps because it was frozen there. Nothing is changed.
    pub fn switch(&self, gang: u32, limit: Duration) -> Result<usize, DeviceError> {
        let begin = Instant::now();
        loop {
            match self.order(|owner| owner.switch(gang)) {
                Err(DeviceError::Inside { .. }) if begin.elapsed() < limit => {
                    std::thread::sleep(LOOK);
                }
                done => return done,
            }
        }
    }

    /// Lets the active gang run, in an epoch that must be the same on all nodes: after a switch, or
    /// to abandon one.
    ///
    /// # Errors
    /// No gang is active, or the epoch is not later than the one that it was in.
    pub fn resume(&self, epoch: u64) -> Result<(), DeviceError> {
        self.order(|owner| owner.resume(epoch))
    }

    /// Whether a rank of a gang failed or was killed, here or elsewhere: the waits of all others
    /// end then.
    ///
    /// # Errors
    /// There is no such gang.
    pub fn has_failed(&self, gang: u32) -> Result<bool, DeviceError> {
        self.inner.owner().has_failed(gang)
    }

    /// Ends the waits of a gang's ranks on all nodes, for a gang that lost a rank.
    ///
    /// # Errors
    /// There is no such gang.
    pub fn fail(&self, gang: u32) -> Result<(), DeviceError> {
        self.order(|owner| owner.fail(gang))
    }

    /// Fails a gang whose ranks had time to leave the device and did not, and stops waiting for
    /// them.
    ///
    /// # Errors
    /// There is no such gang.
    pub fn abandon(&self, gang: u32) -> Result<(), DeviceError> {
        self.order(|owner| owner.abandon(gang))
    }

    /// A rank of the active gang that claims to be inside the device.
    pub fn within(&self) -> Option<Within> {
        self.inner.owner().within()
    }

    /// Takes the network away from a gang: the waits of its ranks end, with
    /// [`FabricError::NetworkGone`](crate::FabricError::NetworkGone) here and as if a rank had
    /// failed on other nodes.
    ///
    /// # Errors
    /// There is no such gang.
    pub fn withdraw(&self, gang: u32) -> Result<(), DeviceError> {
        self.order(|owner| owner.withdraw(gang))
    }

    /// Frames that the node has seen.
    pub fn traffic(&self) -> Traffic {
        self.inner.owner().traffic()
    }
}

impl<T: Transport + 'static> Drop for Device<T> {
    fn drop(&mut self) {
        self.inner.ended.store(true, Ordering::Relaxed);
        self.inner.bell.ring();
        if let Some(thread) = self.thread.take() {
            // The thread has no result, and whether it panicked no longer matters.
            let _ = thread.join();
        }
        self.inner.owner().end();
        // If a file is not removed, whoever creates the next device notices.
        let _ = std::fs::remove_file(&self.path);
        let _ = std::fs::remove_file(Bell::path(&self.path));
    }
}

impl<T: Transport + 'static> std::fmt::Debug for Device<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "network device {}", self.path.display())
    }
}
