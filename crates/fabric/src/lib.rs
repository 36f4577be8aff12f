//! Ranks that send, receive and synchronise; implementation over threads and shared memory.
