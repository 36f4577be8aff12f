//! Writes the text form.

use super::schedule::{AT_START, Action, Schedule};
use std::io::{self, Write};

impl Schedule {
    /// Writes the text form. Operations that wait, or that others wait for, get labels `o0`, `o1`
    /// and so on. Reading it back gives a schedule equal to this one.
    pub fn write_text(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "num_ranks {}", self.ranks())?;
        let mut labelled = Vec::new();
        for rank in 0..self.ranks() {
            writeln!(out, "\nrank {rank} {{")?;
            let span = self.span(rank);
            let first = span.start;
            labelled.clear();
            labelled.resize(span.len(), false);
            for index in span.clone() {
                let dependents = self.dependents_of(index);
                labelled[index - first] |= !dependents.is_empty();
                for &later in dependents {
                    labelled[(later & !AT_START) as usize - first] = true;
                }
            }
            for (index, operation) in self.rank(rank).enumerate() {
                if labelled[index] {
                    write!(out, "o{index}: ")?;
                }
                match operation.action {
                    Action::Send { bytes, to, tag } => {
                        write!(out, "send {bytes}b to {to}")?;
                        attribute(out, "tag", tag)?;
                    }
                    Action::Recv { bytes, from, tag } => {
                        match from {
                            Some(from) => write!(out, "recv {bytes}b from {from}")?,
                            None => write!(out, "recv {bytes}b from -1")?,
                        }
                        match tag {
                            Some(tag) => attribute(out, "tag", tag)?,
                            None => write!(out, " tag -1")?,
                        }
                    }
                    Action::Calc { ns } => write!(out, "calc {ns}")?,
                }
                attribute(out, "cpu", operation.cpu.into())?;
                attribute(out, "nic", operation.nic.into())?;
                writeln!(out)?;
            }
            for index in span {
                for &later in self.dependents_of(index) {
                    let word = match later & AT_START {
                        0 => "requires",
                        _ => "irequires",
                    };
                    let later = (later & !AT_START) as usize - first;
                    writeln!(out, "o{later} {word} o{}", index - first)?;
                }
            }
            writeln!(out, "}}")?;
        }
        Ok(())
    }
}

/// Writes the attribute unless it is 0.
fn attribute(out: &mut impl Write, name: &str, value: u32) -> io::Result<()> {
    match value {
        0 => Ok(()),
        _ => write!(out, " {name} {value}"),
    }
}
