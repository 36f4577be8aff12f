//! What the writer and the reader of OTF2 archives share.
//!
//! Numbers are those of the headers of OTF2 3.0 (Score-P): OTF2_Definitions.h and
//! OTF2_GeneralDefinitions.h.

/// The property of a location with the number of its thread: idlewave's own.
pub(crate) const THREAD_PROPERTY: &str = "idlewave::thread";

/// Stands for "none" in references and roots.
pub(crate) const NONE: u32 = u32::MAX;
/// The root of a collective is the caller (OTF2_COLLECTIVE_ROOT_SELF).
pub(crate) const ROOT_IS_CALLER: u32 = u32::MAX - 1;
/// It is one of the caller's group (OTF2_COLLECTIVE_ROOT_THIS_GROUP).
pub(crate) const ROOT_OF_GROUP: u32 = u32::MAX - 2;

/// OTF2_SUBSTRATE_POSIX: each location has files of its own.
pub(crate) const SINGLE_FILES: u8 = 1;
/// OTF2_COMPRESSION_NONE.
pub(crate) const NOT_COMPRESSED: u8 = 1;
/// OTF2_TYPE_UINT32.
pub(crate) const TYPE_UINT32: u8 = 3;
/// OTF2_SYSTEM_TREE_DOMAIN_SHARED_MEMORY.
pub(crate) const SHARED_MEMORY: u8 = 1;
/// OTF2_LOCATION_TYPE_CPU_THREAD.
pub(crate) const CPU_THREAD: u8 = 1;

/// Types of groups.
pub(crate) const GROUP_OF_LOCATIONS: u8 = 4;
pub(crate) const GROUP_OF_RANKS: u8 = 5;
pub(crate) const GROUP_OF_CALLER: u8 = 6;

/// Paradigms.
pub(crate) const USER: u8 = 1;
pub(crate) const MPI: u8 = 4;
pub(crate) const MEASUREMENT_SYSTEM: u8 = 6;

/// Roles of regions.
pub(crate) const FUNCTION: u8 = 1;
pub(crate) const CODE: u8 = 4;
pub(crate) const BARRIER: u8 = 15;
pub(crate) const ONE_TO_ALL: u8 = 23;
pub(crate) const ALL_TO_ONE: u8 = 24;
pub(crate) const ALL_TO_ALL: u8 = 25;
pub(crate) const OTHER_COLLECTIVE: u8 = 26;
pub(crate) const POINT_TO_POINT: u8 = 28;
pub(crate) const ARTIFICIAL: u8 = 31;

/// One end of a message; the other rank is that in the communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub peer: u32,
    pub comm: u32,
    pub tag: u32,
    pub bytes: u64,
}
