//! What people and programs ask the controller on its control socket, one line of JSON each way. Who asks is known from the kernel
//! (`SO_PEERCRED` of `unix(7)`).

use crate::contexts::Copying;
use crate::parcel::Mark;
use idlewave_units::{Nanos, NodeId};
use serde::{Deserialize, Serialize};

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Switch the processes that bear this mark. While the connection is open the gang is there; with `keep`, until its processes end.
    Submit {
        /// For people.
        name: String,
        /// How its processes are known.
        mark: Mark,
        /// Whose they are: the caller's, or anybody's if the caller is root.
        user: u32,
        /// First, within a share.
        interactive: bool,
        /// Share, from 1.
        weight: u32,
        /// The gang outlives the connection.
        keep: bool,
        /// Bytes of the network context of each rank, for ranks that are to have one.
        #[serde(default)]
        contexts: Option<u64>,
    },
    /// What the ranks of a gang do, as their state pages show it; said by the connection that submitted it, again where it changes, and again and again
    /// while they do nothing.
    Observed {
        /// Its number.
        gang: u32,
        /// Whether all ranks are past MPI_Init; `None`: some are on nodes that are not heard of, or it is not known.
        initialised: Option<bool>,
        /// What they do.
        activity: Observation,
    },
    /// End the processes of a gang.
    Cancel {
        /// Its number.
        gang: u32,
    },
    /// The gang of this mark is over, whoever brought it: its processes run on unswitched. For its user, and for who may submit it.
    Release {
        /// How its processes are known.
        mark: Mark,
    },
    /// Let everything run, and take nothing new; or undo that.
    Drain {
        /// On or off.
        on: bool,
    },
    /// How things stand.
    Status,
    /// End the service in order.
    Stop,
}

/// What the ranks of a gang do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Observation {
    /// Some rank can move, as far as is known.
    #[default]
    Progressing,
    /// Nothing was called, and hardly any CPU time used, since it was said before. So it is with a gang that was frozen all that time, too.
    Idle,
    /// Ranks wait for what never comes.
    Deadlocked {
        /// How many.
        ranks: u32,
        /// Whether they are all that have not ended.
        all: bool,
        /// Whether this holds only if their loops of tests have no other way out.
        polling: bool,
    },
    /// All are past MPI_Finalize, or have ended.
    Terminated,
}

/// What is answered.
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
    /// How things stand.
    Status(Box<Status>),
    /// Said to who submitted: the gang changed.
    Changed {
        /// To what.
        stage: Stage,
        /// Whether its processes are to be ended.
        ending: bool,
    },
    /// Said to who submitted a gang with network contexts: its ranks wait for each other for ever.
    Deadlocked {
        /// Who for whom, in words.
        waits: Vec<String>,
    },
    /// It cannot be done. Fits "failed to ...".
    Failed(String),
}

/// Where a gang is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// None of its processes has been seen.
    Waiting,
    /// Its processes are coming, or end; they run freely.
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
    /// Where it is in its life.
    pub stage: Stage,
    /// Whether it goes first.
    pub interactive: bool,
    /// Its share.
    pub weight: u32,
    /// Ranks seen.
    pub ranks: u32,
    /// Ranks there are, if known.
    pub size: Option<u32>,
    /// Processes under control.
    pub processes: u32,
    /// Where they are.
    pub nodes: Vec<NodeId>,
    /// Its row, if it is switched.
    pub row: Option<u32>,
    /// CPU time used.
    pub cpu: Nanos,
    /// Time for which it had the CPUs since it is switched.
    pub turns: Nanos,
    /// Since it came.
    pub age: Nanos,
    /// Whether it had no use for its last turns.
    pub idle: bool,
    /// Bytes of the network context of each of its ranks; `None`: they have none.
    pub context: Option<u64>,
    /// What its ranks were seen to do last; `None`: nobody looks.
    pub observed: Option<Observation>,
    /// Who waits for whom for ever, in words, of a gang with network contexts.
    #[serde(default)]
    pub waits: Vec<String>,
    /// Whether it is to end.
    pub ending: bool,
    /// What is wrong with it.
    pub trouble: Option<String>,
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
    /// What does not work as well as it could.
    pub limits: Vec<String>,
    /// Frames of network contexts that were dropped there since its agent began, as nobody with their key made them.
    #[serde(default)]
    pub forged: u64,
}

/// One row of the matrix: by node and slot the gang, if any; alternates are marked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowStatus {
    /// Its number.
    pub row: u32,
    /// By node, by slot: gang and whether it is at home there.
    pub cells: Vec<Vec<Option<(u32, bool)>>>,
}

/// Quantiles of one thing over all switches of late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quantiles {
    /// How many.
    pub n: u64,
    /// The half are shorter.
    pub median: Nanos,
    /// 9 of 10 are shorter.
    pub p90: Nanos,
    /// 99 of 100 are shorter.
    pub p99: Nanos,
    /// The longest.
    pub longest: Nanos,
}

/// Switches of late.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwitchStatus {
    /// Carried out since the start.
    pub switched: u64,
    /// Aborted since the start, by reason.
    pub aborted: Vec<(String, u64)>,
    /// Nodes that were given up, summed up.
    pub missing: u64,
    /// From the moment to stop at to the last node thawed: nobody computes everywhere in it. `None`: no node has told its times yet.
    pub cost: Option<Quantiles>,
    /// Between the first and the last node thawed; of one node it is zero. `None` as before.
    pub skew: Option<Quantiles>,
    /// By phase: its name, and the longest of all nodes. None as before; draining and the change of contexts are of switches of gangs that have
    /// some, and not there without any.
    pub phases: Vec<(String, Quantiles)>,
    /// Costs of all of them, added up.
    pub total: Nanos,
    /// Costs of all of them as a histogram: upper edges and counts of bins that are not empty.
    pub histogram: Vec<(Nanos, u64)>,
}

/// How things stand.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Since the start.
    pub age: Nanos,
    /// Whether the controller waits for leases of an earlier one to run out.
    pub open: bool,
    /// Whether nothing is switched.
    pub draining: bool,
    /// The row that has the CPUs; `None`: everything runs.
    pub running: Option<u32>,
    /// The present slice.
    pub slice: Nanos,
    /// The cost that it was chosen for, if switches were measured.
    pub slice_for: Option<Nanos>,
    /// The part of time lost that is aimed at.
    pub overhead: f64,
    /// What a switch does with network contexts.
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
