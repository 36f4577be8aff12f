//! Values with their uncertainty.

use serde::{Deserialize, Serialize};

/// The origin of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Measured: the range is a 95 % interval.
    Measured,
    /// From a data sheet or a file: no range unless given.
    Stated,
    /// Assumed, for lack of information: the range is a guess as well.
    Assumed,
}

/// A value with its range, from `low` to `high`, in the unit of its field. `low <= value <= high`,
/// all finite and at least 0.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Form", into = "Form")]
pub struct Quantity {
    /// The number.
    pub value: f64,
    /// Lower end of the range.
    pub low: f64,
    /// Upper end of the range.
    pub high: f64,
    /// Its origin.
    pub origin: Origin,
}

/// In a file: a bare number is a stated one without a range.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "expected a number, or a table of value, low, high and origin"
)]
enum Form {
    Bare(f64),
    Whole {
        value: f64,
        low: f64,
        high: f64,
        origin: Origin,
    },
}

impl From<Form> for Quantity {
    fn from(form: Form) -> Self {
        match form {
            Form::Bare(value) => Quantity::stated(value),
            Form::Whole {
                value,
                low,
                high,
                origin,
            } => Quantity {
                value,
                low,
                high,
                origin,
            },
        }
    }
}

impl From<Quantity> for Form {
    fn from(q: Quantity) -> Self {
        if q == Quantity::stated(q.value) {
            return Form::Bare(q.value);
        }
        Form::Whole {
            value: q.value,
            low: q.low,
            high: q.high,
            origin: q.origin,
        }
    }
}

impl Quantity {
    /// Without a range.
    pub const fn stated(value: f64) -> Self {
        Quantity {
            value,
            low: value,
            high: value,
            origin: Origin::Stated,
        }
    }

    /// With its 95 % interval.
    pub const fn measured(value: f64, low: f64, high: f64) -> Self {
        Quantity {
            value,
            low,
            high,
            origin: Origin::Measured,
        }
    }

    /// A guess that may be off by this factor in either direction.
    pub fn assumed(value: f64, factor: f64) -> Self {
        Quantity {
            value,
            low: value / factor,
            high: value * factor,
            origin: Origin::Assumed,
        }
    }

    /// Whether it is a number within its range.
    pub fn is_sound(&self) -> bool {
        self.low.is_finite()
            && self.high.is_finite()
            && 0.0 <= self.low
            && self.low <= self.value
            && self.value <= self.high
    }

    /// Standard deviation relative to the value, as if the range were a 95 % interval of a
    /// log-normal distribution; 0 without a range.
    pub fn relative_deviation(&self) -> f64 {
        /// 95 % of a normal distribution lie within this many standard deviations.
        const SIGMAS: f64 = 1.96;
        if self.value <= 0.0 || self.high <= self.low {
            return 0.0;
        }
        match self.low > 0.0 {
            true => (self.high / self.low).ln() / (2.0 * SIGMAS),
            false => (self.high - self.low) / (2.0 * SIGMAS * self.value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deviations_are_those_of_the_range() {
        assert_eq!(Quantity::stated(5.0).relative_deviation(), 0.0);
        // A factor of e^0.196 each way is 1.96 deviations of 0.1.
        let wide = Quantity::assumed(3.0, 0.196_f64.exp());
        assert!((wide.relative_deviation() - 0.1).abs() < 1e-12);
        assert!((Quantity::measured(100.0, 0.0, 392.0).relative_deviation() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn what_is_no_range_is_not_sound() {
        assert!(Quantity::stated(0.0).is_sound());
        assert!(!Quantity::stated(f64::NAN).is_sound());
        assert!(!Quantity::stated(-1.0).is_sound());
        assert!(!Quantity::measured(3.0, 3.5, 4.0).is_sound());
        assert!(!Quantity::measured(3.0, 1.0, f64::INFINITY).is_sound());
    }
}
