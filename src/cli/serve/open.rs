//! `spanscore open`: a link that logs a browser in at the pages of a running collector.

use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use anyhow::{Context, anyhow};
use clap::Args;

use crate::cli::source::ConfigArgs;
use crate::cli::{CommandError, Exit, misused, output};
use spanscore_api::{LocalAccess, access_folder};

/// Time limit for the collector to accept a connection.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Prints a link that signs a browser in to the dashboard of a running collector
///
/// The link is valid for ten minutes and one sign-in. The collector is found by its config: by
/// `data_dir`, or without one by the port of `dashboard.endpoint`. It must run on this host, as the
/// same user.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  spanscore open
  spanscore open --config spanscore.yaml
  docker exec CONTAINER spanscore open")]
pub(in crate::cli) struct OpenArgs {
    #[command(flatten)]
    config: ConfigArgs,
}

pub(in crate::cli) fn run(args: &OpenArgs) -> Result<Exit, CommandError> {
    let config = args.config.plan()?.config;
    let Some(dashboard) = config.dashboard.0.filter(|_| config.store.0.is_some()) else {
        return misused("the config turns the store or its `dashboard` off: there are no pages");
    };
    let port = dashboard.endpoint().rsplit_once(':').and_then(|(_, port)| port.parse().ok());
    let folder = access_folder(config.data_dir.as_deref(), port.unwrap_or_default());
    let access = LocalAccess::find(&folder).map_err(anyhow::Error::new)?;
    check_listening(access.url())?;
    let link = access.link().context("cannot make a code")?;
    output::line(link)?;
    Ok(Exit::Success)
}

/// Checks that the collector still listens, since a killed one leaves its files.
fn check_listening(url: &str) -> anyhow::Result<()> {
    let place = url.split_once("://").and_then(|(_, rest)| rest.split('/').next());
    let mut addresses = place.unwrap_or_default().to_socket_addrs().into_iter().flatten();
    let is_there = addresses.any(|at| TcpStream::connect_timeout(&at, TIMEOUT).is_ok());
    is_there.then_some(()).ok_or_else(|| anyhow!("the collector at {url} has stopped: start it"))
}
