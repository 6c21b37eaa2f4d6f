//! Spending file: a budget of an hour or a day holds across restarts.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{JudgeBackend, JudgeState};
use spanscore_net::file::write_by_rename;

/// Spending on one judge, by minute since 1970.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct SpentOnJudge {
    nano_usd: Vec<(u64, u64)>,
    tokens: Vec<(u64, u64)>,
    /// Reservations of requests under way, nano-dollars and tokens: a process that was killed may
    /// have to pay them.
    #[serde(default)]
    open: (u64, u64),
}

/// Restores the spending of an earlier process; an unreadable file is logged and ignored. What was
/// under way when that was killed counts as spent now, since nobody knows what it cost.
pub(in crate::judge) fn restore(file: &Path, backend: &mut JudgeBackend, now_ms: u64) {
    let read = match std::fs::read(file) {
        Ok(bytes) => serde_json::from_slice::<BTreeMap<String, SpentOnJudge>>(&bytes)
            .map_err(|error| error.to_string()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return,
        Err(error) => Err(error.to_string()),
    };
    let mut spent = match read {
        Ok(spent) => spent,
        Err(error) => {
            let file = file.display();
            tracing::error!(%file, error, "what judges cost before is not known");
            return;
        }
    };
    for JudgeState { name, gate, .. } in &mut backend.judges {
        let Some(SpentOnJudge { nano_usd, tokens, open }) = spent.remove(&*name) else { continue };
        gate.money.restore(nano_usd, open.0, now_ms);
        gate.spent_tokens.restore(tokens, open.1, now_ms);
    }
}

/// Writes the file, by a new one renamed over it.
pub(in crate::judge) async fn keep(file: &Path, backend: &JudgeBackend) -> io::Result<()> {
    let of = |JudgeState { name, gate, .. }: &JudgeState| {
        let spent = SpentOnJudge {
            nano_usd: gate.money.spent(),
            tokens: gate.spent_tokens.spent(),
            open: (gate.money.reserved(), gate.spent_tokens.reserved()),
        };
        (name.clone(), spent)
    };
    // Of judges of one name the last has the meters.
    let spent: BTreeMap<String, SpentOnJudge> = backend.judges.iter().map(of).collect();
    let bytes = serde_json::to_vec(&spent).map_err(io::Error::other)?;
    let file = file.to_owned();
    tokio::task::spawn_blocking(move || write_by_rename(&file, &bytes)).await?
}
