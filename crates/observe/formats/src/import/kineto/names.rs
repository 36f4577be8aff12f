//! Names of collectives, as PyTorch, its backends and NCCL's kernels write them.

use idlewave_run::tables::OperationClass;

/// A collective's name in one form, wherever it is named: `allreduce` for `all_reduce`,
/// `c10d::allreduce_` and `AllReduce`.
pub(super) fn plain(name: &str) -> String {
    let name = name.strip_prefix("c10d::").unwrap_or(name);
    let mut plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    plain.make_ascii_lowercase();
    for ending in ["oop", "coalesced", "base", "intotensor", "tensor", "single"] {
        if let Some(short) = plain.strip_suffix(ending) {
            plain.truncate(short.len());
        }
    }
    match plain.as_str() {
        "alltoallv" => "alltoall".to_owned(),
        "recvanysource" => "recv".to_owned(),
        _ => plain,
    }
}

/// What the ranks of a group do in a collective of this plain name.
pub(super) fn class(plain: &str) -> OperationClass {
    match plain {
        "broadcast" | "scatter" => OperationClass::FromRoot,
        "reduce" | "gather" => OperationClass::ToRoot,
        "send" => OperationClass::Send,
        "recv" => OperationClass::Receive,
        "sendrecv" => OperationClass::SendReceive,
        "allreduce" | "allgather" | "reducescatter" | "alltoall" | "barrier"
        | "monitoredbarrier" => OperationClass::AllToAll,
        _ => OperationClass::Other,
    }
}

/// Whether no call ends before all members have begun theirs, by the plain name. Not so for
/// `alltoall`, in which a rank may want nothing from another one.
pub(super) fn waits_for_all(plain: &str) -> bool {
    matches!(
        plain,
        "allreduce" | "allgather" | "reducescatter" | "barrier" | "monitoredbarrier"
    )
}

/// The usual spelling of a plain name.
pub(super) fn spelled(plain: &str) -> &str {
    match plain {
        "allreduce" => "all_reduce",
        "allgather" => "all_gather",
        "reducescatter" => "reduce_scatter",
        "alltoall" => "all_to_all",
        other => other,
    }
}

/// The collective in the name of a kernel of NCCL or RCCL, such as
/// `ncclDevKernel_AllReduce_Sum_f32_RING_LL(..)`; `None` for other kernels.
pub(super) fn of_kernel(name: &str) -> Option<&str> {
    let rest = name
        .strip_prefix("ncclDevKernel_")
        .or_else(|| name.strip_prefix("ncclKernel_"))?;
    rest.split(['_', '(']).next()
}

/// Bytes of an element of this type, as c10 names it; `None` for others.
pub(super) fn element_bytes(dtype: &str) -> Option<u64> {
    Some(match dtype {
        "Bool" | "Byte" | "Char" => 1,
        name if name.starts_with("Float8_") => 1,
        "Half" | "BFloat16" | "Short" | "UInt16" => 2,
        "Float" | "Int" | "UInt32" | "ComplexHalf" => 4,
        "Double" | "Long" | "UInt64" | "ComplexFloat" => 8,
        "ComplexDouble" => 16,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_collective_has_one_name_wherever_it_is_named() {
        for name in [
            "all_reduce",
            "c10d::allreduce_",
            "AllReduce",
            "allreduce_coalesced",
        ] {
            assert_eq!(plain(name), "allreduce");
        }
        assert_eq!(plain("_allgather_base"), "allgather");
        assert_eq!(plain("c10d::_reduce_scatter_base_"), "reducescatter");
        assert_eq!(plain("all_to_allv"), "alltoall");
        assert_eq!(class(&plain("_broadcast_oop")), OperationClass::FromRoot);
        assert_eq!(class(&plain("coalesced")), OperationClass::Other);
        assert_eq!(
            of_kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)"),
            Some("AllReduce")
        );
        assert_eq!(of_kernel("ncclKernel_SendRecv(x)"), Some("SendRecv"));
        assert_eq!(class(&plain("SendRecv")), OperationClass::SendReceive);
        assert_eq!(of_kernel("gemm_kernel"), None);
    }
}
