//! An archive that is being written.

use super::library::{FlushCallbacks, Library, RawArchive, RawDefinitions, RawEvents};
use crate::export::ExportError;
use crate::otf2::{self, Message};
use std::cell::Cell;
use std::ffi::{CStr, CString, c_int, c_void};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;

/// Numbers of the headers of OTF2 3.0.
const FILEMODE_WRITE: u8 = 0;
const FLUSH: u8 = 1;
/// Chunk sizes in bytes: those of Score-P.
const EVENT_CHUNK: u64 = 1 << 20;
const DEFINITION_CHUNK: u64 = 4 << 20;

/// Static, because the library keeps the pointer.
static CALLBACKS: FlushCallbacks = FlushCallbacks {
    before: flush,
    after: no_time,
};

/// Full buffers go to their files.
extern "C" fn flush(_: *mut c_void, _: u8, _: u64, _: *mut c_void, _: bool) -> u8 {
    FLUSH
}

/// No time of the program passes while a buffer is written.
extern "C" fn no_time(_: *mut c_void, _: u8, _: u64) -> u64 {
    0
}

/// An archive. If dropped without [`Archive::close`], it has no anchor.
pub(super) struct Archive<'l> {
    library: &'l Library,
    raw: Cell<*mut RawArchive>,
    path: PathBuf,
}

/// An event of a location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Enter(u32),
    Leave(u32),
    Send(Message),
    Isend(Message, u64),
    IsendComplete(u64),
    IrecvRequest(u64),
    Recv(Message),
    Irecv(Message, u64),
    CollectiveBegin,
    CollectiveEnd {
        operation: u8,
        comm: u32,
        root: u32,
        sent: u64,
        received: u64,
    },
    CollectiveRequest(u64),
}

/// The events of a location.
pub(super) struct Events<'a> {
    archive: &'a Archive<'a>,
    raw: *mut RawEvents,
}

/// The global definitions.
pub(super) struct Definitions<'a> {
    archive: &'a Archive<'a>,
    raw: *mut RawDefinitions,
}

impl<'l> Archive<'l> {
    /// Creates an archive in a directory.
    pub(super) fn create(library: &'l Library, directory: &Path) -> Result<Self, ExportError> {
        let error = ExportError::io(directory);
        let path = match CString::new(directory.as_os_str().as_bytes()) {
            Ok(path) => path,
            Err(zero) => return Err(error(io::Error::other(zero))),
        };
        library.forget();
        // SAFETY: both are strings; the numbers are those of the headers.
        let raw = unsafe {
            (library.open)(
                path.as_ptr(),
                c"traces".as_ptr(),
                FILEMODE_WRITE,
                EVENT_CHUNK,
                DEFINITION_CHUNK,
                otf2::SINGLE_FILES,
                otf2::NOT_COMPRESSED,
            )
        };
        if raw.is_null() {
            let why = library.text(library.first(0));
            return Err(error(io::Error::other(why)));
        }
        let archive = Self {
            library,
            raw: Cell::new(raw),
            path: directory.to_owned(),
        };
        // SAFETY: the archive is open, the callbacks live as long as the process.
        unsafe {
            archive.check((library.set_flush)(raw, &CALLBACKS, ptr::null_mut()))?;
            archive.check((library.set_serial)(raw))?;
            archive.check((library.set_creator)(raw, CREATOR.as_ptr()))?;
            archive.check((library.open_events)(raw))?;
            archive.check((library.open_local)(raw))?;
        }
        Ok(archive)
    }

    fn check(&self, code: c_int) -> Result<(), ExportError> {
        match self.library.first(code) {
            0 => Ok(()),
            code => Err(self.failed(code)),
        }
    }

    fn failed(&self, code: c_int) -> ExportError {
        let why = format!("{} (from the library of OTF2)", self.library.text(code));
        ExportError::io(&self.path)(io::Error::other(why))
    }

    /// The error if the library gave no writer.
    fn no_writer(&self) -> ExportError {
        self.failed(self.library.first(0))
    }

    /// Opens the events of a location.
    pub(super) fn events(&self, location: u64) -> Result<Events<'_>, ExportError> {
        // SAFETY: the archive is open.
        let raw = unsafe { (self.library.events_of)(self.raw.get(), location) };
        match raw.is_null() {
            true => Err(self.no_writer()),
            false => Ok(Events { archive: self, raw }),
        }
    }

    /// Writes local definitions without content: readers look for their files.
    pub(super) fn local_definitions(&self, location: u64) -> Result<(), ExportError> {
        // SAFETY: the archive is open; the writer is closed at once.
        unsafe {
            let local = (self.library.local_of)(self.raw.get(), location);
            if local.is_null() {
                return Err(self.no_writer());
            }
            self.check((self.library.end_local)(self.raw.get(), local))
        }
    }

    /// Closes the files of all locations, after the last one is written.
    pub(super) fn end_of_locations(&self) -> Result<(), ExportError> {
        // SAFETY: the archive is open, and no writer of a location is.
        unsafe {
            self.check((self.library.close_events)(self.raw.get()))?;
            self.check((self.library.close_local)(self.raw.get()))
        }
    }

    /// Opens the global definitions.
    pub(super) fn definitions(&self) -> Result<Definitions<'_>, ExportError> {
        // SAFETY: the archive is open.
        let raw = unsafe { (self.library.definitions_of)(self.raw.get()) };
        match raw.is_null() {
            true => Err(self.no_writer()),
            false => Ok(Definitions { archive: self, raw }),
        }
    }

    /// Writes what is left, and the anchor.
    pub(super) fn close(self) -> Result<(), ExportError> {
        let raw = self.raw.replace(ptr::null_mut());
        // SAFETY: the archive is open, and nothing refers to it any more.
        self.check(unsafe { (self.library.close)(raw) })
    }
}

/// What the archive names as its writer.
const CREATOR: &CStr = c"idlewave";

impl Drop for Archive<'_> {
    fn drop(&mut self) {
        let raw = self.raw.get();
        if !raw.is_null() {
            // SAFETY: the archive is open. What is left of it is removed with its directory, so it
            // does not matter what this returns.
            let _ = unsafe { (self.library.close)(raw) };
        }
    }
}

impl Events<'_> {
    /// Writes an event. Times must not decrease.
    pub(super) fn write(&self, time: u64, event: Event) -> Result<(), ExportError> {
        let (library, raw, none) = (self.archive.library, self.raw, ptr::null());
        // SAFETY: the writer is open, and there is no list of attributes.
        let code = unsafe {
            match event {
                Event::Enter(region) => (library.enter)(raw, none, time, region),
                Event::Leave(region) => (library.leave)(raw, none, time, region),
                Event::Send(m) => (library.send)(raw, none, time, m.peer, m.comm, m.tag, m.bytes),
                Event::Isend(m, request) => {
                    (library.isend)(raw, none, time, m.peer, m.comm, m.tag, m.bytes, request)
                }
                Event::IsendComplete(request) => (library.isend_complete)(raw, none, time, request),
                Event::IrecvRequest(request) => (library.irecv_request)(raw, none, time, request),
                Event::Recv(m) => (library.recv)(raw, none, time, m.peer, m.comm, m.tag, m.bytes),
                Event::Irecv(m, request) => {
                    (library.irecv)(raw, none, time, m.peer, m.comm, m.tag, m.bytes, request)
                }
                Event::CollectiveBegin => (library.collective_begin)(raw, none, time),
                Event::CollectiveEnd {
                    operation,
                    comm,
                    root,
                    sent,
                    received,
                } => {
                    (library.collective_end)(raw, none, time, operation, comm, root, sent, received)
                }
                Event::CollectiveRequest(request) => {
                    (library.collective_request)(raw, none, time, request)
                }
            }
        };
        self.archive.check(code)
    }

    /// Ends the events of the location.
    pub(super) fn close(self) -> Result<(), ExportError> {
        let archive = self.archive;
        // SAFETY: the writer is open, and is not used any more.
        archive.check(unsafe { (archive.library.end_events)(archive.raw.get(), self.raw) })
    }
}

/// Each method writes one definition. Texts are referred to by number.
impl Definitions<'_> {
    /// Declares that times are nanoseconds and start at `begin`.
    pub(super) fn clock(&self, begin: u64, length: u64) -> Result<(), ExportError> {
        const NANOSECONDS: u64 = 1_000_000_000;
        const UNKNOWN_DATE: u64 = u64::MAX;
        let write = self.archive.library.clock;
        // SAFETY: the writer is open.
        let code = unsafe { write(self.raw, NANOSECONDS, begin, length, UNKNOWN_DATE) };
        self.archive.check(code)
    }

    pub(super) fn text(&self, id: u32, text: &CStr) -> Result<(), ExportError> {
        // SAFETY: the writer is open, and this is a string.
        let code = unsafe { (self.archive.library.string)(self.raw, id, text.as_ptr()) };
        self.archive.check(code)
    }

    pub(super) fn tree_node(
        &self,
        id: u32,
        name: u32,
        class: u32,
        parent: u32,
    ) -> Result<(), ExportError> {
        // SAFETY: the writer is open.
        let code = unsafe { (self.archive.library.tree_node)(self.raw, id, name, class, parent) };
        self.archive.check(code)
    }

    /// Declares a node of the system tree to be a machine with its own memory.
    pub(super) fn is_machine(&self, id: u32) -> Result<(), ExportError> {
        // SAFETY: the writer is open.
        let code = unsafe { (self.archive.library.tree_domain)(self.raw, id, otf2::SHARED_MEMORY) };
        self.archive.check(code)
    }

    pub(super) fn process(&self, id: u32, name: u32, parent: u32) -> Result<(), ExportError> {
        /// OTF2_LOCATION_GROUP_TYPE_PROCESS.
        const PROCESS: u8 = 1;
        let write = self.archive.library.location_group;
        // SAFETY: the writer is open.
        let code = unsafe { write(self.raw, id, name, PROCESS, parent, otf2::NONE) };
        self.archive.check(code)
    }

    pub(super) fn location(
        &self,
        number: u64,
        name: u32,
        events: u64,
        group: u32,
    ) -> Result<(), ExportError> {
        let write = self.archive.library.location;
        // SAFETY: the writer is open.
        let code = unsafe { write(self.raw, number, name, otf2::CPU_THREAD, events, group) };
        self.archive.check(code)
    }

    /// A named number of a location.
    pub(super) fn property(&self, location: u64, name: u32, value: u32) -> Result<(), ExportError> {
        let write = self.archive.library.location_property;
        // SAFETY: the writer is open.
        let code = unsafe { write(self.raw, location, name, otf2::TYPE_UINT32, value.into()) };
        self.archive.check(code)
    }

    pub(super) fn region(
        &self,
        id: u32,
        name: u32,
        no_text: u32,
        role: u8,
        paradigm: u8,
    ) -> Result<(), ExportError> {
        let write = self.archive.library.region;
        // SAFETY: the writer is open.
        let code = unsafe {
            write(
                self.raw, id, name, name, no_text, role, paradigm, 0, no_text, 0, 0,
            )
        };
        self.archive.check(code)
    }

    /// An MPI group.
    pub(super) fn group(
        &self,
        id: u32,
        name: u32,
        kind: u8,
        members: &[u64],
    ) -> Result<(), ExportError> {
        let write = self.archive.library.group;
        let (count, all) = (members.len() as u32, members.as_ptr());
        // SAFETY: the writer is open; `all` points to `count` members.
        let code = unsafe { write(self.raw, id, name, kind, otf2::MPI, 0, count, all) };
        self.archive.check(code)
    }

    pub(super) fn comm(
        &self,
        id: u32,
        name: u32,
        group: u32,
        parent: u32,
    ) -> Result<(), ExportError> {
        // SAFETY: the writer is open.
        let code = unsafe { (self.archive.library.comm)(self.raw, id, name, group, parent, 0) };
        self.archive.check(code)
    }
}
