//! Objects of the trace: applications of tasks of threads, and nodes of CPUs.

use idlewave_units::{Cpu, NodeId, Pid, Rank};
use std::collections::HashMap;
use std::io::Write;

/// A thread: its numbers count from 1.
#[derive(Clone, Debug)]
pub(super) struct Thread {
    pub appl: u32,
    pub task: u32,
    pub thread: u32,
    pub label: String,
}

/// A task and its node: Paraver refuses to show a task on another node.
#[derive(Clone, Debug)]
pub(super) struct Task {
    pub node: usize,
    pub threads: u32,
    pub label: String,
}

/// An application.
#[derive(Clone, Debug)]
pub(super) struct Application {
    pub tasks: Vec<Task>,
    pub label: String,
}

/// A node: the kernel's numbers of its CPUs, in order.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub cpus: Vec<Cpu>,
    pub label: String,
}

/// All objects.
#[derive(Debug, Default)]
pub(super) struct Objects {
    pub threads: Vec<Thread>,
    pub applications: Vec<Application>,
    pub nodes: Vec<Node>,
    /// Threads by the kernel's number.
    pub(super) by_pid: HashMap<(NodeId, Pid), u32>,
    /// Idle threads.
    pub(super) idle: HashMap<(NodeId, Cpu), u32>,
    /// Threads of the ranks, as the manifest lists them.
    pub(super) ranks: HashMap<Rank, Vec<u32>>,
    /// Numbers of the CPUs.
    pub(super) cpus: HashMap<(NodeId, Cpu), u32>,
}

impl Objects {
    pub(super) fn thread(&self, object: u32) -> &Thread {
        &self.threads[object as usize]
    }

    /// Application, task and thread of each thread, as they stand in records: `1:2:1:`.
    pub(super) fn places(&self) -> Vec<Vec<u8>> {
        let place = |t: &Thread| format!("{}:{}:{}:", t.appl, t.task, t.thread).into_bytes();
        self.threads.iter().map(place).collect()
    }

    /// The thread that had a CPU; the idle thread has the same number on every CPU.
    pub(super) fn ran(&self, node: NodeId, cpu: Cpu, pid: Pid) -> Option<u32> {
        match pid == Pid::IDLE {
            true => self.idle.get(&(node, cpu)).copied(),
            false => self.by_pid.get(&(node, pid)).copied(),
        }
    }

    /// A thread by the kernel's number.
    pub(super) fn by_pid(&self, node: NodeId, pid: Pid) -> Option<u32> {
        self.by_pid.get(&(node, pid)).copied()
    }

    /// The first thread of a rank.
    pub(super) fn rank(&self, rank: Rank) -> Option<u32> {
        self.ranks.get(&rank)?.first().copied()
    }

    /// The thread of a rank in the phase of this index, if it has one per phase; else its first.
    pub(super) fn rank_in(&self, rank: Rank, phase: usize) -> Option<u32> {
        let threads = self.ranks.get(&rank)?;
        threads.get(phase).or(threads.first()).copied()
    }

    /// The number of a CPU; 0 for unknown.
    pub(super) fn cpu(&self, node: NodeId, cpu: Cpu) -> u32 {
        self.cpus.get(&(node, cpu)).copied().unwrap_or(0)
    }

    /// Nodes and applications as in the first line.
    pub(super) fn header(&self, text: &mut Vec<u8>) {
        let list = |items: Vec<String>| items.join(",");
        let cpus = list(
            self.nodes
                .iter()
                .map(|n| n.cpus.len().to_string())
                .collect(),
        );
        let _ = write!(
            text,
            "{}({cpus}):{}",
            self.nodes.len(),
            self.applications.len()
        );
        for application in &self.applications {
            let tasks = application.tasks.iter();
            let tasks = list(
                tasks
                    .map(|t| format!("{}:{}", t.threads, t.node + 1))
                    .collect(),
            );
            let _ = write!(text, ":{}({tasks})", application.tasks.len());
        }
    }
}
