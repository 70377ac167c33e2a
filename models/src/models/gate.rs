//! Models of `Gate`, which admits requests in their order: its limits are never exceeded, no permit
//! is lost, and the order is kept.

use std::pin::pin;

use loom::future::block_on;
use loom::thread;

use super::poll;
use crate::gate::{Gate, Permit};
use crate::interleaved;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicUsize, Ordering};

/// Counts the admitted requests, independently of the gate.
#[derive(Default)]
struct Inside(AtomicUsize);

impl Inside {
    fn stay(&self, permit: Permit, most: usize) {
        let others = self.0.fetch_add(1, Ordering::AcqRel);
        assert!(others < most, "the bound is exceeded");
        self.0.fetch_sub(1, Ordering::AcqRel);
        drop(permit);
    }
}

fn requests_enter(threads: usize, most: usize) {
    interleaved(move || {
        let (gate, inside) = (Gate::new(most, 100), Arc::<Inside>::default());
        let enter = {
            let (gate, inside) = (gate.clone(), inside.clone());
            move || inside.stay(block_on(gate.enter()), most)
        };
        let others: Vec<_> = (1..threads).map(|_| thread::spawn(enter.clone())).collect();
        enter();
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(gate.admitted(), (0, 0));
    });
}

#[test]
fn the_bound_holds() {
    requests_enter(2, 1);
}

#[test]
fn the_bound_holds_for_three() {
    requests_enter(3, 1);
}

#[test]
fn the_bound_holds_without_waiting() {
    interleaved(|| {
        let (gate, inside) = (Gate::new(1, 100), Arc::<Inside>::default());
        let enter = {
            let (gate, inside) = (gate.clone(), inside.clone());
            move || gate.try_enter().into_iter().for_each(|permit| inside.stay(permit, 1))
        };
        let other = thread::spawn(enter.clone());
        enter();
        other.join().unwrap();
        assert_eq!(gate.admitted(), (0, 0));
    });
}

/// A waiting request may give up at any moment. If the gate has already given it a permit, this
/// permit goes to the next request.
#[test]
fn a_waiter_gives_up() {
    interleaved(|| {
        let gate = Gate::new(1, 100);
        let first = gate.try_enter().unwrap();
        let impatient = thread::spawn({
            let gate = gate.clone();
            move || drop(poll(pin!(gate.enter())))
        });
        let patient = thread::spawn({
            let gate = gate.clone();
            move || drop(block_on(gate.enter()))
        });
        drop(first);
        impatient.join().unwrap();
        patient.join().unwrap();
        assert_eq!(gate.admitted(), (0, 0));
    });
}

/// A request with many bytes ends, which makes room for all waiting requests. A request that
/// arrives at this moment is admitted only after them.
#[test]
fn no_request_overtakes() {
    interleaved(|| {
        let gate = Gate::new(10, 10);
        let mut heavy = gate.try_enter().unwrap();
        // The first call makes the gate expect that each later request has one byte.
        heavy.weigh(1);
        heavy.weigh(9);
        let (to_first, to_second) = (gate.clone(), gate.clone());
        let mut first = Box::pin(async move { to_first.enter().await });
        let mut second = Box::pin(async move { to_second.enter().await });
        assert!(poll(first.as_mut()).is_none() && poll(second.as_mut()).is_none());
        let late = thread::spawn({
            let gate = gate.clone();
            move || {
                let late = gate.try_enter();
                let first = poll(first.as_mut()).ok_or(first);
                assert!(late.is_none() || first.is_ok(), "overtaken");
                drop(first.map_err(block_on));
            }
        });
        drop(heavy);
        drop(block_on(second));
        late.join().unwrap();
        assert_eq!(gate.admitted(), (0, 0));
    });
}
