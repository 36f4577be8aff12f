//! One call of a wrapped function, with its arguments in the form of the calling language.

use crate::library::{Kind, Library, invoke, symbol_anywhere};
use crate::narrow::{self, Kept};
use crate::page::Page;
use crate::state::Want;
use crate::table::How;
use crate::{clock, ring::flags};
use std::ffi::{CStr, CString};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicUsize};

/// The interface through which a function was called.
#[derive(Clone, Copy, PartialEq)]
pub enum Form {
    /// C.
    C,
    /// `mpif.h` and `use mpi`: everything by reference.
    Mpif,
    /// `use mpi_f08`, buffers by reference.
    F08,
    /// `use mpi_f08`, buffers as descriptors (TS 29113).
    F08ts,
}

/// A wrapped function in one of its forms.
pub struct Entry {
    pub number: u16,
    pub how: How,
    pub form: Form,
    pub large: bool,
    names: &'static [&'static CStr],
    real: AtomicUsize,
    narrow: AtomicBool,
}

impl Entry {
    pub const fn new(
        number: u16,
        how: How,
        form: Form,
        large: bool,
        names: &'static [&'static CStr],
    ) -> Self {
        Self {
            number,
            how,
            form,
            large,
            names,
            real: AtomicUsize::new(0),
            narrow: AtomicBool::new(false),
        }
    }

    /// The library's own function; `None` if there is none.
    #[inline(always)]
    pub fn real(&self) -> Option<usize> {
        // Acquire: `narrow` is stored before it.
        match self.real.load(Acquire) {
            0 => self.find(),
            address => Some(address),
        }
    }

    #[cold]
    fn find(&self) -> Option<usize> {
        let mut address = self.names.iter().find_map(|name| symbol_anywhere(name));
        if address.is_none() && self.large && self.form == Form::C {
            let plain = self.name().to_bytes().strip_suffix(b"_c")?;
            address = symbol_anywhere(&CString::new(plain).ok()?);
            self.narrow.store(address.is_some(), Relaxed);
        }
        self.real.store(address?, Release);
        address
    }

    /// Its profiling name.
    pub fn name(&self) -> &'static CStr {
        self.names[0]
    }

    /// Whether `real` is the function without large counts because the library has no other.
    pub fn narrow(&self) -> bool {
        self.large && self.narrow.load(Relaxed)
    }
}

/// Size of a status in `u64`s, rounded up.
pub const STATUS_WORDS: usize = crate::abi::StatusLayout::MAX_SIZE / 8;

/// A call being recorded.
pub struct Call<'a> {
    pub entry: &'static Entry,
    pub library: &'static Library,
    pub real: usize,
    pub arguments: &'a mut [usize],
    pub begin: u64,
    pub end: u64,
    /// What the function returned.
    pub code: i32,
    /// Our own status, used where the program passes none.
    pub status: [u64; STATUS_WORDS],
    /// Arrays that the library may still need after the call.
    pub kept: Kept,
    /// The state page, if one is kept.
    pub page: Option<&'static Page>,
    /// What the call, or the request that it starts, waits for.
    pub want: Want,
}

impl Call<'_> {
    /// Calls the library's function and takes the time before and after it.
    #[inline(always)]
    pub fn run(&mut self) {
        self.poll();
        self.done();
    }

    /// Takes the time after the call.
    #[inline(always)]
    pub fn done(&mut self) {
        self.end = clock::now();
    }

    /// Calls the library's function and takes the time only before it.
    #[inline(always)]
    pub fn poll(&mut self) {
        if self.entry.narrow() {
            self.begin = clock::now();
            // SAFETY: the arguments are those that the program passed.
            let (code, kept) =
                unsafe { narrow::invoke(self.entry, self.library, self.real, self.arguments) };
            (self.code, self.kept) = (code, kept);
        } else if self.entry.form == Form::C {
            self.begin = clock::now();
            // SAFETY: the arguments are those that the program passed, and as many.
            self.code = unsafe { invoke(self.real, self.arguments) };
        } else {
            self.run_fortran();
        }
    }

    fn run_fortran(&mut self) {
        let mut own = 0_i32;
        let last = match self.entry.how {
            // Two more arguments for the lengths of strings.
            How::Loss | How::Outside => self.arguments.len() - 3,
            _ => self.arguments.len() - 1,
        };
        // The error code is optional in mpi_f08.
        if self.arguments[last] == 0 {
            self.arguments[last] = (&raw mut own) as usize;
        }
        self.begin = clock::now();
        // SAFETY: as above; the error code goes to the program's variable or to our own.
        unsafe { invoke(self.real, self.arguments) };
        // SAFETY: the function has written it.
        self.code = unsafe { *(self.arguments[last] as *const i32) };
    }

    pub fn fortran(&self) -> bool {
        self.entry.form != Form::C
    }

    pub fn failed(&self) -> bool {
        self.code != 0
    }

    /// [`flags::FAILED`] or nothing.
    pub fn failure(&self) -> u8 {
        if self.failed() { flags::FAILED } else { 0 }
    }

    /// An int.
    #[inline(always)]
    pub fn int(&self, i: usize) -> i32 {
        match self.entry.form {
            Form::C => self.arguments[i] as i32,
            // SAFETY: Fortran passes integers by reference.
            _ => unsafe { *(self.arguments[i] as *const i32) },
        }
    }

    /// A count of elements; nothing for a negative one.
    #[inline(always)]
    pub fn count(&self, i: usize) -> u64 {
        let value = match (self.entry.large, self.entry.form) {
            (false, _) => i64::from(self.int(i)),
            (true, Form::C) => self.arguments[i] as i64,
            // SAFETY: as above, an INTEGER(MPI_COUNT_KIND).
            (true, _) => unsafe { *(self.arguments[i] as *const i64) },
        };
        u64::try_from(value).unwrap_or(0)
    }

    /// Element `k` of an array of counts.
    pub fn count_of(&self, i: usize, k: usize) -> u64 {
        // SAFETY: the program's array has an element per member, which is how `k` is chosen.
        let value = unsafe {
            match self.entry.large {
                false => i64::from(*(self.arguments[i] as *const i32).add(k)),
                true => *(self.arguments[i] as *const i64).add(k),
            }
        };
        u64::try_from(value).unwrap_or(0)
    }

    /// A handle in its C form.
    #[inline(always)]
    pub fn handle(&self, i: usize, kind: Kind) -> usize {
        match self.entry.form {
            Form::C if self.library.abi.handle_size == 4 => {
                self.arguments[i] as i32 as isize as usize
            }
            Form::C => self.arguments[i],
            _ => self.library.from_fortran(kind, self.int(i)),
        }
    }

    /// The handle that argument `i` points to, or element `k` of the array of handles there.
    #[inline(always)]
    pub fn handle_of(&self, i: usize, k: usize, kind: Kind) -> usize {
        let at = self.slot(i, k);
        match self.entry.form {
            // SAFETY: argument `i` points to that many handles.
            Form::C => unsafe { self.library.handle_at(at) },
            // SAFETY: in Fortran a handle is an INTEGER.
            _ => self
                .library
                .from_fortran(kind, unsafe { *(at as *const i32) }),
        }
    }

    /// Address of element `k` of an array of handles.
    #[inline(always)]
    pub fn slot(&self, i: usize, k: usize) -> usize {
        let size = if self.fortran() {
            4
        } else {
            self.library.abi.handle_size
        };
        self.arguments[i] + k * size
    }

    /// The int that argument `i` points to after the call, in C and Fortran alike.
    #[inline(always)]
    pub fn out(&self, i: usize) -> i32 {
        // SAFETY: an argument in which the function returns an int.
        unsafe { *(self.arguments[i] as *const i32) }
    }

    /// Whether buffer `i` is MPI_IN_PLACE.
    pub fn in_place(&self, i: usize) -> bool {
        let address = match self.entry.form {
            // SAFETY: the base address is the first member of a descriptor (ISO/IEC TS 29113).
            Form::F08ts => unsafe { *(self.arguments[i] as *const usize) },
            _ => self.arguments[i],
        };
        self.library.is_in_place(self.fortran(), address)
    }

    /// Ensures that argument `i` points to a status.
    #[inline(always)]
    pub fn want_status(&mut self, i: usize) {
        if self
            .library
            .is_status_ignore(self.fortran(), self.arguments[i])
        {
            self.arguments[i] = self.status.as_mut_ptr() as usize;
        }
    }
}
