//! Results, to be returned with a minus sign (fi_errno(3)).

pub const EAGAIN: isize = 11;
pub const ENOMEM: isize = 12;
pub const EBUSY: isize = 16;
pub const ENODEV: isize = 19;
pub const EINVAL: isize = 22;
pub const ENOSYS: isize = 38;
pub const ENOMSG: isize = 42;
pub const ENODATA: isize = 61;
pub const EMSGSIZE: isize = 90;
pub const ENOPROTOOPT: isize = 92;
pub const EOPNOTSUPP: isize = 95;
pub const ENETDOWN: isize = 100;
pub const ETIMEDOUT: isize = 110;
pub const EHOSTUNREACH: isize = 113;
pub const ECANCELED: isize = 125;
pub const EOTHER: isize = 256;
pub const ETOOSMALL: isize = 257;
pub const EOPBADSTATE: isize = 258;
pub const EAVAIL: isize = 259;
pub const EBADFLAGS: isize = 260;
pub const ENOCQ: isize = 263;
pub const ETRUNC: isize = 265;
pub const ENOAV: isize = 267;
