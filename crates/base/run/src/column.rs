//! How one Rust value becomes one cell of an Arrow column.

use arrow_array::{
    Array, ArrayRef, BooleanArray, PrimitiveArray, StringArray,
    types::{Int32Type, UInt8Type, UInt32Type, UInt64Type},
};
use arrow_schema::DataType;
use idlewave_units::{Bytes, Cpu, Nanos, NodeId, Pid, Rank};
use std::sync::Arc;

/// A value that a column can hold.
pub trait Cell: Sized {
    /// Whether cells may be empty.
    const NULLABLE: bool;
    /// The Arrow type of the column.
    fn data_type() -> DataType;
    /// A column of these values.
    fn to_array(values: &[Self]) -> ArrayRef;
    /// Appends the values of a column; `None` if its type or its empty cells do not fit.
    fn extend_from(array: &dyn Array, out: &mut Vec<Self>) -> Option<()>;
}

macro_rules! primitive_cell {
    ($ty:ty, $arrow:ty, $variant:ident, $into:expr, $from:expr) => {
        impl Cell for $ty {
            const NULLABLE: bool = false;
            fn data_type() -> DataType {
                DataType::$variant
            }
            fn to_array(values: &[Self]) -> ArrayRef {
                Arc::new(PrimitiveArray::<$arrow>::from_iter_values(
                    values.iter().map(|v| $into(*v)),
                ))
            }
            fn extend_from(array: &dyn Array, out: &mut Vec<Self>) -> Option<()> {
                let array = array.as_any().downcast_ref::<PrimitiveArray<$arrow>>()?;
                if array.null_count() > 0 {
                    return None;
                }
                out.extend(array.values().iter().map(|v| $from(*v)));
                Some(())
            }
        }
        impl Cell for Option<$ty> {
            const NULLABLE: bool = true;
            fn data_type() -> DataType {
                DataType::$variant
            }
            fn to_array(values: &[Self]) -> ArrayRef {
                Arc::new(PrimitiveArray::<$arrow>::from_iter(
                    values.iter().map(|v| v.map($into)),
                ))
            }
            fn extend_from(array: &dyn Array, out: &mut Vec<Self>) -> Option<()> {
                let array = array.as_any().downcast_ref::<PrimitiveArray<$arrow>>()?;
                match array.null_count() {
                    0 => out.extend(array.values().iter().map(|v| Some($from(*v)))),
                    _ => out.extend(array.iter().map(|v| v.map($from))),
                }
                Some(())
            }
        }
    };
}

primitive_cell!(
    u64,
    UInt64Type,
    UInt64,
    std::convert::identity,
    std::convert::identity
);
primitive_cell!(
    u32,
    UInt32Type,
    UInt32,
    std::convert::identity,
    std::convert::identity
);
primitive_cell!(
    u8,
    UInt8Type,
    UInt8,
    std::convert::identity,
    std::convert::identity
);
primitive_cell!(
    i32,
    Int32Type,
    Int32,
    std::convert::identity,
    std::convert::identity
);
primitive_cell!(Nanos, UInt64Type, UInt64, Nanos::get, Nanos::from_nanos);
primitive_cell!(Bytes, UInt64Type, UInt64, Bytes::get, Bytes::new);
primitive_cell!(Cpu, UInt32Type, UInt32, Cpu::get, Cpu::new);
primitive_cell!(Rank, UInt32Type, UInt32, Rank::get, Rank::new);
primitive_cell!(Pid, UInt32Type, UInt32, Pid::get, Pid::new);
primitive_cell!(NodeId, UInt32Type, UInt32, NodeId::get, NodeId::new);

impl Cell for bool {
    const NULLABLE: bool = false;
    fn data_type() -> DataType {
        DataType::Boolean
    }
    fn to_array(values: &[Self]) -> ArrayRef {
        Arc::new(BooleanArray::from_iter(values.iter().map(|v| Some(*v))))
    }
    fn extend_from(array: &dyn Array, out: &mut Vec<Self>) -> Option<()> {
        let array = array.as_any().downcast_ref::<BooleanArray>()?;
        if array.null_count() > 0 {
            return None;
        }
        out.extend(array.values().iter());
        Some(())
    }
}

impl Cell for String {
    const NULLABLE: bool = false;
    fn data_type() -> DataType {
        DataType::Utf8
    }
    fn to_array(values: &[Self]) -> ArrayRef {
        Arc::new(StringArray::from_iter_values(values))
    }
    fn extend_from(array: &dyn Array, out: &mut Vec<Self>) -> Option<()> {
        let array = array.as_any().downcast_ref::<StringArray>()?;
        if array.null_count() > 0 {
            return None;
        }
        out.extend(array.iter().flatten().map(str::to_owned));
        Some(())
    }
}
