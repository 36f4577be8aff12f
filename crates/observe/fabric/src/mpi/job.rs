//! The MPI job of which this process is a rank: initialisation, queries, end.

use crate::FabricError;
use idlewave_mpi::abi::Handle;
use idlewave_mpi::{Abi, Calls, Launch, Library, MpiError, RawHandle, Search, Slot};
use std::ffi::{CStr, c_char, c_int};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};

/// What the program promises the library about threads (MPI 4.1, 11.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ThreadLevel {
    /// `MPI_Init`: only one thread. The fastest; with Open MPI the other levels add about 100 ns to
    /// a barrier.
    #[default]
    Single,
    /// Only the main thread calls MPI.
    Funneled,
    /// One thread at a time.
    Serialized,
    /// Any thread at any time.
    Multiple,
}

/// Predefined handles, in the form in which this library expects them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handles {
    pub world: RawHandle,
    pub comm_null: RawHandle,
    pub byte: RawHandle,
    pub double: RawHandle,
    pub sum: RawHandle,
    pub min: RawHandle,
    pub max: RawHandle,
    pub info_null: RawHandle,
    pub errors_return: RawHandle,
}

/// An initialised MPI job; finalised when it is dropped, aborted if that happens in a panic.
#[derive(Debug)]
pub struct Job {
    pub(super) library: Library,
    pub(super) calls: Calls,
    pub(super) abi: &'static Abi,
    pub(super) handles: Handles,
    level: ThreadLevel,
    /// Keeps the job on the thread that initialised MPI.
    not_send: PhantomData<*const ()>,
}

/// A process can initialise MPI only once.
static TAKEN: AtomicBool = AtomicBool::new(false);

impl Job {
    /// Opens the library and initialises MPI.
    ///
    /// # Errors
    /// No library is usable, this process has initialised MPI before, or the library does not
    /// recognise the launcher that started this process together with others.
    pub fn begin(search: &Search, level: ThreadLevel) -> Result<Self, FabricError> {
        let library = Library::open(search)?;
        let calls = Calls::of(&library)?;
        let abi = library.abi();
        let handle = |handle: Handle, name: &str| {
            let found = handle.resolve(|symbol| library.address(symbol));
            found.ok_or_else(|| MpiError::NoFunction {
                library: library.describe(),
                function: name.to_owned(),
            })
        };
        let handles = Handles {
            world: handle(abi.comm_world, "MPI_COMM_WORLD")?,
            comm_null: handle(abi.comm_null, "MPI_COMM_NULL")?,
            byte: handle(abi.byte, "MPI_BYTE")?,
            double: handle(abi.double, "MPI_DOUBLE")?,
            sum: handle(abi.sum, "MPI_SUM")?,
            min: handle(abi.min, "MPI_MIN")?,
            max: handle(abi.max, "MPI_MAX")?,
            info_null: handle(abi.info_null, "MPI_INFO_NULL")?,
            errors_return: handle(abi.errors_return, "MPI_ERRORS_RETURN")?,
        };
        if TAKEN.swap(true, Ordering::Relaxed) {
            return Err(MpiError::Call {
                call: "MPI_Init",
                text: "MPI can be initialised only once in a process".to_owned(),
            }
            .into());
        }
        let mut job = Self {
            library,
            calls,
            abi,
            handles,
            level,
            not_send: PhantomData,
        };
        job.initialise(level)?;
        let world = job.handles.world;
        // SAFETY: both are predefined handles of this library, which is initialised.
        let result = unsafe { (job.calls.comm_set_errhandler)(world, job.handles.errors_return) };
        job.check("MPI_Comm_set_errhandler", result)?;
        let (_, size) = job.place_in(world)?;
        if let Some(launch) = Launch::of_this_process() {
            launch.check_size(size, &job.library.describe())?;
        }
        Ok(job)
    }

    fn initialise(&mut self, level: ThreadLevel) -> Result<(), FabricError> {
        let mut provided: c_int = self.abi.thread_single;
        let result = match self.wanted(level) {
            // SAFETY: MPI was not initialised before; null arguments are allowed since MPI-2.
            None => unsafe { (self.calls.init)(std::ptr::null_mut(), std::ptr::null_mut()) },
            // SAFETY: as above, and `provided` is an int in this frame.
            Some(wanted) => unsafe {
                let (none, no_arguments) = (std::ptr::null_mut(), std::ptr::null_mut());
                (self.calls.init_thread)(none, no_arguments, wanted, &mut provided)
            },
        };
        self.check("MPI_Init", result)?;
        // SAFETY: MPI is initialised, `provided` is an int in this frame.
        let result = unsafe { (self.calls.query_thread)(&mut provided) };
        self.check("MPI_Query_thread", result)?;
        self.level = match provided {
            p if p == self.abi.thread_multiple => ThreadLevel::Multiple,
            p if p == self.abi.thread_serialized => ThreadLevel::Serialized,
            p if p == self.abi.thread_funneled => ThreadLevel::Funneled,
            _ => ThreadLevel::Single,
        };
        Ok(())
    }

    fn wanted(&self, level: ThreadLevel) -> Option<c_int> {
        match level {
            ThreadLevel::Single => None,
            ThreadLevel::Funneled => Some(self.abi.thread_funneled),
            ThreadLevel::Serialized => Some(self.abi.thread_serialized),
            ThreadLevel::Multiple => Some(self.abi.thread_multiple),
        }
    }

    /// The level that the library provides.
    pub fn thread_level(&self) -> ThreadLevel {
        self.level
    }

    /// The library in use.
    pub fn library(&self) -> &Library {
        &self.library
    }

    /// Ends all ranks of the job with this exit code; most launchers pass it on.
    pub fn abort(&self, code: i32) -> ! {
        // SAFETY: MPI is initialised as long as this object lives.
        unsafe { (self.calls.abort)(self.handles.world, code) };
        // MPI_Abort is only a best effort; this rank ends in any case.
        std::process::exit(code)
    }

    /// An error for every code but success.
    pub(super) fn check(&self, call: &'static str, code: c_int) -> Result<(), FabricError> {
        if code == self.abi.success {
            return Ok(());
        }
        let text = self.text_of(code);
        Err(MpiError::Call { call, text }.into())
    }

    /// What the library says about an error code.
    pub(super) fn text_of(&self, code: c_int) -> String {
        let mut text = vec![0_u8; self.abi.max_error_string as usize + 1];
        let mut length = 0;
        // SAFETY: the buffer has the size that the ABI guarantees is enough.
        let result = unsafe {
            (self.calls.error_string)(code, text.as_mut_ptr().cast::<c_char>(), &mut length)
        };
        match CStr::from_bytes_until_nul(&text) {
            Ok(said) if result == self.abi.success && !said.is_empty() => {
                said.to_string_lossy().replace('\n', "; ")
            }
            _ => format!("error code {code}"),
        }
    }

    pub(super) fn class_of(&self, code: c_int) -> c_int {
        let mut class = code;
        // SAFETY: `class` is an int in this frame.
        unsafe { (self.calls.error_class)(code, &mut class) };
        class
    }

    /// This process's rank in a communicator, and the communicator's size.
    pub(super) fn place_in(&self, communicator: RawHandle) -> Result<(u32, u32), FabricError> {
        let (mut rank, mut size) = (0, 0);
        // SAFETY: the communicator belongs to this job, the ints to this frame.
        let result = unsafe { (self.calls.comm_rank)(communicator, &mut rank) };
        self.check("MPI_Comm_rank", result)?;
        // SAFETY: as above.
        let result = unsafe { (self.calls.comm_size)(communicator, &mut size) };
        self.check("MPI_Comm_size", result)?;
        // Neither is negative for a communicator that this process belongs to.
        Ok((rank as u32, size as u32))
    }

    /// The handle that the library wrote into a slot, in the form in which it expects handles.
    pub(super) fn handle_in(&self, slot: Slot) -> RawHandle {
        match self.abi.handle_size {
            4 => slot.0 as i32 as isize as usize,
            _ => slot.0,
        }
    }

    pub(super) fn processor_name(&self) -> Result<String, FabricError> {
        let mut text = vec![0_u8; self.abi.max_processor_name as usize + 1];
        let mut length = 0;
        // SAFETY: the buffer has the size that the ABI guarantees is enough.
        let result =
            unsafe { (self.calls.get_processor_name)(text.as_mut_ptr().cast(), &mut length) };
        self.check("MPI_Get_processor_name", result)?;
        let name =
            CStr::from_bytes_until_nul(&text).map_or_else(|_| "".into(), CStr::to_string_lossy);
        Ok(name.into_owned())
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let (mut initialised, mut finalised) = (0, 0);
        // SAFETY: these two may be called at any time.
        unsafe {
            (self.calls.initialized)(&mut initialised);
            (self.calls.finalized)(&mut finalised);
        }
        if initialised == 0 || finalised != 0 {
            return;
        }
        if std::thread::panicking() {
            // The others would wait for this rank forever.
            self.abort(101);
        }
        // SAFETY: MPI is initialised and not yet finalised, and this is the thread that initialised
        // it.
        unsafe { (self.calls.finalize)() };
    }
}
