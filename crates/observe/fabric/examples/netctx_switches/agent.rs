//! A node: it owns the device, starts the ranks of gangs on it, and obeys orders on its standard
//! input. Each order is a line, answered by a line.

use crate::Failed;
use idlewave_fabric::netctx::device::{At, Attachment, Gang, Idle, Setup};
use idlewave_fabric::netctx::{Device, Lossy, Misdeeds, Policy, Udp};
use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The longest wait for a rank to leave the device, or for what is in flight to arrive.
const LIMIT: Duration = Duration::from_secs(20);

struct Node {
    device: Device<Lossy<Udp>>,
    node: u32,
    /// By gang and rank.
    ranks: BTreeMap<(u32, u32), Child>,
}

/// Its arguments: the addresses of all nodes, its own number, the policy, and how many of 1,000
/// frames are lost; as many are duplicated, as many delayed, and half as many damaged.
pub fn run(words: &[&str]) -> Result<(), Failed> {
    let [addresses, node, policy, misdeeds] = words else {
        return Err("understand how an agent was called".into());
    };
    let addresses: Vec<SocketAddr> = addresses
        .split(',')
        .map(str::parse)
        .collect::<Result<_, _>>()?;
    let node: u32 = node.parse()?;
    let policy = match *policy {
        "whole" => Policy::Whole,
        "valid" => Policy::Valid,
        _ => Policy::Resident,
    };
    let each: u32 = misdeeds.parse()?;
    let misdeeds = Misdeeds {
        lose: each,
        double: each,
        delay: each,
        damage: each / 2,
    };
    let socket = UdpSocket::bind(addresses[node as usize])?;
    let transport = Lossy::new(Udp::new(socket, addresses)?, misdeeds, u64::from(node) + 1);
    let path = PathBuf::from(format!("/dev/shm/netctx_switches.{}", std::process::id()));
    let setup = Setup {
        node,
        gangs: 4,
        places: 2,
        ranks: 16,
        policy,
        context_bytes: 256 << 10,
        timeout: idlewave_units::Nanos::from_millis(2),
        ..Setup::new(path)
    };
    let mut node = Node {
        device: Device::new(&setup, transport)?,
        node,
        ranks: BTreeMap::new(),
    };
    let mut out = std::io::stdout();
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split(' ').collect();
        let answer = match node.obey(&words) {
            Ok(answer) => answer,
            Err(error) => format!("failed to {error}"),
        };
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    Ok(())
}

impl Node {
    fn obey(&mut self, words: &[&str]) -> Result<String, Failed> {
        let done = |_| "done".to_owned();
        Ok(match words {
            ["admit", gang, nodes] => {
                let nodes: Vec<u32> = nodes.split(',').map(str::parse).collect::<Result<_, _>>()?;
                let gang = gang.parse()?;
                self.device.admit(&Gang { gang, nodes })?;
                "done".to_owned()
            }
            ["start", gang] => self.start(gang.parse()?).map(done)?,
            ["stop", gang] => self.device.stop(gang.parse()?).map(done)?,
            ["drain"] => {
                let drained = self.device.wait_drained(LIMIT);
                let counts = drained.counts;
                format!("{} {} {}", drained.complete, counts.sent, counts.received)
            }
            ["switch", gang] => {
                let copied = self.device.switch(gang.parse()?, LIMIT)?;
                copied.to_string()
            }
            ["resume", epoch] => self.device.resume(epoch.parse()?).map(done)?,
            ["kill", gang, rank] => {
                let gang = gang.parse()?;
                let rank = self.ranks.get_mut(&(gang, rank.parse()?));
                let rank = rank.ok_or("find the rank")?;
                // If it died before it attached, only its parent would notice.
                while !self.device.processes(gang)?.contains(&Some(rank.id())) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                rank.kill().map(done)?
            }
            ["failed", gang] => self.device.has_failed(gang.parse()?)?.to_string(),
            ["end", gang] => self.end(gang.parse()?)?,
            ["dismiss", gang] => self.device.dismiss(gang.parse()?).map(done)?,
            ["traffic"] => {
                let t = self.device.traffic();
                format!(
                    "{} {} {} {} {}",
                    t.sent, t.taken, t.damaged, t.foreign, t.timeouts
                )
            }
            _ => return Err(format!("understand {words:?}").into()),
        })
    }

    fn start(&mut self, gang: u32) -> Result<(), Failed> {
        let nodes = self.device.nodes(gang)?;
        for (rank, node) in (0..).zip(&nodes) {
            if *node != self.node {
                continue;
            }
            let attachment = Attachment {
                at: At::Device {
                    path: self.device.path().to_owned(),
                    gang,
                },
                rank,
                size: nodes.len() as u32,
                idle: Idle::Sleep,
            };
            let child = Command::new(std::env::current_exe()?)
                .arg("rank")
                .env(Attachment::VARIABLE, attachment.to_string())
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()?;
            self.ranks.insert((gang, rank), child);
        }
        Ok(())
    }

    /// Lets the ranks of a gang on this node end, and returns the output of those that were not
    /// killed. The first order closes their input; the controller repeats it until all have ended.
    fn end(&mut self, gang: u32) -> Result<String, Failed> {
        let mut said = Vec::new();
        let own = self.ranks.range_mut((gang, 0)..=(gang, u32::MAX));
        for (_, child) in own {
            drop(child.stdin.take());
            if child.try_wait()?.is_none() {
                return Ok("later".to_owned());
            }
        }
        self.ranks.retain(|(of, _), child| {
            if *of == gang {
                let mut text = String::new();
                if let Some(mut pipe) = child.stdout.take() {
                    let _ = std::io::Read::read_to_string(&mut pipe, &mut text);
                }
                said.extend(text.lines().map(str::to_owned));
            }
            *of != gang
        });
        Ok(format!("said {}", said.join(";")))
    }
}
