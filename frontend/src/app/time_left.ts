// How long something will take, judged by what is done; the first moments tell nothing.

import { duration } from "./words";

const FIRST_S = 1;

let began: { at: number; done: number } | null = null;

// Words to add to those of the progress, empty while nothing can be said.
export function timeLeft(done: number, of: number, now = performance.now()): string {
  if (!began || done < began.done) began = { at: now, done };
  const passed = (now - began.at) / 1e3;
  if (passed < FIRST_S || done <= began.done || done >= of) return "";
  const left = ((of - done) / (done - began.done)) * passed;
  return `, about ${duration(left >= 10 ? Math.round(left) : Math.max(1, Math.ceil(left)))} left`;
}
