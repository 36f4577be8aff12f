//! Requests of users and programs to the controller on its control socket, one line of JSON each
//! way. The kernel identifies the user (`SO_PEERCRED` of `unix(7)`).

use crate::contexts::Copying;
use crate::parcel::Mark;
use idlewave_units::foreign::one_line;
use idlewave_units::{Nanos, NodeId};
use serde::{Deserialize, Serialize};

/// A request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Switch the processes that bear this mark. The gang exists while the connection is open; with
    /// `keep`, until its processes end.
    Submit {
        /// Display name.
        name: String,
        /// The mark of its processes.
        mark: Mark,
        /// Their user: the caller, or any user if the caller is root.
        user: u32,
        /// Interactive gangs go first, within a share.
        interactive: bool,
        /// Share, at least 1.
        weight: u32,
        /// The gang outlives the connection.
        keep: bool,
        /// Bytes of the network context of each rank, if ranks are to have one.
        #[serde(default)]
        contexts: Option<u64>,
    },
    /// The activity of a gang's ranks according to their state pages. Sent by the submitting
    /// connection, again on each change, and repeatedly while they are idle.
    Observed {
        /// Its number.
        gang: u32,
        /// Whether all ranks are past MPI_Init; `None`: unknown, or some are on nodes that cannot
        /// be reached.
        initialised: Option<bool>,
        /// Their activity.
        activity: Observation,
    },
    /// Kill the processes of a gang.
    Cancel {
        /// Its number.
        gang: u32,
    },
    /// The gang of this mark is over, whoever submitted it: its processes continue unswitched.
    /// Allowed to its user, and to users who may submit it.
    Release {
        /// The mark of its processes.
        mark: Mark,
    },
    /// Let everything run, and accept nothing new; or undo that.
    Drain {
        /// On or off.
        on: bool,
    },
    /// Request the status.
    Status,
    /// Stop the service cleanly.
    Stop,
}

/// Activity of the ranks of a gang.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Observation {
    /// Some rank can make progress, as far as is known.
    #[default]
    Progressing,
    /// No calls, and hardly any CPU time used, since the last message. This includes a gang that
    /// was frozen all that time.
    Idle,
    /// Ranks wait for something that never comes.
    Deadlocked {
        /// Their number.
        ranks: u32,
        /// Whether these are all the ranks that have not ended.
        all: bool,
        /// Whether this holds only if their loops of tests have no other exit.
        polling: bool,
    },
    /// All are past MPI_Finalize, or have ended.
    Terminated,
}

/// A reply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// Done.
    Done,
    /// The gang has this number.
    Submitted {
        /// The number.
        gang: u32,
    },
    /// The status.
    Status(Box<Status>),
    /// Sent to the submitter: the gang has changed.
    Changed {
        /// Its new stage.
        stage: Stage,
        /// Whether its processes are to be killed.
        ending: bool,
    },
    /// Sent to the submitter of a gang with network contexts: its ranks are deadlocked.
    Deadlocked {
        /// Which ranks wait for which, in words.
        waits: Vec<String>,
    },
    /// The request failed. Fits "failed to ...".
    Failed(String),
}

impl Reply {
    /// The same with control characters escaped in messages to users. A status is data; it is
    /// escaped when displayed.
    pub(crate) fn plain(self) -> Self {
        match self {
            Reply::Failed(why) => Reply::Failed(one_line(&why)),
            Reply::Deadlocked { waits } => Reply::Deadlocked {
                waits: waits.iter().map(|line| one_line(line)).collect(),
            },
            other => other,
        }
    }
}

/// Stage in the life of a gang.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// None of its processes has been found.
    Waiting,
    /// Its processes are starting or ending; they run freely.
    Starting,
    /// It is switched.
    Running,
    /// Its processes have ended.
    Ended,
}

/// One gang.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GangStatus {
    /// Its number.
    pub gang: u32,
    /// Its name.
    pub name: String,
    /// Its user.
    pub user: u32,
    /// Its stage.
    pub stage: Stage,
    /// Whether it is interactive.
    pub interactive: bool,
    /// Its share.
    pub weight: u32,
    /// Ranks found.
    pub ranks: u32,
    /// Total number of ranks, if known.
    pub size: Option<u32>,
    /// Processes under control.
    pub processes: u32,
    /// Its nodes.
    pub nodes: Vec<NodeId>,
    /// Its row, if it is being switched.
    pub row: Option<u32>,
    /// CPU time used.
    pub cpu: Nanos,
    /// Time for which it has had the CPUs since switching of it began.
    pub turns: Nanos,
    /// Time since it was submitted.
    pub age: Nanos,
    /// Whether it could not use its last turns.
    pub idle: bool,
    /// Bytes of the network context of each of its ranks; `None` without contexts.
    pub context: Option<u64>,
    /// Last known activity of its ranks; `None`: not observed.
    pub observed: Option<Observation>,
    /// Deadlocked ranks of a gang with network contexts, in words.
    #[serde(default)]
    pub waits: Vec<String>,
    /// Whether its processes are to be killed.
    pub ending: bool,
    /// A problem with it.
    pub trouble: Option<String>,
}

impl GangStatus {
    /// Whether ranks of it are deadlocked.
    pub fn is_deadlocked(&self) -> bool {
        matches!(self.observed, Some(Observation::Deadlocked { .. }))
    }
}

/// One node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// Its number.
    pub node: NodeId,
    /// Its host name.
    pub host: String,
    /// CPUs.
    pub cpus: u32,
    /// How it stops processes.
    pub freezer: String,
    /// Whether it takes part in switches.
    pub coordinated: bool,
    /// Limitations.
    pub limits: Vec<String>,
    /// Frames of network contexts that the node has dropped since its agent started because their
    /// authentication code was wrong.
    #[serde(default)]
    pub forged: u64,
}

/// One row of the matrix: the gang per node and slot, if any; alternates are marked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowStatus {
    /// Its number.
    pub row: u32,
    /// By node, by slot: gang and whether it is at home there.
    pub cells: Vec<Vec<Option<(u32, bool)>>>,
}

/// Quantiles over recent switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quantiles {
    /// Number of switches.
    pub n: u64,
    /// Median.
    pub median: Nanos,
    /// 90th percentile.
    pub p90: Nanos,
    /// 99th percentile.
    pub p99: Nanos,
    /// Maximum.
    pub longest: Nanos,
}

/// Recent switches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwitchStatus {
    /// Completed since the start.
    pub switched: u64,
    /// Aborted since the start, by reason.
    pub aborted: Vec<(String, u64)>,
    /// Nodes that did not acknowledge, added up.
    pub missing: u64,
    /// From the stop time to the last node thawed, during which not all nodes compute. `None`: no
    /// node has reported times yet.
    pub cost: Option<Quantiles>,
    /// Between the first and the last node thawed; 0 for one node. `None` as above.
    pub skew: Option<Quantiles>,
    /// By phase: its name, and the longest of all nodes. `None` as above. Draining and the change
    /// of contexts cover only switches of gangs with contexts, and are missing if there were none.
    pub phases: Vec<(String, Quantiles)>,
    /// Total cost of all switches.
    pub total: Nanos,
    /// Histogram of all costs: upper edges and counts of non-empty bins.
    pub histogram: Vec<(Nanos, u64)>,
}

/// The status of the service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Time since the start.
    pub age: Nanos,
    /// Whether the controller still waits for leases of an earlier one to expire.
    pub open: bool,
    /// Whether switching is drained.
    pub draining: bool,
    /// The row that has the CPUs; `None`: everything runs.
    pub running: Option<u32>,
    /// The present slice.
    pub slice: Nanos,
    /// The cost for which it was chosen, if switches were measured.
    pub slice_for: Option<Nanos>,
    /// Target for the share of time lost.
    pub overhead: f64,
    /// How a switch exchanges network contexts.
    pub contexts: Copying,
    /// Nodes.
    pub nodes: Vec<NodeStatus>,
    /// The matrix.
    pub rows: Vec<RowStatus>,
    /// Gangs.
    pub gangs: Vec<GangStatus>,
    /// Switches.
    pub switches: SwitchStatus,
    /// The epoch.
    pub epoch: String,
}
