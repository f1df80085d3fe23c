import { setFlagsFromString } from 'node:v8'

/** Of what lives, beside some megabytes for what has just been made. */
const GARBAGE_PERCENT = 30

/**
 * Where there is much memory, V8 lets garbage grow to three times of what lives before it looks for it: a server that wakes sandboxes would
 * seem to grow with each. Memory is what a host of sandboxes has the least of; looking sooner costs some percent of the server's CPU time.
 */
export function boundGarbage(): void {
  setFlagsFromString(`--heap-growing-percent=${GARBAGE_PERCENT}`)
}
