//! Where the ranks are: threads of this process, processes of an MPI job, or those of a gang on
//! network devices.

use crate::{FabricChoice, MeasureError, MeasureOptions, gather};
use idlewave_capture::host::allowed_cpus;
use idlewave_fabric::netctx::device::Attachment;
use idlewave_fabric::netctx::{DeviceError, NetctxFabric};
use idlewave_fabric::{Fabric, Nodes};
use idlewave_mpi::{Launch, Search};
use idlewave_session::SessionError;
use idlewave_units::{Cpu, CpuSet, NodeId};

/// Words of a set of CPUs that ranks exchange: 1,024 CPUs.
const WORDS: usize = 16;

/// Who carries the messages: what the user says, a network device where the environment names one,
/// or MPI where a launcher started this process or the user says which MPI library. `asked` is the
/// option by which threads are asked for, with its value.
///
/// # Errors
/// Threads are asked for in a process that is one of many, or network contexts in one that has no
/// device.
pub fn fabric_of(
    choice: Option<FabricChoice>,
    asked: &str,
    mpi: &Search,
) -> Result<FabricChoice, MeasureError> {
    let attached = Attachment::of_this_process()?.is_some();
    match choice {
        None | Some(FabricChoice::Netctx) if attached => return Ok(FabricChoice::Netctx),
        Some(FabricChoice::Threads | FabricChoice::Mpi) if attached => {
            return Err(MeasureError::option(
                if choice == Some(FabricChoice::Mpi) {
                    "--fabric mpi"
                } else {
                    asked
                },
                "this process is a rank of a gang",
                format!("leave it out, or unset {}", Attachment::VARIABLE),
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
                "start it without the launcher, or leave {} out",
                asked.split(' ').next().unwrap_or(asked)
            ),
        )),
        (Some(choice), _) => Ok(choice),
        (None, Some(_)) => Ok(FabricChoice::Mpi),
        (None, None) if mpi.is_told() => Ok(FabricChoice::Mpi),
        (None, None) => Ok(FabricChoice::Threads),
    }
}

/// Network contexts, for people.
pub const CONTEXTS: &str = "network contexts";

/// The rank that this process is on the network device that its environment names.
///
/// # Errors
/// It names none, or one that cannot be used.
pub fn attached() -> Result<NetctxFabric, MeasureError> {
    let attachment = Attachment::of_this_process()?;
    let none = || DeviceError::Environment(String::new());
    Ok(attachment.ok_or_else(none)?.attach()?)
}

/// CPUs that the user allows, of those that the system allows.
///
/// # Errors
/// Some are asked for that are not allowed.
pub fn cpus_of(options: &MeasureOptions) -> Result<Vec<Cpu>, MeasureError> {
    let allowed = allowed_cpus().map_err(SessionError::from)?;
    let Some(wanted) = &options.cpus else {
        return Ok(allowed.iter().collect());
    };
    let missing: CpuSet = wanted.difference(&allowed);
    if missing.is_empty() {
        return Ok(wanted.iter().collect());
    }
    Err(MeasureError::option(
        format!("--cpus {wanted}"),
        format!("this process may not use CPU {missing}"),
        format!("choose from {allowed}"),
    ))
}

/// The CPU of a rank that is the `local`-th of its node: its own where the launcher bound it to
/// one, in turn otherwise. `None` if there is no CPU at all.
pub fn cpu_of(cpus: &[Cpu], local: u32) -> Option<Cpu> {
    let place = (local as usize).checked_rem(cpus.len())?;
    cpus.get(place).copied()
}

/// CPUs that the ranks of a node may use together, of the node with the fewest. Every rank calls
/// it.
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
