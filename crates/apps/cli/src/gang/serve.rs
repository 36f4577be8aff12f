//! The services: the controller, the agent of a node, and the watchdog of an agent.

use super::background::background;
use super::local::Local;
use super::log::{Log, log};
use super::socket::make_directory;
use super::ways::{Contexts, Freezer};
use crate::exit::{Exit, Failure, report_failure};
use clap::Args;
use idlewave_freeze::Watchdog;
use idlewave_gang::policy;
use idlewave_gang::protocol::ControllerSettings;
use idlewave_gang_agent::{
    CenterOptions, CenterSettings, DeskSettings, NodeNote, NodeOptions, Note, Place, ServiceError,
    Trust, serve_center, serve_node, take_seat,
};
use idlewave_session::Stop;
use idlewave_sys::Uid;
use idlewave_sys::process::{Signal, ask_at_end_of_parent};
use idlewave_units::{Nanos, NodeId};
use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

#[derive(Debug, Args)]
pub struct StartArgs {
    /// Share of the time that switches may take; the slice length follows from it
    #[arg(long, default_value = "2%", value_name = "PART", value_parser = part)]
    overhead: f64,
    /// Fix the slice length, whatever switches cost
    #[arg(long, value_name = "TIME", conflicts_with_all = ["overhead", "shortest", "longest"])]
    slice: Option<Nanos>,
    /// Shortest slice
    #[arg(long, default_value = "10ms", value_name = "TIME")]
    shortest: Nanos,
    /// Longest slice
    #[arg(long, default_value = "100ms", value_name = "TIME")]
    longest: Nanos,
    /// Maximum share of the time for interactive gangs while others wait
    #[arg(long, default_value = "50%", value_name = "PART", value_parser = part)]
    share: f64,
    /// Rows of the matrix: the most gangs that take turns on a CPU
    #[arg(long, default_value_t = 8, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    rows: u16,
    /// Time that all ranks must have existed before they are switched, so that they are past
    /// MPI_Init
    #[arg(long, default_value = "1s", value_name = "TIME")]
    settle: Nanos,
    /// UDP address for the agents of other nodes, as in 10.0.0.1:7431; needs --key or --munge
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// File with the key that controller and agents share, mode 0600; created if missing
    #[arg(long, value_name = "FILE", conflicts_with = "munge")]
    key: Option<PathBuf>,
    /// Authenticate agents by munge
    #[arg(long)]
    munge: bool,
    /// ID of a user who may submit jobs for all users, such as the one that runs slurmctld; may be
    /// given several times
    #[arg(long, value_name = "UID")]
    operator: Vec<u32>,
    /// Run no gangs on this node, only the controller
    #[arg(long)]
    no_local: bool,
    /// Switch at the end of every slice even for a single gang, to measure the cost
    #[arg(long)]
    always: bool,
    /// Let idle gangs keep their turns, instead of giving them to others
    #[arg(long)]
    no_yield: bool,
    /// How to switch network contexts (submit --context)
    #[arg(long, value_enum, default_value = "pointer", value_name = "WAY")]
    contexts: Contexts,
    /// How to stop processes [default: the best that works]
    #[arg(long, value_name = "WAY")]
    freezer: Option<Freezer>,
    /// Real-time priority of controller and agent, 0 for none
    #[arg(long, default_value_t = 50, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=98))]
    priority: u8,
    /// Return once the service is up; it logs to a file next to the socket
    #[arg(long)]
    background: bool,
    #[command(flatten)]
    place: super::socket::Place,
}

#[derive(Debug, Args)]
pub struct AgentArgs {
    /// Address of the controller: ADDRESS:PORT of `gang start --listen`, or the path of its socket
    #[arg(long, value_name = "WHERE")]
    controller: String,
    /// Unique number of this node, from 0
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..65_536))]
    node: u32,
    /// File with the key that controller and agents share, mode 0600
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "munge",
        required_unless_present = "munge"
    )]
    key: Option<PathBuf>,
    /// Authenticate the controller by munge
    #[arg(long)]
    munge: bool,
    /// UDP address to listen on [default: the one that reaches the controller, any port]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// The process that the agent ends with
    #[arg(long, hide = true, value_name = "PID")]
    parent: Option<u32>,
    /// Number of CPUs for gangs [default: all that this process may use]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    cpus: Option<u32>,
    /// How to stop processes [default: the best that works]
    #[arg(long, value_name = "WAY")]
    freezer: Option<Freezer>,
    /// Real-time priority, 0 for none
    #[arg(long, default_value_t = 50, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=98))]
    priority: u8,
}

/// Parses a share: `2%` or `0.02`.
pub(super) fn part(text: &str) -> Result<f64, String> {
    let (number, scale) = match text.strip_suffix('%') {
        Some(number) => (number, 100.0),
        None => (text, 1.0),
    };
    let value: f64 = number
        .trim()
        .parse()
        .map_err(|_| format!("`{text}` is not a percentage, as in 2%"))?;
    let value = value / scale;
    if value > 0.0 && value < 1.0 {
        Ok(value)
    } else {
        Err(format!("`{text}` is not between 0 and 100%, both excluded"))
    }
}

impl From<ServiceError> for Failure {
    fn from(error: ServiceError) -> Self {
        let what = error.to_string();
        let next = match &error {
            ServiceError::Control { .. } => Some(
                "stop the other one with `idlewave gang stop`, or choose another place with --socket",
            ),
            ServiceError::Desk(_) => Some("choose values in the ranges that --help gives"),
            ServiceError::Freeze(_) => Some("omit --freezer to use what works here"),
            _ => None,
        };
        let failure = Failure::new(Exit::NotPossible, what);
        match next {
            Some(next) => failure.with_next(next),
            None => failure,
        }
    }
}

/// `idlewave gang start`.
pub fn start(args: &StartArgs, stop: &Stop) -> Result<(), Failure> {
    let control = args.place.path();
    make_directory(args.place.is_usual(), &control)?;
    if args.background {
        return background(!args.no_local, &control);
    }
    // Held until this service has removed all its files: the files beside the socket belong to
    // whoever holds the seat.
    let seat = take_seat(&control)?;
    let trust = trust(args, &control)?;
    let listen = match args.listen {
        Some(address) => Place::Udp(address),
        None => Place::Unix(control.with_extension("agents")),
    };
    let options = CenterOptions {
        listen,
        trust: trust.clone(),
        all_users: Uid::own() == Uid::ROOT,
        // With a private key only this service's own agent can talk to it.
        first: args.listen.is_none() && args.key.is_none() && !args.munge,
        priority: args.priority,
        settings: settings(args),
    };
    let mut local: Option<Local> = None;
    let mut failed = None;
    let ready = |address: &idlewave_link::Address, limits: &[String]| {
        for limit in limits {
            log(&format!("switches will be late at times: {limit}"));
        }
        log(&format!(
            "gang switching: commands at {}, agents at {address}",
            control.display()
        ));
        if !args.no_local {
            match local_agent(args, &trust, &control, address) {
                Ok(agent) => local = Some(agent),
                Err(failure) => failed = Some(failure),
            }
        }
    };
    let mut lines = Log::default();
    let served = serve_center(&options, &seat, &stop.flag, ready, |told| {
        lines.line(note(told))
    });
    drop(local);
    if args.key.is_none() && !args.munge {
        // A key private to this service.
        let _ = fs::remove_file(control.with_extension("key"));
    }
    if let Some(failure) = failed {
        return Err(failure);
    }
    Ok(served?)
}

/// Starts this node's agent as a process of its own: if it dies, everything it froze thaws and the
/// controller goes on.
fn local_agent(
    args: &StartArgs,
    trust: &Trust,
    control: &Path,
    address: &idlewave_link::Address,
) -> Result<Local, Failure> {
    let mut words: Vec<OsString> = ["gang", "agent", "--node", "0", "--controller"]
        .map(OsString::from)
        .into();
    words.push(match address {
        idlewave_link::Address::Unix(path) => path.into(),
        idlewave_link::Address::Udp(address) => address.to_string().into(),
    });
    match trust {
        Trust::Key(path) => words.extend(["--key".into(), path.into()]),
        Trust::Munge => words.push("--munge".into()),
    }
    words.extend(["--priority".into(), args.priority.to_string().into()]);
    if let Some(freezer) = args.freezer {
        words.extend(["--freezer".into(), freezer.word().into()]);
    }
    let within = control.parent().unwrap_or(Path::new("/"));
    Local::start(words, within)
        .map_err(|why| Failure::new(Exit::Other, format!("start the agent of this node: {why}")))
}

fn settings(args: &StartArgs) -> CenterSettings {
    let (shortest, longest) = match args.slice {
        Some(slice) => (slice, slice),
        None => (args.shortest, args.longest),
    };
    let policy = policy::Settings {
        overhead: args.overhead,
        shortest,
        longest,
        share: args.share,
        ..policy::Settings::default()
    };
    CenterSettings {
        protocol: match args.listen {
            Some(_) => ControllerSettings::NETWORK,
            None => ControllerSettings::ONE_NODE,
        },
        desk: DeskSettings {
            policy,
            rows: usize::from(args.rows),
            settle: args.settle,
            yielding: !args.no_yield,
            copying: args.contexts.into(),
        },
        always: args.always,
        owner: Uid::own(),
        operators: args.operator.iter().copied().map(Uid::new).collect(),
        start: SystemTime::UNIX_EPOCH
            .elapsed()
            .map_or(0, |t| t.as_secs() as u32),
    }
}

/// The key: the named one, created if missing; without other nodes, one private to this service.
fn trust(args: &StartArgs, control: &Path) -> Result<Trust, Failure> {
    if args.munge {
        return Ok(Trust::Munge);
    }
    let path = match (&args.key, args.listen) {
        (Some(path), _) => path.clone(),
        (None, Some(address)) => {
            let what = format!("listen at {address} without authentication");
            return Err(Failure::new(Exit::Usage, what)
                .with_next("give --key FILE, which is created if missing, or --munge"));
        }
        (None, None) => {
            let path = control.with_extension("key");
            // Left by an earlier service.
            let _ = fs::remove_file(&path);
            path
        }
    };
    if !path.exists() {
        idlewave_link::Key::create(&path)
            .map_err(|error| Failure::from(ServiceError::from(error)))?;
        if args.key.is_some() {
            log(&format!(
                "created the key {}: copy it to the nodes, with mode 0600",
                path.display()
            ));
        }
    }
    Ok(Trust::Key(path))
}

fn note(note: &Note) -> String {
    match note {
        Note::Node(text) => text.clone(),
        Note::Gang(gang, stage) => format!("gang {gang}: {}", format!("{stage:?}").to_lowercase()),
        Note::Aborted(why) => format!("a switch was aborted: {why}"),
        Note::Missing(nodes) => {
            let nodes: Vec<String> = nodes.iter().map(ToString::to_string).collect();
            format!("no message from: node {}", nodes.join(", "))
        }
        Note::Superseded => "another controller has taken over; this one ends".to_owned(),
        Note::Trouble(why) => format!("failed to {why}"),
    }
}

/// `idlewave gang agent`.
pub fn agent(args: &AgentArgs, stop: &Stop) -> Result<(), Failure> {
    // When its controller on this node dies, the agent exits cleanly too.
    if let Some(parent) = args.parent {
        let follows = follow(parent, stop)
            .map_err(|e| Failure::new(Exit::Other, format!("watch for signals: {e}")))?;
        if !follows {
            return Ok(());
        }
    }
    let controller = match args.controller.parse::<SocketAddr>() {
        Ok(address) => Place::Udp(address),
        Err(_) if args.controller.contains('/') => Place::Unix(PathBuf::from(&args.controller)),
        Err(_) => {
            let what = format!(
                "find a controller at `{}`: it is neither ADDRESS:PORT nor a path",
                args.controller
            );
            return Err(Failure::new(Exit::Usage, what)
                .with_next("give what `idlewave gang start` printed"));
        }
    };
    let trust = match &args.key {
        Some(path) => Trust::Key(path.clone()),
        None => Trust::Munge,
    };
    let program = std::env::current_exe()
        .map_err(|e| Failure::new(Exit::Other, format!("find this program: {e}")))?;
    let options = NodeOptions {
        node: NodeId::new(args.node),
        controller,
        listen: args.listen.map(Place::Udp),
        trust,
        freezer: args.freezer.map(Freezer::kind),
        priority: args.priority,
        cpus: args.cpus,
        watchdog: [
            program.into_os_string(),
            OsString::from("gang"),
            OsString::from("watchdog"),
        ]
        .into(),
    };
    let ready = |address: &idlewave_link::Address, limits: &[String]| {
        log(&format!(
            "agent of node {}: listening at {address}",
            args.node
        ));
        for limit in limits {
            log(&format!("node {}: {limit}", args.node));
        }
    };
    let node = args.node;
    serve_node(&options, &stop.flag, ready, |note| {
        log(&match note {
            NodeNote::Uncoordinated(epoch) => {
                format!("node {node}: out of step, everything runs (epoch {epoch})")
            }
            NodeNote::HeardAgain(epoch) => {
                format!("node {node}: the controller is back (epoch {epoch})")
            }
            NodeNote::StillFrozen(epoch) => {
                format!("node {node}: thawing failed; trying again (epoch {epoch})")
            }
            NodeNote::Conflict(epoch) => {
                format!("node {node}: epoch {epoch} was ordered both ways; please report this bug")
            }
            NodeNote::Guarded => {
                format!("node {node}: the watchdog had ended and was replaced")
            }
            NodeNote::StoodStill => {
                format!("node {node}: the agent hung, and its watchdog thawed everything")
            }
            NodeNote::Trouble(why) => format!("node {node}: failed to {why}"),
        });
    })?;
    Ok(())
}

/// Requests a stop when the parent ends; returns false if it has ended already. It does not use
/// SIGTERM: if the parent has several threads, the kernel may signal its end twice, and the second
/// SIGTERM would end this process at once, leaving its devices behind.
fn follow(parent: u32, stop: &Stop) -> std::io::Result<bool> {
    signal_hook::flag::register(Signal::USR1.as_raw(), stop.flag.clone())?;
    ask_at_end_of_parent(Signal::USR1)?;
    Ok(std::os::unix::process::parent_id() == parent)
}

/// `idlewave gang watchdog`: watches an agent.
pub fn watchdog(args: &WatchdogArgs) -> ExitCode {
    match Watchdog::serve(args.priority) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => report_failure(&Failure::new(Exit::Other, error.to_string())),
    }
}

#[derive(Debug, Args)]
pub struct WatchdogArgs {
    /// Real-time priority
    priority: Option<u8>,
}
