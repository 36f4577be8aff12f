//! Numbers with a known maximum, and changes that can be undone.
//!
//! A tournament tree: each inner node has the larger of its two children, and how many leaves have
//! that value. A trial change climbs the tree only if it may lower the maximum; most do not.

/// Numbers with their maximum.
#[derive(Clone, Debug)]
pub(crate) struct Peaks {
    values: Vec<i64>,
    /// The root at 1, the children of `i` at `2 i` and `2 i + 1`; leaves from `values.len()`
    /// rounded up to a power of two.
    tree: Vec<(i64, u32)>,
    leaves: usize,
    /// Previous values of the trial's numbers, each once.
    old: Vec<(u32, i64)>,
    /// The trial in which each number was last changed.
    seen: Vec<u32>,
    trial: u32,
    /// Whether the tree includes the trial's numbers.
    climbed: bool,
}

fn larger(a: (i64, u32), b: (i64, u32)) -> (i64, u32) {
    match a.0.cmp(&b.0) {
        std::cmp::Ordering::Less => b,
        std::cmp::Ordering::Greater => a,
        std::cmp::Ordering::Equal => (a.0, a.1 + b.1),
    }
}

impl Peaks {
    /// `count` zeros.
    pub fn new(count: usize) -> Self {
        Self::of(vec![0; count])
    }

    /// These numbers.
    pub fn of(values: Vec<i64>) -> Self {
        let leaves = values.len().max(1).next_power_of_two();
        let mut tree = vec![(i64::MIN, 0); 2 * leaves];
        for (leaf, &value) in tree[leaves..].iter_mut().zip(&values) {
            *leaf = (value, 1);
        }
        for at in (1..leaves).rev() {
            tree[at] = larger(tree[2 * at], tree[2 * at + 1]);
        }
        Peaks {
            seen: vec![0; values.len()],
            values,
            tree,
            leaves,
            old: Vec::new(),
            trial: 1,
            climbed: false,
        }
    }

    /// All numbers, including the trial's.
    #[cfg(test)]
    pub fn values(&self) -> &[i64] {
        &self.values
    }

    /// Adds to a number.
    #[inline]
    pub fn add(&mut self, at: u32, more: i64) {
        let place = at as usize;
        if self.seen[place] != self.trial {
            self.seen[place] = self.trial;
            self.old.push((at, self.values[place]));
        }
        self.values[place] += more;
    }

    /// Changes a number.
    #[inline]
    pub fn set(&mut self, at: u32, value: i64) {
        self.add(at, value - self.values[at as usize]);
    }

    /// The maximum, including the trial's changes.
    pub fn peak(&mut self) -> i64 {
        let (peak, count) = self.tree[1];
        if self.climbed {
            return peak;
        }
        let (mut most, mut at_peak) = (i64::MIN, 0);
        for &(at, old) in &self.old {
            most = most.max(self.values[at as usize]);
            at_peak += u32::from(old == peak);
        }
        if most >= peak {
            return most;
        }
        // A number outside the trial still has the maximum.
        if at_peak < count {
            return peak;
        }
        self.climb();
        self.tree[1].0
    }

    /// Index of the maximum, the first of several. Not during a trial.
    pub fn highest(&self) -> u32 {
        let mut at = 1;
        while at < self.leaves {
            at = 2 * at + usize::from(self.tree[2 * at + 1].0 > self.tree[2 * at].0);
        }
        (at - self.leaves) as u32
    }

    fn climb(&mut self) {
        for index in 0..self.old.len() {
            let place = self.old[index].0 as usize;
            let mut at = self.leaves + place;
            self.tree[at] = (self.values[place], 1);
            while at > 1 {
                at /= 2;
                let both = larger(self.tree[2 * at], self.tree[2 * at + 1]);
                if self.tree[at] == both {
                    break;
                }
                self.tree[at] = both;
            }
        }
        self.climbed = true;
    }

    fn next_trial(&mut self) {
        self.old.clear();
        self.climbed = false;
        self.trial = self.trial.wrapping_add(1);
        if self.trial == 0 {
            self.seen.fill(0);
            self.trial = 1;
        }
    }

    /// Keeps the changes.
    pub fn keep(&mut self) {
        if !self.climbed {
            self.climb();
        }
        self.next_trial();
    }

    /// Undoes the changes.
    pub fn undo(&mut self) {
        for &(at, old) in &self.old {
            self.values[at as usize] = old;
        }
        if self.climbed {
            self.climb();
        }
        self.next_trial();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_peak_is_the_largest_number_through_kept_and_undone_trials(
            start in prop::collection::vec(0i64..6, 1..20),
            trials in prop::collection::vec(
                (prop::collection::vec((0usize..20, -3i64..4), 0..4), any::<bool>(), any::<bool>()), 0..30),
        ) {
            let mut plain = start.clone();
            let mut peaks = Peaks::of(start);
            for (changes, asked, kept) in trials {
                let mut changed = plain.clone();
                for (at, more) in changes {
                    let at = at % plain.len();
                    changed[at] += more;
                    peaks.add(at as u32, more);
                }
                if asked {
                    prop_assert_eq!(Some(peaks.peak()), changed.iter().copied().max());
                }
                if kept { peaks.keep(); plain = changed; } else { peaks.undo(); }
                prop_assert_eq!(peaks.values(), &plain[..]);
                let most = plain.iter().copied().max().unwrap();
                prop_assert_eq!(peaks.peak(), most);
                let first = plain.iter().position(|&v| v == most);
                prop_assert_eq!(Some(peaks.highest() as usize), first);
            }
        }
    }
}
