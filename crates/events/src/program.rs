//! The programs at the kernel's tracepoints.
//!
//! Each finds what is remembered of its connection ([`memory`]), or begins to remember it if the [`Filter`] selects it.
//! The program of acknowledgments compares the connection with that; it runs for each packet that arrives while data is
//! in flight, so it reads little and reports only changes.

use whydrop_bpf::assembler::{Comparison, Label, Program, Register, STACK, Width};

use crate::filter::{Filter, words};
use crate::layout::Layout;
use crate::report::{self, Kind, SIZE, flags, memory};

// The stack, from the top down: what is remembered, while it is made; its key; values read from the kernel.
const MADE: i16 = -memory::SIZE;
const KEY: i16 = MADE - 16;
const KEY_SIZE: u32 = 16;
const POINTER: i16 = KEY - 8;
const HEADER: i16 = POINTER - 24;
const ADDRESS: i16 = HEADER - 16;
const WINDOW: i16 = ADDRESS - 4;
const THRESHOLD: i16 = WINDOW - 4;
const STATE: i16 = THRESHOLD - 4;
const UNACKNOWLEDGED: i16 = STATE - 4;
const REORDERED: i16 = UNACKNOWLEDGED - 4;
const DUPLICATE_SACKS: i16 = REORDERED - 4;
const PROBE: i16 = DUPLICATE_SACKS - 4;
const LENGTH: i16 = PROBE - 4;
const MARKED: i16 = LENGTH - 4;
const FLAGS: i16 = MARKED - 4;
const TO: i16 = FLAGS - 4;
const SPARE: i16 = TO - 4;
const OUT: i16 = SPARE - SIZE as i16;

const CONTEXT: Register = 6;
const SOCKET: Register = 7;
/// The packet, and later the kind of report.
const OTHER: Register = 8;
const MEMORY: Register = 9;

const OPEN: i32 = 0;
const DISORDER: i32 = 1;
const REDUCED: i32 = 2;
const LOSS: i32 = 4;
const ESTABLISHED: i32 = 1;
const CLOSED: i32 = 7;

// TCP's header.
const ACKNOWLEDGED: i16 = 8;
const DATA_OFFSET: i16 = 12;
const BITS: i16 = 13;
const OFFERED: i16 = 14;
const FIN_SYN_RESET: i32 = 0x07;
const ECHO: i32 = 0x40;
/// Two bytes of padding, then the first option's kind.
const THIRD_OPTION_BYTE: i16 = 22;
const SELECTIVE: i32 = 5;
/// A header with a timestamp, or with one SACK block.
const WITH_ONE_OPTION: i32 = 32;

/// The parameters of the programs.
#[derive(Clone, Copy)]
pub struct Setting<'a> {
    pub layout: &'a Layout,
    pub filter: &'a Filter,
    /// Descriptors of the maps of rings, and of what is remembered.
    pub rings: i32,
    pub memory: i32,
    /// Counts of a connection are reported no more often.
    pub counts_every_ns: u32,
}

/// The sizes of the keys and the values of what is remembered.
pub const REMEMBERED: (u32, u32) = (KEY_SIZE, memory::SIZE as u32);

struct Writer<'a> {
    program: Program,
    with: Setting<'a>,
    end: Label,
}

/// Builds the program for `tcp_probe(sk, skb)`: a packet arrives for an established connection, and TCP has not
/// processed it.
pub fn of_acknowledgments(with: Setting<'_>) -> Vec<[u8; 8]> {
    let mut it = Writer::begin(with, 0);
    it.program.probe(SPARE, 4, SOCKET, with.layout.packets_out);
    it.program.load(Width::Four, 1, STACK, SPARE);
    // Nothing is in flight: this end only receives.
    it.program.jump_if(1, 0, it.end);
    it.remember();
    it.program.load(Width::Eight, OTHER, CONTEXT, argument(1));
    it.read_acknowledgment();
    it.note_flags();
    it.count_duplicate();
    it.decide();
    it.finish()
}

/// Builds the program for `tcp_cong_state_set(sk, ca_state)`, which is called before the state changes.
pub fn of_states(with: Setting<'_>) -> Vec<[u8; 8]> {
    let mut it = Writer::begin(with, 0);
    it.remember();
    let program = &mut it.program;
    program.load(Width::Eight, OTHER, CONTEXT, argument(1));
    program.and(OTHER, 0xff);
    program.store(Width::Four, STACK, TO, OTHER);
    it.read_state();
    it.note_disorder();
    let (end, report) = (it.end, it.program.label());
    let program = &mut it.program;
    program.load(Width::Four, 1, STACK, STATE);
    program.load(Width::Four, 2, STACK, TO);
    let changes = program.label();
    program.jump_if_registers(1, Comparison::Unequal, 2, changes);
    // A timeout after a timeout reduces the window again.
    program.jump_if(2, LOSS, report);
    program.go(end);
    program.place(changes);
    for register in [1, 2] {
        let small = program.label();
        program.jump_if_less(register, REDUCED, small);
        program.go(report);
        program.place(small);
    }
    program.store(Width::Four, MEMORY, memory::STATE, 2);
    program.go(end);
    program.place(report);
    it.program.set(OTHER, Kind::State.number());
    it.report();
    it.keep_state();
    it.finish()
}

/// Builds the program for `tcp_retransmit_skb(sk, skb, err)`, of which older kernels lack the last.
pub fn of_retransmissions(with: Setting<'_>, has_error: bool) -> Vec<[u8; 8]> {
    let mut it = Writer::begin(with, 0);
    if has_error {
        it.program.load(Width::Eight, 1, CONTEXT, argument(2));
        // The segment could not be sent at all.
        it.program.jump_if_negative(1, it.end);
    }
    it.remember();
    it.read_state();
    it.program.load(Width::Four, 1, STACK, STATE);
    it.program.store(Width::Four, STACK, TO, 1);
    it.program.set(OTHER, Kind::Retransmission.number());
    it.report();
    it.finish()
}

/// Builds the program for `kfree_skb(skb, location, reason)`; the reasons of queueing disciplines are those of this
/// kernel.
pub fn of_stalls(with: Setting<'_>) -> Vec<[u8; 8]> {
    let mut program = Program::default();
    let (end, ours) = (program.label(), program.label());
    program.load(Width::Eight, 2, 1, argument(2));
    for reason in &with.layout.queue_reasons {
        program.jump_if_u32(2, *reason, ours);
    }
    program.go(end);
    program.place(ours);
    program.copy(CONTEXT, 1);
    program.load(Width::Eight, OTHER, CONTEXT, argument(0));
    program.probe(POINTER, 8, OTHER, with.layout.packet_socket);
    program.load(Width::Eight, SOCKET, STACK, POINTER);
    program.jump_if(SOCKET, 0, end);
    let mut it = Writer { program, with, end };
    // Only a connection that is known already: the socket may be of any protocol.
    it.find();
    it.program.jump_if(MEMORY, 0, end);
    it.increase(memory::STALLS);
    it.program.load(Width::Four, 1, MEMORY, memory::FLAGS);
    it.program.or(1, flags::STALL as i32);
    it.program.store(Width::Four, MEMORY, memory::FLAGS, 1);
    it.read_state();
    it.program.load(Width::Four, 1, STACK, STATE);
    it.program.store(Width::Four, STACK, TO, 1);
    it.program.set(OTHER, Kind::Stall.number());
    it.report();
    it.finish()
}

/// Builds the program for `inet_sock_set_state(sk, oldstate, newstate)`: the last counts of a connection.
pub fn of_ends(with: Setting<'_>) -> Vec<[u8; 8]> {
    let mut it = Writer::begin(with, 0);
    let (end, report) = (it.end, it.program.label());
    let program = &mut it.program;
    program.load(Width::Eight, 1, CONTEXT, argument(2));
    program.set(OTHER, Kind::Closed.number());
    program.jump_if_u32(1, CLOSED as u32, report);
    program.set(OTHER, Kind::Counts.number());
    program.load(Width::Eight, 1, CONTEXT, argument(1));
    program.jump_if_u32(1, ESTABLISHED as u32, report);
    program.go(end);
    program.place(report);
    it.find();
    it.program.jump_if(MEMORY, 0, end);
    it.read_state();
    it.program.load(Width::Four, 1, STACK, STATE);
    it.program.store(Width::Four, STACK, TO, 1);
    it.report();
    it.finish()
}

/// The offset of a tracepoint argument.
fn argument(number: i16) -> i16 {
    8 * number
}

impl<'a> Writer<'a> {
    /// Saves the program's argument and the socket.
    fn begin(with: Setting<'a>, socket: i16) -> Writer<'a> {
        let mut program = Program::default();
        program.copy(CONTEXT, 1);
        program.load(Width::Eight, SOCKET, CONTEXT, argument(socket));
        let end = program.label();
        Writer { program, with, end }
    }

    fn finish(mut self) -> Vec<[u8; 8]> {
        self.program.place(self.end);
        self.program.exit();
        self.program.assembled()
    }

    /// Finds what is remembered of the socket, or 0. The ports are part of the key: memory of sockets is reused.
    fn find(&mut self) {
        let program = &mut self.program;
        program.store(Width::Eight, STACK, KEY, SOCKET);
        program.probe(KEY + 8, 2, SOCKET, self.with.layout.remote_port);
        program.probe(KEY + 10, 2, SOCKET, self.with.layout.local_port);
        program.set(1, 0);
        program.store(Width::Four, STACK, KEY + 12, 1);
        program.look_up(self.with.memory, KEY);
        program.copy(MEMORY, 0);
    }

    /// Finds what is remembered, or begins to; ends if the connection is not selected.
    fn remember(&mut self) {
        self.find();
        let known = self.program.label();
        self.program.jump_unless(MEMORY, 0, known);
        self.select();
        self.make();
        self.program.place(known);
    }

    fn select(&mut self) {
        self.select_port();
        self.select_network();
        let (layout, program) = (self.with.layout, &mut self.program);
        let ours = program.label();
        program.probe(POINTER, 8, SOCKET, layout.namespace);
        program.load(Width::Eight, OTHER, STACK, POINTER);
        program.jump_if(OTHER, 0, self.end);
        program.probe(SPARE, 4, OTHER, layout.namespace_number);
        program.load(Width::Four, 1, STACK, SPARE);
        program.jump_if_u32(1, self.with.filter.namespace, ours);
        program.go(self.end);
        program.place(ours);
    }

    fn select_port(&mut self) {
        let ports = self.with.filter.few_ports();
        if ports.is_empty() {
            return;
        }
        let program = &mut self.program;
        let ours = program.label();
        program.load(Width::Two, 1, STACK, KEY + 8);
        program.load(Width::Two, 2, STACK, KEY + 10);
        for port in ports {
            for end in [1, 2] {
                program.jump_if(end, i32::from(port.to_be()), ours);
            }
        }
        program.go(self.end);
        program.place(ours);
    }

    fn select_network(&mut self) {
        let networks = self.with.filter.few_networks();
        if networks.is_empty() {
            return;
        }
        let ours = self.program.label();
        for (address, prefix) in networks {
            let offset = match (address.is_ipv4(), self.with.layout.ipv6) {
                (true, _) => self.with.layout.ipv4[1],
                (false, Some([_, remote])) => remote,
                (false, None) => continue,
            };
            let size = if address.is_ipv4() { 4 } else { 16 };
            let program = &mut self.program;
            let other = program.label();
            program.probe(ADDRESS, size, SOCKET, offset);
            for (place, (word, mask)) in words(*address, *prefix).into_iter().enumerate() {
                let same = program.label();
                program.load(Width::Four, 1, STACK, ADDRESS + 4 * place as i16);
                program.network_order(1);
                program.and(1, mask as i32);
                program.jump_if_u32(1, word, same);
                program.go(other);
                program.place(same);
            }
            program.go(ours);
            program.place(other);
        }
        self.program.go(self.end);
        self.program.place(ours);
    }

    /// Begins to remember: the state now, and no counts.
    fn make(&mut self) {
        let layout = self.with.layout;
        self.clear(MADE, memory::SIZE);
        self.read_state();
        let program = &mut self.program;
        program.load(Width::Four, 1, STACK, STATE);
        program.store(Width::Four, STACK, MADE + memory::STATE, 1);
        for (place, offset) in [
            (memory::WINDOW, Some(layout.window)),
            (memory::THRESHOLD, Some(layout.threshold)),
            (memory::REORDERED, layout.reordered),
            (memory::DUPLICATE_SACKS, layout.duplicate_sacks),
            (memory::MARKED, layout.marked),
            (memory::RETRANSMITTED, Some(layout.total_retransmitted)),
        ] {
            if let Some(offset) = offset {
                program.probe(MADE + place, 4, SOCKET, offset);
            }
        }
        program.update(self.with.memory, KEY, MADE);
        program.look_up(self.with.memory, KEY);
        program.copy(MEMORY, 0);
        program.jump_if(MEMORY, 0, self.end);
    }

    fn clear(&mut self, from: i16, size: i16) {
        self.program.set(1, 0);
        for at in (from..from + size).step_by(8) {
            self.program.store(Width::Eight, STACK, at, 1);
        }
    }

    /// The congestion state, to the stack and register 1.
    fn read_state(&mut self) {
        let bits = self.with.layout.congestion_state;
        let program = &mut self.program;
        program.probe(SPARE, 1, SOCKET, bits.byte);
        program.load(Width::One, 1, STACK, SPARE);
        program.shift_right(1, i32::from(bits.lowest));
        program.and(1, (1 << bits.width) - 1);
        program.store(Width::Four, STACK, STATE, 1);
    }

    /// The packet's header and the connection's state.
    fn read_acknowledgment(&mut self) {
        let layout = self.with.layout;
        let program = &mut self.program;
        program.probe(LENGTH, 4, OTHER, layout.packet_length);
        program.probe(POINTER, 8, OTHER, layout.packet_data);
        program.load(Width::Eight, OTHER, STACK, POINTER);
        program.probe(HEADER, 24, OTHER, 0);
        for (place, offset) in [
            (WINDOW, Some(layout.window)),
            (THRESHOLD, Some(layout.threshold)),
            (UNACKNOWLEDGED, Some(layout.unacknowledged)),
            (REORDERED, layout.reordered),
            (DUPLICATE_SACKS, layout.duplicate_sacks),
            (PROBE, layout.probe_sequence),
            (MARKED, layout.marked),
        ] {
            match offset {
                Some(offset) => program.probe(place, 4, SOCKET, offset),
                None => {
                    program.set(1, 0);
                    program.store(Width::Four, STACK, place, 1);
                }
            }
        }
        self.read_state();
        self.program.load(Width::Four, 1, STACK, STATE);
        self.program.store(Width::Four, STACK, TO, 1);
    }

    /// The flags of this acknowledgment; those of the one before stay remembered until the end.
    fn note_flags(&mut self) {
        self.program.set(1, flags::SEEN as i32);
        self.program.store(Width::Four, STACK, FLAGS, 1);
        let (no_echo, no_probe) = (self.program.label(), self.program.label());
        self.program.load(Width::One, 1, STACK, HEADER + BITS);
        self.program.and(1, ECHO);
        self.program.jump_if(1, 0, no_echo);
        self.set_flag(flags::ECHO);
        self.increase(memory::ECHOES);
        self.pend();
        self.program.place(no_echo);
        self.program.load(Width::Four, 1, STACK, PROBE);
        self.program.jump_if(1, 0, no_probe);
        self.set_flag(flags::PROBE);
        self.program.place(no_probe);
    }

    fn set_flag(&mut self, flag: u32) {
        self.program.load(Width::Four, 1, STACK, FLAGS);
        self.program.or(1, flag as i32);
        self.program.store(Width::Four, STACK, FLAGS, 1);
    }

    /// Counts a duplicate acknowledgment: no data, nothing newly acknowledged, and either a SACK block (RFC 6675) or
    /// the same window (RFC 5681).
    fn count_duplicate(&mut self) {
        let program = &mut self.program;
        let (is, not, done) = (program.label(), program.label(), program.label());
        let (short, long) = (program.label(), program.label());
        program.load(Width::Four, 1, STACK, HEADER + ACKNOWLEDGED);
        program.network_order(1);
        program.load(Width::Four, 2, STACK, UNACKNOWLEDGED);
        program.jump_if_registers(1, Comparison::Unequal, 2, not);
        program.load(Width::One, 1, STACK, HEADER + BITS);
        program.and(1, FIN_SYN_RESET);
        program.jump_unless(1, 0, not);
        program.load(Width::One, 1, STACK, HEADER + DATA_OFFSET);
        program.shift_right(1, 4);
        // In words of four bytes.
        program.copy(3, 1);
        program.add_register(3, 1);
        program.add_register(3, 1);
        program.add_register(3, 1);
        program.load(Width::Four, 2, STACK, LENGTH);
        program.jump_if_registers(3, Comparison::Unequal, 2, not);
        program.jump_if_less(3, WITH_ONE_OPTION, short);
        program.jump_if(3, WITH_ONE_OPTION, long);
        program.go(is);
        program.place(long);
        program.load(Width::One, 1, STACK, HEADER + THIRD_OPTION_BYTE);
        program.jump_if(1, SELECTIVE, is);
        program.place(short);
        program.load(Width::Two, 1, STACK, HEADER + OFFERED);
        program.load(Width::Four, 2, MEMORY, memory::OFFERED);
        program.jump_if_registers(1, Comparison::Unequal, 2, not);
        program.place(is);
        self.increase(memory::DUPLICATES);
        self.pend();
        self.program.go(done);
        self.program.place(not);
        self.program.load(Width::Two, 1, STACK, HEADER + OFFERED);
        self.program.store(Width::Four, MEMORY, memory::OFFERED, 1);
        self.program.place(done);
    }

    /// Chooses what to report, reports it, and remembers the state.
    fn decide(&mut self) {
        let program = &mut self.program;
        let (emit, counts) = (program.label(), program.label());
        let (same, grown, not_below) = (program.label(), program.label(), program.label());
        program.load(Width::Four, 1, STACK, STATE);
        program.load(Width::Four, 2, MEMORY, memory::STATE);
        program.jump_if_registers(1, Comparison::Equal, 2, same);
        // Between open and disorder nothing happens to the window.
        let great = program.label();
        for register in [1, 2] {
            let small = program.label();
            program.jump_if_less(register, REDUCED, small);
            program.go(great);
            program.place(small);
        }
        program.go(same);
        program.place(great);
        program.set(OTHER, Kind::StateSeen.number());
        program.go(emit);
        program.place(same);
        let quiet = program.label();
        program.jump_if_less(1, REDUCED, quiet);
        program.go(counts);
        program.place(quiet);
        program.load(Width::Four, 1, STACK, WINDOW);
        program.load(Width::Four, 2, MEMORY, memory::WINDOW);
        program.jump_if_registers(1, Comparison::Greater, 2, grown);
        program.jump_if_registers(1, Comparison::Equal, 2, not_below);
        let own = self.program.label();
        self.jump_if_own_window(own);
        self.program.set(OTHER, Kind::Fell.number());
        self.program.go(emit);
        self.program.place(own);
        self.pend();
        self.program.go(counts);
        self.program.place(grown);
        self.count_increase();
        self.program.place(not_below);
        self.decide_threshold(emit, counts);
        self.program.place(counts);
        self.decide_counts(emit);
        self.program.place(emit);
        self.report();
        self.keep();
    }

    /// Jumps if the congestion control sets the window by itself; an application may change the control at any time.
    fn jump_if_own_window(&mut self, label: Label) {
        let layout = self.with.layout;
        let Some(own_window) = layout.own_window else {
            return;
        };
        let program = &mut self.program;
        program.probe(POINTER, 8, SOCKET, layout.control);
        program.load(Width::Eight, OTHER, STACK, POINTER);
        program.probe(POINTER, 8, OTHER, own_window);
        program.load(Width::Eight, 1, STACK, POINTER);
        program.jump_unless(1, 0, label);
    }

    fn decide_threshold(&mut self, emit: Label, counts: Label) {
        let program = &mut self.program;
        program.load(Width::Four, 1, STACK, THRESHOLD);
        program.load(Width::Four, 2, MEMORY, memory::THRESHOLD);
        program.jump_if_registers(1, Comparison::Equal, 2, counts);
        program.set(OTHER, Kind::Raised.number());
        program.jump_if_registers(1, Comparison::Greater, 2, emit);
        program.set(OTHER, Kind::Threshold.number());
        program.go(emit);
    }

    /// The window has grown: by slow start below the threshold, else by congestion avoidance.
    fn count_increase(&mut self) {
        let (slow, done) = (self.program.label(), self.program.label());
        self.program.load(Width::Four, 2, MEMORY, memory::WINDOW);
        self.program.load(Width::Four, 1, MEMORY, memory::THRESHOLD);
        self.program.jump_if_registers(2, Comparison::Less, 1, slow);
        self.increase(memory::AVOIDANCE);
        self.program.go(done);
        self.program.place(slow);
        self.increase(memory::SLOW_START);
        self.program.place(done);
        self.pend();
    }

    /// Counts are reported when some have changed, and the last report is long ago; otherwise the state is remembered
    /// and the program ends.
    fn decide_counts(&mut self, emit: Label) {
        let (one, due) = (self.program.label(), self.program.label());
        for (seen, kept) in [
            (REORDERED, memory::REORDERED),
            (DUPLICATE_SACKS, memory::DUPLICATE_SACKS),
        ] {
            self.program.load(Width::Four, 1, STACK, seen);
            self.program.load(Width::Four, 2, MEMORY, kept);
            self.program
                .jump_if_registers(1, Comparison::Unequal, 2, one);
        }
        let quiet = self.program.label();
        self.program.load(Width::Four, 1, MEMORY, memory::PENDING);
        self.program.jump_if(1, 0, quiet);
        self.program.place(one);
        self.pend();
        self.program.time();
        self.program.copy(2, 0);
        self.program.load(Width::Eight, 1, MEMORY, memory::REPORTED);
        self.program.subtract_register(2, 1);
        let (early, every) = (self.program.label(), self.with.counts_every_ns as i32);
        self.program.jump_if_less(2, every, early);
        self.program.go(due);
        self.program.place(early);
        self.program.place(quiet);
        self.keep();
        self.program.go(self.end);
        self.program.place(due);
        self.program
            .store(Width::Eight, MEMORY, memory::REPORTED, 0);
        self.program.set(OTHER, Kind::Counts.number());
        self.program.go(emit);
    }

    /// Disorder begins or ends: duplicate acknowledgments in a disorder that ends by itself are the effect of
    /// reordering. The program of acknowledgments has counted the first already.
    fn note_disorder(&mut self) {
        let program = &mut self.program;
        let (ends, done) = (program.label(), program.label());
        program.load(Width::Four, 1, STACK, STATE);
        program.load(Width::Four, 2, STACK, TO);
        program.jump_if(1, DISORDER, ends);
        program.jump_unless(2, DISORDER, done);
        program.load(Width::Four, 3, MEMORY, memory::DUPLICATES);
        program.jump_if(3, 0, done);
        program.add(3, -1);
        program.store(Width::Four, MEMORY, memory::MARK, 3);
        program.go(done);
        program.place(ends);
        program.jump_unless(2, OPEN, done);
        program.load(Width::Four, 3, MEMORY, memory::DUPLICATES);
        program.load(Width::Four, 4, MEMORY, memory::MARK);
        program.subtract_register(3, 4);
        program.load(Width::Four, 4, MEMORY, memory::OF_REORDERING);
        program.add_register(3, 4);
        program.store(Width::Four, MEMORY, memory::OF_REORDERING, 3);
        program.place(done);
    }

    fn increase(&mut self, count: i16) {
        self.program.load(Width::Four, 3, MEMORY, count);
        self.program.add(3, 1);
        self.program.store(Width::Four, MEMORY, count, 3);
    }

    fn pend(&mut self) {
        self.program.set(3, 1);
        self.program.store(Width::Four, MEMORY, memory::PENDING, 3);
    }

    /// Remembers the state as of this acknowledgment.
    fn keep(&mut self) {
        for (seen, kept) in [
            (WINDOW, memory::WINDOW),
            (THRESHOLD, memory::THRESHOLD),
            (STATE, memory::STATE),
            (MARKED, memory::MARKED),
            (FLAGS, memory::FLAGS),
            (REORDERED, memory::REORDERED),
            (DUPLICATE_SACKS, memory::DUPLICATE_SACKS),
        ] {
            self.program.load(Width::Four, 1, STACK, seen);
            self.program.store(Width::Four, MEMORY, kept, 1);
        }
    }

    /// Remembers a state that begins, with the window and the threshold now.
    fn keep_state(&mut self) {
        let program = &mut self.program;
        for (reported, kept) in [
            (report::WINDOW, memory::WINDOW),
            (report::THRESHOLD, memory::THRESHOLD),
            (report::TO, memory::STATE),
        ] {
            program.load(Width::Four, 1, STACK, OUT + reported);
            program.store(Width::Four, MEMORY, kept, 1);
        }
        let (ends, stays) = (program.label(), program.label());
        program.load(Width::Four, 1, STACK, TO);
        program.load(Width::Four, 2, MEMORY, memory::FLAGS);
        program.and(2, !(flags::STALL as i32));
        program.jump_if_less(1, REDUCED, ends);
        program.go(stays);
        program.place(ends);
        program.or(2, flags::ENDING as i32);
        program.place(stays);
        program.store(Width::Four, MEMORY, memory::FLAGS, 2);
    }

    /// Writes a report of the kind in [`OTHER`].
    fn report(&mut self) {
        self.clear(OUT, SIZE as i16);
        let program = &mut self.program;
        program.store(Width::Four, STACK, OUT + report::KIND, OTHER);
        for at in (0..memory::SIZE).step_by(8) {
            program.load(Width::Eight, 1, MEMORY, at);
            program.store(Width::Eight, STACK, OUT + report::MEMORY + at, 1);
        }
        program.load(Width::Four, 1, MEMORY, memory::STATE);
        program.store(Width::Four, STACK, OUT + report::FROM, 1);
        program.load(Width::Four, 1, STACK, TO);
        program.store(Width::Four, STACK, OUT + report::TO, 1);
        self.report_socket();
        self.report_segment();
        let (own, other) = (self.program.label(), self.program.label());
        self.jump_if_own_window(own);
        self.program.go(other);
        self.program.place(own);
        self.program.set(1, 1);
        self.program
            .store(Width::Four, STACK, OUT + report::OWN_WINDOW, 1);
        self.program.place(other);
        let program = &mut self.program;
        program.output(CONTEXT, self.with.rings, OUT, SIZE as u16);
        let taken = program.label();
        program.jump_if(0, 0, taken);
        // The ring took nothing. What is remembered stays, so that the next acknowledgment finds the change again.
        self.increase(memory::FAILED);
        self.program.go(self.end);
        self.program.place(taken);
        self.program.set(1, 0);
        self.program.store(Width::Four, MEMORY, memory::PENDING, 1);
    }

    fn report_socket(&mut self) {
        let layout = self.with.layout;
        let ipv6 = layout
            .ipv6
            .map_or([None, None], |[local, remote]| [Some(local), Some(remote)]);
        for (place, size, offset) in [
            (report::COOKIE, 8, Some(layout.cookie)),
            (report::FAMILY, 2, Some(layout.family)),
            (report::PORTS, 2, Some(layout.remote_port)),
            (report::PORTS + 2, 2, Some(layout.local_port)),
            (report::IPV4, 4, Some(layout.ipv4[0])),
            (report::IPV4 + 4, 4, Some(layout.ipv4[1])),
            (report::IPV6, 16, ipv6[0]),
            (report::IPV6 + 16, 16, ipv6[1]),
            (report::WINDOW, 4, Some(layout.window)),
            (report::THRESHOLD, 4, Some(layout.threshold)),
            (report::UNDO_MARKER, 4, Some(layout.undo_marker)),
            (report::PACKETS_OUT, 4, Some(layout.packets_out)),
            (report::SACKED, 4, Some(layout.sacked)),
            (report::LOST, 4, Some(layout.lost)),
            (report::RETRANSMITTED, 4, Some(layout.total_retransmitted)),
            (report::SRTT, 4, Some(layout.srtt)),
            (report::MSS, 4, Some(layout.mss)),
            (report::REORDERED, 4, layout.reordered),
            (report::DUPLICATE_SACKS, 4, layout.duplicate_sacks),
            (report::MARKED, 4, layout.marked),
            (report::TIMEOUTS_IN_A_ROW, 1, layout.timeouts_in_a_row),
            (report::SOCKET_STATE, 1, Some(layout.socket_state)),
        ] {
            if let Some(offset) = offset {
                self.program.probe(OUT + place, size, SOCKET, offset);
            }
        }
    }

    /// The sequence numbers of a retransmitted segment.
    fn report_segment(&mut self) {
        let program = &mut self.program;
        let other = program.label();
        program.jump_unless(OTHER, Kind::Retransmission.number(), other);
        program.load(Width::Eight, OTHER, CONTEXT, argument(1));
        program.probe(OUT + report::FIRST, 4, OTHER, self.with.layout.packet_first);
        program.probe(OUT + report::END, 4, OTHER, self.with.layout.packet_end);
        program.place(other);
    }
}
