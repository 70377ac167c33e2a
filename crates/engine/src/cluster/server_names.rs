//! The server names (SNI, RFC 6066) that connections send, and the TLS configuration for each
//! address.
//!
//! A node announces only its address, but a proxy that routes TLS connections by host name needs a
//! host name.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use scylla::client::session::TlsContext;

use crate::cluster::verifier::NodeVerifier;

pub(crate) fn is_dns(name: &ServerName<'_>) -> bool {
    matches!(name, ServerName::DnsName(_))
}

/// Maps the addresses of contact points to the host names from which they were resolved.
pub(crate) struct ServerNames {
    /// The name for an address that belongs to no contact point.
    default: Option<ServerName<'static>>,
    /// Whether names of contact points are sent.
    by_contact_point: bool,
    resolved: Mutex<HashMap<SocketAddr, ServerName<'static>>>,
}

impl ServerNames {
    pub(crate) fn new(default: Option<ServerName<'static>>, by_contact_point: bool) -> ServerNames {
        ServerNames { default, by_contact_point, resolved: Mutex::default() }
    }

    fn resolved(&self) -> MutexGuard<'_, HashMap<SocketAddr, ServerName<'static>>> {
        self.resolved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the name of the contact point with this address and port. If there is none, returns
    /// the name of a contact point with this address and another port. If there is none either,
    /// returns the default.
    fn of(&self, at: SocketAddr) -> Option<ServerName<'static>> {
        let resolved = self.resolved();
        let same_address = || {
            let at_address = resolved.iter().filter(|(other, _)| other.ip() == at.ip());
            at_address.min_by_key(|(other, _)| other.port()).map(|(_, name)| name)
        };
        resolved.get(&at).or_else(same_address).or(self.default.as_ref()).cloned()
    }
}

/// Everything that connections need for TLS.
pub(crate) struct TlsClient {
    /// The configuration for connections that send no server name.
    unnamed: Arc<ClientConfig>,
    verifier: NodeVerifier,
    names: ServerNames,
    /// The configurations for connections that send a server name. Each has a verifier that knows
    /// the node's address, because rustls passes a verifier only the server name.
    named: Mutex<HashMap<IpAddr, Arc<ClientConfig>>>,
}

impl TlsClient {
    pub(super) fn new(
        config: ClientConfig,
        verifier: NodeVerifier,
        names: ServerNames,
    ) -> TlsClient {
        TlsClient { unnamed: Arc::new(config), verifier, names, named: Mutex::default() }
    }

    /// Records the addresses of a contact point. An address keeps the first name that was recorded
    /// for it.
    pub(crate) fn note_addresses(&self, host: &str, addresses: &[SocketAddr]) {
        let Ok(name) = ServerName::try_from(host.to_owned()) else { return };
        if !self.names.by_contact_point || !is_dns(&name) {
            return;
        }
        let mut resolved = self.names.resolved();
        for at in addresses {
            resolved.entry(canonical(*at)).or_insert_with(|| name.clone());
        }
    }

    /// Returns the configuration and the server name of a connection to this address. A server name
    /// that is an address is not sent.
    pub(crate) fn at(&self, at: SocketAddr) -> (Arc<ClientConfig>, ServerName<'static>) {
        let at = canonical(at);
        let Some(name) = self.names.of(at) else {
            return (Arc::clone(&self.unnamed), ServerName::from(at.ip()));
        };
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        let config = named.entry(at.ip()).or_insert_with(|| {
            let mut config = ClientConfig::clone(&self.unnamed);
            let verifier = Arc::new(self.verifier.at(at.ip()));
            config.dangerous().set_certificate_verifier(verifier);
            Arc::new(config)
        });
        (Arc::clone(config), name)
    }

    /// Returns this configuration in the form of the ScyllaDB driver. Without the edits of the
    /// driver's crates, no server name is sent.
    pub(crate) fn context(self: &Arc<Self>) -> TlsContext {
        #[cfg(edited_crates)]
        {
            let client = Arc::clone(self);
            TlsContext::Rustls023ByAddress(Arc::new(move |at| client.at(at)))
        }
        #[cfg(not(edited_crates))]
        {
            TlsContext::from(Arc::clone(&self.unnamed))
        }
    }
}

/// Returns the address, with an IPv4-mapped IPv6 address converted to IPv4.
fn canonical(at: SocketAddr) -> SocketAddr {
    SocketAddr::new(at.ip().to_canonical(), at.port())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::tls::{ServerNameSetting, Tls};
    use crate::cluster::verifier::Verify;

    fn client(server_name: ServerNameSetting, points: &[&str], names: &[&str]) -> TlsClient {
        let owned = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
        let tls =
            Tls { verify: Verify::Nothing, server_name, names: owned(names), ..Tls::default() };
        tls.client(&owned(points)).unwrap()
    }

    fn sent(client: &TlsClient, at: &str) -> Option<String> {
        let (_, name) = client.at(at.parse().unwrap());
        is_dns(&name).then(|| name.to_str().into_owned())
    }

    #[test]
    fn a_node_gets_the_name_of_its_contact_point_or_the_first_name() {
        let points = ["10.0.0.9:9042", "a.test:9042", "b.test:9042"];
        let client = client(ServerNameSetting::OfContactPoint, &points, &["c.test"]);
        client.note_addresses("a.test", &["10.0.0.1:9042".parse().unwrap()]);
        client.note_addresses("b.test", &["[::ffff:10.0.0.2]:9042".parse().unwrap()]);
        client.note_addresses("b.test", &["10.0.0.1:9042".parse().unwrap()]);
        for (at, name) in [
            ("10.0.0.1:9042", "a.test"),
            ("10.0.0.2:9042", "b.test"),
            ("10.0.0.2:19042", "b.test"),
            ("10.0.0.3:9042", "a.test"),
        ] {
            assert_eq!(sent(&client, at).as_deref(), Some(name), "{at}");
        }
    }

    #[test]
    fn without_a_host_name_among_the_contact_points_the_first_of_the_names_is_sent() {
        let of_contact_point = || ServerNameSetting::OfContactPoint;
        let points = ["10.0.0.1:9042"];
        let named = client(of_contact_point(), &points, &["10.0.0.1", "c.test", "d.test"]);
        assert_eq!(sent(&named, "10.0.0.1:9042").as_deref(), Some("c.test"));
        assert_eq!(sent(&client(of_contact_point(), &points, &[]), "10.0.0.1:9042"), None);
    }

    #[test]
    fn the_setting_names_every_server_or_none() {
        let points = ["a.test:9042"];
        let fixed = client(ServerNameSetting::Fixed("z.test".into()), &points, &["c.test"]);
        let off = client(ServerNameSetting::Off, &points, &["c.test"]);
        for client in [&fixed, &off] {
            client.note_addresses("a.test", &["10.0.0.1:9042".parse().unwrap()]);
        }
        assert_eq!(sent(&fixed, "10.0.0.1:9042").as_deref(), Some("z.test"));
        assert_eq!(sent(&fixed, "10.0.0.2:9042").as_deref(), Some("z.test"));
        assert_eq!(sent(&off, "10.0.0.1:9042"), None);
    }

    #[test]
    fn a_node_keeps_its_configuration() {
        let client = client(ServerNameSetting::OfContactPoint, &["a.test:9042"], &[]);
        let config = |at: &str| client.at(at.parse().unwrap()).0;
        assert!(Arc::ptr_eq(&config("10.0.0.1:9042"), &config("10.0.0.1:9142")));
        assert!(!Arc::ptr_eq(&config("10.0.0.1:9042"), &config("10.0.0.2:9042")));
    }
}
