//! The wall clock, for people only: nothing is computed from it.

use std::time::{SystemTime, UNIX_EPOCH};

/// Year, month, day, hour, minute and second in UTC.
pub struct Utc {
    fields: [i64; 6],
}

impl Utc {
    /// Now.
    pub fn now() -> Self {
        Self::at(
            SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |d| d.as_secs() as i64),
        )
    }

    /// Seconds after 1970-01-01T00:00:00Z.
    fn at(seconds: i64) -> Self {
        let time = seconds as libc::time_t;
        // SAFETY: all-zero bytes are a valid `tm` (its pointer may be null).
        let mut parts: libc::tm = unsafe { std::mem::zeroed() };
        // SAFETY: reads one time and writes one `tm`, both valid for the call.
        unsafe { libc::gmtime_r(&time, &mut parts) };
        let fields = [
            parts.tm_year + 1900,
            parts.tm_mon + 1,
            parts.tm_mday,
            parts.tm_hour,
            parts.tm_min,
            parts.tm_sec,
        ];
        Self {
            fields: fields.map(i64::from),
        }
    }

    /// As RFC 3339 has it.
    pub fn rfc3339(&self) -> String {
        let [year, month, day, hour, minute, second] = self.fields;
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }

    /// As part of a file name.
    pub fn for_file(&self) -> String {
        let [year, month, day, hour, minute, second] = self.fields;
        format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(Utc::at(0).rfc3339(), "1970-01-01T00:00:00Z");
        assert_eq!(Utc::at(951_782_400).rfc3339(), "2000-02-29T00:00:00Z");
        assert_eq!(Utc::at(1_790_000_000).for_file(), "20260921-141320");
    }
}
