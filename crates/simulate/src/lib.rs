//! What noise costs at scale: a bulk-synchronous engine with closed forms as its tests.
