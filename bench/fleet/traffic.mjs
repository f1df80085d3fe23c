/** Random numbers that are the same for the same seed. */
export function randomOf(seed) {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** A value around `median`; `spread` is the standard deviation of its logarithm. */
export function lognormal(random, median, spread) {
  const normal = Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random())
  return median * Math.exp(spread * normal)
}

/** Three times as many sessions at 15:00 as at 03:00. */
function secondOfDay(random) {
  for (;;) {
    const second = random() * 86_400
    const busy = 0.5 - 0.25 * Math.cos(((second - 3 * 3600) / 86_400) * 2 * Math.PI)
    if (random() < busy / 0.75) return second
  }
}

/** Sessions of a day, in order: which sandbox wakes when, for how long, and how much it changes. */
export function sessionsOf({ random, sandboxes, perDay, awakeS, changedBytes }) {
  const count = Math.round(sandboxes * perDay)
  const at = new Float64Array(count)
  for (let index = 0; index < count; index += 1) at[index] = secondOfDay(random)
  at.sort()
  return Array.from(at, (startS) => ({
    startS,
    // A few sandboxes are used much more often than the others.
    sandbox: Math.floor(sandboxes * random() ** 2),
    awakeS: lognormal(random, awakeS, 1),
    changedBytes: lognormal(random, changedBytes, 1.2),
  }))
}
