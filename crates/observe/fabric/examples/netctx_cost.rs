//! What network contexts between processes cost: the round trip of an 8-byte message between two
//! spinning ranks, on one node and on two (over UDP on the loopback device), and a switch between
//! two gangs by each policy and size of context.
//!
//! ```text
//! cargo run --release -p idlewave-fabric --example netctx_cost
//! ```
//!
//! Floor: for a message on one node, two cache lines to the other core and back; on two nodes, four
//! wake-ups, two of sleeping threads and two by datagrams; for a switch, reading and writing the
//! copied bytes twice.

use idlewave_fabric::netctx::device::{At, Attachment, Gang, Idle, Setup};
use idlewave_fabric::netctx::{Device, Policy, Udp};
use idlewave_fabric::{Fabric, PointToPoint, Tag};
use idlewave_units::Rank;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

type Failed = Box<dyn std::error::Error>;

const LIMIT: Duration = Duration::from_secs(5);
const WARM_UP: usize = 1_000;
const ROUNDS: usize = 20_000;
const SWITCHES: usize = 300;

fn main() -> Result<(), Failed> {
    if let Some(attachment) = Attachment::of_this_process()? {
        return rank(&attachment);
    }
    for nodes in [[0, 0], [0, 1]] {
        messages(nodes)?;
    }
    for mib in [1, 2, 4] {
        for policy in Policy::ALL {
            switches(policy, mib << 20)?;
        }
    }
    Ok(())
}

fn tell(what: &str, mut nanos: Vec<u64>) {
    nanos.sort_unstable();
    let n = nanos.len();
    let at = |percent: usize| nanos[(n * percent / 100).min(n - 1)] as f64 / 1e3;
    let [low, middle, high, far] = [25, 50, 75, 99].map(at);
    println!(
        "{what}: median {middle:.2} us, quartiles {low:.2} and {high:.2}, p99 {far:.2}, n {n}"
    );
}

fn rank(attachment: &Attachment) -> Result<(), Failed> {
    let mut fabric = attachment.attach()?;
    let own = fabric.rank().get();
    let other = Rank::new(1 - own);
    let mut nanos = Vec::with_capacity(ROUNDS);
    let mut data = vec![0; 8];
    for round in 0..WARM_UP + ROUNDS {
        let begin = Instant::now();
        for turn in 0..2 {
            if turn == own {
                let sending = fabric.start_send(other, Tag(0), data)?;
                data = fabric.finish_send(sending, &mut || ())?;
            } else {
                let receiving = fabric.start_receive(Some(other), Tag(0), 8, data)?;
                data = fabric.finish_receive(receiving, &mut || ())?.data;
            }
        }
        if round >= WARM_UP {
            nanos.push(begin.elapsed().as_nanos() as u64);
        }
    }
    fabric.barrier(&mut || ())?;
    if own == 0 {
        let where_ = fabric.nodes()?.count();
        tell(&format!("there and back, {where_} node(s)"), nanos);
    } else {
        fabric.nodes()?;
    }
    Ok(())
}

fn setup(node: u32) -> Setup {
    let name = format!("/dev/shm/netctx_cost.{}.{node}", std::process::id());
    Setup {
        node,
        ..Setup::new(name.into())
    }
}

fn messages(nodes: [u32; 2]) -> Result<(), Failed> {
    let mut devices = Vec::new();
    for (node, udp) in (0..).zip(Udp::loopback(2)?) {
        devices.push(Device::new(&setup(node), udp)?);
    }
    let gang = Gang {
        gang: 0,
        nodes: nodes.to_vec(),
    };
    for device in &devices {
        device.admit(&gang)?;
        device.switch(0, LIMIT)?;
        device.resume(1)?;
    }
    let mut ranks: Vec<Child> = Vec::new();
    for (rank, node) in (0..).zip(nodes) {
        let attachment = Attachment {
            at: At::Device {
                path: devices[node as usize].path().to_owned(),
                gang: 0,
            },
            rank,
            size: 2,
            idle: Idle::Spin,
        };
        let mut command = Command::new("taskset");
        command.args(["-c", &rank.to_string()]);
        command.arg(std::env::current_exe()?);
        command.env(Attachment::VARIABLE, attachment.to_string());
        ranks.push(command.spawn()?);
    }
    for mut rank in ranks {
        if !rank.wait()?.success() {
            return Err("a rank failed".into());
        }
    }
    Ok(())
}

fn switches(policy: Policy, context_bytes: usize) -> Result<(), Failed> {
    let setup = Setup {
        policy,
        context_bytes,
        ..setup(0)
    };
    let device = Device::new(&setup, Udp::loopback(1)?.remove(0))?;
    for gang in 0..2 {
        let nodes = vec![0, 1];
        device.admit(&Gang { gang, nodes })?;
    }
    device.switch(0, LIMIT)?;
    let mut nanos = Vec::new();
    for i in 0..SWITCHES {
        let begin = Instant::now();
        device.switch((i as u32 + 1) % 2, LIMIT)?;
        nanos.push(begin.elapsed().as_nanos() as u64);
    }
    let mib = context_bytes >> 20;
    tell(&format!("switch, {policy:?}, context of {mib} MiB"), nanos);
    Ok(())
}
