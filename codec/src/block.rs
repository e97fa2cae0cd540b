//! Where a pod stands: which block it is writing, and what it has counted.

use crate::error::{Fault, Limit, LineFault};
use crate::gate::{DropReason, Gate};

/// How many samples came, and how many were not passed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Valid samples read, whatever became of them.
    pub samples: u64,
    /// Dropped by a relabel rule.
    pub dropped_by_rule: u64,
    /// Dropped because the merge writes a family of that name itself.
    pub dropped_reserved: u64,
    /// Dropped because of a name the scraper cannot read.
    pub dropped_names: u64,
}

/// What reading lines is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Finding the next block.
    Seek,
    /// Writing the block that was found.
    Copy,
}

/// Why reading stopped at a line.
pub(crate) enum Halt {
    /// It is a sample that begins another block.
    Boundary,
    /// It cannot be accepted.
    Fault(LineFault),
}

impl From<LineFault> for Halt {
    fn from(fault: LineFault) -> Self {
        Self::Fault(fault)
    }
}

/// Which block is being written, and what was counted.
pub(crate) struct Progress {
    block: Block,
    /// Counts the changes of the declared family, so that a block knows whether it is still the same.
    generation: u64,
    counts: Counts,
    /// `u64::MAX` for none, which nobody counts to.
    samples_limit: u64,
    /// The gate is open and stands in the block, so that a sample that clashes with nothing need only be copied.
    passing: bool,
}

/// The family of the block being written.
enum Block {
    None,
    /// The declared one, as of that generation.
    Declared(u64),
    /// One without metadata, of this name.
    Undeclared(Vec<u8>),
}

impl Progress {
    /// `samples_limit`: 0 for none.
    pub(crate) fn new(samples_limit: u64) -> Self {
        Self {
            block: Block::None,
            generation: 0,
            counts: Counts::default(),
            samples_limit: if samples_limit == 0 { u64::MAX } else { samples_limit },
            passing: false,
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }

    /// Counts a sample if that is all there is to do before it is copied.
    #[inline]
    pub(crate) fn passes(&mut self, mode: Mode) -> bool {
        let passes = self.passing && mode == Mode::Copy && self.counts.samples < self.samples_limit;
        self.counts.samples += u64::from(passes);
        passes
    }

    /// Counts a valid sample, unless it is the first of another block.
    pub(crate) fn count(&mut self, admitted: Result<(), DropReason>, mode: Mode, gate: &Gate) -> Result<(), Halt> {
        if self.counts.samples == self.samples_limit {
            let fault = Fault::Limit { limit: Limit::Samples, value: self.samples_limit };
            return Err(Halt::Fault(fault.at(0)));
        }
        match admitted {
            Ok(()) if mode == Mode::Seek => {
                self.begin_block(gate);
                return Err(Halt::Boundary);
            }
            Ok(()) if !self.is_in_block(gate) => return Err(Halt::Boundary),
            Ok(()) => {}
            Err(DropReason::Rule) => self.counts.dropped_by_rule += 1,
            Err(DropReason::Reserved) => self.counts.dropped_reserved += 1,
            Err(DropReason::Name) => self.counts.dropped_names += 1,
        }
        self.counts.samples += 1;
        Ok(())
    }

    /// The declared family changed.
    pub(crate) fn family_changed(&mut self) {
        self.generation += 1;
        self.passing = false;
    }

    /// The gate turned to another name.
    pub(crate) fn name_changed(&mut self, gate: &Gate) {
        self.passing = gate.is_open() && self.is_in_block(gate);
    }

    fn begin_block(&mut self, gate: &Gate) {
        self.block =
            if gate.is_declared() { Block::Declared(self.generation) } else { Block::Undeclared(gate.name().to_vec()) };
        self.passing = gate.is_open();
    }

    /// Whether samples at the gate belong to the block.
    fn is_in_block(&self, gate: &Gate) -> bool {
        match &self.block {
            Block::None => false,
            Block::Declared(generation) => gate.is_declared() && *generation == self.generation,
            Block::Undeclared(name) => !gate.is_declared() && name == gate.name(),
        }
    }
}
