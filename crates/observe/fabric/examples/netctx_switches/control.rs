//! The controller: it gives orders to all agents and adds up what they report.

use crate::Failed;
use idlewave_stats::random::SplitMix;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// UDP port of all nodes, which have an address each.
const PORT: u16 = 7_007;

struct Agent {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Agent {
    fn order(&mut self, order: &str) -> Result<(), Failed> {
        writeln!(self.orders, "{order}")?;
        Ok(())
    }

    fn answer(&mut self) -> Result<String, Failed> {
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            return Err("hear an agent".into());
        }
        let line = line.trim_end().to_owned();
        if line.starts_with("failed to") {
            return Err(line.replacen("failed to ", "", 1).into());
        }
        Ok(line)
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[derive(Clone, Copy)]
struct Options {
    switches: u64,
    nodes: (u32, u32),
    misdeeds: u32,
    seed: u64,
    /// One in this many switches kills a rank; 0 for none.
    kills: u64,
}

impl Options {
    fn read(words: &[&str]) -> Result<Self, Failed> {
        let mut options = Self {
            switches: 100_000,
            nodes: (2, 8),
            misdeeds: 10,
            seed: 1,
            kills: 500,
        };
        for pair in words.chunks(2) {
            match pair {
                ["--switches", n] => options.switches = n.parse()?,
                ["--misdeeds", n] => options.misdeeds = n.parse()?,
                ["--seed", n] => options.seed = n.parse()?,
                ["--kills", n] => options.kills = n.parse()?,
                ["--nodes", range] => {
                    let (least, most) = range.split_once("..").unwrap_or((range, range));
                    options.nodes = (least.parse()?, most.parse()?);
                }
                _ => return Err(format!("understand {pair:?}: give --switches N, --nodes N..M, --misdeeds N of 1,000 frames, --kills N (one of so many switches), --seed N").into()),
            }
        }
        Ok(options)
    }
}

/// The totals.
#[derive(Default)]
struct Sums {
    switches: u64,
    given_up: u64,
    killed: u64,
    messages: u64,
    bytes: u64,
    lost: u64,
    doubled: u64,
    changed: u64,
    /// Switches for which the numbers of frames sent and received differed.
    unequal: u64,
    /// Ranks that failed though no rank of their gang was killed.
    unexpected: u64,
    /// Of each switch, microseconds: from the stop until all nodes are drained, and from there
    /// until the next gang runs.
    drains: Vec<u64>,
    contexts: Vec<u64>,
}

impl Sums {
    fn bad(&self) -> u64 {
        self.lost + self.doubled + self.changed + self.unequal + self.unexpected
    }
}

struct Control {
    agents: Vec<Agent>,
    epoch: u64,
    /// The current gangs, each with whether one of its ranks was killed.
    gangs: Vec<(u32, bool)>,
    next: u32,
    random: SplitMix,
}

pub fn run(words: &[&str]) -> Result<(), Failed> {
    let options = Options::read(words)?;
    let names = std::env::var("IDLEWAVE_NODES");
    let names = names.map_err(|_| "find nodes: start it under tests/nodes/with_nodes")?;
    let names: Vec<&str> = names.split_whitespace().collect();
    let (least, most) = options.nodes;
    if least < 1 || most < least || names.len() < most as usize {
        return Err(format!("find {most} nodes: there are {}", names.len()).into());
    }
    let runs = u64::from(most - least + 1);
    let mut bad = 0;
    for (i, count) in (0..).zip(least..=most) {
        let policy = ["whole", "valid", "resident"][i as usize % 3];
        // The first run gets the remainder.
        let share = options.switches / runs + if i == 0 { options.switches % runs } else { 0 };
        let begin = Instant::now();
        let names = &names[..count as usize];
        let (mut sums, traffic) = Control::begin(names, policy, options)?.go(share, options)?;
        sums.drains.sort_unstable();
        sums.contexts.sort_unstable();
        let at = |sorted: &[u64], share: usize| {
            sorted
                .get((sorted.len() * share / 100).min(sorted.len().saturating_sub(1)))
                .copied()
                .unwrap_or(0)
        };
        println!(
            "{count} nodes, {policy}: {} switches in {:.0} s, {} given up, {} ranks killed; {} messages, {} bytes; lost {}, doubled {}, changed {}, unequal counts {}, unexpected failures {}; frames sent, taken, damaged, foreign, time-outs {traffic:?}; drain median {} p99 {} us, context and resume median {} p99 {} us",
            sums.switches,
            begin.elapsed().as_secs_f64(),
            sums.given_up,
            sums.killed,
            sums.messages,
            sums.bytes,
            sums.lost,
            sums.doubled,
            sums.changed,
            sums.unequal,
            sums.unexpected,
            at(&sums.drains, 50),
            at(&sums.drains, 99),
            at(&sums.contexts, 50),
            at(&sums.contexts, 99),
        );
        bad += sums.bad();
    }
    match bad {
        0 => Ok(()),
        bad => Err(format!("switch without loss: {bad} things were wrong").into()),
    }
}

/// The IPv4 address of a host.
fn address(name: &str) -> Result<String, Failed> {
    use std::net::ToSocketAddrs;
    let mut found = (name, PORT).to_socket_addrs()?.filter(|a| a.is_ipv4());
    Ok(found.next().ok_or("find a node's address")?.to_string())
}

impl Control {
    fn begin(names: &[&str], policy: &str, options: Options) -> Result<Self, Failed> {
        let rig = std::env::var("IDLEWAVE_NODES_RIG").unwrap_or_default();
        let addresses: Vec<String> = names.iter().map(|n| address(n)).collect::<Result<_, _>>()?;
        let mut agents = Vec::new();
        for (node, name) in names.iter().enumerate() {
            let pid = std::fs::read_to_string(format!("{rig}/pid/{name}"))?;
            let mut child = Command::new("nsenter")
                .args(["-t", pid.trim(), "--net", "--uts", "--mount", "--"])
                .arg(std::env::current_exe()?)
                .args(["agent", &addresses.join(","), &node.to_string(), policy])
                .arg(options.misdeeds.to_string())
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()?;
            let (orders, answers) = (child.stdin.take(), child.stdout.take());
            let (Some(orders), Some(answers)) = (orders, answers) else {
                return Err("talk to an agent".into());
            };
            agents.push(Agent {
                child,
                orders,
                answers: BufReader::new(answers),
            });
        }
        let mut control = Self {
            agents,
            epoch: 0,
            gangs: Vec::new(),
            next: 0,
            random: SplitMix::new(options.seed << 8 | names.len() as u64),
        };
        for _ in 0..2 {
            control.launch()?;
        }
        let first = control.gangs[0].0;
        control.all(&format!("switch {first}"))?;
        control.resume()?;
        Ok(control)
    }

    /// Gives an order to all agents and waits for their answers.
    fn all(&mut self, order: &str) -> Result<Vec<String>, Failed> {
        for agent in &mut self.agents {
            agent.order(order)?;
        }
        self.agents.iter_mut().map(Agent::answer).collect()
    }

    /// Starts a new gang: a rank on each node and a second one on one of them, in random order.
    fn launch(&mut self) -> Result<(), Failed> {
        let gang = self.next;
        self.next += 1;
        let count = self.agents.len() as u64;
        let mut nodes: Vec<u64> = (0..count).chain([self.random.below(count)]).collect();
        for i in (1..nodes.len()).rev() {
            nodes.swap(i, self.random.below(i as u64 + 1) as usize);
        }
        let nodes: Vec<String> = nodes.iter().map(u64::to_string).collect();
        self.all(&format!("admit {gang} {}", nodes.join(",")))?;
        self.all(&format!("start {gang}"))?;
        self.gangs.push((gang, false));
        Ok(())
    }

    fn resume(&mut self) -> Result<(), Failed> {
        self.epoch += 1;
        let epoch = self.epoch;
        self.all(&format!("resume {epoch}"))?;
        Ok(())
    }

    /// One switch; the running gang is the first of the list.
    fn switch(&mut self, to: usize, sums: &mut Sums) -> Result<(), Failed> {
        let (from, killed) = self.gangs[0];
        let begin = Instant::now();
        self.all(&format!("stop {from}"))?;
        if self.random.below(16) == 0 {
            // Abandoned at a random moment of the drain.
            std::thread::sleep(Duration::from_micros(self.random.below(300)));
            sums.given_up += 1;
            return self.resume();
        }
        let (mut sent, mut received) = (0_u64, 0_u64);
        for answer in self.all("drain")? {
            let words: Vec<&str> = answer.split(' ').collect();
            let ["true", out, back] = words.as_slice() else {
                return Err(format!("drain gang {from}: {answer}").into());
            };
            sent += out.parse::<u64>()?;
            received += back.parse::<u64>()?;
        }
        if !killed && sent != received {
            sums.unequal += 1;
        }
        let drained = Instant::now();
        self.gangs.swap(0, to);
        let gang = self.gangs[0].0;
        self.all(&format!("switch {gang}"))?;
        self.resume()?;
        sums.drains.push((drained - begin).as_micros() as u64);
        sums.contexts.push(drained.elapsed().as_micros() as u64);
        Ok(())
    }

    fn go(mut self, switches: u64, options: Options) -> Result<(Sums, Vec<u64>), Failed> {
        let mut sums = Sums::default();
        for _ in 0..switches {
            let to = self.random.below(self.gangs.len() as u64) as usize;
            self.switch(to, &mut sums)?;
            sums.switches += 1;
            if options.kills > 0 && self.random.below(options.kills) == 0 {
                self.kill(&mut sums)?;
            }
            std::thread::sleep(Duration::from_micros(self.random.below(1_000)));
        }
        while let Some(last) = self.gangs.len().checked_sub(1) {
            self.finish(last, &mut sums)?;
        }
        let mut traffic = vec![0; 5];
        for answer in self.all("traffic")? {
            for (sum, word) in traffic.iter_mut().zip(answer.split(' ')) {
                *sum += word.parse::<u64>()?;
            }
        }
        Ok((sums, traffic))
    }

    /// Kills a random rank of a random gang, at any moment of its work; another gang takes that
    /// gang's place.
    fn kill(&mut self, sums: &mut Sums) -> Result<(), Failed> {
        let place = self.random.below(self.gangs.len() as u64) as usize;
        let gang = self.gangs[place].0;
        let rank = self.random.below(self.agents.len() as u64 + 1);
        // Only the rank's own node knows it.
        let mut found = 0;
        for agent in &mut self.agents {
            agent.order(&format!("kill {gang} {rank}"))?;
            found += u32::from(agent.answer().is_ok());
        }
        if found != 1 {
            return Err(format!("kill rank {rank} of gang {gang}").into());
        }
        sums.killed += 1;
        self.gangs[place].1 = true;
        self.finish(place, sums)?;
        self.launch()?;
        if self.gangs.len() == 1 {
            self.launch()?;
        }
        Ok(())
    }

    /// Lets a gang run to its end and adds up what its ranks report.
    fn finish(&mut self, place: usize, sums: &mut Sums) -> Result<(), Failed> {
        let (gang, killed) = self.gangs[place];
        let begin = Instant::now();
        let mut said = vec![None; self.agents.len()];
        while said.iter().any(Option::is_none) {
            if begin.elapsed() > Duration::from_secs(60) {
                return Err(format!("see gang {gang} end").into());
            }
            let answers = self.all(&format!("end {gang}"))?;
            for (said, answer) in said.iter_mut().zip(answers) {
                if let (None, Some(text)) = (&said, answer.strip_prefix("said ")) {
                    *said = Some(text.to_owned());
                } else if said.is_none() && answer == "said" {
                    *said = Some(String::new());
                }
            }
            // The gang must run in order to end; a switch back and forth does no harm.
            let at = self.gangs.iter().position(|(other, _)| *other == gang);
            if at != Some(0) {
                self.switch(at.unwrap_or(0), sums)?;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        for line in said.iter().flatten().flat_map(|text| text.split(';')) {
            let words: Vec<&str> = line.split(' ').collect();
            let ["rank", _, _, how, rest @ ..] = words.as_slice() else {
                continue;
            };
            let numbers: Vec<u64> = rest.iter().map(|w| w.parse()).collect::<Result<_, _>>()?;
            let [messages, bytes, lost, doubled, changed] = numbers.as_slice() else {
                return Err(format!("understand {line}").into());
            };
            sums.messages += messages;
            sums.bytes += bytes;
            sums.lost += lost;
            sums.doubled += doubled;
            sums.changed += changed;
            sums.unexpected += u64::from(*how != "ended" && !killed);
        }
        self.all(&format!("stop {gang}"))?;
        self.all("drain")?;
        self.all(&format!("dismiss {gang}"))?;
        self.gangs.retain(|(other, _)| *other != gang);
        if let Some((next, _)) = self.gangs.first().copied() {
            self.all(&format!("switch {next}"))?;
            self.resume()?;
        }
        Ok(())
    }
}
