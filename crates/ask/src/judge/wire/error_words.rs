//! Phrases of providers' errors, in lower case, by meaning.
//!
//! Each occurs in a body of `tests/fixtures/judges/errors.jsonl`, which names its source.

/// Exhausted quota, unpaid bills.
pub(super) const MONEY: [&str; 35] = [
    "insufficient_quota",
    "insufficient_user_quota",
    "exceeded_current_quota",
    "billing_error",
    "billing_hard_limit",
    "credit_balance_exhausted",
    "credit balance is too low",
    "insufficient balance (",
    "balance is insufficient",
    "arrearage",
    "accountoverdue",
    "spend_limit",
    "api usage limits",
    "budget_exceeded",
    "budget has been exceeded",
    "crossed budget",
    "insufficient_balance",
    "insufficient account balance",
    "free allocation",
    "included credits",
    "insufficient credits",
    "blocked_api_access",
    "insufficient_funds",
    "volume quota",
    "token quota",
    "token_quota_reached",
    "weekly usage limit",
    "freetieronly",
    "set inference limit",
    "exhausted its free trial quota",
    "quotaexceeded",
    "not_enough_balance",
    "free-models-per-day",
    "billing_not_active",
    "calls / month",
];

/// Exhausted quota and unpaid bills in everyday words, which may also occur in a quoted request.
pub(super) const MONEY_PROSE: [&str; 14] = [
    "credit balance",
    "insufficient balance",
    "in arrears",
    "overdue balance",
    "spending limit",
    "requires a subscription",
    "insufficient funds",
    "budget exceeded",
    "limit exhausted",
    "not enough balance",
    "valid credit card",
    "out of credits",
    "have any credits",
    "package has expired",
];

/// Content refused by a filter or a guardrail.
pub(super) const CONTENT: [&str; 32] = [
    "content_filter",
    "content filtering",
    "content_policy",
    "contentpolicyviolation",
    "responsibleaipolicyviolation",
    "content management policy",
    "content policy",
    "content_blocked",
    "content exists risk",
    "content violates",
    "moderation",
    "flagged",
    "guardrail",
    "datainspectionfailed",
    "data_inspection_failed",
    "prohibited_content",
    "sensitivecontent",
    "sensitive content",
    "sensitive chat",
    "sensitive_check",
    "sensitive_words",
    "prompt_blocked",
    "safety_check",
    "blocked due to security",
    "content safety",
    "new_sensitive",
    "riskdetection",
    "threat detected",
    "pattern is blocked",
    "prompt injection attack",
    "content blocked",
    "censorship",
];

/// Refused key, with an unspecific status.
pub(super) const KEY: [&str; 9] = [
    "api key not valid",
    "api_key_invalid",
    "invalid_api_key",
    "invalid api key",
    "incorrect api key",
    "authentication_error",
    "access token invalid",
    "organization has been restricted",
    "organization has been disabled",
];

/// Missing access in a 403, which needs a person; some for AWS signatures.
pub(super) const NO_ACCESS: [&str; 10] = [
    "permission",
    "accessdenied",
    "access_denied",
    "not authorized",
    "unauthorized",
    "signature",
    "security token",
    "credential should be scoped",
    "authorization failed",
    "not allowed to access",
];

/// Signature with a time that differs from the provider's clock.
pub(super) const CLOCK: [&str; 2] = ["signature expired", "signature not yet current"];

/// Terms for a key, in a 403.
pub(super) const KEY_WORDS: [&str; 7] =
    ["key", "keys", "api_key", "apikey", "access token", "api token", "bearer token"];

/// Model that does not exist or is no longer offered.
pub(super) const NO_MODEL: [&str; 34] = [
    "model_not_found",
    "unknown_model",
    "invalid_model",
    "model_decommissioned",
    "model does not exist",
    "not a valid model id",
    "model identifier is invalid",
    "deploymentnotfound",
    "invalidendpointormodel",
    "modelnotopen",
    "no endpoints found",
    "model_not_available",
    "endpoint_not_running",
    "on-demand throughput",
    "model_not_supported",
    "not found for account",
    "no such model",
    "invalid model name",
    "invalid model:",
    "invalid model '",
    "invalid model \"",
    "invalid model `",
    "invalid.model",
    "unknown model",
    "model not found",
    "no access to model",
    "model_terms_required",
    "end of life",
    "endpoint_not_found",
    "unsupported_api_for_model",
    "operationnotsupported",
    "model_no_support_for_function",
    "endpoint is paused",
    "' was removed on",
];

/// Request that exceeds the model's context.
pub(super) const OVERFLOW: [&str; 27] = [
    "context_length_exceeded",
    "maximum context length",
    "prompt is too long",
    "exceed_context_size",
    "exceeds the available context",
    "exceeded model token limit",
    "token length too long",
    "tokens_too_long",
    "too many tokens",
    "request_too_large",
    "`inputs` tokens + `max_new_tokens` must be",
    "`inputs` must have less than",
    "context the overflows",
    "max_tokens must be at least 1",
    "input is too long",
    "exceed context limit",
    "model only supports up to",
    "max tokens of",
    "prompt exceeds max length",
    "range of input length",
    "context window exceeds limit",
    "exceeds the context window",
    "exceed n_ctx",
    "greater than the context length",
    "context overflow",
    "text too long",
    "input tokens exceeded",
];

/// Request that exceeds a per-minute limit by itself.
pub(super) const OVERFLOW_OF_RATE: [&str; 1] = ["request too large for"];

/// Answer with JSON that the server found invalid.
pub(super) const BROKEN_JSON: [&str; 2] = ["json_validate_failed", "tool_use_failed"];

/// Rate limit, in an answer without its status.
pub(super) const TOO_MANY: [&str; 3] = ["rate_limit", "rate limit", "request limit"];

/// Server trouble, in an answer without its status.
pub(super) const UNWELL: [&str; 3] = ["server_error", "overloaded", "api_error"];

/// Trouble that passes, told with the status of a wrong request.
pub(super) const PASSING: [&str; 1] = ["degraded function"];
