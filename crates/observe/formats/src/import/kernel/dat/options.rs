//! The options of a trace.dat that say something about the trace.

use super::parts::Told;
use crate::import::error::ImportError;
use crate::import::kernel::input::Input;
use idlewave_ftrace::{CpuStats, Scale};
use idlewave_units::{Cpu, Pid};
use std::io::Cursor;
use std::path::Path;

/// Numbers of options (`TRACECMD_OPTION_*` of trace-cmd).
pub(crate) const DONE: u16 = 0;
const CPUSTAT: u16 = 2;
pub(crate) const BUFFER: u16 = 3;
const TRACECLOCK: u16 = 4;
const UNAME: u16 = 5;
const TIME_SHIFT: u16 = 12;
const TSC2NSEC: u16 = 14;
pub(crate) const HEADER_INFO: u16 = 16;
pub(crate) const FTRACE_EVENTS: u16 = 17;
pub(crate) const EVENT_FORMATS: u16 = 18;
pub(crate) const CMDLINES: u16 = 21;
const SAVED_TGIDS: u16 = 23;

/// Longest data of an option.
pub(crate) const LONGEST: u64 = 16 << 20;

impl Told {
    /// Takes an option that both versions have; `at` is the place of its data in the file.
    pub(crate) fn take(
        &mut self,
        id: u16,
        data: &[u8],
        (path, at, little): (&Path, u64, bool),
    ) -> Result<(), ImportError> {
        let text = || {
            let text = data.split(|b| *b == 0).next().unwrap_or_default();
            String::from_utf8_lossy(text).trim().to_owned()
        };
        match id {
            CPUSTAT => self.stats.extend(stats(&text())),
            TRACECLOCK => self.clock = Some(chosen(&text())),
            UNAME => self.uname = Some(text()),
            TIME_SHIFT => self.guest = true,
            TSC2NSEC => {
                let mut input = Input::new(Cursor::new(data), path, at, data.len() as u64);
                input.little = little;
                let scale = Scale {
                    mult: input.u32()?,
                    shift: input.u32()?,
                    offset: input.u64()?,
                };
                if scale.mult == 0 || scale.shift >= 64 {
                    return Err(input.damaged("no clock has such a rate"));
                }
                self.scale = Some(scale);
            }
            SAVED_TGIDS => {
                let pair = |line: &str| {
                    let (pid, process) = line.trim().split_once(' ')?;
                    let process = process.trim().parse().ok()?;
                    Some((Pid::new(pid.parse().ok()?), Pid::new(process)))
                };
                self.processes = text().lines().filter_map(pair).collect();
            }
            _ => {}
        }
        Ok(())
    }
}

/// The clock in brackets: `local global [mono]`.
fn chosen(clocks: &str) -> String {
    let inside = clocks.split_once('[').and_then(|(_, c)| c.split_once(']'));
    inside.map_or(clocks, |(clock, _)| clock).to_owned()
}

/// `per_cpu/cpuN/stats` after a line `CPU: N`.
fn stats(text: &str) -> Option<CpuStats> {
    let value = |key: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(':'));
        let (_, value) = lines.find(|(k, _)| k.trim() == key)?;
        value.trim().parse::<u64>().ok()
    };
    Some(CpuStats {
        cpu: Cpu::new(u32::try_from(value("CPU")?).ok()?),
        overrun: value("overrun").unwrap_or(0),
        commit_overrun: value("commit overrun").unwrap_or(0),
        dropped: value("dropped events").unwrap_or(0),
        bytes: value("bytes").unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_the_one_in_brackets() {
        assert_eq!(chosen("local global [mono] boot"), "mono");
        assert_eq!(chosen("local"), "local");
    }

    #[test]
    fn the_statistics_of_a_cpu_are_read_by_their_names() {
        let text = "CPU: 3\nentries: 9\noverrun: 5\ncommit overrun: 1\nbytes: 77\n\
                    oldest event ts:  1.5\ndropped events: 2\nread events: 4";
        let stats = stats(text).map(|s| (s.cpu.get(), s.lost(), s.bytes));
        assert_eq!(stats, Some((3, 8, 77)));
    }
}
