//! Limits each user's share of the real-time thread that switches everyone's gangs.

use idlewave_sys::Uid;
use idlewave_units::Nanos;
use std::collections::BTreeMap;

/// Each user may always use 1/PART of a CPU.
const PART: u64 = 50;
/// What a user may use in a burst: about a hundred answers.
const BURST: Nanos = Nanos::from_millis(20);
/// Most users tracked. Users without recent use are forgotten.
const MOST: usize = 1_024;

/// Time used per user. Root and the service's user are not limited.
#[derive(Debug)]
pub struct Budget {
    exempt: [Uid; 2],
    /// By user: the debt, and when it was last updated.
    debts: BTreeMap<Uid, (Nanos, Nanos)>,
}

impl Budget {
    /// A budget for a service of this user.
    pub fn new(owner: Uid) -> Self {
        Self {
            exempt: [Uid::ROOT, owner],
            debts: BTreeMap::new(),
        }
    }

    fn debt(&self, user: Uid, now: Nanos) -> Nanos {
        self.debts.get(&user).map_or(Nanos::ZERO, |(debt, since)| {
            let paid = now.saturating_sub(*since).get() / PART;
            debt.saturating_sub(Nanos::from_nanos(paid))
        })
    }

    /// Whether a request of this user may be served now.
    pub fn allows(&self, user: Uid, now: Nanos) -> bool {
        self.debt(user, now) < BURST
    }

    /// Charges the time of a served request.
    pub fn charge(&mut self, user: Uid, took: Nanos, now: Nanos) {
        if self.exempt.contains(&user) {
            return;
        }
        let debt = self.debt(user, now) + took;
        self.debts.insert(user, (debt, now));
        if self.debts.len() > MOST {
            let owing = self.debts.keys().copied().collect::<Vec<Uid>>();
            let owing = owing.into_iter().map(|of| (of, self.debt(of, now)));
            let kept = owing.filter(|(_, debt)| *debt > Nanos::ZERO);
            self.debts = kept.map(|(of, debt)| (of, (debt, now))).collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_who_asks_for_ever_has_a_fiftieth_of_a_cpu_and_others_wait_for_nothing() {
        let mut budget = Budget::new(Uid::new(3));
        let (mut now, mut used) = (Nanos::ZERO, Nanos::ZERO);
        let answer = Nanos::from_micros(200);
        while now < Nanos::from_secs(10) {
            match budget.allows(Uid::new(7), now) {
                true => {
                    now += answer;
                    used += answer;
                    budget.charge(Uid::new(7), answer, now);
                }
                false => now += Nanos::from_millis(1),
            }
            assert!(budget.allows(Uid::new(8), now));
        }
        let part = used.as_f64() / now.as_f64();
        assert!((0.019..0.023).contains(&part), "{part}");
        for user in [Uid::ROOT, Uid::new(3)] {
            budget.charge(user, Nanos::from_secs(9), now);
            assert!(budget.allows(user, now));
        }
    }

    #[test]
    fn who_owes_nothing_is_forgotten_and_who_does_is_not() {
        let mut budget = Budget::new(Uid::ROOT);
        budget.charge(Uid::new(7), Nanos::from_secs(100), Nanos::ZERO);
        for user in 10..10_000 {
            let now = Nanos::from_millis(u64::from(user));
            budget.charge(Uid::new(user), Nanos::from_micros(1), now);
        }
        assert!(budget.debts.len() <= MOST + 1);
        assert!(!budget.allows(Uid::new(7), Nanos::from_secs(10)));
    }
}
