//! The replay window of a session: which counters have been seen (RFC 4303, section 3.4.3).

/// How many counters are tracked, from the highest seen downwards.
pub(crate) const WIDTH: u64 = 128;

/// The counters that were seen.
#[derive(Debug, Default)]
pub(crate) struct Window {
    /// The highest counter seen; `None` if none was.
    highest: Option<u64>,
    /// Bit `k`: `highest - k` was seen.
    seen: u128,
}

/// What a window knows about a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Not seen before.
    New,
    /// Seen before.
    Seen,
    /// Too far below the highest one to tell.
    Unknown,
}

impl Window {
    /// Records the counter of an authentic frame and returns its previous state.
    pub(crate) fn note(&mut self, counter: u64) -> Verdict {
        let Some(highest) = self.highest else {
            *self = Window {
                highest: Some(counter),
                seen: 1,
            };
            return Verdict::New;
        };
        if counter > highest {
            let step = counter - highest;
            let kept = u32::try_from(step).ok();
            self.seen = kept.and_then(|k| self.seen.checked_shl(k)).unwrap_or(0) | 1;
            self.highest = Some(counter);
            return Verdict::New;
        }
        let below = highest - counter;
        if below >= WIDTH {
            return Verdict::Unknown;
        }
        let bit = 1u128 << below;
        if self.seen & bit != 0 {
            return Verdict::Seen;
        }
        self.seen |= bit;
        Verdict::New
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_edges_of_the_window_are_where_they_are_said_to_be() {
        let mut window = Window::default();
        assert_eq!(window.note(1000), Verdict::New);
        assert_eq!(window.note(1000), Verdict::Seen);
        assert_eq!(window.note(1000 - 127), Verdict::New);
        assert_eq!(window.note(1000 - 127), Verdict::Seen);
        assert_eq!(window.note(1000 - 128), Verdict::Unknown);
        assert_eq!(window.note(1001), Verdict::New);
        assert_eq!(window.note(1000), Verdict::Seen);
        assert_eq!(window.note(1000 - 127), Verdict::Unknown);
        assert_eq!(window.note(u64::MAX), Verdict::New);
        assert_eq!(window.note(u64::MAX - 127), Verdict::New);
        assert_eq!(window.note(1000), Verdict::Unknown);
    }

    proptest! {
        #[test]
        fn no_counter_is_new_twice_and_none_near_the_highest_is_refused_unseen(
            counters in proptest::collection::vec(0u64..400, 0..300)
        ) {
            let mut window = Window::default();
            let mut seen = BTreeSet::new();
            for counter in counters {
                let highest = seen.last().copied().unwrap_or(0);
                let expected = if seen.contains(&counter) && counter + WIDTH > highest {
                    Verdict::Seen
                } else if !seen.is_empty() && counter + WIDTH <= highest {
                    Verdict::Unknown
                } else {
                    Verdict::New
                };
                prop_assert_eq!(window.note(counter), expected);
                if expected == Verdict::New {
                    seen.insert(counter);
                }
            }
        }
    }
}
