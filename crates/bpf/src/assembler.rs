//! The few instructions of eBPF (RFC 9669) that our programs use.

/// A register: 0 contains results, 1 to 5 arguments, 6 to 9 are preserved over calls, 10 is the end of the stack.
pub type Register = u8;

/// The register that contains the end of the stack.
pub const STACK: Register = 10;

// `enum bpf_func_id` (include/uapi/linux/bpf.h)
const MAP_LOOKUP: i32 = 1;
const MAP_UPDATE: i32 = 2;
const KTIME_GET_NS: i32 = 5;
const PERF_EVENT_OUTPUT: i32 = 25;
const PROBE_READ_KERNEL: i32 = 113;

/// A jump target in the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label(usize);

/// The width of a value in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    One,
    Two,
    Four,
    Eight,
}

impl Width {
    /// The width of this many bytes.
    pub fn of(bytes: u16) -> Option<Width> {
        match bytes {
            1 => Some(Width::One),
            2 => Some(Width::Two),
            4 => Some(Width::Four),
            8 => Some(Width::Eight),
            _ => None,
        }
    }

    fn code(self) -> u8 {
        match self {
            Width::Four => 0x00,
            Width::Two => 0x08,
            Width::One => 0x10,
            Width::Eight => 0x18,
        }
    }
}

/// A comparison of two registers' lower halves, without sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    Equal,
    Unequal,
    Less,
    Greater,
}

impl Comparison {
    fn code(self) -> u8 {
        match self {
            Comparison::Equal => 0x10,
            Comparison::Greater => 0x20,
            Comparison::Unequal => 0x50,
            Comparison::Less => 0xa0,
        }
    }
}

/// A program being written.
#[derive(Clone, Debug, Default)]
pub struct Program {
    instructions: Vec<[u8; 8]>,
    /// Instructions that jump, and their targets.
    jumps: Vec<(usize, Label)>,
    labels: Vec<Option<usize>>,
}

impl Program {
    /// Creates a label without a position.
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Places a label here.
    pub fn place(&mut self, label: Label) {
        self.labels[label.0] = Some(self.instructions.len());
    }

    /// `to = from`
    pub fn copy(&mut self, to: Register, from: Register) {
        self.push(0xbf, to, from, 0, 0);
    }

    /// `to = value`, with its sign in the upper half.
    pub fn set(&mut self, to: Register, value: i32) {
        self.push(0xb7, to, 0, 0, value);
    }

    /// `to = 0xffff_ffff`
    pub fn set_u32_max(&mut self, to: Register) {
        self.push(0xb4, to, 0, 0, -1);
    }

    /// `to += value`
    pub fn add(&mut self, to: Register, value: i32) {
        self.push(0x07, to, 0, 0, value);
    }

    /// `to += from`
    pub fn add_register(&mut self, to: Register, from: Register) {
        self.push(0x0f, to, from, 0, 0);
    }

    /// `to -= from`
    pub fn subtract_register(&mut self, to: Register, from: Register) {
        self.push(0x1f, to, from, 0, 0);
    }

    /// `to &= value`, with its sign in the upper half.
    pub fn and(&mut self, to: Register, value: i32) {
        self.push(0x57, to, 0, 0, value);
    }

    /// `to |= value`
    pub fn or(&mut self, to: Register, value: i32) {
        self.push(0x47, to, 0, 0, value);
    }

    /// `to |= from`
    pub fn or_register(&mut self, to: Register, from: Register) {
        self.push(0x4f, to, from, 0, 0);
    }

    /// `to >>= bits`, without sign.
    pub fn shift_right(&mut self, to: Register, bits: i32) {
        self.push(0x77, to, 0, 0, bits);
    }

    /// Converts the lower four bytes between network order and this processor's; the upper half becomes zero.
    pub fn network_order(&mut self, register: Register) {
        self.push(0xdc, register, 0, 0, 32);
    }

    /// `to = *(base + offset)`
    pub fn load(&mut self, width: Width, to: Register, base: Register, offset: i16) {
        self.push(0x61 | width.code(), to, base, offset, 0);
    }

    /// `*(base + offset) = from`
    pub fn store(&mut self, width: Width, base: Register, offset: i16, from: Register) {
        self.push(0x63 | width.code(), base, from, offset, 0);
    }

    /// Jumps to a label if the register has this value.
    pub fn jump_if(&mut self, register: Register, value: i32, label: Label) {
        self.jump(0x15, register, value, label);
    }

    /// Jumps to a label unless the register has this value.
    pub fn jump_unless(&mut self, register: Register, value: i32, label: Label) {
        self.jump(0x55, register, value, label);
    }

    /// Jumps to a label if the lower half of the register has this value.
    pub fn jump_if_u32(&mut self, register: Register, value: u32, label: Label) {
        self.jump(0x16, register, value as i32, label);
    }

    /// Jumps to a label if the lower half of the register is negative.
    pub fn jump_if_negative(&mut self, register: Register, label: Label) {
        self.jump(0xc6, register, 0, label);
    }

    /// Jumps to a label if the lower halves of two registers compare so.
    pub fn jump_if_registers(
        &mut self,
        register: Register,
        comparison: Comparison,
        other: Register,
        label: Label,
    ) {
        self.jumps.push((self.instructions.len(), label));
        self.push(0x0e | comparison.code(), register, other, 0, 0);
    }

    /// Jumps to a label if the register is less than the value, both without sign.
    pub fn jump_if_less(&mut self, register: Register, value: i32, label: Label) {
        self.jump(0xa5, register, value, label);
    }

    /// Jumps to a label.
    pub fn go(&mut self, label: Label) {
        self.jump(0x05, 0, 0, label);
    }

    /// Reads kernel memory at `base + offset` to the stack; unreadable memory becomes zeros. Overwrites registers 0 to
    /// 5.
    pub fn probe(&mut self, to: i16, size: u16, base: Register, offset: u16) {
        self.copy(3, base);
        self.add(3, i32::from(offset));
        self.copy(1, STACK);
        self.add(1, i32::from(to));
        self.set(2, i32::from(size));
        self.push(0x85, 0, 0, 0, PROBE_READ_KERNEL);
    }

    /// Writes bytes of the stack to this processor's ring. `context` is the program's argument.
    pub fn output(&mut self, context: Register, map: i32, at: i16, size: u16) {
        self.copy(1, context);
        // A map is loaded by its descriptor, in an instruction of twice the length.
        self.push(0x18, 2, 1, 0, map);
        self.push(0, 0, 0, 0, 0);
        self.set_u32_max(3); // BPF_F_CURRENT_CPU
        self.copy(4, STACK);
        self.add(4, i32::from(at));
        self.set(5, i32::from(size));
        self.push(0x85, 0, 0, 0, PERF_EVENT_OUTPUT);
    }

    /// Looks a key on the stack up: register 0 has the address of the value, or 0. Overwrites registers 1 to 5.
    pub fn look_up(&mut self, map: i32, key: i16) {
        self.load_map(map);
        self.copy(2, STACK);
        self.add(2, i32::from(key));
        self.push(0x85, 0, 0, 0, MAP_LOOKUP);
    }

    /// Stores a value on the stack under a key on the stack. Overwrites registers 0 to 5.
    pub fn update(&mut self, map: i32, key: i16, value: i16) {
        self.load_map(map);
        self.copy(2, STACK);
        self.add(2, i32::from(key));
        self.copy(3, STACK);
        self.add(3, i32::from(value));
        self.set(4, 0); // BPF_ANY
        self.push(0x85, 0, 0, 0, MAP_UPDATE);
    }

    /// Register 0 = nanoseconds of `CLOCK_MONOTONIC`. Overwrites registers 1 to 5.
    pub fn time(&mut self) {
        self.push(0x85, 0, 0, 0, KTIME_GET_NS);
    }

    /// Register 1 = the map. It is loaded by its descriptor, in an instruction of twice the length.
    fn load_map(&mut self, map: i32) {
        self.push(0x18, 1, 1, 0, map);
        self.push(0, 0, 0, 0, 0);
    }

    /// Ends the program with result 0.
    pub fn exit(&mut self) {
        self.set(0, 0);
        self.push(0x95, 0, 0, 0, 0);
    }

    /// Returns the instructions in the kernel's format.
    pub fn assembled(mut self) -> Vec<[u8; 8]> {
        for (place, label) in &self.jumps {
            let target = self.labels[label.0].expect("every label is placed") as i64;
            let distance = target - *place as i64 - 1;
            let distance = i16::try_from(distance).expect("our programs are short");
            self.instructions[*place][2..4].copy_from_slice(&distance.to_ne_bytes());
        }
        self.instructions
    }

    fn jump(&mut self, code: u8, register: Register, value: i32, label: Label) {
        self.jumps.push((self.instructions.len(), label));
        self.push(code, register, 0, 0, value);
    }

    fn push(&mut self, code: u8, to: Register, from: Register, offset: i16, value: i32) {
        let registers = if cfg!(target_endian = "little") {
            from << 4 | to
        } else {
            to << 4 | from
        };
        let mut bytes = [code, registers, 0, 0, 0, 0, 0, 0];
        bytes[2..4].copy_from_slice(&offset.to_ne_bytes());
        bytes[4..].copy_from_slice(&value.to_ne_bytes());
        self.instructions.push(bytes);
    }
}

#[cfg(all(test, target_endian = "little"))]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_those_of_the_standard() {
        let mut program = Program::default();
        let end = program.label();
        program.load(Width::Two, 1, 6, 32);
        program.jump_if(1, 0, end);
        program.store(Width::Eight, STACK, -8, 1);
        program.place(end);
        program.exit();
        assert_eq!(
            program.assembled(),
            [
                [0x69, 0x61, 32, 0, 0, 0, 0, 0],      // r1 = *(u16 *)(r6 + 32)
                [0x15, 0x01, 1, 0, 0, 0, 0, 0],       // if r1 == 0 goto +1
                [0x7b, 0x1a, 0xf8, 0xff, 0, 0, 0, 0], // *(u64 *)(r10 - 8) = r1
                [0xb7, 0x00, 0, 0, 0, 0, 0, 0],       // r0 = 0
                [0x95, 0x00, 0, 0, 0, 0, 0, 0],       // exit
            ]
        );
    }
}
