//! What the header features of a perf.data say about the machine.
//!
//! Source: tools/perf/Documentation/perf.data-file-format.txt and `tools/perf/util/header.c`, which
//! differ in the order of the two CPU counts.

use crate::import::error::ImportError;
use crate::import::kernel::input::Input;
use idlewave_ftrace::MOST_CPUS;
use idlewave_run::{CpuTopology, HostSheet};
use idlewave_units::{Bytes, Cpu, CpuSet};
use std::io::Cursor;
use std::path::Path;

/// Numbers of features (`HEADER_*`).
pub(crate) const TRACING_DATA: u32 = 1;
const HOSTNAME: u32 = 3;
const OSRELEASE: u32 = 4;
const VERSION: u32 = 5;
const ARCH: u32 = 6;
const NRCPUS: u32 = 7;
const CPUDESC: u32 = 8;
const TOTAL_MEM: u32 = 10;
const CPU_TOPOLOGY: u32 = 13;
const NUMA_TOPOLOGY: u32 = 14;
const CLOCK_DATA: u32 = 29;

/// Longest data of a feature that is used.
pub(crate) const LONGEST: u64 = 16 << 20;
/// Longest name.
const LONGEST_NAME: usize = 256;

type Data<'a> = Input<'a, Cursor<&'a [u8]>>;

/// What is known of the machine and of perf.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    host: HostSheet,
    /// Version of perf.
    pub(crate) version: Option<String>,
    /// How many CPUs the machine may have, and how many were online.
    cpus: Option<(u32, u32)>,
    cores: Vec<(u32, u32)>,
    siblings: Vec<CpuSet>,
    numa: Vec<(u32, CpuSet)>,
    /// Number of the clock that the times are from.
    pub(crate) clock: Option<u32>,
}

impl Facts {
    /// Whether the feature is of any use here.
    pub(crate) fn uses(feature: u32) -> bool {
        const USED: [u32; 10] = [
            HOSTNAME,
            OSRELEASE,
            VERSION,
            ARCH,
            NRCPUS,
            CPUDESC,
            TOTAL_MEM,
            CPU_TOPOLOGY,
            NUMA_TOPOLOGY,
            CLOCK_DATA,
        ];
        USED.contains(&feature)
    }

    /// Takes a feature. What cannot be read stays unknown.
    pub(crate) fn take(&mut self, feature: u32, data: &[u8], little: bool) {
        let mut input = Input::new(Cursor::new(data), Path::new(""), 0, data.len() as u64);
        input.little = little;
        let _ = self.read(feature, &mut input);
    }

    fn read(&mut self, feature: u32, input: &mut Data<'_>) -> Result<(), ImportError> {
        match feature {
            HOSTNAME => self.host.name = text(input)?,
            OSRELEASE => self.host.kernel = text(input)?,
            VERSION => self.version = Some(text(input)?),
            ARCH => self.host.architecture = text(input)?,
            NRCPUS => self.cpus = Some((input.u32()?, input.u32()?)),
            CPUDESC => self.host.cpu_model = Some(text(input)?),
            TOTAL_MEM => self.host.memory = Some(Bytes::from_kib(input.u64()?)),
            CPU_TOPOLOGY => self.topology(input)?,
            NUMA_TOPOLOGY => {
                for _ in 0..input.u32()?.min(MOST_CPUS) {
                    let node = input.u32()?;
                    // Total and free memory.
                    input.skip(16)?;
                    self.numa.extend(cpus(input)?.map(|cpus| (node, cpus)));
                }
            }
            CLOCK_DATA => {
                let version = input.u32()?;
                self.clock = Some(input.u32()?).filter(|_| version == 1);
            }
            _ => {}
        }
        Ok(())
    }

    /// CPUs of each package, CPUs of each core, then core and package of each CPU.
    fn topology(&mut self, input: &mut Data<'_>) -> Result<(), ImportError> {
        for _ in 0..input.u32()?.min(MOST_CPUS) {
            text(input)?;
        }
        for _ in 0..input.u32()?.min(MOST_CPUS) {
            self.siblings.extend(cpus(input)?);
        }
        while input.left() >= 8 && self.cores.len() < MOST_CPUS as usize {
            self.cores.push((input.u32()?, input.u32()?));
        }
        Ok(())
    }

    /// What the manifest says about the machine.
    pub(crate) fn host(&self) -> HostSheet {
        let mut host = self.host.clone();
        let (possible, online) = self.cpus.unwrap_or((0, 0));
        // If some are offline, nothing says which.
        if possible == online && online < MOST_CPUS {
            host.online = (0..online).map(Cpu::new).collect();
            host.allowed = host.online.clone();
        }
        if !self.numa.is_empty() {
            host.numa_nodes = Some(self.numa.len() as u32);
        }
        let of = |cpu: Cpu| self.siblings.iter().find(|set| set.contains(cpu));
        let (cores, _) = self.cores.split_at(self.cores.len().min(possible as usize));
        let places = cores.iter().enumerate().map(|(n, &(core, package))| {
            let cpu = Cpu::new(n as u32);
            let known = |number: u32| (number != u32::MAX).then_some(number);
            let numa = self.numa.iter().find(|(_, cpus)| cpus.contains(cpu));
            CpuTopology {
                cpu,
                core: known(core),
                package: known(package),
                numa: numa.map(|(node, _)| *node),
                siblings: of(cpu).cloned(),
            }
        });
        host.topology = places.collect();
        if !self.siblings.is_empty() {
            host.smt = Some(self.siblings.iter().any(|set| set.len() > 1));
        }
        host
    }
}

/// A text after its length, perhaps padded with zeros.
fn text(input: &mut Data<'_>) -> Result<String, ImportError> {
    let size = input.u32()?;
    let bytes = input.bytes(u64::from(size), LONGEST)?;
    let text = bytes.split(|b| *b == 0).next().unwrap_or_default();
    Ok(String::from_utf8_lossy(text)
        .chars()
        .take(LONGEST_NAME)
        .collect())
}

/// A list of CPUs; `None` if the text is not one.
fn cpus(input: &mut Data<'_>) -> Result<Option<CpuSet>, ImportError> {
    Ok(text(input)?.parse().ok())
}

/// The kernel's name of a clock for trace events, by its number (`clock_gettime(2)`).
pub(crate) fn clock_name(number: Option<u32>) -> &'static str {
    match number {
        None => "perf",
        Some(0) => "realtime",
        Some(1) => "mono",
        Some(4) => "mono_raw",
        Some(7) => "boot",
        Some(11) => "tai",
        Some(_) => "unknown",
    }
}
