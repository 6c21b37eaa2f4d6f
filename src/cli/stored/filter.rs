//! Conditions on stored evaluations, from the command line.

use clap::Args;

use crate::cli::CommandError;
use spanscore_net::clock::now_ns;
use spanscore_store::query::{StoreField, StoreFilter, point_in_time};

/// Words of the time bounds, in addition to field names.
const SINCE: &str = "since";
const UNTIL: &str = "until";

/// Conditions for stored evaluations.
#[derive(Args, Clone, Debug, Default)]
pub(in crate::cli) struct FilterArgs {
    /// Start of the period in which the judged runs ended
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    since: Option<String>,
    /// End of the period in which the judged runs ended, not included
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    until: Option<String>,
    /// Value of a field. May be repeated: values of one field are alternatives, and different
    /// fields must all match. `FIELD=!VALUE` excludes a value
    #[arg(long = "where", value_name = "FIELD=VALUE")]
    conditions: Vec<String>,
    /// Text in the user's request or in an explanation, with the same case
    #[arg(long, value_name = "PART")]
    text: Option<String>,
}

/// Condition: field name, `since` or `until`, and a value.
pub(in crate::cli) type FilterCondition = (String, String);

impl FilterArgs {
    /// Returns true without any condition.
    pub(in crate::cli) fn is_empty(&self) -> bool {
        self.since.is_none()
            && self.until.is_none()
            && self.conditions.is_empty()
            && self.text.is_none()
    }

    /// Parses the conditions. Those in `own` replace others with the same word.
    pub(in crate::cli) fn read(
        &self,
        own: &[FilterCondition],
    ) -> Result<StoreFilter, CommandError> {
        let shared = self.shared()?;
        let others = shared.iter().filter(|(word, _)| own.iter().all(|(it, _)| it != word));
        let now_ms = i64::try_from(now_ns() / 1_000_000).unwrap_or(i64::MAX);
        let time = |text: &str| point_in_time(text, now_ms).map(Some);
        let mut filter = StoreFilter::default();
        filter.ask_text(self.text.as_deref().unwrap_or_default())?;
        for (word, value) in others.chain(own) {
            match word.as_str() {
                SINCE => filter.from_ms = time(value)?,
                UNTIL => filter.to_ms = time(value)?,
                _ => {
                    let field = StoreField::from_word(word)?;
                    filter.ask(field, value.as_str())?;
                }
            }
        }
        let bounds = filter.from_ms.zip(filter.to_ms);
        if bounds.is_some_and(|(from, to)| from >= to) {
            let text = "no run is after `since` and before `until`: `--since 2h --until 1h` is \
                        the hour before the last";
            return Err(CommandError::Usage(text.to_owned()));
        }
        Ok(filter)
    }

    fn shared(&self) -> Result<Vec<FilterCondition>, CommandError> {
        let bound = |word: &str, value: &Option<String>| {
            value.as_ref().map(|value| (word.to_owned(), value.clone()))
        };
        let bounds = [bound(SINCE, &self.since), bound(UNTIL, &self.until)];
        let conditions = self.conditions.iter().map(|text| {
            let found = text.split_once('=').filter(|(word, _)| ![SINCE, UNTIL].contains(word));
            let found = found.map(|(word, value)| (word.to_owned(), value.to_owned()));
            found.ok_or_else(|| {
                let text = format!("`{text}` is no condition: write it as FIELD=VALUE");
                CommandError::Usage(text)
            })
        });
        bounds.into_iter().flatten().map(Ok).chain(conditions).collect()
    }
}
