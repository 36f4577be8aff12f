//! Programs that measure: detour loop, fixed work quantum, lockstep runs over any fabric.
