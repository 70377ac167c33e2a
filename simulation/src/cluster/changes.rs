//! Changes of the cluster: pauses, kills and moves of nodes, and changes of the schema. The other
//! nodes learn of a change later.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::statements::{REMADE, table_name};
use super::wire::{self, Type};
use super::{Cluster, GOSSIP, NO_SHARD, PORT, SCHEMA_SPREAD};

impl Cluster {
    /// Suspends a node's process, or resumes it.
    pub fn pause(&self, node: usize, is_paused: bool) {
        self.lock().nodes[node].runs.send_replace(!is_paused);
        self.gossip(node, !is_paused);
    }

    /// Ends a node's process. If `in_silence` is false, the node's connections are reset. If it is
    /// true, clients receive nothing, as after a loss of power.
    pub fn kill(&self, node: usize, in_silence: bool) {
        let mut state = self.lock();
        let killed = &mut state.nodes[node];
        killed.is_alive = false;
        killed.prepared.clear();
        killed.subscribers.clear();
        let mut tasks = std::mem::take(&mut killed.tasks);
        drop(state);
        self.network().refuse(self.ip(node));
        if !in_silence {
            self.network().reset(self.ip(node), None);
        }
        tasks.abort_all();
        tokio::spawn(async move { while tasks.join_next().await.is_some() {} });
        self.gossip(node, false);
    }

    /// Starts a killed node again.
    pub fn restart(&self, node: usize) {
        let schema = self.lock().schema;
        self.learn_schema(node, schema);
        self.accept(node);
        self.gossip(node, true);
    }

    /// Starts a killed node again, at another address.
    pub fn restart_elsewhere(&self, node: usize) {
        let mut state = self.lock();
        let IpAddr::V4(ip) = state.nodes[node].ip else { unreachable!("all addresses are IPv4") };
        let [a, b, network, host] = ip.octets();
        state.nodes[node].ip = Ipv4Addr::new(a, b, network + 1, host).into();
        drop(state);
        self.restart(node);
    }

    /// Starts a new node in place of a killed one. The new node has the address and the tokens of
    /// the killed node, and copies the rows from the other nodes.
    pub fn replace(&self, node: usize) {
        let mut state = self.lock();
        let others = state.nodes.iter().enumerate().filter(|(other, _)| *other != node);
        let rows: Vec<_> = others.flat_map(|(_, other)| other.rows.clone()).collect();
        state.nodes[node].host_id += 100;
        state.nodes[node].rows.clear();
        for (key, written) in rows {
            if state.replicas(key).contains(&node) {
                state.apply(node, key, written);
            }
        }
        drop(state);
        self.restart(node);
    }

    /// If this node runs, creates a table at it, as another client would.
    pub fn make_table(&self, node: usize) {
        let mut state = self.lock();
        let of = &state.nodes[node];
        if !of.is_alive || !*of.runs.borrow() {
            return;
        }
        let number = -1 - state.made.len() as i64;
        state.made.push((table_name(number), Instant::now()));
        drop(state);
        self.change_schema(node, number);
    }

    /// Returns the tables that another client has made, each with the time when it was made.
    pub fn made(&self) -> Vec<(String, Instant)> {
        self.lock().made.clone()
    }

    /// Makes a table. The other nodes learn of it later.
    pub(super) fn change_schema(&self, node: usize, table: i64) {
        let mut state = self.lock();
        state.effects.entry(table).or_default().add(0);
        state.schema += 1;
        let version = state.schema;
        state.tables.insert(table, version);
        drop(state);
        for other in 0..self.size() {
            let late = match other == node {
                true => Duration::ZERO,
                false => self.duration(10_000..SCHEMA_SPREAD.as_micros() as u64),
            };
            let cluster = self.clone();
            tokio::spawn(async move {
                cluster.work((other, NO_SHARD), late).await;
                // A killed node learns the new schema when it starts.
                if cluster.lock().nodes[other].is_alive {
                    cluster.learn_schema(other, version);
                }
            });
        }
        self.learn_schema(node, version);
    }

    pub(super) fn learn_schema(&self, node: usize, version: u64) {
        let mut state = self.lock();
        if state.nodes[node].schema < version {
            let earlier = std::mem::replace(&mut state.nodes[node].schema, version);
            let tables =
                state.tables.iter().filter(|(_, made)| (earlier + 1..=version).contains(made));
            let events: Vec<_> =
                tables.map(|(table, _)| wire::schema_event(&table_name(*table))).collect();
            for event in events {
                state.nodes[node].subscribers.retain(|to| to.send(event.clone()).is_ok());
            }
        }
    }

    /// Returns the nodes that do not know a table.
    pub fn unaware_of(&self, table: i64) -> Vec<usize> {
        let state = self.lock();
        let version = state.tables.get(&table).copied().unwrap_or(u64::MAX);
        let nodes = state.nodes.iter().enumerate();
        nodes.filter(|(_, node)| node.schema < version).map(|(node, _)| node).collect()
    }

    /// Makes the table `remade` again, with the other type of its column `v`. The nodes forget the
    /// prepared statements about the table.
    pub fn remake_table(&self) {
        let mut state = self.lock();
        let other = match state.remade.0 {
            Type::Bigint => Type::Text,
            _ => Type::Bigint,
        };
        state.remade = (other, Instant::now());
        for node in &mut state.nodes {
            node.prepared.retain(|_, text| !text.starts_with(REMADE));
        }
    }

    /// Returns a sentence for each time that the client did something that no client may do.
    pub fn defects(&self) -> Vec<String> {
        self.lock().defects.clone()
    }

    /// Returns the values that were written to the table `remade` with a type that its column `v`
    /// did not have. With each value is the time of the last creation of the table before the
    /// write.
    pub fn misfits(&self) -> Vec<(i64, Instant)> {
        self.lock().misfits.clone()
    }

    /// Makes a node forget all its prepared statements, as a full cache would.
    pub fn forget_statements(&self, node: usize) {
        self.lock().nodes[node].prepared.clear();
    }

    pub fn overload(&self, node: usize, is_overloaded: bool) {
        self.lock().nodes[node].is_overloaded = is_overloaded;
    }

    /// Makes a node forget its prepared statements. If `is_full` is true, the node also keeps no
    /// new ones, until this function is called with false.
    pub fn fill_cache(&self, node: usize, is_full: bool) {
        let mut state = self.lock();
        state.nodes[node].is_cache_full = is_full;
        state.nodes[node].prepared.clear();
    }

    /// Makes a node answer logins with an error that has this code. If `code` is `None`, the node
    /// accepts logins again.
    pub fn refuse_logins(&self, node: usize, code: Option<i32>) {
        self.lock().nodes[node].refuses_logins = code;
    }

    /// Tells the other nodes, after a while, that a node is up or down. They then tell their
    /// clients. A node that is up again gets the hints, which are the writes that the other nodes
    /// have kept for it.
    pub(super) fn gossip(&self, node: usize, is_up: bool) {
        let mut state = self.lock();
        state.nodes[node].epoch += 1;
        let epoch = state.nodes[node].epoch;
        let late = GOSSIP.mul_f64(state.random.within(30..100) as f64 / 100.0);
        drop(state);
        let cluster = self.clone();
        tokio::spawn(async move {
            sleep(late).await;
            let mut state = cluster.lock();
            let status = &mut state.nodes[node];
            if status.epoch != epoch || status.is_known_up == is_up {
                return;
            }
            status.is_known_up = is_up;
            let at = SocketAddr::new(status.ip, PORT);
            let mut events =
                vec![wire::node_event("STATUS_CHANGE", if is_up { "UP" } else { "DOWN" }, at)];
            if is_up && (status.host_id, status.ip) != status.announced {
                events.insert(0, wire::node_event("TOPOLOGY_CHANGE", "NEW_NODE", at));
                status.announced = (status.host_id, status.ip);
            }
            let hints = if is_up { std::mem::take(&mut status.hints) } else { Vec::new() };
            for (key, written) in hints {
                state.apply(node, key, written);
            }
            for (at, other) in state.nodes.iter_mut().enumerate() {
                if at != node && other.is_alive && *other.runs.borrow() {
                    for event in &events {
                        other.subscribers.retain(|to| to.send(event.clone()).is_ok());
                    }
                }
            }
            drop(state);
            let verb = if is_up { "up" } else { "down" };
            cluster.0.trace.line(|| format!("the nodes know that node {} is {verb}", node + 1));
        });
    }
}
