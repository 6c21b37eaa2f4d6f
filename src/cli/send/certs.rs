//! `spanscore certs`: an authority and two certificates by it, to try TLS with.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use clap::Args;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType, date_time_ymd,
};
use tempfile::NamedTempFile;

use crate::cli::{CommandError, Exit, check_absent, misused, output};
use spanscore_base::visible;

/// Writes certificates of an authority, a server and a client, for a trial of TLS
///
/// Writes ca.pem, server.pem, server.key, client.pem and client.key to a folder. The key of the
/// authority is not kept, so it can sign no further certificate. In production, use certificates of
/// your own authority.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  spanscore certs certs
  spanscore certs certs --host collector.shop.svc --host 10.0.0.7 --days 7")]
pub(in crate::cli) struct CertsArgs {
    /// Folder to write to. It is created if it does not exist
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Host name or address of the server. May be repeated
    #[arg(long = "host", value_name = "NAME", default_values = ["localhost", "127.0.0.1", "::1"])]
    hosts: Vec<String>,
    /// Days for which the certificates are valid
    #[arg(
        long,
        value_name = "DAYS",
        default_value_t = 30,
        value_parser = clap::value_parser!(u16).range(1..)
    )]
    days: u16,
    /// Overwrites existing files
    #[arg(long)]
    force: bool,
}

/// Name of the client in its certificate, as `auth.clients` takes it.
const CLIENT: &str = "spiffe://spanscore/trial";
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Certificate in PEM, and its key.
struct Issued {
    cert: String,
    key: String,
}

pub(in crate::cli) fn run(args: &CertsArgs) -> Result<Exit, CommandError> {
    let names = args.hosts.iter().map(|host| server_name(host));
    let names = names.collect::<Result<Vec<_>, _>>()?;
    let mut params = valid_for(args.days)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.distinguished_name.push(DnType::CommonName, "spanscore trial authority");
    let key = KeyPair::generate().context("cannot make a key")?;
    let ca = params.self_signed(&key).context("cannot make the authority")?.pem();
    let authority = Issuer::new(params, key);
    let server = issue(&authority, args.days, names, ExtendedKeyUsagePurpose::ServerAuth)?;
    let client = SanType::URI(CLIENT.try_into().context("cannot name the client")?);
    let client = issue(&authority, args.days, vec![client], ExtendedKeyUsagePurpose::ClientAuth)?;
    let files = [
        ("ca.pem", &ca),
        ("server.pem", &server.cert),
        ("server.key", &server.key),
        ("client.pem", &client.cert),
        ("client.key", &client.key),
    ];
    let paths = files.each_ref().map(|(name, _)| args.folder.join(name));
    check_absent(paths.iter().map(PathBuf::as_path), args.force)?;
    if args.folder.is_file() {
        return misused(format!("{} is a file: name a folder", args.folder.display()));
    }
    std::fs::create_dir_all(&args.folder)
        .with_context(|| format!("cannot make {}", args.folder.display()))?;
    for (name, text) in files {
        let place = || args.folder.join(name).display().to_string();
        write(&args.folder, name, text).with_context(|| format!("cannot write {}", place()))?;
    }
    print_settings(&args.folder, args.days);
    Ok(Exit::Success)
}

/// Replaces a file by one that only its owner may read. An existing file would keep its
/// permissions, and a link would lead elsewhere.
fn write(folder: &Path, name: &str, text: &str) -> io::Result<()> {
    let mut file = NamedTempFile::new_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.persist(folder.join(name))?;
    Ok(())
}

/// Parses an address or a DNS name.
fn server_name(host: &str) -> Result<SanType, CommandError> {
    if let Ok(address) = host.parse() {
        return Ok(SanType::IpAddress(address));
    }
    let is_name = !host.contains([',', '/', ':', ' ']);
    let name = host.try_into().ok().filter(|_| is_name).map(SanType::DnsName);
    name.ok_or_else(|| {
        CommandError::Usage(format!(
            "--host {host}: neither a name nor an address; write one for each --host, without \
             scheme and port"
        ))
    })
}

/// Returns parameters valid from an hour ago, for clocks that are behind.
fn valid_for(days: u16) -> Result<CertificateParams, CommandError> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = date_time_ymd(1970, 1, 1) + now.context("the clock stands before 1970")?;
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.not_before = now - Duration::from_secs(60 * 60);
    params.not_after = now + DAY * days.into();
    Ok(params)
}

fn issue(
    authority: &Issuer<'_, KeyPair>,
    days: u16,
    names: Vec<SanType>,
    usage: ExtendedKeyUsagePurpose,
) -> Result<Issued, CommandError> {
    let mut params = valid_for(days)?;
    params.subject_alt_names = names;
    params.extended_key_usages = vec![usage];
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate().context("cannot make a key")?;
    let cert = params.signed_by(&key, authority).context("cannot make a certificate")?;
    Ok(Issued { cert: cert.pem(), key: key.serialize_pem() })
}

/// Prints the settings that use the files.
fn print_settings(folder: &Path, days: u16) {
    let folder = visible::line(folder.display()).to_string();
    output::note(format_args!(
        "wrote {folder}: ca.pem, server.pem and client.pem with their keys, valid for {days} days\n\
         \n\
         collector, under receivers.otlp.protocols.http (or grpc):\n  \
           tls: {{cert_file: {folder}/server.pem, key_file: {folder}/server.key}}\n  \
           # client_ca_file: {folder}/ca.pem   lets in only clients with a certificate\n\
         agents:\n  \
           export OTEL_EXPORTER_OTLP_ENDPOINT=https://localhost:4318\n  \
           export OTEL_EXPORTER_OTLP_CERTIFICATE={folder}/ca.pem\n\
         a recorded run:\n  \
           spanscore send --sample --endpoint https://localhost:4318 --ca {folder}/ca.pem"
    ));
}
