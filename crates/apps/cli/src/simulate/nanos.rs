//! Times on the command line whose unit may be omitted.

use idlewave_units::Nanos;

/// A whole number of nanoseconds, or a time with its unit.
pub fn nanos(text: &str) -> Result<Nanos, String> {
    match text.parse() {
        Ok(ns) if !text.starts_with('+') => Ok(Nanos::from_nanos(ns)),
        _ => text
            .parse()
            .map_err(|_| format!("`{text}` is not a time, as in 2500 (nanoseconds) or 2.5us")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_nanoseconds_or_have_a_unit() {
        assert_eq!(nanos("2500"), Ok(Nanos::from_nanos(2_500)));
        assert_eq!(nanos("2.5us"), Ok(Nanos::from_nanos(2_500)));
        for text in ["-1", "+1", "", "1.5", "x", "2^3", "18446744073709551616"] {
            assert!(nanos(text).is_err(), "{text}");
        }
    }
}
