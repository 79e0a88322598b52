//! What a fit looks at: packets in the order of their time, with fates and delays.

/// What became of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    Passed,
    Lost,
    /// Taken to have passed, but neither for nor against any model.
    Unknown,
}

/// One packet before the path element.
#[derive(Debug, Clone, Copy)]
pub struct Observation {
    pub time_ns: i64,
    /// IP bytes.
    pub bytes: u32,
    pub outcome: Seen,
    /// Round-trip time above the smallest of its flow, where this packet's own acknowledgment measured it.
    pub delay_s: Option<f32>,
}

/// Observations as columns, in order of time.
#[derive(Debug, Clone, Default)]
pub struct Trace {
    /// Time of the first packet; `time_s` counts from here.
    pub start_ns: i64,
    pub time_s: Vec<f64>,
    pub bytes: Vec<f32>,
    pub outcome: Vec<Seen>,
    /// NaN where no delay was measured.
    pub delay_s: Vec<f32>,
    pub lost: usize,
    pub passed: usize,
    /// Bytes of packets that were not lost.
    pub passed_bytes: f64,
    pub largest_bytes: f32,
}

impl Trace {
    /// Sorts by time; packets of one time keep their order.
    pub fn new(mut observations: Vec<Observation>) -> Self {
        if !observations.is_sorted_by_key(|observation| observation.time_ns) {
            observations.sort_by_key(|observation| observation.time_ns);
        }
        let start_ns = observations.first().map_or(0, |first| first.time_ns);
        let mut trace = Self {
            start_ns,
            ..Self::default()
        };
        for observation in &observations {
            trace.push(observation);
        }
        trace
    }

    fn push(&mut self, observation: &Observation) {
        let bytes = observation.bytes as f32;
        self.time_s
            .push((observation.time_ns - self.start_ns) as f64 * 1e-9);
        self.bytes.push(bytes);
        self.outcome.push(observation.outcome);
        self.delay_s.push(observation.delay_s.unwrap_or(f32::NAN));
        self.largest_bytes = self.largest_bytes.max(bytes);
        match observation.outcome {
            Seen::Lost => self.lost += 1,
            Seen::Passed => self.passed += 1,
            Seen::Unknown => {}
        }
        if observation.outcome != Seen::Lost {
            self.passed_bytes += f64::from(bytes);
        }
    }

    pub fn len(&self) -> usize {
        self.time_s.len()
    }

    pub fn is_empty(&self) -> bool {
        self.time_s.is_empty()
    }

    pub fn duration_s(&self) -> f64 {
        self.time_s.last().copied().unwrap_or(0.0)
    }

    /// Size of a full packet: the median, since most data packets are full.
    pub fn typical_bytes(&self) -> f64 {
        let mut sizes = self.bytes.clone();
        if sizes.is_empty() {
            return 1500.0;
        }
        let middle = sizes.len() / 2;
        f64::from(*sizes.select_nth_unstable_by(middle, f32::total_cmp).1)
    }
}
