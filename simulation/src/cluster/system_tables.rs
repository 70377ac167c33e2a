//! The system tables that describe a cluster, as far as the engine reads them.

use super::statements::KEYSPACES;
use super::wire::{Columns, Row, Type, inet_bytes};
use crate::cluster::State;

/// Returns a UUID: eight times the byte `first`, then the eight bytes of `number`.
pub(super) fn uuid(first: u8, number: u64) -> Vec<u8> {
    let mut id = vec![first; 8];
    id.extend_from_slice(&number.to_be_bytes());
    id
}

fn cell(state: &State, node: usize, column: &str) -> (Type, Option<Vec<u8>>) {
    let text = |text: &str| (Type::Text, Some(text.as_bytes().to_vec()));
    match column {
        "host_id" => (Type::Uuid, Some(uuid(0x40, state.nodes[node].host_id))),
        "schema_version" => (Type::Uuid, Some(uuid(0x07, state.nodes[node].schema))),
        "rpc_address" | "peer" => (Type::Inet, Some(inet_bytes(state.nodes[node].ip))),
        "data_center" => text("datacenter1"),
        "rack" => text("rack1"),
        "cluster_name" => text("simulated"),
        "release_version" => text("5.0.5"),
        "key" => text("local"),
        "tokens" => {
            let tokens = state.nodes[node].tokens.iter().map(|token| token.to_string());
            (Type::Texts, Some(collection(tokens)))
        }
        _ => (Type::Text, None),
    }
}

fn collection(items: impl ExactSizeIterator<Item = String>) -> Vec<u8> {
    let mut bytes = (items.len() as i32).to_be_bytes().to_vec();
    for item in items {
        super::wire::put_bytes(&mut bytes, Some(item.as_bytes()));
    }
    bytes
}

fn keyspace_cell(keyspace: &str, column: &str) -> (Type, Option<Vec<u8>>) {
    match column {
        "keyspace_name" => (Type::Text, Some(keyspace.as_bytes().to_vec())),
        "durable_writes" => (Type::Boolean, Some(vec![1])),
        "replication" => {
            let class = "org.apache.cassandra.locator.NetworkTopologyStrategy";
            let items = ["class", class, "datacenter1", "3"].map(str::to_owned);
            let mut bytes = 2i32.to_be_bytes().to_vec();
            bytes.extend_from_slice(&collection(items.into_iter())[4..]);
            (Type::TextMap, Some(bytes))
        }
        _ => (Type::Text, None),
    }
}

/// Returns the columns and the rows with which a node answers the read `text`.
pub fn read(state: &State, node: usize, text: &str) -> (Columns, Vec<Row>) {
    let lower = text.to_ascii_lowercase();
    let selected = lower.trim_start_matches("select ").split(" from ").next().unwrap_or("");
    let names: Vec<&str> = selected.split(',').map(str::trim).collect();
    let of_nodes = |nodes: Vec<usize>| {
        let types = names.iter().map(|name| (name.to_string(), cell(state, node, name).0));
        let rows = nodes.iter().map(|of| names.iter().map(|name| cell(state, *of, name).1));
        (types.collect(), rows.map(Iterator::collect).collect())
    };
    if lower.contains("system.local") {
        of_nodes(vec![node])
    } else if lower.contains("system.peers") {
        of_nodes((0..state.nodes.len()).filter(|peer| *peer != node).collect())
    } else {
        let is_of_scylla = lower.contains("system_schema.scylla_keyspaces");
        let cell_of = |keyspace: &str, name: &str| match is_of_scylla {
            true => state.scylla_cell(keyspace, name),
            false => keyspace_cell(keyspace, name),
        };
        let of = |keyspace| names.iter().map(move |name| cell_of(keyspace, name));
        let types = names.iter().map(|name| name.to_string()).zip(of("").map(|(of, _)| of));
        let rows = KEYSPACES.iter().map(|keyspace| of(keyspace).map(|(_, cell)| cell).collect());
        let has_rows = is_of_scylla || lower.contains("system_schema.keyspaces");
        (types.collect(), rows.filter(|_| has_rows).collect())
    }
}
