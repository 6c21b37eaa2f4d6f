//! Query API: the score store over HTTP, for pages and programs.
//!
//! ```text
//! request -> guard (host, origin, right) -> parameters -> reader (four at once) -> answer
//! ```
//!
//! A body takes bytes of the receivers' quota, as a sender has of it, and so does an answer until
//! it is read ([`shares`]).
//! `openapi.json` describes it, `docs/api.md` is for its users. A query has 5 s, an answer 8 MiB;
//! whoever asks too much is told so in a problem document. Only people's annotations and
//! datasets are changed here, and a collector runs on without any of it.

mod access;
mod body;
mod counters;
mod edits;
mod guard;
mod inspecting;
mod login;
mod problem;
mod question;
mod readers;
mod router;
mod routes;
mod settings;
mod shares;
mod state;
mod stream;
#[cfg(test)]
mod tests;
mod turns;

pub use access::{LeftAccess, LocalAccess, LocalAccessError, access_folder};
pub use counters::{ApiCounters, RequestRefusal};
pub use router::{Asset, Assets, no_assets, router};
pub use settings::{DashboardSection, DashboardSettings, ENDPOINT};
pub use state::{Api, ApiParts, InspectRequest, StepCounts};
