//! What a shutdown lost, in numbers and in one line.

use std::fmt;

use super::backlog::Unjudged;
use crate::emit::Unsent;

/// What was lost from the beginning of a shutdown to its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Evaluations that were not delivered, by exporter; those that lost none are not named.
    pub unsent: Vec<Unsent>,
    /// What was never judged.
    pub unjudged: Unjudged,
    /// What was not judged and is in the log: the next process judges it. It is not lost.
    pub kept: Unjudged,
    /// Evaluations that the next process delivers, by exporter. They are not lost.
    pub left: Vec<Unsent>,
}

impl Lost {
    /// Whether all that was acknowledged has been judged and delivered.
    pub fn is_nothing(&self) -> bool {
        self.unsent.is_empty() && self.unjudged == Unjudged::default()
    }

    /// Evaluations that were not delivered, over all exporters.
    pub fn evaluations(&self) -> u64 {
        self.unsent.iter().map(|unsent| unsent.evaluations).sum()
    }
}

impl Lost {
    /// What the next process goes on with, for people; `None` where there is nothing.
    pub fn kept(&self) -> Option<String> {
        let unsent = self.left.clone();
        let kept = Self { unsent, unjudged: self.kept, ..Self::default() };
        (!kept.is_nothing()).then(|| kept.to_string())
    }
}

/// Such as `3 evaluations not delivered (file 1, otlp 2), 1 trace not judged`.
impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unjudged { records, traces, sessions } = self.unjudged;
        let mut divider = "";
        for (count, one, many, what) in [
            (self.evaluations(), "evaluation", "evaluations", "not delivered"),
            (sessions, "session", "sessions", "not judged"),
            (traces, "trace", "traces", "not judged"),
            (records, "span or log event", "spans or log events", "not assembled"),
        ] {
            if count == 0 {
                continue;
            }
            write!(f, "{divider}{count} {} {what}", if count == 1 { one } else { many })?;
            divider = ", ";
            if one == "evaluation" {
                let each = |unsent: &Unsent| format!("{} {}", unsent.exporter, unsent.evaluations);
                let exporters: Vec<_> = self.unsent.iter().map(each).collect();
                write!(f, " ({})", exporters.join(", "))?;
            }
        }
        if divider.is_empty() { f.write_str("nothing") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_names_what_was_lost_and_nothing_else() {
        let unsent =
            |exporter: &str, evaluations| Unsent { exporter: exporter.into(), evaluations };
        let all = Lost {
            unsent: vec![unsent("file", 1), unsent("otlp_grpc/a", 20)],
            unjudged: Unjudged { records: 4, traces: 1, sessions: 2 },
            kept: Unjudged::default(),
            left: Vec::new(),
        };
        assert_eq!(
            all.to_string(),
            "21 evaluations not delivered (file 1, otlp_grpc/a 20), 2 sessions not judged, \
             1 trace not judged, 4 spans or log events not assembled"
        );
        let one = Lost { unsent: vec![unsent("file", 1)], ..Lost::default() };
        assert_eq!(one.to_string(), "1 evaluation not delivered (file 1)");
        assert!(!one.is_nothing() && Lost::default().is_nothing());
    }
}
