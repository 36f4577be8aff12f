//! Where the ranks run: as threads of this process, as processes of an MPI job, or as those of a
//! gang on network devices.

use crate::{FabricChoice, MeasureError, MeasureOptions, gather};
use idlewave_capture::host::allowed_cpus;
use idlewave_fabric::netctx::device::Attachment;
use idlewave_fabric::netctx::{DeviceError, NetctxFabric};
use idlewave_fabric::{Fabric, Nodes};
use idlewave_mpi::{Launch, Search};
use idlewave_session::SessionError;
use idlewave_sys::affinity;
use idlewave_units::{Cpu, CpuSet, NodeId};
use idlewave_workloads::WorkloadError;

/// Words of a CPU set that ranks exchange: 1,024 CPUs.
const WORDS: usize = 16;

/// Chooses the fabric: the user's choice; a network device if the environment names one; MPI if a
/// launcher started this process or the user names an MPI library; threads otherwise. `asked` is
/// the option that requests threads, with its value.
///
/// # Errors
/// Threads are requested in a process that is one of many, or network contexts in one without a
/// device.
pub fn fabric_of(
    choice: Option<FabricChoice>,
    asked: &str,
    mpi: &Search,
) -> Result<FabricChoice, MeasureError> {
    let attached = Attachment::of_this_process()?.is_some();
    match choice {
        None | Some(FabricChoice::Netctx) if attached => return Ok(FabricChoice::Netctx),
        // The messages of MPI go over the device if its library uses libfabric.
        Some(FabricChoice::Mpi) if attached => return Ok(FabricChoice::Mpi),
        Some(FabricChoice::Threads) if attached => {
            return Err(MeasureError::option(
                asked,
                "this process is a rank of a gang",
                format!("omit it, or unset {}", Attachment::VARIABLE),
            ));
        }
        Some(FabricChoice::Netctx) => {
            return Err(MeasureError::option(
                "--fabric netctx",
                "this process has no network device",
                format!(
                    "start it as a rank of a gang, which sets {}",
                    Attachment::VARIABLE
                ),
            ));
        }
        _ => {}
    }
    let launch = Launch::of_this_process();
    let several = launch
        .as_ref()
        .is_some_and(|l| l.size.is_none_or(|size| size > 1));
    match (choice, launch) {
        (Some(FabricChoice::Threads), Some(launch)) if several => Err(MeasureError::option(
            asked,
            format!("{} started several processes", launch.launcher.name()),
            format!(
                "start it without the launcher, or omit {}",
                asked.split(' ').next().unwrap_or(asked)
            ),
        )),
        (Some(choice), _) => Ok(choice),
        (None, Some(_)) => Ok(FabricChoice::Mpi),
        (None, None) if mpi.is_told() => Ok(FabricChoice::Mpi),
        (None, None) => Ok(FabricChoice::Threads),
    }
}

/// The name of network contexts in output.
pub const CONTEXTS: &str = "network contexts";

/// This process's rank on the network device that its environment names.
///
/// # Errors
/// The environment names no device, or one that cannot be used.
pub fn attached() -> Result<NetctxFabric, MeasureError> {
    let attachment = Attachment::of_this_process()?;
    let none = || DeviceError::Environment(String::new());
    Ok(attachment.ok_or_else(none)?.attach()?)
}

/// The CPUs that the user chose, or all that the system allows.
///
/// # Errors
/// Some of the chosen CPUs are not allowed.
pub fn allowed_of(options: &MeasureOptions) -> Result<CpuSet, MeasureError> {
    let allowed = allowed_cpus().map_err(SessionError::from)?;
    let Some(wanted) = &options.cpus else {
        return Ok(allowed);
    };
    let missing: CpuSet = wanted.difference(&allowed);
    if missing.is_empty() {
        return Ok(wanted.clone());
    }
    Err(MeasureError::option(
        format!("--cpus {wanted}"),
        format!("this process may not use CPU {missing}"),
        format!("choose from {allowed}"),
    ))
}

/// Binds the calling thread to these CPUs during `work`.
///
/// # Errors
/// None of them exists and is allowed, or `work` fails.
pub fn bound<T>(
    cpus: &CpuSet,
    work: impl FnOnce() -> Result<T, MeasureError>,
) -> Result<T, MeasureError> {
    let before = affinity::allowed();
    if let (Err(source), Some(cpu)) = (affinity::bind(cpus), cpus.iter().next()) {
        return Err(WorkloadError::Pin { cpu, source }.into());
    }
    let done = work();
    if let Ok(before) = before {
        // On failure the thread stays bound, which only makes later work slower.
        let _ = affinity::bind(&before);
    }
    done
}

/// The CPU of the rank that is the `local`-th of its node: its own if the launcher bound it to one,
/// otherwise in turn. `None` if there is no CPU at all.
pub fn cpu_of(cpus: &[Cpu], local: u32) -> Option<Cpu> {
    let place = (local as usize).checked_rem(cpus.len())?;
    cpus.get(place).copied()
}

/// The number of CPUs that the ranks of a node may use together, on the node with the fewest. Every
/// rank calls it.
///
/// # Errors
/// The ranks cannot communicate.
pub fn cpus_of_nodes<F: Fabric>(fabric: &mut F, nodes: &Nodes) -> Result<u32, MeasureError> {
    let own = allowed_cpus().unwrap_or_else(|_| CpuSet::default());
    let mut words = [0_u64; WORDS];
    for cpu in own.iter() {
        if let Some(word) = words.get_mut(cpu.get() as usize / 64) {
            *word |= 1 << (cpu.get() % 64);
        }
    }
    let all = gather::of_all(fabric, words)?;
    let of_node = |node: u32| {
        let mut together = [0_u64; WORDS];
        for rank in nodes.ranks_of(NodeId::new(node)) {
            let ranks = all.get(rank.get() as usize).unwrap_or(&words);
            together.iter_mut().zip(ranks).for_each(|(t, r)| *t |= r);
        }
        together.iter().map(|word| word.count_ones()).sum::<u32>()
    };
    Ok((0..nodes.count()).map(of_node).min().unwrap_or(1).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_take_the_cpus_in_turn() {
        let cpus = [Cpu::new(3), Cpu::new(5)];
        let places: Vec<_> = (0..3).map(|local| cpu_of(&cpus, local)).collect();
        assert_eq!(places, [3, 5, 3].map(|c| Some(Cpu::new(c))));
        // Bound to one by the launcher.
        assert_eq!(cpu_of(&cpus[..1], 7), Some(Cpu::new(3)));
        assert_eq!(cpu_of(&[], 0), None);
    }
}
