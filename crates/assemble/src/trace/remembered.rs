//! Evaluations remembered for a trace, boxed since most open traces have none.

use spanscore_base::model::{GivenVerdicts, Reported};

/// Evaluations of one trace, remembered while it may be revised.
#[derive(Debug, Default)]
pub(crate) struct RememberedResults(Option<Box<ResultParts>>);

#[derive(Debug, Default)]
struct ResultParts {
    /// Last evaluations that evaluators need again.
    reported: Vec<Reported>,
    /// Verdicts of the trace.
    verdicts: GivenVerdicts,
}

impl RememberedResults {
    /// Returns the last evaluations that evaluators need again.
    pub(crate) fn reported(&self) -> &[Reported] {
        self.0.as_ref().map_or(&[], |results| &results.reported)
    }

    /// Returns the verdicts of the trace.
    pub(crate) fn verdicts(&self) -> GivenVerdicts {
        self.0.as_ref().map(|results| results.verdicts.clone()).unwrap_or_default()
    }

    /// Remembers evaluations.
    pub(crate) fn keep_reported(&mut self, reported: Vec<Reported>) {
        if self.0.is_some() || !reported.is_empty() {
            self.0.get_or_insert_default().reported = reported;
        }
    }

    /// Remembers the verdicts of the trace.
    pub(crate) fn keep_verdicts(&mut self, verdicts: GivenVerdicts) {
        if self.0.is_some() || !verdicts.is_empty() {
            self.0.get_or_insert_default().verdicts = verdicts;
        }
    }

    /// Rewrites the remembered evaluations.
    pub(crate) fn change_reported(&mut self, change: impl FnOnce(&mut Vec<Reported>)) {
        match &mut self.0 {
            Some(results) => change(&mut results.reported),
            None => {
                let mut reported = Vec::new();
                change(&mut reported);
                self.keep_reported(reported);
            }
        }
    }

    /// Returns the bytes held for it.
    pub(crate) fn bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |results| {
            let ResultParts { reported, verdicts } = &**results;
            size_of::<ResultParts>()
                + reported.capacity() * size_of::<Reported>()
                + verdicts.bytes()
        })
    }
}
