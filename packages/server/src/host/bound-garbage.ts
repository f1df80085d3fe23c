import { setFlagsFromString } from 'node:v8'

/** Garbage may grow to this share of the live heap, plus some megabytes of new objects. */
const GARBAGE_PERCENT = 100

/**
 * With much memory, V8 lets garbage grow to three times the live heap before it collects. A server that wakes
 * sandboxes would seem to grow with each wake, and memory is scarce on a host of sandboxes. Much less garbage is not
 * worth its price: at 30 % the server collected its whole heap at every third sleep or wake of a crowd.
 */
export function boundGarbage(): void {
  setFlagsFromString(`--heap-growing-percent=${GARBAGE_PERCENT}`)
}
