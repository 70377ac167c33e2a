//! Opens the connections on which nodes are probed, and resolves names of contact points.

use std::io::Result;
use std::net::SocketAddr;

#[cfg(not(feature = "simulation"))]
pub(crate) async fn connect(at: SocketAddr) -> Result<tokio::net::TcpStream> {
    tokio::net::TcpStream::connect(at).await
}

/// Opens a connection of the simulation (the folder `simulation`), or a socket if no simulation
/// runs.
#[cfg(feature = "simulation")]
pub(crate) async fn connect(at: SocketAddr) -> Result<Box<dyn scylla::simulated::Transport>> {
    match scylla::simulated::CONNECT.get() {
        Some(connect) => connect(at, None).await,
        None => Ok(Box::new(tokio::net::TcpStream::connect(at).await?)),
    }
}

/// Returns the addresses of a contact point, which is `host:port`.
pub(crate) async fn resolve(contact_point: &str) -> Result<Vec<SocketAddr>> {
    #[cfg(feature = "simulation")]
    if let Some(resolve) = scylla::simulated::RESOLVE.get() {
        return resolve(contact_point);
    }
    Ok(tokio::net::lookup_host(contact_point).await?.collect())
}
