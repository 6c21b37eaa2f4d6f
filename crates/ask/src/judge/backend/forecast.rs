//! Cost forecast of inquiries, without a request.

use std::collections::BTreeMap;

use super::JudgeBackend;
use super::sampling::SamplingStep;
use crate::judge::settings::JudgeSettings;
use crate::judge::wire::TokenUsage;
use spanscore_evaluate::JudgeRequest;
use spanscore_evaluate::inquiry::MarkKey;

/// Nano-dollars per dollar.
const NANO: f64 = 1e9;

/// Cost of the first requests of inquiries; repairs, rechecks and further votes are additional.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CostForecast {
    /// Requests.
    pub requests: u64,
    /// Estimated tokens of the prompts.
    pub input_tokens: u64,
    /// Cost of the prompts alone, US dollars.
    pub usd_min: f64,
    /// Cost with the longest answers, US dollars.
    pub usd_max: f64,
}

impl CostForecast {
    /// Adds another forecast.
    pub fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.usd_min += other.usd_min;
        self.usd_max += other.usd_max;
    }
}

/// Cost forecaster for the judges of a config.
#[derive(Debug)]
pub struct CostForecaster(JudgeBackend);

impl CostForecaster {
    /// Returns a forecaster; no request is sent.
    pub fn new(judges: &BTreeMap<String, JudgeSettings>) -> Self {
        let judges = judges.iter().map(|(name, judge)| (name.clone(), judge.clone())).collect();
        // Its rendered prompts are never sent, so the mark needs no secret.
        Self(JudgeBackend::new(judges, MarkKey([0; 32]), false))
    }

    /// Forecasts the cost of inquiries; those that code or a limit ends without a judge are free.
    pub fn forecast(&self, asked: &[JudgeRequest]) -> CostForecast {
        let Self(backend) = self;
        let mut all = CostForecast::default();
        for (judge, requests, usage) in asked.iter().flat_map(|one| backend.first_requests(one)) {
            let gate = &backend.judges[judge].gate;
            let usd = |output: u64| {
                let usage = TokenUsage { output, ..usage };
                gate.cost(usage) as f64 / NANO * requests as f64
            };
            all.add(CostForecast {
                requests,
                input_tokens: usage.input.saturating_mul(requests),
                usd_min: usd(0),
                usd_max: usd(usage.output),
            });
        }
        all
    }
}

impl JudgeBackend {
    /// Returns the first judges, each with its number of requests and the estimate of one; empty
    /// without a request.
    fn first_requests(&self, asked: &JudgeRequest) -> Vec<(usize, u64, TokenUsage)> {
        let Ok(mut session) = self.session(&asked.plan) else { return Vec::new() };
        let first = &self.judges[session.judge].settings;
        let SamplingStep::Render(room) = session.next(first) else { return Vec::new() };
        session.rendered(asked.inquiry.prompt(&room));
        let seats = session.counted().to_vec();
        // The seats of a jury are its samples.
        let samples = if seats.len() > 1 { 1 } else { asked.plan.samples_min.max(1) };
        let request = |judge: usize| match session.next(&self.judges[judge].settings) {
            SamplingStep::Ask { question, .. } => {
                let requests = u64::from(samples) * question.prompt.windows.max(1) as u64;
                Some((judge, requests, session.estimate(&question)))
            }
            SamplingStep::Render(_) | SamplingStep::Done(_) => None,
        };
        seats.into_iter().filter_map(request).collect()
    }
}
