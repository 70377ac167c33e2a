//! Opens the connections on which nodes are probed.

use std::io::Result;
use std::net::SocketAddr;

#[cfg(not(feature = "simulation"))]
pub(crate) async fn connect(at: SocketAddr) -> Result<tokio::net::TcpStream> {
    tokio::net::TcpStream::connect(at).await
}

/// Opens a connection of the simulation, or a socket if no simulation is in place.
#[cfg(feature = "simulation")]
pub(crate) async fn connect(at: SocketAddr) -> Result<Box<dyn scylla::Transport>> {
    match scylla::SIMULATED_CONNECT.get() {
        Some(connect) => connect(at).await,
        None => Ok(Box::new(tokio::net::TcpStream::connect(at).await?)),
    }
}
