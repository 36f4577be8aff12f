//! Decoder of the kernel's trace ring buffer: format files, raw pages, and the timeline of every CPU.
