//! Certificates for the simulated clusters: authorities, what they issue, good or bad on purpose, and how such files
//! come and go in a pod.

use std::fs;
use std::io::Write;
use std::net::IpAddr;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, SanType, date_time_ymd,
};

/// A day: what the validity of certificates is reckoned in here.
pub const DAY: Duration = Duration::from_hours(24);

/// A self-signed certificate authority with an ECDSA P-256 key.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate and its key. The key is a test's: printing it gives nothing away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issued {
    /// The leaf alone, without its authority.
    pub cert_pem: String,
    /// The key, as PKCS #8.
    pub key_pem: String,
}

/// From when until when a certificate holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// The first second it holds.
    pub not_before: SystemTime,
    /// The last second it holds.
    pub not_after: SystemTime,
}

/// What a certificate is to say; [`Authority::issue`] makes it.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The subject's common name.
    pub common_name: String,
    /// The subject's organizations: groups, to Kubernetes.
    pub organizations: Vec<String>,
    /// Alternative names: an IP address, a URI (anything with a colon that is no address), else a DNS name.
    pub names: Vec<String>,
    /// Whether it may serve, call, or both.
    pub purpose: Purpose,
    /// When it holds.
    pub validity: Validity,
}

/// What a certificate may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// By a server only.
    Server,
    /// By a client only.
    Client,
    /// By either: what etcd's peers have.
    Both,
}

impl Authority {
    /// A new authority, valid from yesterday for ten years.
    ///
    /// Two authorities of one name have different keys: what one issues, the other does not vouch for.
    pub fn new(common_name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, common_name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        set_validity(&mut params, Validity { not_after: SystemTime::now() + 3650 * DAY, ..Validity::now() });
        let key = KeyPair::generate().expect("a P-256 key");
        Self { issuer: CertifiedIssuer::self_signed(params, key).expect("a self-signed authority") }
    }

    /// The authority's own certificate: what those who trust it are given.
    pub fn cert_pem(&self) -> String {
        self.issuer.pem()
    }

    /// A good server certificate for these DNS names and IP addresses; the first is also its common name.
    pub fn server(&self, names: &[&str]) -> Issued {
        self.issue(&Wanted::server(names))
    }

    /// A good client certificate with these alternative names (DNS, IP address or URI).
    pub fn client(&self, common_name: &str, names: &[&str]) -> Issued {
        self.issue(&Wanted::client(common_name, names))
    }

    /// A server certificate that ceased to hold yesterday.
    pub fn expired_server(&self, names: &[&str]) -> Issued {
        self.issue(&Wanted { validity: Validity::past(), ..Wanted::server(names) })
    }

    /// A server certificate that will hold from tomorrow.
    pub fn future_server(&self, names: &[&str]) -> Issued {
        self.issue(&Wanted { validity: Validity::future(), ..Wanted::server(names) })
    }

    /// A server certificate that is good, but for a name that nobody asks for.
    pub fn misnamed_server(&self) -> Issued {
        self.server(&["somebody-else.invalid"])
    }

    /// A client certificate that ceased to hold yesterday.
    pub fn expired_client(&self, common_name: &str) -> Issued {
        self.issue(&Wanted { validity: Validity::past(), ..Wanted::client(common_name, &[]) })
    }

    /// A client certificate that will hold from tomorrow.
    pub fn future_client(&self, common_name: &str) -> Issued {
        self.issue(&Wanted { validity: Validity::future(), ..Wanted::client(common_name, &[]) })
    }

    /// Whatever is wanted, with a new ECDSA P-256 key.
    pub fn issue(&self, wanted: &Wanted) -> Issued {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, wanted.common_name.as_str());
        for organization in &wanted.organizations {
            params.distinguished_name.push(DnType::OrganizationName, organization.as_str());
        }
        params.subject_alt_names = wanted.names.iter().map(|name| alternative_name(name)).collect();
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = match wanted.purpose {
            Purpose::Server => vec![ExtendedKeyUsagePurpose::ServerAuth],
            Purpose::Client => vec![ExtendedKeyUsagePurpose::ClientAuth],
            Purpose::Both => vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth],
        };
        params.use_authority_key_identifier_extension = true;
        set_validity(&mut params, wanted.validity);
        let key = KeyPair::generate().expect("a P-256 key");
        let cert = params.signed_by(&key, &self.issuer).expect("a signed certificate");
        Issued { cert_pem: cert.pem(), key_pem: key.serialize_pem() }
    }
}

impl Wanted {
    /// A server certificate that holds now; the first name is also the common name.
    pub fn server(names: &[&str]) -> Self {
        let common_name = (*names.first().expect("a server certificate needs a name")).to_owned();
        Self { common_name, purpose: Purpose::Server, ..Self::client("", names) }
    }

    /// A client certificate that holds now.
    pub fn client(common_name: &str, names: &[&str]) -> Self {
        Self {
            common_name: common_name.to_owned(),
            organizations: Vec::new(),
            names: names.iter().map(|&name| name.to_owned()).collect(),
            purpose: Purpose::Client,
            validity: Validity::now(),
        }
    }
}

impl Validity {
    /// From yesterday for a year.
    pub fn now() -> Self {
        Self { not_before: SystemTime::now() - DAY, not_after: SystemTime::now() + 365 * DAY }
    }

    /// From a month ago until yesterday.
    pub fn past() -> Self {
        Self { not_before: SystemTime::now() - 30 * DAY, not_after: SystemTime::now() - DAY }
    }

    /// From tomorrow for a month.
    pub fn future() -> Self {
        Self { not_before: SystemTime::now() + DAY, not_after: SystemTime::now() + 30 * DAY }
    }
}

impl Issued {
    /// Writes `NAME.crt` and `NAME.key` into the directory, each by an atomic rename.
    ///
    /// Between the two renames the pair does not match: as with most tools that renew certificates in place.
    pub fn write_to(&self, dir: &Path, name: &str) {
        write_atomically(dir, &format!("{name}.crt"), self.cert_pem.as_bytes());
        write_atomically(dir, &format!("{name}.key"), self.key_pem.as_bytes());
    }
}

/// Writes one file beside its place and renames it there: a reader sees the old content or the new, nothing between.
pub fn write_atomically(dir: &Path, name: &str, content: &[u8]) {
    let mut file = tempfile::Builder::new()
        .prefix(".tmp-")
        .tempfile_in(dir)
        .unwrap_or_else(|error| panic!("a temporary file in {}: {error}", dir.display()));
    file.write_all(content).unwrap_or_else(|error| panic!("writing {name} in {}: {error}", dir.display()));
    file.persist(dir.join(name)).unwrap_or_else(|error| panic!("renaming to {name} in {}: {error}", dir.display()));
}

/// Writes the files of a volume as kubelet does: into a new directory, to which the link `..data` is swapped at once.
/// `NAME` is a link to `..data/NAME`, so that all files change in one step. Files not named any more are gone.
pub fn write_like_kubelet(dir: &Path, files: &[(&str, &[u8])]) {
    // Kubelet takes the time with nanoseconds; a counter is as distinct, and does not repeat within a tick.
    static GENERATION: AtomicU64 = AtomicU64::new(0);
    let say = |what: &str, error: std::io::Error| -> ! { panic!("{what} in {}: {error}", dir.display()) };

    let generation = format!("..generation_{}_{}", std::process::id(), GENERATION.fetch_add(1, Ordering::Relaxed));
    let new = dir.join(&generation);
    fs::create_dir_all(&new).unwrap_or_else(|error| say("creating a generation", error));
    for (name, content) in files {
        fs::write(new.join(name), content).unwrap_or_else(|error| say("writing a file", error));
    }

    let data = dir.join("..data");
    let old = fs::read_link(&data).ok();
    let next = dir.join("..data_tmp");
    symlink(&generation, &next).unwrap_or_else(|error| say("linking ..data_tmp", error));
    fs::rename(&next, &data).unwrap_or_else(|error| say("swapping ..data", error));

    for (name, _) in files {
        let link = dir.join(name);
        if fs::symlink_metadata(&link).is_err() {
            symlink(Path::new("..data").join(name), &link).unwrap_or_else(|error| say("linking a file", error));
        }
    }
    if let Some(old) = old {
        for entry in fs::read_dir(dir.join(&old)).into_iter().flatten().flatten() {
            let name = entry.file_name();
            if !new.join(&name).exists() {
                fs::remove_file(dir.join(&name)).unwrap_or_else(|error| say("unlinking a file", error));
            }
        }
        fs::remove_dir_all(dir.join(old)).unwrap_or_else(|error| say("removing the old generation", error));
    }
}

fn alternative_name(name: &str) -> SanType {
    if let Ok(address) = name.parse::<IpAddr>() {
        return SanType::IpAddress(address);
    }
    let text = name.try_into().unwrap_or_else(|error| panic!("alternative name {name:?}: {error}"));
    if name.contains(':') { SanType::URI(text) } else { SanType::DnsName(text) }
}

fn set_validity(params: &mut CertificateParams, validity: Validity) {
    let at = |time: SystemTime| {
        date_time_ymd(1970, 1, 1) + time.duration_since(UNIX_EPOCH).expect("a certificate's time after 1970")
    };
    params.not_before = at(validity.not_before);
    params.not_after = at(validity.not_after);
}
