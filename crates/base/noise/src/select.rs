//! Selection of sources by pattern, as in `--without 'irq:*'`.

use crate::model::{NoiseModel, Source};
use idlewave_run::SourceKind;
use std::str::FromStr;

/// Selects sources by name or `kind:name`, where `*` matches any characters. Case is ignored; in a
/// kind, `_` or `-` may replace a space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    kind: Option<String>,
    name: String,
    text: String,
}

/// Why a text is not a valid pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an empty pattern; expected a name like `kworker*`, or a kind and a name like `irq:*`")]
pub struct PatternError;

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let lower = text.trim().to_lowercase();
        if lower.is_empty() {
            return Err(PatternError);
        }
        // Names contain colons too ("kworker/0:1"), so the part before the first one is a kind only
        // if it names one.
        let kind = lower.split_once(':').filter(|(kind, _)| {
            let kind = plain(kind);
            SourceKind::ALL.iter().any(|k| is_kind(&kind, *k))
        });
        Ok(match kind {
            Some((kind, name)) => Pattern {
                kind: Some(plain(kind)),
                name: name.to_owned(),
                text: text.to_owned(),
            },
            None => Pattern {
                kind: None,
                name: lower,
                text: text.to_owned(),
            },
        })
    }
}

impl Pattern {
    /// The pattern as given.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the pattern selects this source.
    pub fn matches(&self, source: &Source) -> bool {
        self.kind.as_ref().is_none_or(|k| is_kind(k, source.kind))
            && like(&self.name, &source.name.to_lowercase())
    }

    /// Indices of the model's sources that the pattern selects.
    pub fn chosen(&self, model: &NoiseModel) -> Vec<usize> {
        (0..model.sources.len())
            .filter(|&i| self.matches(&model.sources[i]))
            .collect()
    }
}

/// Whether the pattern matches the kind: its label, or its name in models and findings.
fn is_kind(pattern: &str, kind: SourceKind) -> bool {
    let is = |name: &str| like(pattern, &plain(name));
    let written = toml::Value::try_from(kind);
    is(kind.label()) || written.is_ok_and(|w| w.as_str().is_some_and(is))
}

/// A kind in lower case, with its words joined by spaces.
fn plain(kind: &str) -> String {
    kind.to_lowercase().replace(['_', '-'], " ")
}

/// Whether the text matches the pattern with `*` as wildcard.
fn like(pattern: &str, text: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(mut text) = text.strip_prefix(head) else {
        return false;
    };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let tail = parts.pop().unwrap_or("");
    for part in parts {
        match text.find(part) {
            Some(at) => text = &text[at + part.len()..],
            None => return false,
        }
    }
    text.len() >= tail.len() && text.ends_with(tail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Arrivals, Lengths, Scope, Together};

    fn source(kind: SourceKind, name: &str) -> Source {
        Source {
            kind,
            name: name.into(),
            strikes: Scope::EachCpu,
            together: Together::Alone,
            cpus: None,
            keeps: 0.0,
            arrivals: Arrivals::Poisson { rate_per_s: 1.0 },
            length: Some(Lengths::Fixed { ns: 1 }),
            fit: None,
        }
    }

    #[test]
    fn patterns_choose_by_name_by_kind_and_by_parts() {
        let irq = source(SourceKind::Irq, "eth0");
        let worker = source(SourceKind::KernelThread, "kworker/0:1");
        for (pattern, first, second) in [
            ("irq:*", true, false),
            ("IRQ:eth*", true, false),
            ("kworker*", false, true),
            ("kworker/0:1", false, true),
            ("*0:*", false, true),
            ("*", true, true),
            ("kernel_thread:*", false, true),
            ("kernel-thread:kworker*1", false, true),
            ("k*:*", false, true),
            ("kworker", false, false),
            ("eth", false, false),
            ("*eth0*eth0", false, false),
            ("irq:kworker*", false, false),
        ] {
            let pattern: Pattern = pattern.parse().unwrap();
            assert_eq!(pattern.matches(&irq), first, "{pattern:?}");
            assert_eq!(pattern.matches(&worker), second, "{pattern:?}");
        }
        // By label and by the name in models.
        let gap = source(SourceKind::Hypervisor, "hypervisor gap");
        for pattern in ["hypervisor:*", "hypervisor gap", "hypervisor*"] {
            assert!(
                pattern.parse::<Pattern>().unwrap().matches(&gap),
                "{pattern}"
            );
        }
        assert_eq!("  ".parse::<Pattern>(), Err(PatternError));
    }
}
