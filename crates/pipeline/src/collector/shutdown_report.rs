//! Shutdown report: losses in numbers and in one line.

use std::fmt;

use crate::backlog::Unjudged;
use spanscore_emit::Undelivered;

/// Losses of a shutdown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShutdownReport {
    /// Undelivered evaluations by exporter, without zeros.
    pub unsent: Vec<Undelivered>,
    /// Accepted, unforwarded items by forward, without zeros.
    pub unforwarded: Vec<Undelivered>,
    /// Acknowledged, unjudged data.
    pub unjudged: Unjudged,
    /// Work continued by the next process; not lost.
    pub kept: Option<Box<Self>>,
}

impl ShutdownReport {
    /// Returns true if all acknowledged data was judged, delivered and forwarded.
    pub fn is_nothing(&self) -> bool {
        let Self { unsent, unforwarded, unjudged, kept: _ } = self;
        unsent.is_empty() && unforwarded.is_empty() && *unjudged == Unjudged::default()
    }

    /// Sums the undelivered evaluations of all exporters.
    pub fn evaluations(&self) -> u64 {
        self.unsent.iter().map(|unsent| unsent.count).sum()
    }

    /// Adds the remaining work: as kept if it is in the log, otherwise as lost.
    pub(super) fn with(mut self, left: Self, is_kept: bool) -> Self {
        if is_kept {
            return Self { kept: Some(Box::new(left)), ..self };
        }
        self.unjudged = left.unjudged;
        add(&mut self.unsent, left.unsent);
        add(&mut self.unforwarded, left.unforwarded);
        self
    }

    /// Formats the kept work for people; `None` if there is none.
    pub fn kept(&self) -> Option<String> {
        let kept = self.kept.as_ref().filter(|kept| !kept.is_nothing());
        kept.map(ToString::to_string)
    }
}

/// Adds counts to those of the same name.
fn add(lost: &mut Vec<Undelivered>, left: Vec<Undelivered>) {
    for left in left {
        match lost.iter_mut().find(|lost| lost.name == left.name) {
            Some(lost) => lost.count += left.count,
            None => lost.push(left),
        }
    }
}

/// Formats like `3 evaluations not delivered (file 1, otlp 2), 1 trace not judged`.
impl fmt::Display for ShutdownReport {
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
                let each = |unsent: &Undelivered| format!("{} {}", unsent.name, unsent.count);
                let exporters: Vec<_> = self.unsent.iter().map(each).collect();
                write!(f, " ({})", exporters.join(", "))?;
            }
        }
        for Undelivered { name, count } in &self.unforwarded {
            let many = if *count == 1 { "item" } else { "items" };
            write!(f, "{divider}{count} {many} not passed on ({name})")?;
            divider = ", ";
        }
        if divider.is_empty() { f.write_str("nothing") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remaining_work_counts_as_kept_or_lost() {
        let unsent = vec![Undelivered { name: "file".into(), count: 3 }];
        let unforwarded = vec![Undelivered { name: "otlp/b".into(), count: 7 }];
        let lost = ShutdownReport { unsent: unsent.clone(), ..ShutdownReport::default() };
        let unjudged = Unjudged { records: 0, traces: 2, sessions: 0 };
        let left = ShutdownReport { unsent, unforwarded, unjudged, kept: None };
        let kept = lost.clone().with(left.clone(), true);
        assert_eq!(kept.unsent, lost.unsent);
        assert_eq!(kept.kept.as_deref(), Some(&left));
        assert_eq!(
            lost.with(left, false).to_string(),
            "6 evaluations not delivered (file 6), 2 traces not judged, \
             7 items not passed on (otlp/b)"
        );
    }

    #[test]
    fn the_line_names_what_was_lost_and_nothing_else() {
        let unsent = |name: &str, count| Undelivered { name: name.into(), count };
        let all = ShutdownReport {
            unsent: vec![unsent("file", 1), unsent("otlp_grpc/a", 20)],
            unforwarded: vec![Undelivered { name: "otlp/b".into(), count: 7 }],
            unjudged: Unjudged { records: 4, traces: 1, sessions: 2 },
            kept: None,
        };
        assert_eq!(
            all.to_string(),
            "21 evaluations not delivered (file 1, otlp_grpc/a 20), 2 sessions not judged, \
             1 trace not judged, 4 spans or log events not assembled, 7 items not passed on \
             (otlp/b)"
        );
        let one = ShutdownReport { unsent: vec![unsent("file", 1)], ..ShutdownReport::default() };
        assert_eq!(one.to_string(), "1 evaluation not delivered (file 1)");
        assert!(!one.is_nothing() && ShutdownReport::default().is_nothing());
        let unforwarded = vec![Undelivered { name: "otlp/b".into(), count: 1 }];
        let passed =
            ShutdownReport { unforwarded: unforwarded.clone(), ..ShutdownReport::default() };
        assert!(!passed.is_nothing() && passed.kept().is_none());
        assert_eq!(passed.to_string(), "1 item not passed on (otlp/b)");
        let kept = Some(Box::new(ShutdownReport { unforwarded, ..ShutdownReport::default() }));
        let kept = ShutdownReport { kept, ..ShutdownReport::default() };
        assert!(kept.is_nothing());
        assert_eq!(kept.kept().as_deref(), Some("1 item not passed on (otlp/b)"));
    }
}
