//! Conversion of encoded requests to records on arrival.
//!
//! Each span or log event is read in one pass: a trie of its keys gives the retention rules, and
//! the retained facts are written to the batch of its shard, in the layout that `resolve` reads
//! when the trace is complete.
//!
//! ```text
//! traces, logs    an encoded request -> records for each shard
//! attributes      attributes of the current span
//! key_trie        sequences of attribute keys, kept between requests
//! retention       rules of a span's attributes, cached by its keys and conditions
//! rule            rule of one attribute
//! tool_messages   filter of a model's messages for those about tools
//! layout          byte layout of a record's facts, read by `resolve`
//! batch_writer    records into the batches of their shards
//! peer            peer of a span in another process
//! resources       cache of decoded resources
//! translate       translation of records from one table to another
//! counts          accepted and rejected items, with reasons
//! ```

pub(crate) mod attributes;
pub(crate) mod batch_writer;
pub(crate) mod cache;
pub(crate) mod counts;
pub(crate) mod key_trie;
pub(crate) mod layout;
pub(crate) mod logs;
pub(crate) mod peer;
pub(crate) mod resources;
pub(crate) mod retention;
pub(crate) mod rule;
pub(crate) mod tool_messages;
pub(crate) mod traces;
pub(crate) mod translate;
