//! Nodes with devices on this machine, and processes as ranks of gangs on them.

use idlewave_fabric::netctx::device::{At, Attachment, Gang, Setup};
use idlewave_fabric::netctx::{Device, Lossy, Misdeeds, Policy, Transport, Udp};
use idlewave_fabric::{Fabric, Tag};
use idlewave_stats::random::SplitMix;
use idlewave_units::{Nanos, Rank};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

pub const CASE: &str = "IDLEWAVE_TEST_CASE";
pub const LIMIT: Duration = Duration::from_secs(300);

pub fn udp(nodes: u32) -> Vec<Udp> {
    Udp::loopback(nodes).unwrap()
}

pub fn bad(nodes: u32) -> Vec<Lossy<Udp>> {
    let misdeeds = Misdeeds {
        lose: 20,
        double: 20,
        delay: 20,
        damage: 10,
    };
    let all = udp(nodes).into_iter().zip(1..);
    all.map(|(t, seed)| Lossy::new(t, misdeeds, seed)).collect()
}

/// A network with nobody on it.
pub struct Nowhere;

impl Transport for Nowhere {
    fn longest(&self) -> usize {
        1_472
    }
    fn send(&mut self, _: u32, _: &[u8]) -> bool {
        true
    }
    fn receive(&mut self, _: &mut Vec<u8>) -> bool {
        false
    }
}

pub struct RankProcess {
    pub child: Child,
}

impl Drop for RankProcess {
    fn drop(&mut self) {
        // It is still alive only if a test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// All nodes.
pub struct Site<T: Transport + 'static> {
    pub devices: Vec<Device<T>>,
    pub epoch: u64,
    _directory: tempfile::TempDir,
}

impl<T: Transport + 'static> Site<T> {
    pub fn new(transports: Vec<T>, policy: Policy, gangs: u32) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let device = |(node, transport): (u32, T)| {
            let setup = Setup {
                node,
                gangs,
                places: 4,
                ranks: 8,
                policy,
                context_bytes: 256 << 10,
                timeout: Nanos::from_millis(2),
                ..Setup::new(directory.path().join(format!("node{node}")))
            };
            Device::new(&setup, transport).unwrap()
        };
        let devices = (0..).zip(transports).map(device).collect();
        Self {
            devices,
            epoch: 0,
            _directory: directory,
        }
    }

    pub fn admit(&self, gang: u32, nodes: &[u32]) {
        let nodes = nodes.to_vec();
        let gang = Gang { gang, nodes };
        for device in &self.devices {
            device.admit(&gang).unwrap();
        }
    }

    /// Lets the first gang run, in epoch 1.
    pub fn start(&self, gang: u32) {
        for device in &self.devices {
            device.switch(gang, LIMIT).unwrap();
        }
        for device in &self.devices {
            device.resume(1).unwrap();
        }
    }

    /// Stops, drains, switches and resumes; every 16th switch is abandoned after the stop.
    pub fn switch(&mut self, to: u32) {
        self.epoch = self.epoch.max(1) + 1;
        let epoch = self.epoch;
        let from = self.devices[0].active().unwrap();
        let resume = |devices: &[Device<T>]| {
            for device in devices {
                device.resume(epoch).unwrap();
            }
        };
        for device in &self.devices {
            device.stop(from).unwrap();
        }
        if epoch % 16 == 0 {
            resume(&self.devices);
            return;
        }
        let (mut sent, mut received) = (0, 0);
        for device in &self.devices {
            let drained = device.wait_drained(LIMIT);
            assert!(drained.complete, "{drained:?}");
        }
        for device in &self.devices {
            let counts = device.counts();
            sent += counts.sent;
            received += counts.received;
        }
        if !self.devices.iter().any(|d| d.has_failed(from).unwrap()) {
            assert_eq!(sent, received, "nothing is under way");
        }
        for device in &self.devices {
            device.switch(to, LIMIT).unwrap();
        }
        resume(&self.devices);
    }

    /// Starts all ranks of a gang.
    pub fn ranks(&self, gang: u32, case: &str) -> Vec<RankProcess> {
        let mut all = Vec::new();
        let found = self.devices[0].nodes(gang).unwrap();
        for (rank, node) in (0..).zip(&found) {
            let attachment = Attachment {
                at: At::Device {
                    path: self.devices[*node as usize].path().to_owned(),
                    gang,
                },
                rank,
                size: found.len() as u32,
                idle: idlewave_fabric::netctx::device::Idle::Sleep,
            };
            all.push(spawn(&attachment, case));
        }
        all
    }
}

pub fn spawn(attachment: &Attachment, case: &str) -> RankProcess {
    spawn_with(attachment, case, &[])
}

/// The same, with environment variables.
pub fn spawn_with(attachment: &Attachment, case: &str, variables: &[(&str, &str)]) -> RankProcess {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_rank_of_a_gang", "--nocapture"])
        .env(Attachment::VARIABLE, attachment.to_string())
        .env(CASE, case)
        .envs(variables.iter().copied())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    RankProcess { child }
}

pub fn any_lives(ranks: &mut [RankProcess]) -> bool {
    ranks
        .iter_mut()
        .any(|rank| rank.child.try_wait().unwrap().is_none())
}

/// Waits for ranks that must succeed, and returns what they said.
pub fn end(ranks: &mut [RankProcess]) -> Vec<String> {
    let mut said = Vec::new();
    for rank in ranks {
        let mut text = String::new();
        let mut pipe = rank.child.stdout.take().unwrap();
        std::io::Read::read_to_string(&mut pipe, &mut text).unwrap();
        let status = rank.child.wait().unwrap();
        assert!(status.success(), "{status}: {text}");
        let lines = text
            .lines()
            .filter_map(|line| line.find("talked ").map(|at| &line[at..]));
        said.extend(lines.map(str::to_owned));
    }
    said
}

const ROUNDS: u64 = 150;

/// Exchanges random messages between all pairs and checks that each arrives whole, exactly once and
/// in order. Prints a checksum over all of them.
pub fn talk<F: Fabric>(fabric: &mut F) {
    let (own, size) = (u64::from(fabric.rank().get()), u64::from(fabric.size()));
    let message = |from: u64, to: u64, round: u64| {
        let mut random = SplitMix::new(from << 40 | to << 32 | round);
        let most = if random.below(16) == 0 { 20_000 } else { 300 };
        let length = random.below(most);
        (0..length)
            .map(|_| random.bits() as u8)
            .collect::<Vec<u8>>()
    };
    let mut sum = 0_u64;
    for round in 0..ROUNDS {
        let receives: Vec<_> = (0..size)
            .map(|from| {
                let from = Some(Rank::new(from as u32));
                fabric.start_receive(from, Tag(1), 20_000, Vec::new())
            })
            .collect();
        let sends: Vec<_> = (0..size)
            .map(|to| {
                let data = message(own, to, round);
                fabric.start_send(Rank::new(to as u32), Tag(1), data)
            })
            .collect();
        for (from, receiving) in (0..).zip(receives) {
            let delivery = fabric.finish_receive(receiving.unwrap(), &mut || ());
            let data = delivery.unwrap().data;
            assert!(
                data == message(from, own, round),
                "{from} to {own} in {round}"
            );
            for byte in data {
                sum = (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3);
            }
        }
        for sending in sends {
            fabric.finish_send(sending.unwrap(), &mut || ()).unwrap();
        }
    }
    println!("talked {own} of {size}: {sum:x}");
}
