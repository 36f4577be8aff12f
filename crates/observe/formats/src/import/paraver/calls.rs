//! Functions of MPI by their types and values.

use crate::import::paraver::names::Names;
use crate::prv;
use idlewave_run::tables::{Operation, OperationClass, Operations, Table};
use std::collections::HashMap;

/// MPI 4 has some 500 functions; values of a trace are not to fill the memory.
const MOST: u32 = 1 << 14;

/// The functions that were called.
#[derive(Default)]
pub(super) struct Functions {
    ids: HashMap<(u32, u64), u32>,
    pub rows: Operations,
}

impl Functions {
    /// The row in `operations` of a function, and its class.
    pub(super) fn id(&mut self, kind: u32, value: u64, names: &Names) -> (u32, OperationClass) {
        if let Some(&id) = self.ids.get(&(kind, value)) {
            return (id, self.rows.class[id as usize]);
        }
        let id = self.rows.len() as u32;
        if id >= MOST {
            return (MOST - 1, self.rows.class[MOST as usize - 1]);
        }
        let known = prv::call_name(kind, value).or_else(|| names.value(kind, value));
        let name = known.map_or_else(|| format!("MPI function {kind}:{value}"), str::to_owned);
        let class = class(kind, &name);
        self.ids.insert((kind, value), id);
        self.rows.push(Operation { id, name, class });
        (id, class)
    }
}

/// What a function does, by its name.
fn class(kind: u32, name: &str) -> OperationClass {
    let Some(name) = name.strip_prefix("MPI_") else {
        return OperationClass::Other;
    };
    match name {
        "Send" | "Isend" | "Bsend" | "Ssend" | "Rsend" | "Ibsend" | "Issend" | "Irsend" => {
            OperationClass::Send
        }
        "Recv" | "Irecv" => OperationClass::Receive,
        "Sendrecv" | "Sendrecv_replace" => OperationClass::SendReceive,
        "Bcast" | "Scatter" | "Scatterv" => OperationClass::FromRoot,
        "Reduce" | "Gather" | "Gatherv" => OperationClass::ToRoot,
        "Scan" | "Exscan" => OperationClass::Prefix,
        "Init" | "Init_thread" | "Finalize" | "Abort" => OperationClass::Life,
        _ if name.starts_with("Wait") || name.starts_with("Test") => OperationClass::Complete,
        _ if name.starts_with("Comm_") || name.starts_with("Cart_") => OperationClass::Communicator,
        _ if name.starts_with("Neighbor_") => OperationClass::Neighbour,
        _ if kind == prv::COLLECTIVE && name.starts_with('I') => OperationClass::StartCollective,
        _ if kind == prv::COLLECTIVE => OperationClass::AllToAll,
        _ => OperationClass::Other,
    }
}

/// Whether members of a communicator call this together.
pub(super) fn is_collective(class: OperationClass) -> bool {
    use OperationClass::{AllToAll, FromRoot, Neighbour, Prefix, StartCollective, ToRoot};
    matches!(
        class,
        AllToAll | FromRoot | Neighbour | Prefix | StartCollective | ToRoot
    )
}
