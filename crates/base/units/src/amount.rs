//! Amounts in text: a number, a prefix and a unit.

/// The leading number, and the rest without spaces.
pub(crate) fn split(text: &str) -> Option<(&str, String)> {
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit: String = unit.chars().filter(|c| !c.is_whitespace()).collect();
    Some((number, unit)).filter(|_| !number.is_empty())
}

/// Decimal and binary prefixes, in any case: k, M, G, T, P and Ki, Mi, Gi, Ti, Pi.
pub(crate) fn prefix(text: &str) -> Option<u64> {
    Some(match text.to_ascii_lowercase().as_str() {
        "" => 1,
        "k" => 1_000,
        "m" => 1_000_000,
        "g" => 1_000_000_000,
        "t" => 1_000_000_000_000,
        "p" => 1_000_000_000_000_000,
        "ki" => 1 << 10,
        "mi" => 1 << 20,
        "gi" => 1 << 30,
        "ti" => 1 << 40,
        "pi" => 1 << 50,
        _ => return None,
    })
}
