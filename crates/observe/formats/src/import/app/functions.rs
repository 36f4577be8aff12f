//! MPI functions by name.

use idlewave_run::tables::{Operation, OperationClass, Operations, Table};
use idlewave_units::Bytes;
use std::collections::HashMap;

/// MPI 4 has some 500 functions; the names in a trace must not exhaust memory.
pub(in crate::import) const MOST_FUNCTIONS: u32 = 1 << 14;

/// The functions that were called.
#[derive(Default)]
pub(super) struct Functions {
    ids: HashMap<String, u32>,
    pub rows: Operations,
    /// By row: whether a caller waits for all others.
    reach: Vec<Reach>,
}

/// Whether a caller needs something from every other caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    All,
    AllUnlessEmpty,
    NotAll,
}

impl Functions {
    /// The row in `operations` of a function, and its class. All names beyond
    /// [`MOST_FUNCTIONS`] share the last row.
    pub(super) fn id(&mut self, name: &str, collective: bool) -> (u32, OperationClass) {
        // The large-count variants of MPI 4 have a suffix.
        let reach = match name.strip_suffix("_c").unwrap_or(name) {
            "MPI_Barrier" => Reach::All,
            // Not the variants in which each rank gives a count for every other rank.
            "MPI_Allreduce" | "MPI_Allgather" | "MPI_Alltoall" => Reach::AllUnlessEmpty,
            _ => Reach::NotAll,
        };
        self.id_with(name, reach, || class(name, collective))
    }

    /// The same for a non-MPI function, whose class the reader knows.
    pub(super) fn id_of(&mut self, name: &str, class: OperationClass, waits_for_all: bool) -> u32 {
        let reach = match waits_for_all {
            true => Reach::All,
            false => Reach::NotAll,
        };
        self.id_with(name, reach, || class).0
    }

    fn id_with(
        &mut self,
        name: &str,
        reach: Reach,
        class: impl FnOnce() -> OperationClass,
    ) -> (u32, OperationClass) {
        if let Some(&id) = self.ids.get(name) {
            return (id, self.rows.class[id as usize]);
        }
        let id = self.rows.len() as u32;
        if id >= MOST_FUNCTIONS {
            let last = MOST_FUNCTIONS - 1;
            return (last, self.rows.class[last as usize]);
        }
        let class = class();
        self.ids.insert(name.to_owned(), id);
        self.reach.push(reach);
        self.rows.push(Operation {
            id,
            name: name.to_owned(),
            class,
        });
        (id, class)
    }

    /// Whether a call of this function that sends this much can return only after all ranks have
    /// made it.
    pub(super) fn wait_for_all(&self, id: u32, sent: Option<Bytes>) -> bool {
        match self.reach[id as usize] {
            Reach::All => true,
            Reach::AllUnlessEmpty => sent.is_some_and(|bytes| bytes.get() > 0),
            Reach::NotAll => false,
        }
    }
}

/// What a function does, by its name and by whether the trace calls it a collective.
fn class(name: &str, collective: bool) -> OperationClass {
    // The large-count variants of MPI 4.
    let short = name.strip_suffix("_c").unwrap_or(name);
    let Some(name) = short.strip_prefix("MPI_") else {
        return match collective {
            true => OperationClass::AllToAll,
            false => OperationClass::Other,
        };
    };
    match name {
        "Send" | "Isend" | "Bsend" | "Ssend" | "Rsend" | "Ibsend" | "Issend" | "Irsend" => {
            OperationClass::Send
        }
        "Recv" | "Irecv" | "Mrecv" | "Imrecv" => OperationClass::Receive,
        "Sendrecv" | "Sendrecv_replace" => OperationClass::SendReceive,
        "Bcast" | "Scatter" | "Scatterv" => OperationClass::FromRoot,
        "Reduce" | "Gather" | "Gatherv" => OperationClass::ToRoot,
        "Scan" | "Exscan" => OperationClass::Prefix,
        "Init" | "Init_thread" | "Finalize" | "Abort" => OperationClass::Life,
        "Barrier"
        | "Allreduce"
        | "Alltoall"
        | "Alltoallv"
        | "Alltoallw"
        | "Allgather"
        | "Allgatherv"
        | "Reduce_scatter"
        | "Reduce_scatter_block" => OperationClass::AllToAll,
        "Ibarrier"
        | "Iallreduce"
        | "Ialltoall"
        | "Ialltoallv"
        | "Ialltoallw"
        | "Iallgather"
        | "Iallgatherv"
        | "Ibcast"
        | "Ireduce"
        | "Igather"
        | "Igatherv"
        | "Iscatter"
        | "Iscatterv"
        | "Iscan"
        | "Iexscan"
        | "Ireduce_scatter"
        | "Ireduce_scatter_block" => OperationClass::StartCollective,
        _ if name.starts_with("Wait") || name.starts_with("Test") => OperationClass::Complete,
        _ if name.starts_with("Comm_") || name.starts_with("Cart_") => OperationClass::Communicator,
        _ if name.starts_with("Ineighbor_") => OperationClass::StartCollective,
        _ if name.starts_with("Neighbor_") => OperationClass::Neighbour,
        _ if collective && name.starts_with('I') => OperationClass::StartCollective,
        _ if collective => OperationClass::AllToAll,
        _ => OperationClass::Other,
    }
}

/// Whether the members of a communicator make this call together.
pub(in crate::import) fn is_collective(class: OperationClass) -> bool {
    use OperationClass::{AllToAll, FromRoot, Neighbour, Prefix, StartCollective, ToRoot};
    matches!(
        class,
        AllToAll | FromRoot | Neighbour | Prefix | StartCollective | ToRoot
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_follows_from_the_name_and_else_from_what_the_trace_says() {
        for (name, collective, expected) in [
            ("MPI_Send_c", false, OperationClass::Send),
            ("MPI_Neighbor_alltoall", true, OperationClass::Neighbour),
            (
                "MPI_Ineighbor_alltoall",
                true,
                OperationClass::StartCollective,
            ),
            ("MPI_Ibcast", false, OperationClass::StartCollective),
            ("MPI_Inew", true, OperationClass::StartCollective),
            ("MPI_New", true, OperationClass::AllToAll),
            ("MPI_New", false, OperationClass::Other),
            ("shmem_barrier", true, OperationClass::AllToAll),
            ("MPI_Testall", false, OperationClass::Complete),
        ] {
            assert_eq!(class(name, collective), expected, "{name}");
        }
    }

    #[test]
    fn callers_wait_for_all_where_each_gives_something_to_each() {
        let mut functions = Functions::default();
        for (name, sent, waits) in [
            ("MPI_Barrier", None, true),
            ("MPI_Allreduce", Some(8), true),
            ("MPI_Alltoall_c", Some(8), true),
            ("MPI_Allreduce", Some(0), false),
            ("MPI_Allreduce", None, false),
            ("MPI_Allgatherv", Some(8), false),
            ("MPI_Bcast", Some(8), false),
        ] {
            let (id, _) = functions.id(name, true);
            let found = functions.wait_for_all(id, sent.map(Bytes::new));
            assert_eq!(found, waits, "{name} {sent:?}");
        }
    }

    #[test]
    fn names_beyond_the_limit_share_the_last_row() {
        let mut functions = Functions::default();
        for number in 0..MOST_FUNCTIONS {
            let (id, _) = functions.id(&format!("f{number}"), false);
            assert_eq!(id, number);
        }
        assert_eq!(functions.id("one more", false).0, MOST_FUNCTIONS - 1);
        assert_eq!(functions.id("f3", false).0, 3);
        assert_eq!(functions.rows.len(), MOST_FUNCTIONS as usize);
    }
}
