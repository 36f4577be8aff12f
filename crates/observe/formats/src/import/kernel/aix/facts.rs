//! The lines above the columns: they say which machine was traced.

/// What the lines before the events say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) host: Option<String>,
    /// System and version.
    pub(crate) system: Option<String>,
}

impl Facts {
    /// Takes a line: `System: AIX 5.3 Node: host`, or one with host and version swapped, as in
    /// IBM's own example.
    pub(crate) fn note(&mut self, line: &[u8]) {
        let Some(rest) = line.strip_prefix(b"System:") else {
            return;
        };
        let text: String = String::from_utf8_lossy(rest).chars().take(256).collect();
        let words: Vec<&str> = text.split_whitespace().collect();
        if let [system, first, "Node:", second, ..] = words[..] {
            let is_version = |word: &str| word.starts_with(|c: char| c.is_ascii_digit());
            let (version, host) = match is_version(first) {
                true => (first, second),
                false => (second, first),
            };
            self.host = Some(host.to_owned());
            self.system = Some(format!("{system} {version}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_found_on_either_side_of_the_node() {
        for line in ["System: AIX texmex Node: 4", "System: AIX 4 Node: texmex"] {
            let mut facts = Facts::default();
            facts.note(line.as_bytes());
            let expected = (Some("texmex".to_owned()), Some("AIX 4".to_owned()));
            assert_eq!((facts.host, facts.system), expected, "{line}");
        }
        let mut facts = Facts::default();
        facts.note(b"System: AIX");
        assert_eq!(facts, Facts::default());
    }
}
