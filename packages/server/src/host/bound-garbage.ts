import { setFlagsFromString } from 'node:v8'

/** Garbage may grow to this share of the live heap, plus some megabytes of new objects. */
const GARBAGE_PERCENT = 30

/**
 * With much memory, V8 lets garbage grow to three times the live heap before it collects. A server that wakes
 * sandboxes would seem to grow with each wake. Memory is scarce on a host of sandboxes; collecting sooner costs some
 * percent of the server's CPU time.
 */
export function boundGarbage(): void {
  setFlagsFromString(`--heap-growing-percent=${GARBAGE_PERCENT}`)
}
