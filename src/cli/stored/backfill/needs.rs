//! Parts of a run that an evaluator reads, compared with those that the store kept unchanged.

use spanscore_base::model::Level;
use spanscore_evaluate::engine::expect::lookup::may_name_case;
use spanscore_evaluate::engine::run::Configured;
use spanscore_evaluate::engine::select::ReadKeys;
use spanscore_store::query::RestoredRun;
use spanscore_store::{RESOURCE_KEYS, StoredGap, StoredPart};

/// Parts that an evaluator reads.
pub(in crate::cli) struct EvaluatorNeeds {
    parts: Vec<StoredPart>,
    attributes: ReadKeys,
    /// Keys of the resource.
    resource: Vec<String>,
}

impl EvaluatorNeeds {
    /// Returns the parts that an evaluator reads.
    ///
    /// # Errors
    /// The reason why it can judge no stored run.
    pub(super) fn of(configured: &Configured) -> Result<Self, &'static str> {
        let facts = configured.facts();
        if configured.asks && !configured.is_external() {
            return Err("it asks a judge");
        }
        if !facts.attributes.is_empty() {
            return Err("it reads attributes of spans, which are not stored");
        }
        let mut its = Self::of_judged(configured)?;
        if facts.tool_definitions {
            its.parts.push(StoredPart::Definitions);
        }
        Ok(its)
    }

    /// Returns the parts needed for the prompt of a judging evaluator. Instructions are not stored;
    /// tool definitions are included if present.
    ///
    /// # Errors
    /// The reason why it can judge no stored run.
    pub(in crate::cli) fn of_judged(configured: &Configured) -> Result<Self, &'static str> {
        let facts = configured.facts();
        let root = configured.root_reads();
        if configured.is_external() {
            return Err("it asks another process");
        }
        if configured.info.level == Level::Session {
            return Err("it judges sessions");
        }
        if facts.spans {
            return Err("it reads all spans, which are not stored");
        }
        let is_stored = |key: &String| RESOURCE_KEYS.contains(&key.as_str());
        let resource = match root.resource {
            ReadKeys::Named(keys) if keys.iter().all(is_stored) => keys,
            _ => {
                return Err(
                    "it reads the resource, of which service, version and environment are stored",
                );
            }
        };
        let reads_calls = configured.reads_calls();
        let parts = [
            (StoredPart::Input, facts.user_input),
            (StoredPart::Output, facts.final_output),
            (StoredPart::Arguments, facts.arguments),
            (StoredPart::Results, facts.results),
            (StoredPart::Errors, reads_calls),
            (StoredPart::CallIds, reads_calls),
            (StoredPart::Agents, root.agent_name || !configured.tools.agents.is_empty()),
            (StoredPart::SpanName, root.span_name),
            (StoredPart::SessionId, root.session_id),
            (StoredPart::Attributes, !root.attributes.is_empty()),
        ];
        let parts = parts.into_iter().filter(|(_, is_read)| *is_read).map(|(part, _)| part);
        Ok(Self { parts: parts.collect(), attributes: root.attributes, resource })
    }

    /// Returns the reason why it cannot judge a run; `None` if it can.
    pub(in crate::cli) fn unmet_by(&self, run: &RestoredRun) -> Option<String> {
        let told = |what: &str, gap: StoredGap| format!("{what}: {}", gap.explained());
        let gap = self.parts.iter().find_map(|part| Some(told(part.as_str(), run.gap(*part)?)));
        let gap = gap.or_else(|| {
            let key =
                run.resource_gaps().iter().find(|key| self.resource.iter().any(|it| it == *key))?;
            Some(told(&format!("`{key}` of the resource"), StoredGap::NotStored))
        });
        gap.or_else(|| {
            let mut gaps = run.attribute_gaps();
            let (key, gap) = gaps.find(|(key, _)| self.reads_attribute(key))?;
            Some(told(&format!("attribute `{key}`"), gap))
        })
    }

    fn reads_attribute(&self, key: &str) -> bool {
        match &self.attributes {
            ReadKeys::Named(keys) => keys.iter().any(|it| it == key),
            ReadKeys::OfCases => may_name_case(key),
            ReadKeys::All => true,
        }
    }
}
