//! Both services with everything they need on a machine: keys, sockets, freezer, watchdog,
//! real-time priority.

use crate::center::{Center, CenterSettings, Note};
use crate::clients::Clients;
use crate::courier::{Courier as _, Post, link_peer};
use crate::desk::DeskError;
use crate::guard::Guard;
use crate::held::Gangs;
use crate::node::{Node, NodeNote, NodeSettings};
use crate::parcel::Place;
use crate::seat::Seat;
use idlewave_freeze::{FreezeError, Freezer, Kind, lock_memory, recover, take_precedence};
use idlewave_gang::protocol::Peer;
use idlewave_link::{Address, Auth, Key, Link, LinkError, Munge};
use idlewave_sys::host_name;
use idlewave_units::{Nanos, NodeId};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// How long a freeze may take before it counts as failed. A process stops when it next runs: 0.13
/// ms on an otherwise idle node, 1 to 20 ms if ten other programs want its CPUs. Less than the
/// protocol's limit.
const FREEZE_LIMIT: Nanos = Nanos::from_millis(150);
/// The watchdog has priority over the agent, and both over ranks.
const WATCHDOG_ABOVE: u8 = 1;

/// How controller and agents authenticate each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// By the key in this file.
    Key(PathBuf),
    /// By munge, at its usual socket.
    Munge,
}

impl Trust {
    fn auth(&self) -> Result<Auth, LinkError> {
        Ok(match self {
            Trust::Key(path) => Auth::Key(Key::load(path)?),
            Trust::Munge => Auth::Munge(Munge::open(None)?),
        })
    }
}

/// Options of an agent.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// The node's number.
    pub node: NodeId,
    /// Address of the controller.
    pub controller: Place,
    /// Where to listen; `None`: at this machine's address towards the controller, or beside its
    /// socket.
    pub listen: Option<Place>,
    /// Authentication.
    pub trust: Trust,
    /// How to stop processes; `None`: the best available way.
    pub freezer: Option<Kind>,
    /// Real-time priority; 0 for none.
    pub priority: u8,
    /// CPUs for gangs; `None`: all that this process may use.
    pub cpus: Option<u32>,
    /// The program that calls [`idlewave_freeze::Watchdog::serve`], with its arguments.
    pub watchdog: Vec<std::ffi::OsString>,
}

/// Options of the controller.
#[derive(Clone, Debug)]
pub struct CenterOptions {
    /// Where it listens for agents.
    pub listen: Place,
    /// Authentication.
    pub trust: Trust,
    /// Whether all users of the machine may send requests.
    pub all_users: bool,
    /// Whether its agents belong to this service only, so that no earlier controller can have
    /// granted them leases.
    pub first: bool,
    /// Real-time priority; 0 for none.
    pub priority: u8,
    /// Policy and protocol.
    pub settings: CenterSettings,
}

/// Why a service cannot start, or has ended.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// Keys, sockets.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// Freezers.
    #[error(transparent)]
    Freeze(#[from] FreezeError),
    /// Settings.
    #[error(transparent)]
    Desk(#[from] DeskError),
    /// The control socket.
    #[error("listen at {path}: {source}")]
    Control {
        /// Its path.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The controller's address cannot be reached.
    #[error("find a route to the controller at {to}: {source}")]
    Way {
        /// The controller's address.
        to: SocketAddr,
        /// The reason.
        source: io::Error,
    },
    /// Threads or waiting.
    #[error("serve: {0}")]
    Serve(#[from] io::Error),
}

/// Takes the right to serve at a control socket, before anything beside it is touched.
///
/// # Errors
/// A service is active there, or starting.
pub fn take_seat(control: &Path) -> Result<Seat, ServiceError> {
    Seat::take(control).map_err(|source| ServiceError::Control {
        path: control.to_owned(),
        source,
    })
}

/// Runs an agent until it is stopped or its controller says farewell. `ready` is called with its
/// address and its limitations.
///
/// # Errors
/// It cannot start, or waiting fails.
pub fn serve_node(
    options: &NodeOptions,
    stop: &AtomicBool,
    ready: impl FnOnce(&Address, &[String]),
    log: impl FnMut(&NodeNote),
) -> Result<(), ServiceError> {
    let mut limits = Vec::new();
    let freezer = match options.freezer {
        Some(kind) => Freezer::of_kind(kind)?,
        None => {
            let choice = Freezer::choose();
            if choice.freezer.kind() == Kind::Signals {
                limits.extend(choice.refused.iter().map(FreezeError::to_string));
            }
            choice.freezer
        }
    };
    // An earlier agent may have left frozen processes: its watchdogs were killed with it.
    limits.extend(recover(&freezer).err().map(|error| error.to_string()));
    let above = options.priority.saturating_add(WATCHDOG_ABOVE).min(99);
    let mut words = options.watchdog.clone();
    if options.priority > 0 {
        words.push(above.to_string().into());
    }
    let guard = match options.watchdog.is_empty() {
        true => None,
        false => Some(Guard::start(words)?),
    };
    let listen = match (&options.listen, &options.controller) {
        (Some(listen), _) => address(listen),
        (None, Place::Unix(path)) => {
            Address::Unix(path.with_file_name(format!("agent{}.sock", options.node)))
        }
        (None, Place::Udp(to)) => Address::Udp(SocketAddr::new(way(*to)?.ip(), 0)),
    };
    let link = Link::bind(
        link_peer(Peer::Agent(options.node)),
        options.trust.auth()?,
        &listen,
    )?;
    let mut post = Post::new(link);
    post.know(Peer::Controller, &options.controller);
    if options.priority > 0 {
        limits.extend(realtime(options.priority));
    }
    ready(post.link().address(), &limits);
    let settings = NodeSettings {
        node: options.node,
        host: host_name(),
        cpus: options.cpus.unwrap_or_else(cpus),
        freezer: freezer.kind().to_string(),
        limits,
        repeat: Nanos::from_millis(5),
        join: Nanos::from_millis(200),
    };
    let gangs = Gangs::new(freezer, guard, FREEZE_LIMIT)?;
    let mut node = Node::new(settings, post, gangs)?;
    if let Address::Udp(at) = &listen {
        node.listen_at(at.ip());
    }
    Ok(node.run(stop, log)?)
}

/// Runs the controller at this seat until it is stopped. `ready` is called when it listens, with
/// its limitations.
///
/// # Errors
/// It cannot start, or waiting fails.
pub fn serve_center(
    options: &CenterOptions,
    seat: &Seat,
    stop: &AtomicBool,
    ready: impl FnOnce(&Address, &[String]),
    log: impl FnMut(&Note),
) -> Result<(), ServiceError> {
    let clients =
        Clients::listen_at(seat, options.all_users).map_err(|source| ServiceError::Control {
            path: seat.path().to_owned(),
            source,
        })?;
    let link = Link::bind(
        link_peer(Peer::Controller),
        options.trust.auth()?,
        &address(&options.listen),
    )?;
    let post = Post::new(link);
    let limits: Vec<String> = match options.priority {
        0 => Vec::new(),
        priority => realtime(priority).collect(),
    };
    ready(post.link().address(), &limits);
    let mut center = Center::new(options.settings.clone(), post, clients)?;
    if options.first {
        center.first();
    }
    Ok(center.run(stop, log)?)
}

/// Takes real-time priority and locks memory; returns what was refused. Without it switches are
/// late by milliseconds on a busy node.
fn realtime(priority: u8) -> impl Iterator<Item = String> {
    let refused = [take_precedence(priority).err(), lock_memory().err()];
    refused.into_iter().flatten().map(|error| error.to_string())
}

fn address(place: &Place) -> Address {
    match place {
        Place::Unix(path) => Address::Unix(path.clone()),
        Place::Udp(address) => Address::Udp(*address),
    }
}

/// This machine's address towards `to`, according to the routing table; nothing is sent.
fn way(to: SocketAddr) -> Result<SocketAddr, ServiceError> {
    let any: SocketAddr = match to {
        SocketAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
        SocketAddr::V6(_) => ([0_u16; 8], 0).into(),
    };
    let find = || -> io::Result<SocketAddr> {
        let socket = UdpSocket::bind(any)?;
        socket.connect(to)?;
        socket.local_addr()
    };
    find().map_err(|source| ServiceError::Way { to, source })
}

/// CPUs that this process may use.
fn cpus() -> u32 {
    let n = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    u32::try_from(n).unwrap_or(u32::MAX)
}
