//! The settings of TLS: trusted authorities, the client's certificate, and server names.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};

use crate::cluster::server_names::{ServerNames, TlsClient, is_dns};
use crate::cluster::verifier::{NodeVerifier, Verify};
use crate::error::{EngineError, ErrorKind};

/// How connections are encrypted. Certificates and keys are PEM.
#[derive(Clone, Default)]
pub struct Tls {
    /// The certificates of trusted authorities. `None` means the authorities that the system
    /// trusts.
    pub authorities: Option<Vec<u8>>,
    /// The client's certificate, and the certificates between it and its authority.
    pub certificate: Option<Vec<u8>>,
    pub key: Option<Vec<u8>>,
    pub verify: Verify,
    /// Names for which a node's certificate may be valid, besides the node's address and the names
    /// of the contact points.
    pub names: Vec<String>,
    pub server_name: ServerNameSetting,
}

/// The server name (SNI) that a connection sends in its ClientHello.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ServerNameSetting {
    /// The host name of the contact point with the node's address. If there is no such contact
    /// point, the first host name among the contact points. If all contact points are addresses,
    /// the first host name in [`Tls::names`].
    #[default]
    OfContactPoint,
    /// This name, for every node.
    Fixed(String),
    Off,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("verify", &self.verify).finish_non_exhaustive()
    }
}

fn refuse(reason: impl fmt::Display) -> EngineError {
    EngineError::new(ErrorKind::Config, format!("tls: {reason}"))
}

impl Tls {
    /// Returns what connections need for TLS. Each of `contact_points` is `host:port`.
    pub(crate) fn client(&self, contact_points: &[String]) -> Result<TlsClient, EngineError> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier = self.verifier(&provider, contact_points)?;
        let config = self.rustls(&provider, &verifier)?;
        let default = match &self.server_name {
            ServerNameSetting::OfContactPoint => verifier.names().iter().find(|name| is_dns(name)),
            // `Tls::verifier` has added the fixed name as the last one.
            ServerNameSetting::Fixed(_) => verifier.names().last(),
            ServerNameSetting::Off => None,
        };
        let by_contact_point = self.server_name == ServerNameSetting::OfContactPoint;
        let names = ServerNames::new(default.cloned(), by_contact_point);
        Ok(TlsClient::new(config, verifier, names))
    }

    fn rustls(
        &self,
        provider: &Arc<CryptoProvider>,
        verifier: &NodeVerifier,
    ) -> Result<ClientConfig, EngineError> {
        let verifier = Arc::new(verifier.clone());
        let provider = Arc::clone(provider);
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(refuse)?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let (Some(certificate), Some(key)) = (&self.certificate, &self.key) else {
            if self.certificate.is_some() || self.key.is_some() {
                return Err(refuse("a certificate and its key go together"));
            }
            return Ok(builder.with_no_client_auth());
        };
        let chain = certificates("certificate", certificate)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| {
            refuse(format_args!(
                "key: expected an unencrypted private key in PEM (PKCS #8, PKCS #1 or SEC 1): {}",
                why_no_pem(&error)
            ))
        })?;
        builder
            .with_client_auth_cert(chain, key)
            .map_err(|error| refuse(format_args!("certificate and key: {error}")))
    }

    fn verifier(
        &self,
        provider: &Arc<CryptoProvider>,
        contact_points: &[String],
    ) -> Result<NodeVerifier, EngineError> {
        let chain = match self.verify {
            Verify::Nothing => None,
            Verify::Full | Verify::Authority => {
                let roots = Arc::new(self.roots()?);
                let builder =
                    WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(provider));
                Some(builder.build().map_err(refuse)?)
            }
        };
        let hosts = contact_points.iter().filter_map(|point| point.rsplit_once(':'));
        let hosts = hosts.map(|(host, _)| host.trim_matches(['[', ']']));
        let mut names = Vec::new();
        // A contact point that is an address is left out here: it is the address of a node, and a
        // `NodeVerifier` accepts certificates for its node's address in any case.
        for host in hosts.filter(|host| host.parse::<IpAddr>().is_err()) {
            // A host that cannot be a name in a certificate is left out.
            names.extend(ServerName::try_from(host.to_owned()));
        }
        for name in &self.names {
            names.push(host_name(name)?);
        }
        if let ServerNameSetting::Fixed(name) = &self.server_name {
            let name = host_name(name)?;
            if !is_dns(&name) {
                let why = "is an address; a server name is a host name";
                return Err(refuse(format_args!("server_name: {:?} {why}", name.to_str())));
            }
            names.push(name);
        }
        let (provider, verify) = (Arc::clone(provider), self.verify);
        Ok(NodeVerifier::new(chain, provider, verify, names))
    }

    fn roots(&self) -> Result<RootCertStore, EngineError> {
        let mut roots = RootCertStore::empty();
        if let Some(pem) = &self.authorities {
            for certificate in certificates("ca", pem)? {
                roots.add(certificate).map_err(|error| refuse(format_args!("ca: {error}")))?;
            }
            return Ok(roots);
        }
        let loaded = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(loaded.certs);
        if roots.is_empty() {
            let why: Vec<String> = loaded.errors.iter().map(ToString::to_string).collect();
            let why = if why.is_empty() { String::new() } else { format!(": {}", why.join("; ")) };
            return Err(refuse(format_args!(
                "the system has no trusted certificates; name those to trust as ca{why}"
            )));
        }
        Ok(roots)
    }
}

fn host_name(name: &str) -> Result<ServerName<'static>, EngineError> {
    ServerName::try_from(name.to_owned())
        .map_err(|_| refuse(format_args!("{name:?} is no name that a host can have")))
}

/// Describes the error without any part of the PEM text, because the text may be a private key that
/// was set as the wrong option.
fn why_no_pem(error: &pem::Error) -> &'static str {
    match error {
        pem::Error::MissingSectionEnd { .. } => {
            "a section has no line that ends it (have its line breaks been lost?)"
        }
        pem::Error::IllegalSectionStart { .. } => {
            "a section's first line is malformed (have its line breaks been lost?)"
        }
        pem::Error::Base64Decode(_) => "the text between its BEGIN and END lines is not Base64",
        pem::Error::SectionTooLarge => "a section is too large",
        pem::Error::NoItemsFound => "the text contains no such section",
        _ => "it cannot be read",
    }
}

fn certificates(setting: &str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, EngineError> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let certificates =
        certificates.map_err(|error| refuse(format_args!("{setting}: {}", why_no_pem(&error))))?;
    if certificates.is_empty() {
        return Err(refuse(format_args!("{setting}: expected certificates in PEM, found none")));
    }
    Ok(certificates)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(tls: &Tls) -> String {
        tls.client(&["db:9042".to_owned()]).err().map(|error| error.message).unwrap_or_default()
    }

    #[test]
    fn a_server_name_is_a_host_name() {
        let fixed = |name: &str| Tls {
            verify: Verify::Nothing,
            server_name: ServerNameSetting::Fixed(name.to_owned()),
            ..Tls::default()
        };
        let reason = "tls: server_name: \"10.0.0.1\" is an address; a server name is a host name";
        assert_eq!(refused(&fixed("10.0.0.1")), reason);
        assert_eq!(refused(&fixed("a b")), "tls: \"a b\" is no name that a host can have");
        assert_eq!(refused(&fixed("node.test")), "");
    }

    #[test]
    fn invalid_settings_are_refused_with_their_names() {
        let pem = |text: &str| Some(text.as_bytes().to_vec());
        let no_authority = Tls { authorities: pem("hello"), ..Tls::default() };
        assert_eq!(refused(&no_authority), "tls: ca: expected certificates in PEM, found none");
        let half = Tls { certificate: pem("x"), verify: Verify::Nothing, ..Tls::default() };
        assert_eq!(refused(&half), "tls: a certificate and its key go together");
        let empty = Tls { key: pem("y"), ..half };
        assert!(refused(&empty).contains("certificate: expected certificates in PEM"));
        let name =
            Tls { names: vec!["not a name".into()], verify: Verify::Nothing, ..Tls::default() };
        assert_eq!(refused(&name), "tls: \"not a name\" is no name that a host can have");
        assert!(Tls { verify: Verify::Nothing, ..Tls::default() }.client(&[]).is_ok());
    }
}
