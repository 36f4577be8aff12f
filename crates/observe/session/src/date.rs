//! The wall clock, for display only: nothing is computed from it.

/// A second of the calendar, in UTC.
pub struct Utc(chrono::DateTime<chrono::Utc>);

impl Utc {
    /// Now.
    pub fn now() -> Self {
        Self(chrono::Utc::now())
    }

    /// A time stamp of a file.
    pub fn of(time: std::time::SystemTime) -> Self {
        Self(time.into())
    }

    /// In RFC 3339.
    pub fn rfc3339(&self) -> String {
        self.0.format("%Y-%m-%dT%H:%M:%SZ").to_string()
    }

    /// As part of a file name.
    pub fn for_file(&self) -> String {
        self.0.format("%Y%m%d-%H%M%S").to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let at = |seconds| Utc(chrono::DateTime::from_timestamp(seconds, 0).unwrap());
        assert_eq!(at(0).rfc3339(), "1970-01-01T00:00:00Z");
        assert_eq!(at(951_782_400).rfc3339(), "2000-02-29T00:00:00Z");
        assert_eq!(at(1_790_000_000).for_file(), "20260921-141320");
    }
}
