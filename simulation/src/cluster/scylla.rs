//! The features that only a cluster of ScyllaDB has: shards, a port at which the client chooses the
//! shard, and tablets that migrate. A node serves each connection with one of its shards.

use std::collections::BTreeMap;

use tokio::time::Instant;
use turbocql_codec::token::murmur3;

use super::system_tables::uuid;
use super::wire::{Type, put_bytes, put_text};
use super::{Cluster, Node, REPLICAS, State, Written};
use crate::random::Random;

/// The port for connections whose source port selects the shard.
pub const SHARD_AWARE_PORT: u16 = 19042;
/// How many of a token's first bits are ignored when its shard is computed.
const IGNORED_BITS: u32 = 12;
/// A number that no shard has. It stands for work that a node does outside its shards.
pub const NO_SHARD: u16 = u16::MAX;

const TABLETS: u64 = 8;

/// The settings and the tablets of a cluster of ScyllaDB.
pub struct Scylla {
    pub has_shard_aware_port: bool,
    /// The tablets in the order of their tokens. This is empty if the tables have no tablets.
    pub tablets: Vec<Tablet>,
}

/// A range of tokens with its replicas. All tables have the same tablets.
pub struct Tablet {
    first: i64,
    last: i64,
    replicas: Vec<(usize, u16)>,
    /// Maps each node that was a replica to the node that took its place.
    heirs: BTreeMap<usize, usize>,
    changed: Instant,
}

/// The arrival of an EXECUTE at a node.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    pub at: Instant,
    pub key: i64,
    pub table: &'static str,
    /// Whether the request arrived at a wrong place: at a node that is no replica of the key, or at
    /// a shard that does not have the key.
    pub is_misrouted: bool,
    pub node: usize,
    pub shard: u16,
    /// The number of the key's tablet, and when the tablet changed last.
    pub tablet: Option<(usize, Instant)>,
}

/// Returns the shard of a token on a node, if the tables have no tablets.
fn shard_of(token: i64, shards: u16) -> u16 {
    let biased = (token as u64).wrapping_add(1 << 63) << IGNORED_BITS;
    ((u128::from(biased) * u128::from(shards)) >> 64) as u16
}

/// Returns the value of `tablets-routing-v1` for a tablet. A replica is a host id and a shard.
fn routing_value(first: i64, last: i64, replicas: &[(Vec<u8>, u16)]) -> Vec<u8> {
    let mut listed = (replicas.len() as i32).to_be_bytes().to_vec();
    for (host_id, shard) in replicas {
        let mut replica = Vec::new();
        put_bytes(&mut replica, Some(host_id));
        put_bytes(&mut replica, Some(&i32::from(*shard).to_be_bytes()));
        put_bytes(&mut listed, Some(&replica));
    }
    let mut value = Vec::new();
    put_bytes(&mut value, Some(&first.to_be_bytes()));
    put_bytes(&mut value, Some(&last.to_be_bytes()));
    put_bytes(&mut value, Some(&listed));
    value
}

impl Scylla {
    /// Decides at random whether the cluster is one of ScyllaDB. If so, returns its settings, and
    /// sets each node's number of shards.
    pub fn draw(nodes: &mut [Node], random: &mut Random) -> Option<Scylla> {
        if !random.percent(33) {
            return None;
        }
        for node in nodes.iter_mut() {
            node.shards = random.within(1..5) as u16;
        }
        let has_shard_aware_port = random.percent(70);
        let mut tablets = Vec::new();
        if random.percent(70) {
            let size = u64::MAX / TABLETS;
            tablets = (0..TABLETS)
                .map(|number| Tablet {
                    first: if number == 0 {
                        i64::MIN
                    } else {
                        i64::MIN.wrapping_add((number * size) as i64)
                    },
                    last: match number + 1 {
                        TABLETS => i64::MAX,
                        next => i64::MIN.wrapping_add((next * size) as i64),
                    },
                    replicas: draw_replicas(nodes, random),
                    heirs: BTreeMap::new(),
                    changed: Instant::now(),
                })
                .collect();
        }
        Some(Scylla { has_shard_aware_port, tablets })
    }

    /// Returns the number of a key's tablet, if there are tablets.
    fn number(&self, key: i64) -> Option<usize> {
        let token = murmur3(&key.to_be_bytes());
        let number = self.tablets.partition_point(|tablet| tablet.last < token);
        (number < self.tablets.len()).then_some(number)
    }

    fn tablet(&self, key: i64) -> Option<&Tablet> {
        Some(&self.tablets[self.number(key)?])
    }

    /// Returns the nodes of a key's tablet, if there are tablets.
    pub fn replicas(&self, key: i64) -> Option<Vec<usize>> {
        Some(self.tablet(key)?.replicas.iter().map(|(node, _)| *node).collect())
    }

    /// Returns the node that stores a write that was sent to `node`. This is `node` itself, unless
    /// the key's tablet has moved from `node` to another node.
    pub fn heir(&self, mut node: usize, key: i64) -> usize {
        let Some(tablet) = self.tablet(key) else { return node };
        while let Some(heir) = tablet.heirs.get(&node) {
            node = *heir;
        }
        node
    }
}

fn draw_replicas(nodes: &[Node], random: &mut Random) -> Vec<(usize, u16)> {
    let mut chosen: Vec<(usize, u16)> = Vec::new();
    while chosen.len() < REPLICAS {
        let node = random.within(0..nodes.len() as u64) as usize;
        if chosen.iter().all(|(other, _)| *other != node) {
            chosen.push((node, random.within(0..nodes[node].shards.into()) as u16));
        }
    }
    chosen
}

impl State {
    /// Returns the shard of a node that is responsible for a key.
    pub(super) fn shard(&self, node: usize, key: i64) -> u16 {
        let tablet = self.scylla.as_ref().and_then(|scylla| scylla.tablet(key));
        let replica = tablet.and_then(|tablet| tablet.replicas.iter().find(|of| of.0 == node));
        match replica {
            Some((_, shard)) => *shard,
            None => shard_of(murmur3(&key.to_be_bytes()), self.nodes[node].shards),
        }
    }

    /// Records the node and the shard at which an EXECUTE has arrived. If the key belongs to a
    /// tablet, and this shard has no replica of the tablet, returns the custom payload that tells
    /// the client where the replicas are.
    pub(super) fn note_arrival(
        &mut self,
        (node, shard): (usize, u16),
        table: &'static str,
        key: i64,
    ) -> Option<Vec<u8>> {
        let is_misrouted = !self.replicas(key).contains(&node) || self.shard(node, key) != shard;
        let scylla = self.scylla.as_ref();
        let number = scylla.and_then(|scylla| scylla.number(key));
        let found = scylla.zip(number).map(|(scylla, number)| &scylla.tablets[number]);
        let payload = found.filter(|_| is_misrouted).map(|tablet| self.routing(tablet));
        let tablet = number.zip(found.map(|tablet| tablet.changed));
        let at = Instant::now();
        self.arrivals.push(Arrival { at, key, table, is_misrouted, node, shard, tablet });
        payload
    }

    /// Makes the custom payload about a tablet.
    fn routing(&self, tablet: &Tablet) -> Vec<u8> {
        let replicas = tablet.replicas.iter();
        let replicas: Vec<_> =
            replicas.map(|(node, shard)| (uuid(0x40, self.nodes[*node].host_id), *shard)).collect();
        let value = routing_value(tablet.first, tablet.last, &replicas);
        let mut payload = 1u16.to_be_bytes().to_vec();
        put_text(&mut payload, "tablets-routing-v1");
        put_bytes(&mut payload, Some(&value));
        payload
    }

    /// Returns the options that a node of ScyllaDB adds to SUPPORTED, its answer to OPTIONS, on a
    /// connection to this shard. A node of Cassandra adds no options.
    pub(super) fn options(&self, shard: u16, node: usize) -> Vec<(&'static str, String)> {
        let Some(scylla) = &self.scylla else { return Vec::new() };
        let mut options = vec![
            ("SCYLLA_SHARD", shard.to_string()),
            ("SCYLLA_NR_SHARDS", self.nodes[node].shards.to_string()),
            ("SCYLLA_PARTITIONER", "org.apache.cassandra.dht.Murmur3Partitioner".to_owned()),
            ("SCYLLA_SHARDING_ALGORITHM", "biased-token-round-robin".to_owned()),
            ("SCYLLA_SHARDING_IGNORE_MSB", IGNORED_BITS.to_string()),
        ];
        if scylla.has_shard_aware_port {
            options.push(("SCYLLA_SHARD_AWARE_PORT", SHARD_AWARE_PORT.to_string()));
        }
        if !scylla.tablets.is_empty() {
            options.push(("TABLETS_ROUTING_V1", String::new()));
        }
        options
    }

    /// Returns a cell of `system_schema.scylla_keyspaces`, the table of the keyspaces with tablets.
    pub(super) fn scylla_cell(&self, keyspace: &str, column: &str) -> (Type, Option<Vec<u8>>) {
        match column {
            "initial_tablets" => (Type::Int, Some((TABLETS as i32).to_be_bytes().to_vec())),
            _ => (Type::Text, Some(keyspace.as_bytes().to_vec())),
        }
    }
}

impl Cluster {
    /// Returns the number of a node's shards, or `None` in a cluster of Cassandra.
    pub fn shards(&self, node: usize) -> Option<u16> {
        let state = self.lock();
        state.scylla.as_ref().map(|_| state.nodes[node].shards)
    }

    /// Returns the EXECUTE requests that have arrived.
    pub fn arrivals(&self) -> Vec<Arrival> {
        self.lock().arrivals.clone()
    }

    /// Makes one shard of a node hang. With `None`, resumes the shard that hangs.
    pub fn hang_shard(&self, node: usize, shard: Option<u16>) {
        self.lock().nodes[node].hung_shard.send_replace(shard);
    }

    /// Changes the number of shards of a node. The node must not run.
    pub fn reshard(&self, node: usize, shards: u16) {
        let mut state = self.lock();
        state.nodes[node].shards = shards;
        let Some(scylla) = &mut state.scylla else { return };
        for tablet in &mut scylla.tablets {
            for replica in tablet.replicas.iter_mut().filter(|replica| replica.0 == node) {
                replica.1 %= shards;
                tablet.changed = Instant::now();
            }
        }
    }

    /// Draws a tablet, one of its replicas, and the node and shard to which this replica moves.
    /// Does nothing if the old or the new node does not run, if the new node already has another
    /// replica of the tablet, or if the new node and shard are the old ones.
    pub fn migrate_tablet(&self) {
        let mut state = self.lock();
        let state = &mut *state;
        let Some(scylla) = state.scylla.as_mut().filter(|scylla| !scylla.tablets.is_empty()) else {
            return;
        };
        let random = &mut state.random;
        let number = random.within(0..TABLETS) as usize;
        let tablet = &mut scylla.tablets[number];
        let index = random.within(0..REPLICAS as u64) as usize;
        let from = tablet.replicas[index];
        let to = random.within(0..state.nodes.len() as u64) as usize;
        let shard = random.within(0..state.nodes[to].shards.into()) as u16;
        let runs = |node: usize| {
            let node = &state.nodes[node];
            node.is_alive && *node.runs.borrow() && node.is_known_up
        };
        let is_taken = tablet.replicas.iter().any(|replica| replica.0 == to && to != from.0);
        if !runs(from.0) || !runs(to) || is_taken || (to, shard) == from {
            return;
        }
        tablet.replicas[index] = (to, shard);
        tablet.changed = Instant::now();
        self.0.trace.line(|| {
            let replica_text =
                |(node, shard): (usize, u16)| format!("node {}, shard {shard}", node + 1);
            format!(
                "tablet {number} moves from {} to {}",
                replica_text(from),
                replica_text((to, shard))
            )
        });
        if to == from.0 {
            return;
        }
        tablet.heirs.remove(&to);
        tablet.heirs.insert(from.0, to);
        let range = tablet.first..=tablet.last;
        let rows: Vec<(i64, Written)> = state
            .nodes
            .iter()
            .flat_map(|node| node.rows.clone())
            .filter(|(key, _)| range.contains(&murmur3(&key.to_be_bytes())))
            .collect();
        rows.into_iter().for_each(|(key, written)| state.apply(to, key, written));
    }
}

#[cfg(test)]
mod tests {
    use super::{murmur3, routing_value, shard_of};

    /// The test of the other simulated ScyllaDB, `tests/unit/test_scylla_simulated.py`, reads the
    /// same cases.
    const CASES: &str = include_str!("../../cases/scylla.txt");

    fn bytes(text: &str) -> Vec<u8> {
        let digits = text.trim_matches('-');
        let pairs = (0..digits.len()).step_by(2);
        pairs.map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
    }

    fn number(text: &str) -> i64 {
        text.parse().unwrap()
    }

    #[test]
    fn tokens_shards_and_tablets_are_those_of_the_cases() {
        let mut kinds = std::collections::BTreeMap::<&str, u32>::new();
        for line in CASES.lines().filter(|line| !line.starts_with('#')) {
            let fields: Vec<&str> = line.split(' ').collect();
            match fields[..] {
                ["token", key, token] => assert_eq!(murmur3(&bytes(key)), number(token), "{line}"),
                ["shard", token, shards, shard] => {
                    let computed = shard_of(number(token), number(shards) as u16);
                    assert_eq!(i64::from(computed), number(shard), "{line}");
                }
                ["tablet", first, last, replicas, value] => {
                    let replicas: Vec<(Vec<u8>, u16)> = replicas
                        .split(',')
                        .map(|replica| replica.split_once(':').unwrap())
                        .map(|(host_id, shard)| (bytes(host_id), shard.parse().unwrap()))
                        .collect();
                    let computed = routing_value(number(first), number(last), &replicas);
                    assert_eq!(computed, bytes(value), "{line}");
                }
                _ => panic!("{line}"),
            }
            *kinds.entry(fields[0]).or_default() += 1;
        }
        assert!(kinds.into_iter().eq([("shard", 100), ("tablet", 3), ("token", 12)]));
    }
}
