//! Verification of the nodes' certificates.

use std::net::IpAddr;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, SignatureScheme};

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

/// With [`Verify::Full`], accepts a certificate that is valid for the node's address or for one of
/// `names`. These names come from the configuration, because nodes announce each other only by
/// address.
#[derive(Clone, Debug)]
pub(crate) struct NodeVerifier {
    chain: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
    verify: Verify,
    names: Vec<ServerName<'static>>,
    /// The node's address. `None` if rustls passes the address as the server name.
    address: Option<ServerName<'static>>,
}

impl NodeVerifier {
    /// Returns one verifier for all nodes. If `chain` is `None`, it accepts any certificate.
    pub(crate) fn new(
        chain: Option<Arc<WebPkiServerVerifier>>,
        provider: Arc<CryptoProvider>,
        verify: Verify,
        names: Vec<ServerName<'static>>,
    ) -> NodeVerifier {
        NodeVerifier { chain, provider, verify, names, address: None }
    }

    pub(crate) fn names(&self) -> &[ServerName<'static>] {
        &self.names
    }

    /// Returns the verifier for the node at this address.
    pub(crate) fn at(&self, address: IpAddr) -> NodeVerifier {
        NodeVerifier { address: Some(ServerName::from(address)), ..self.clone() }
    }
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
        let error = match verify(self.address.as_ref().unwrap_or(node)) {
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
