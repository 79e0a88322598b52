//! The largest of recent values, in constant memory.

/// The largest value of the last `window` steps, as Linux's `lib/win_minmax.c` finds it: the largest, the largest after
/// it, and the largest after that, of which the first two are replaced early if they are old.
#[derive(Debug, Clone, Copy)]
pub struct WindowedMax {
    window: u64,
    best: [Value; 3],
}

#[derive(Debug, Clone, Copy, Default)]
struct Value {
    step: u64,
    value: f64,
}

impl WindowedMax {
    pub fn new(window: u64) -> Self {
        Self {
            window,
            best: [Value::default(); 3],
        }
    }

    pub fn get(&self) -> f64 {
        self.best[0].value
    }

    /// Adds a value. Steps never decrease.
    pub fn add(&mut self, step: u64, value: f64) {
        let new = Value { step, value };
        let [first, second, third] = &mut self.best;
        if value >= first.value || step - third.step > self.window {
            self.best = [new; 3];
            return;
        }
        if value >= second.value {
            (*second, *third) = (new, new);
        } else if value >= third.value {
            *third = new;
        }
        self.age(new);
    }

    fn age(&mut self, new: Value) {
        let age = new.step - self.best[0].step;
        if age > self.window {
            // The second may be as old.
            for _ in 0..2 {
                if new.step - self.best[0].step > self.window {
                    self.best = [self.best[1], self.best[2], new];
                }
            }
        } else if self.best[1].step == self.best[0].step && age > self.window / 4 {
            (self.best[1], self.best[2]) = (new, new);
        } else if self.best[2].step == self.best[1].step && age > self.window / 2 {
            self.best[2] = new;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_is_forgotten_after_the_window_and_the_next_largest_takes_its_place() {
        let mut max = WindowedMax::new(10);
        max.add(0, 9.0);
        for step in 1..=10 {
            max.add(step, if step == 4 { 7.0 } else { 5.0 });
            assert_eq!(max.get(), 9.0, "at {step}");
        }
        max.add(11, 5.0);
        assert_eq!(max.get(), 7.0);
        max.add(15, 5.0);
        assert_eq!(max.get(), 5.0);
        max.add(16, 6.0);
        assert_eq!(max.get(), 6.0);
    }
}
