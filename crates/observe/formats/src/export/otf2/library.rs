//! The functions of the OTF2 library.
//!
//! They are looked up when an archive is written, so that idlewave needs the library for nothing
//! else. Types and signatures are those of the headers of OTF2 3.0.

use crate::export::ExportError;
use libloading::os::unix::{Library as Opened, RTLD_LOCAL, RTLD_NOW};
use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_void};

/// Names of the library: Debian's, OTF2's own, and those that their development packages add.
const NAMES: [&str; 4] = [
    "libopen-trace-format2.so.10",
    "libotf2.so.10",
    "libopen-trace-format2.so",
    "libotf2.so",
];

/// Opaque types of the library.
#[repr(C)]
pub(super) struct RawArchive(c_void);
#[repr(C)]
pub(super) struct RawEvents(c_void);
#[repr(C)]
pub(super) struct RawDefinitions(c_void);
#[repr(C)]
pub(super) struct RawLocal(c_void);
/// Always null here.
type Attributes = *const c_void;
type Code = c_int;

/// OTF2_FlushCallbacks.
#[repr(C)]
pub(super) struct FlushCallbacks {
    pub before: extern "C" fn(*mut c_void, u8, u64, *mut c_void, bool) -> u8,
    pub after: extern "C" fn(*mut c_void, u8, u64) -> u64,
}

/// The last argument is a `va_list`, which is passed as a pointer and not read.
type ErrorCallback = extern "C" fn(
    *mut c_void,
    *const c_char,
    u64,
    *const c_char,
    Code,
    *const c_char,
    *mut c_void,
) -> Code;

macro_rules! functions {
    ($($field:ident $name:literal ($($argument:ty),*) -> $result:ty;)*) => {
        /// The library, opened.
        pub(super) struct Library {
            $(pub(super) $field: unsafe extern "C" fn($($argument),*) -> $result,)*
            error_text: unsafe extern "C" fn(Code) -> *const c_char,
            _opened: Opened,
        }

        impl Library {
            fn of(opened: Opened) -> Result<Self, libloading::Error> {
                // SAFETY: the types are those that the headers of OTF2 3.0 give to functions of
                // these names, and the library stays open as long as they are held.
                unsafe {
                    // New in OTF2 3.0: in earlier versions, other functions have fewer arguments.
                    opened.get::<*const c_void>(b"OTF2_EvtWriter_CommCreate\0")?;
                    Ok(Self {
                        $($field: *opened.get(concat!($name, "\0").as_bytes())?,)*
                        error_text: *opened.get(b"OTF2_Error_GetDescription\0")?,
                        _opened: opened,
                    })
                }
            }
        }
    };
}

functions! {
    on_error "OTF2_Error_RegisterCallback" (Option<ErrorCallback>, *mut c_void) -> Option<ErrorCallback>;
    open "OTF2_Archive_Open" (*const c_char, *const c_char, u8, u64, u64, u8, u8) -> *mut RawArchive;
    set_flush "OTF2_Archive_SetFlushCallbacks" (*mut RawArchive, *const FlushCallbacks, *mut c_void) -> Code;
    set_serial "OTF2_Archive_SetSerialCollectiveCallbacks" (*mut RawArchive) -> Code;
    set_creator "OTF2_Archive_SetCreator" (*mut RawArchive, *const c_char) -> Code;
    open_events "OTF2_Archive_OpenEvtFiles" (*mut RawArchive) -> Code;
    close_events "OTF2_Archive_CloseEvtFiles" (*mut RawArchive) -> Code;
    open_local "OTF2_Archive_OpenDefFiles" (*mut RawArchive) -> Code;
    close_local "OTF2_Archive_CloseDefFiles" (*mut RawArchive) -> Code;
    events_of "OTF2_Archive_GetEvtWriter" (*mut RawArchive, u64) -> *mut RawEvents;
    end_events "OTF2_Archive_CloseEvtWriter" (*mut RawArchive, *mut RawEvents) -> Code;
    local_of "OTF2_Archive_GetDefWriter" (*mut RawArchive, u64) -> *mut RawLocal;
    end_local "OTF2_Archive_CloseDefWriter" (*mut RawArchive, *mut RawLocal) -> Code;
    definitions_of "OTF2_Archive_GetGlobalDefWriter" (*mut RawArchive) -> *mut RawDefinitions;
    close "OTF2_Archive_Close" (*mut RawArchive) -> Code;

    enter "OTF2_EvtWriter_Enter" (*mut RawEvents, Attributes, u64, u32) -> Code;
    leave "OTF2_EvtWriter_Leave" (*mut RawEvents, Attributes, u64, u32) -> Code;
    send "OTF2_EvtWriter_MpiSend" (*mut RawEvents, Attributes, u64, u32, u32, u32, u64) -> Code;
    isend "OTF2_EvtWriter_MpiIsend" (*mut RawEvents, Attributes, u64, u32, u32, u32, u64, u64) -> Code;
    isend_complete "OTF2_EvtWriter_MpiIsendComplete" (*mut RawEvents, Attributes, u64, u64) -> Code;
    irecv_request "OTF2_EvtWriter_MpiIrecvRequest" (*mut RawEvents, Attributes, u64, u64) -> Code;
    recv "OTF2_EvtWriter_MpiRecv" (*mut RawEvents, Attributes, u64, u32, u32, u32, u64) -> Code;
    irecv "OTF2_EvtWriter_MpiIrecv" (*mut RawEvents, Attributes, u64, u32, u32, u32, u64, u64) -> Code;
    collective_begin "OTF2_EvtWriter_MpiCollectiveBegin" (*mut RawEvents, Attributes, u64) -> Code;
    collective_end "OTF2_EvtWriter_MpiCollectiveEnd" (*mut RawEvents, Attributes, u64, u8, u32, u32, u64, u64) -> Code;
    collective_request "OTF2_EvtWriter_NonBlockingCollectiveRequest" (*mut RawEvents, Attributes, u64, u64) -> Code;

    clock "OTF2_GlobalDefWriter_WriteClockProperties" (*mut RawDefinitions, u64, u64, u64, u64) -> Code;
    string "OTF2_GlobalDefWriter_WriteString" (*mut RawDefinitions, u32, *const c_char) -> Code;
    tree_node "OTF2_GlobalDefWriter_WriteSystemTreeNode" (*mut RawDefinitions, u32, u32, u32, u32) -> Code;
    tree_domain "OTF2_GlobalDefWriter_WriteSystemTreeNodeDomain" (*mut RawDefinitions, u32, u8) -> Code;
    location_group "OTF2_GlobalDefWriter_WriteLocationGroup" (*mut RawDefinitions, u32, u32, u8, u32, u32) -> Code;
    location "OTF2_GlobalDefWriter_WriteLocation" (*mut RawDefinitions, u64, u32, u8, u64, u32) -> Code;
    // The value is a union of numbers of up to 64 bits, which is passed like a `u64`.
    location_property "OTF2_GlobalDefWriter_WriteLocationProperty" (*mut RawDefinitions, u64, u32, u8, u64) -> Code;
    region "OTF2_GlobalDefWriter_WriteRegion" (*mut RawDefinitions, u32, u32, u32, u32, u8, u8, u32, u32, u32, u32) -> Code;
    group "OTF2_GlobalDefWriter_WriteGroup" (*mut RawDefinitions, u32, u32, u8, u8, u32, u32, *const u64) -> Code;
    comm "OTF2_GlobalDefWriter_WriteComm" (*mut RawDefinitions, u32, u32, u32, u32, u32) -> Code;
}

thread_local! {
    /// The first error that the library met in this thread. Not all functions return their errors:
    /// closing an archive succeeds even if its anchor could not be written.
    static FIRST: Cell<Code> = const { Cell::new(0) };
}

/// Called instead of printing an error to standard error.
extern "C" fn note(
    _: *mut c_void,
    _: *const c_char,
    _: u64,
    _: *const c_char,
    code: Code,
    _: *const c_char,
    _: *mut c_void,
) -> Code {
    // Negative codes are warnings (OTF2_WARNING, OTF2_DEPRECATED, OTF2_ABORT).
    if code > 0 && FIRST.get() == 0 {
        FIRST.set(code);
    }
    code
}

impl Library {
    /// Opens the first of the libraries that is installed.
    pub(super) fn open() -> Result<Self, ExportError> {
        let mut why = None;
        for name in NAMES {
            // SAFETY: the library of OTF2 has no initialisers with effects outside itself.
            let opened = unsafe { Opened::open(Some(name), RTLD_NOW | RTLD_LOCAL) };
            match opened.and_then(Self::of) {
                Ok(library) => {
                    // SAFETY: the callback has the type that the library expects and reads nothing.
                    unsafe { (library.on_error)(Some(note), std::ptr::null_mut()) };
                    return Ok(library);
                }
                // A fault of an installed library matters more than the absence of others.
                Err(error @ libloading::Error::DlSym { .. }) => why = Some(error),
                Err(error) => why = why.or(Some(error)),
            }
        }
        let why = match why {
            Some(libloading::Error::DlOpen { desc }) => format!("{desc:?}"),
            Some(libloading::Error::DlSym { desc }) => format!("{desc:?}: it is older than 3.0"),
            Some(other) => other.to_string(),
            None => String::new(),
        };
        Err(ExportError::Library {
            format: "otf2",
            why: why.trim_matches('"').to_owned(),
            package: "libopen-trace-format2-10 (Debian, Ubuntu) or otf2 3 (conda-forge, Spack)",
        })
    }

    /// Forgets earlier errors, before an archive is created.
    pub(super) fn forget(&self) {
        FIRST.set(0);
    }

    /// The first error since [`Library::forget`], or this code.
    pub(super) fn first(&self, code: Code) -> Code {
        match FIRST.get() {
            0 => code,
            first => first,
        }
    }

    /// The description of an error code.
    pub(super) fn text(&self, code: Code) -> String {
        // SAFETY: it returns a string that is never freed, for any code.
        let text = unsafe { (self.error_text)(code) };
        if text.is_null() {
            return format!("error {code}");
        }
        // SAFETY: see above.
        unsafe { CStr::from_ptr(text) }
            .to_string_lossy()
            .into_owned()
    }
}
