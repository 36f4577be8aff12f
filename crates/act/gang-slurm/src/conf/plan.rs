//! Computes the changed text of a slurm.conf.

use super::lines::{Line, lines, pairs};
use super::marks;
use super::{ConfError, Hook};
use std::collections::BTreeSet;
use std::fmt;

/// Most jobs that can share a CPU: Slurm keeps the number in 16 bits and reserves some values.
const MOST_SHARING: u32 = 65_533;

/// What slurm.conf should say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// How many jobs may share a CPU: 2 or more.
    pub sharing: u32,
    /// The partitions that take part; empty for all partitions of the file.
    pub partitions: BTreeSet<String>,
    /// The absolute path of the script for PrologSlurmctld, on the machine of slurmctld.
    pub prolog: String,
    /// The same for EpilogSlurmctld.
    pub epilog: String,
}

/// One parameter that is changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its line in the site's version of the file, counted from 1; `None` for a new line.
    pub line: Option<usize>,
    /// The parameter, and its partition if it has one.
    pub what: String,
    /// Its previous value; `None` if it was not set there.
    pub was: Option<String>,
    /// Its new value.
    pub is: String,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Change { what, is, .. } = self;
        match self.line {
            Some(line) => write!(f, "line {line}: {what}={is}")?,
            None => write!(f, "new line: {what}={is}")?,
        }
        match &self.was {
            Some(was) => write!(f, ", was {was}"),
            None => Ok(()),
        }
    }
}

/// A changed slurm.conf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The text.
    pub text: String,
    /// The differences from the site's version; empty if there are none.
    pub changes: Vec<Change>,
    /// The site's own PrologSlurmctld, for [`super::script`] to call.
    pub site_prolog: Option<String>,
    /// The site's own EpilogSlurmctld.
    pub site_epilog: Option<String>,
    /// Files that the text includes. They are not read: partitions and parameters in them stay as
    /// they are.
    pub includes: Vec<String>,
}

/// Changes the text of a slurm.conf. A text that was changed before is restored first, so applying
/// it twice has the same effect as once.
///
/// # Errors
/// What cannot be changed without changing the site's intent: see [`ConfError`].
pub fn install(text: &str, wanted: &Wanted) -> Result<Plan, ConfError> {
    if !(2..=MOST_SHARING).contains(&wanted.sharing) {
        return Err(ConfError::Sharing(wanted.sharing));
    }
    let text = marks::strip(text)?;
    let mut edits: Vec<Edit<'_>> = lines(&text).into_iter().map(Edit::of).collect();
    let mut changes = Vec::new();
    share(&mut edits, wanted, &mut changes)?;
    for edit in &mut edits {
        without_gang(edit, &mut changes)?;
    }
    let mut added = Vec::new();
    let mut hook = |hook: Hook, path: &str| {
        let site = call(&mut edits, hook, path, &mut changes)?;
        if let Site::Unset = site {
            added.push(format!("{}={path}", hook.key()));
        }
        Ok(match site {
            Site::Program(program) => Some(program),
            Site::Unset | Site::Ours => None,
        })
    };
    let site_prolog = hook(Hook::Prolog, &wanted.prolog)?;
    let site_epilog = hook(Hook::Epilog, &wanted.epilog)?;
    changes.sort_by_key(|change| (change.line.is_none(), change.line));
    let includes = edits.iter().filter_map(|edit| include(&edit.now)).collect();
    let mut out: String = edits.iter().map(Edit::written).collect();
    if !added.is_empty() {
        out.push_str(&marks::added(&out, &added));
    }
    Ok(Plan {
        text: out,
        changes,
        site_prolog,
        site_epilog,
        includes,
    })
}

/// The site's version of the text, including later edits outside our blocks. A text that was never
/// changed is returned as it is.
///
/// # Errors
/// Damaged blocks of ours.
pub fn uninstall(text: &str) -> Result<String, ConfError> {
    marks::strip(text)
}

/// A line and its replacement.
struct Edit<'a> {
    line: Line<'a>,
    now: String,
}

impl<'a> Edit<'a> {
    fn of(line: Line<'a>) -> Self {
        let now = line.text.clone();
        Edit { line, now }
    }

    fn partition(&self) -> Option<&str> {
        let pairs = pairs(&self.now);
        let first = pairs.first()?;
        let is = first.is(&self.now, "PartitionName");
        is.then(|| first.value(&self.now))
    }

    /// The values of a parameter on this line.
    fn values(&self, key: &str) -> Vec<String> {
        let pairs = pairs(&self.now);
        let of_key = pairs.iter().filter(|pair| pair.is(&self.now, key));
        of_key
            .map(|pair| pair.value(&self.now).to_owned())
            .collect()
    }

    /// Sets every occurrence of a parameter on the line to this value.
    fn set(&mut self, key: &str, value: &str) {
        for pair in pairs(&self.now).iter().rev() {
            if pair.is(&self.now, key) {
                self.now.replace_range(pair.value.clone(), value);
            }
        }
    }

    /// Adds a parameter at the end of the line.
    fn add(&mut self, key: &str, value: &str) {
        let end = pairs(&self.now).last().map_or(0, |pair| pair.value.end);
        self.now.insert_str(end, &format!(" {key}={value}"));
    }

    fn changed(&self, what: &str, was: Option<&str>, is: &str) -> Change {
        Change {
            line: Some(self.line.number),
            what: match self.partition() {
                Some(name) => format!("PartitionName={name} {what}"),
                None => what.to_owned(),
            },
            was: was.map(str::to_owned),
            is: is.to_owned(),
        }
    }

    fn written(&self) -> String {
        match self.now == self.line.text {
            true => self.line.raw.to_owned(),
            false => marks::replaced(self.line.raw, &self.now),
        }
    }
}

/// Lets jobs of the partitions share CPUs. `Shared` was the name of OverSubscribe before Slurm
/// 16.05.
fn share(
    edits: &mut [Edit<'_>],
    wanted: &Wanted,
    changes: &mut Vec<Change>,
) -> Result<(), ConfError> {
    let value = format!("FORCE:{}", wanted.sharing);
    let mut seen = BTreeSet::new();
    for edit in edits {
        let Some(name) = edit.partition().map(str::to_owned) else {
            continue;
        };
        // Not a partition, but defaults for those that follow.
        if name.eq_ignore_ascii_case("DEFAULT") {
            continue;
        }
        let takes_part = wanted.partitions.is_empty() || wanted.partitions.contains(&name);
        seen.insert(name);
        if !takes_part {
            continue;
        }
        let mut set = false;
        for key in ["OverSubscribe", "Shared"] {
            for was in edit.values(key) {
                set = true;
                if !was.eq_ignore_ascii_case(&value) {
                    changes.push(edit.changed(key, Some(&was), &value));
                    edit.set(key, &value);
                }
            }
        }
        if !set {
            changes.push(edit.changed("OverSubscribe", None, &value));
            edit.add("OverSubscribe", &value);
        }
    }
    match wanted.partitions.iter().find(|name| !seen.contains(*name)) {
        Some(name) => Err(ConfError::UnknownPartition(name.clone())),
        None if seen.is_empty() => Err(ConfError::NoPartition),
        None => Ok(()),
    }
}

/// Removes GANG from PreemptMode, both the cluster's and the partitions'.
fn without_gang(edit: &mut Edit<'_>, changes: &mut Vec<Change>) -> Result<(), ConfError> {
    for was in edit.values("PreemptMode") {
        let modes: Vec<&str> = was.split(',').map(str::trim).collect();
        if modes
            .iter()
            .any(|mode| mode.eq_ignore_ascii_case("SUSPEND"))
        {
            return Err(ConfError::Suspend(edit.line.number));
        }
        let others: Vec<&str> = modes
            .iter()
            .filter(|mode| !mode.eq_ignore_ascii_case("GANG"))
            .copied()
            .collect();
        if others.len() < modes.len() {
            let is = match others.is_empty() {
                true => "OFF".to_owned(),
                false => others.join(","),
            };
            changes.push(edit.changed("PreemptMode", Some(&was), &is));
            edit.set("PreemptMode", &is);
        }
    }
    Ok(())
}

enum Site {
    Unset,
    /// The file already names the wanted path.
    Ours,
    Program(String),
}

/// Makes the parameter name our script in place of the site's program.
fn call(
    edits: &mut [Edit<'_>],
    hook: Hook,
    path: &str,
    changes: &mut Vec<Change>,
) -> Result<Site, ConfError> {
    let key = hook.key();
    if !plain(path) {
        return Err(ConfError::Path(path.to_owned()));
    }
    let set: Vec<(usize, String)> = edits
        .iter()
        .enumerate()
        .flat_map(|(at, edit)| edit.values(key).into_iter().map(move |value| (at, value)))
        .collect();
    let (at, was) = match set.as_slice() {
        [] => {
            changes.push(Change {
                line: None,
                what: key.to_owned(),
                was: None,
                is: path.to_owned(),
            });
            return Ok(Site::Unset);
        }
        [one] => one.clone(),
        [(first, _), (second, _), ..] => {
            return Err(ConfError::Twice {
                key,
                first: edits[*first].line.number,
                second: edits[*second].line.number,
            });
        }
    };
    if was == path {
        return Ok(Site::Ours);
    }
    let edit = &mut edits[at];
    if !plain(&was) {
        return Err(ConfError::Program {
            line: edit.line.number,
            key,
            value: was,
        });
    }
    changes.push(edit.changed(key, Some(&was), path));
    edit.set(key, path);
    Ok(Site::Program(was))
}

/// Whether a path is absolute and has no character with a special meaning in slurm.conf.
fn plain(path: &str) -> bool {
    let odd = |c: char| c.is_whitespace() || c.is_control() || "#\"\\,*?[]".contains(c);
    path.starts_with('/') && !path.contains(odd)
}

fn include(text: &str) -> Option<String> {
    let (word, rest) = text.trim().split_once(char::is_whitespace)?;
    let is = word.eq_ignore_ascii_case("include");
    is.then(|| rest.trim().to_owned())
}
