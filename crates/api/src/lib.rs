//! Query API: the store over HTTP, for pages and programs.
//!
//! ```text
//! request -> guard (host, origin, right) -> parameters -> reader (four at once) -> answer
//! ```
//!
//! Bodies use the receivers' quota within the sender's share, and so do answers until they are read
//! ([`shares`]). `openapi.json` describes the API, `docs/api.md` is for its users. A query is
//! limited to 5 s, an answer to 8 MiB; beyond that a problem document explains the limit. Only
//! annotations and datasets can be changed here, and a collector continues if the API fails.

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
