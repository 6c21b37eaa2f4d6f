//! Judged kinds: record, prompt, replies and votes, common to all kinds that ask a judge.
//!
//! A judged kind is a list of numbered statements about a trajectory, each answered yes, no,
//! unclear or not applicable. A kind defines facts, statements and guidance ([`kind`],
//! [`question`]); this module has the rest. All functions are pure: the judge dispatcher is a
//! separate stage behind [`Inquiry`](super::inquiry::Inquiry).
//!
//! ```text
//! trajectory -> record -> redact -> render (cut, windows) -> prompt   sent
//!            grounding                                       needs no judge
//! reply -> form (reply, dokimos) -> asked (cites) -> conclude   received
//! ```

pub(crate) mod kind;
pub(crate) mod question;
pub mod record;
pub mod settings;

pub(crate) mod grounding;
mod mark;
pub mod operator;
pub(crate) mod prompt;
mod redact;
mod render;

mod asked;
pub(crate) mod conclude;
mod dokimos;
mod form;
mod reply;

mod cut;
mod escape;
mod tokens;

pub mod labelled;

pub(crate) use dokimos::DokimosReply;
pub use question::TopicMode;
