//! TLS: trusted authorities, the client's certificate, and verification of the nodes' certificates.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};

use crate::error::{EngineError, ErrorKind};

/// How connections are encrypted. Certificates and keys are PEM.
#[derive(Clone, Default)]
pub struct Tls {
    /// The certificates of trusted authorities. `None` means those that the system trusts.
    pub authorities: Option<Vec<u8>>,
    /// The client's certificate, and the certificates between it and its authority.
    pub certificate: Option<Vec<u8>>,
    pub key: Option<Vec<u8>>,
    pub verify: Verify,
    /// Names for which a node's certificate may be valid, besides the node's address and the names
    /// of the contact points.
    pub names: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verify {
    /// The certificate must come from a trusted authority and be valid for the node.
    #[default]
    Full,
    /// The certificate must come from a trusted authority.
    Authority,
    /// Any certificate is accepted.
    Nothing,
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
    /// Returns the configuration for rustls. Each of `contact_points` is `host:port`.
    pub(crate) fn client(&self, contact_points: &[String]) -> Result<ClientConfig, EngineError> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier = self.verifier(&provider, contact_points)?;
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(refuse)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
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
        // An address among the contact points is a node's own address, which is checked anyway.
        for host in hosts.filter(|host| host.parse::<IpAddr>().is_err()) {
            // A host that cannot be a name in a certificate is left out.
            names.extend(ServerName::try_from(host.to_owned()));
        }
        for name in &self.names {
            let name = ServerName::try_from(name.clone())
                .map_err(|_| refuse(format_args!("{name:?} is no name that a host can have")))?;
            names.push(name);
        }
        Ok(NodeVerifier { chain, provider: Arc::clone(provider), verify: self.verify, names })
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
        pem::Error::Base64Decode(_) => "it is not Base64 between the lines that mark it",
        pem::Error::SectionTooLarge => "a section is too large",
        pem::Error::NoItemsFound => "none is there",
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

/// With [`Verify::Full`], accepts a certificate that is valid for the node's address, or for one of
/// the names by which the user knows the cluster. Nodes announce each other only by address.
#[derive(Debug)]
struct NodeVerifier {
    chain: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
    verify: Verify,
    names: Vec<ServerName<'static>>,
}

fn is_about_the_name(error: &rustls::Error) -> bool {
    let rustls::Error::InvalidCertificate(error) = error else { return false };
    matches!(
        error,
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }
    )
}

impl ServerCertVerifier for NodeVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        node: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(chain) = &self.chain else { return Ok(ServerCertVerified::assertion()) };
        let verify =
            |name: &ServerName<'_>| chain.verify_server_cert(certificate, between, name, ocsp, now);
        let error = match verify(node) {
            Err(error) if is_about_the_name(&error) => error,
            verified => return verified,
        };
        // The chain is verified by now, and only the name does not match.
        if self.verify == Verify::Authority {
            return Ok(ServerCertVerified::assertion());
        }
        self.names.iter().find_map(|name| verify(name).ok()).ok_or(error)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(tls: &Tls) -> String {
        tls.client(&["db:9042".to_owned()]).unwrap_err().message
    }

    #[test]
    fn what_is_no_certificate_is_refused_by_name() {
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
