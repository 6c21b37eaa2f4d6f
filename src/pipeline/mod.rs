//! The one place that knows all stages: builds them from a plan, joins them with bounded channels,
//! and orders the shutdown.
