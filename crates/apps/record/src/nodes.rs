//! The front of a recording on several nodes: it puts the shim into the launcher's command, records
//! its own node, and fetches the bundles of the others when the program has ended.

use crate::KernelTrace;
use crate::launch::{Launch, LaunchError, Machine, find_launch, refuse_inside};
use crate::node_frames::{Receiver, is_plain, parse};
use crate::node_job::Job;
use crate::node_place::{Held, Place};
use crate::nodes_wait::{GRACE, Lines, Patience, STEP, Waiting, last_word, lines};
use crate::tree::send;
use idlewave_interpose::ring::CLOCKS_VARIABLE;
use idlewave_run::Ledger;
use idlewave_session::NodeFacts;
use idlewave_sys::files;
use idlewave_sys::process::Signal;
use idlewave_units::counted;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::RecvTimeoutError;

/// File beside the nodes' bundles with the facts of the front's own node.
const FRONT: &str = "front.json";

/// Rounds that bring nothing but trouble before fetching is given up.
const FAILURES: u32 = 3;

/// A recording through a launcher.
#[derive(Debug)]
pub struct Nodes {
    job: Job,
    launch: Launch,
    command: Vec<OsString>,
    /// The place of the front's own node, once its recorder runs.
    place: Option<(Place, Held)>,
}

/// The result of fetching from other nodes.
#[derive(Debug, Default)]
pub struct Fetched {
    /// Bundles, each with its `node.json`, in the bundle's own directory.
    pub bundles: Vec<PathBuf>,
    /// What could not be fetched.
    pub losses: Ledger,
    /// Whether the launcher failed before it started the program anywhere, as far as is known.
    pub never_started: bool,
}

impl Nodes {
    /// For a launcher's command; `None` for any other, whose processes find the recorder through
    /// their environment. `run` is the bundle's directory, `at` the user's position of the program.
    ///
    /// # Errors
    /// The program cannot be found in the launcher's command, or this process is itself one of
    /// several ranks.
    pub fn of(
        command: &[OsString],
        at: Option<usize>,
        run: &Path,
        trace: KernelTrace,
    ) -> Result<Option<Self>, LaunchError> {
        refuse_inside(|name| std::env::var(name).ok())?;
        let Some(launch) = find_launch(command, at, &Machine)? else {
            return Ok(None);
        };
        let words: Vec<String> = command
            .iter()
            .map(|w| w.to_string_lossy().into_owned())
            .collect();
        let mut job = Job::new(run, &words, trace).map_err(|e| LaunchError::Job(e.to_string()))?;
        job.clocks = std::env::var_os(CLOCKS_VARIABLE).is_none_or(|said| said != "0");
        Ok(Some(Self {
            job,
            launch,
            command: command.to_vec(),
            place: None,
        }))
    }

    /// Keeps the ranks from comparing the clocks of their nodes.
    pub fn omit_clocks(&mut self) {
        self.job.clocks = false;
    }

    /// The parsed command.
    pub fn launch(&self) -> &Launch {
        &self.launch
    }

    /// Call this once the recorder of the front's own node runs: the node's processes need
    /// `environment`. The bundle's directory must exist.
    ///
    /// # Errors
    /// What the processes look for cannot be written.
    pub fn own_node_is_ready(&mut self, environment: &[(String, String)]) -> io::Result<()> {
        self.job.open_incoming()?;
        let facts = serde_json::to_vec(&NodeFacts::here())?;
        files::replace(&self.job.incoming().join(FRONT), &facts)?;
        let place = Place::open(&self.job)?;
        let held = place.elect()?.ok_or(io::ErrorKind::AlreadyExists)?;
        place.set_ready(&[environment, &self.job.environment()].concat())?;
        self.place = Some((place, held));
        Ok(())
    }

    /// The command with the shim before the program.
    ///
    /// # Errors
    /// This program's own path is unknown, or the bundle's path cannot be written into a token.
    pub fn command(&self) -> io::Result<Vec<OsString>> {
        if self.job.run.to_str().is_none() {
            return Err(io::Error::other("the path of the bundle is not UTF-8"));
        }
        let shim = [
            std::env::current_exe()?.into_os_string(),
            "node-run".into(),
            self.job.encode().into(),
            "--".into(),
        ];
        Ok(self.launch.with_shim(&self.command, &shim))
    }

    /// Fetches the other nodes' bundles when the launcher has ended: those in the bundle's
    /// directory, and the rest through the launcher. `missing` returns how many ranks are in none
    /// of the given bundles; `None` if unknown, as for a program without MPI. `failed` says that
    /// the launcher's exit code is not 0; if the program was then not seen on any node, nothing is
    /// missing. `patience` limits the wait for the launcher.
    pub fn fetch(
        &mut self,
        failed: bool,
        patience: Patience<'_>,
        missing: impl Fn(&[PathBuf]) -> Option<usize>,
    ) -> Fetched {
        let mut seen_here = false;
        if let Some((place, held)) = self.place.take() {
            seen_here = place.has_anybody_come();
            // Processes that start from now on are not recorded; the directory is in memory and
            // private.
            let _ = place.set_over();
            let _ = place.remove();
            drop(held);
        }
        let mut fetched = Fetched {
            bundles: self.handed_over(),
            losses: Ledger::default(),
            never_started: false,
        };
        if missing(&fetched.bundles) == Some(0) {
            return fetched;
        }
        let may_not_have_started = failed && !seen_here && fetched.bundles.is_empty();
        let mut trouble = match self.rounds(may_not_have_started, patience) {
            Rounds::All => None,
            Rounds::Trouble(trouble) => Some(trouble),
            Rounds::NoNode => {
                fetched.never_started = true;
                return fetched;
            }
        };
        fetched.bundles = self.handed_over();
        let count = missing(&fetched.bundles).unwrap_or_default();
        if count > 0 {
            trouble.get_or_insert(format!(
                "none of those that arrived has {count}",
                count = counted(count, "rank")
            ));
        }
        if let Some(trouble) = trouble {
            fetched.losses.enter(
                format!("bundles of other nodes ({trouble})"),
                1,
                "what their ranks did, and what disturbed them, is missing",
                format!(
                    "put RUN where all nodes see it; what was recorded is in {}/idlewave-bundle-{}-* on them",
                    std::env::temp_dir().display(),
                    self.job.id
                ),
            );
        }
        fetched
    }

    /// Requests bundles until all have arrived and the nodes' own copies are removed: from all
    /// nodes at once, or one by one if that tears lines. Returns the last trouble if some are still
    /// missing. With `may_not_have_started`, a launcher that fails again without reaching a node is
    /// not tried again.
    fn rounds(&mut self, may_not_have_started: bool, patience: Patience<'_>) -> Rounds {
        let mut waiting: Vec<String> = Vec::new();
        let mut failures = 0;
        let mut reached = false;
        loop {
            self.job.round += 1;
            self.job.only = waiting.pop();
            let asked = match self.ask(patience) {
                Ok(asked) => asked,
                Err(error) => {
                    return Rounds::Trouble(format!(
                        "the launcher cannot be started again: {error}"
                    ));
                }
            };
            if let Some(why) = asked.given_up {
                return Rounds::Trouble(why);
            }
            // Earlier rounds count too: the last round finds nothing left anywhere.
            reached |= !asked.seen.is_empty();
            if asked.came.is_empty() && asked.trouble.is_none() && self.job.only.is_none() {
                return match may_not_have_started && !reached {
                    true => Rounds::NoNode,
                    false => Rounds::All,
                };
            }
            if may_not_have_started && asked.failed && !reached {
                return Rounds::NoNode;
            }
            if let Some(trouble) = asked.trouble.filter(|_| asked.came.is_empty()) {
                failures += 1;
                if failures == FAILURES {
                    return Rounds::Trouble(trouble);
                }
            }
            let torn = asked
                .seen
                .into_iter()
                .filter(|node| !asked.came.contains(node));
            for node in torn {
                if !waiting.contains(&node) {
                    waiting.push(node);
                }
            }
            waiting.retain(|node| !asked.came.contains(node));
            self.job.have.extend(asked.came);
        }
    }

    /// Removes what came from other nodes, which is in the merged bundle.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn forget(&self) -> io::Result<()> {
        fs::remove_dir_all(self.job.incoming())
    }

    /// Complete bundles in the bundle's directory.
    fn handed_over(&self) -> Vec<PathBuf> {
        handed_over(&self.job.incoming())
    }

    /// Starts the launcher once more, with the sender in the program's place.
    fn ask(&self, patience: Patience<'_>) -> io::Result<Asked> {
        let sender = [
            std::env::current_exe()?.into_os_string(),
            "node-send".into(),
            self.job.encode().into(),
        ];
        let command = self.launch.with_instead(&self.command, &sender);
        let command = self.launch.without_output_options(command);
        let mut child = Command::new(&command[0])
            .args(&command[1..])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let mut waiting = Waiting::new(patience, child.id());
        // Keep the error output in case nothing arrives. A thread reads it, so that the launcher
        // never blocks.
        let words = child.stderr.take().map(last_word);
        let mut asked = match child.stdout.take() {
            Some(stdout) => self.receive(&lines(BufReader::new(stdout)), &mut waiting),
            None => Asked::default(),
        };
        let status = loop {
            match child.try_wait()? {
                Some(status) => break status,
                // It has been killed by then.
                None if waiting.is_over() => break child.wait()?,
                None => std::thread::sleep(STEP),
            }
        };
        asked.given_up = waiting.why();
        asked.failed = !status.success();
        if asked.failed && asked.trouble.is_none() {
            // Processes that the launcher left behind may hold its output open.
            let last = words.and_then(|words| words.recv_timeout(GRACE).ok());
            let last = last.unwrap_or_else(|| "without an error message".to_owned());
            asked.trouble = Some(format!("the launcher ended with {status}: {last}"));
        }
        Ok(asked)
    }

    /// Reads the launcher's lines to their end, or until the wait is given up. Ends the launcher if
    /// several nodes tear each other's lines.
    fn receive(&self, lines: &Lines, waiting: &mut Waiting<'_>) -> Asked {
        let mut asked = Asked::default();
        let mut receivers: BTreeMap<String, Option<Receiver>> = BTreeMap::new();
        loop {
            let text = match lines.recv_timeout(STEP) {
                Ok(Ok(text)) => text,
                Ok(Err(error)) => {
                    asked.trouble = Some(error.to_string());
                    break;
                }
                Err(RecvTimeoutError::Timeout) if !waiting.is_over() => continue,
                Err(_) => break,
            };
            waiting.heard();
            let line = match parse(&String::from_utf8_lossy(&text)) {
                Ok(Some(line)) => line,
                Ok(None) => continue,
                Err(error) => {
                    if asked.trouble.is_none() && receivers.len() > 1 {
                        send(waiting.launcher(), Signal::TERM);
                    }
                    asked.trouble = Some(error.to_string());
                    continue;
                }
            };
            if !asked.seen.contains(&line.node) {
                asked.seen.push(line.node.clone());
            }
            let part = self.job.incoming().join(format!("{}.part", line.node));
            let receiver = receivers.entry(line.node.clone()).or_insert_with(|| {
                // Left by an earlier round.
                let _ = fs::remove_dir_all(&part);
                Receiver::new(&part)
                    .map_err(|e| asked.trouble = Some(e.to_string()))
                    .ok()
            });
            if let Some(Err(error)) = receiver.as_mut().map(|r| r.take(&line)) {
                asked.trouble = Some(format!("node {}: {error}", line.node));
                *receiver = None;
            }
        }
        for (node, receiver) in receivers {
            let whole = receiver.as_ref().is_some_and(Receiver::is_whole);
            drop(receiver);
            let part = self.job.incoming().join(format!("{node}.part"));
            let kept = whole
                && is_plain(&node)
                && fs::rename(&part, self.job.incoming().join(&node)).is_ok();
            if kept {
                asked.came.push(node);
            } else {
                let _ = fs::remove_dir_all(&part);
                asked
                    .trouble
                    .get_or_insert(format!("node {node}: what arrived is incomplete"));
            }
        }
        asked
    }
}

impl Drop for Nodes {
    /// Removes the place if the program was not started at all.
    fn drop(&mut self) {
        if let Some((place, _)) = self.place.take() {
            let _ = place.remove();
        }
    }
}

/// The outcome of the rounds.
#[derive(Debug)]
enum Rounds {
    /// Nothing is left on any node.
    All,
    /// The last thing that went wrong.
    Trouble(String),
    /// The launcher reached no node.
    NoNode,
}

/// The result of one round.
#[derive(Debug, Default)]
struct Asked {
    /// Whether the launcher ended with an error.
    failed: bool,
    /// Why waiting for it was given up, if so.
    given_up: Option<String>,
    /// Nodes from which any line arrived.
    seen: Vec<String>,
    /// Nodes whose bundles are complete now.
    came: Vec<String>,
    /// The last thing that went wrong.
    trouble: Option<String>,
}

/// Complete bundles of nodes in a directory, by name.
pub(crate) fn handed_over(incoming: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(incoming).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_none_or(|e| e != "part") && is_node(path))
        .collect();
    found.sort();
    found
}

/// Whether a directory is a node's bundle, and not reached through a link.
fn is_node(path: &Path) -> bool {
    let there = |path: &Path| fs::symlink_metadata(path);
    there(path).is_ok_and(|d| d.is_dir())
        && there(&path.join("node.json")).is_ok_and(|f| f.is_file())
}

/// A longer `node.json` counts as damaged.
const LONGEST_FACTS: u64 = 1 << 20;

/// The facts of a bundle's node, if it came from another node.
pub fn facts(bundle: &Path) -> Option<NodeFacts> {
    serde_json::from_slice(&files::read(&bundle.join("node.json"), LONGEST_FACTS).ok()?).ok()
}

/// The facts of the front's own node, which may differ from this one if a killed front's nodes are
/// merged later.
pub(crate) fn front_facts(incoming: &Path) -> Option<NodeFacts> {
    serde_json::from_slice(&files::read(&incoming.join(FRONT), LONGEST_FACTS).ok()?).ok()
}
