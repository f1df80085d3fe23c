import { z } from 'zod'
import { setting } from '../setting.ts'
import { bytes, timerMs } from '../value-schemas.ts'

/** When sandboxes sleep, and how many wake at once. */
export const sleepSettings = {
  idleTimeoutMs: setting(timerMs, 15_000, {
    env: 'DORMOUSE_IDLE_TIMEOUT_MS',
    summary: 'A sandbox goes to standby after this long without work, unless its own policy differs.',
    details: '0 means never.',
  }),
  storeAfterMs: setting(timerMs, 7 * 86_400_000, {
    env: 'DORMOUSE_STORE_AFTER_MS',
    summary:
      'How long a sandbox in standby stays frozen in memory, at most, before only its snapshot on disk remains.',
    details: 'A frozen sandbox wakes in milliseconds. `frozenMemoryBytes` can end this time earlier.',
  }),
  frozenMemoryBytes: setting(bytes, ({ memoryBytes }) => Math.floor(memoryBytes / 4), {
    env: 'DORMOUSE_FROZEN_MEMORY_BYTES',
    defaultText: 'a quarter of the memory',
    summary: 'How much memory frozen sandboxes may hold together.',
    details:
      'Counts memory that only they have, not what they share with their snapshots and siblings. Beyond it, the server stores those that were used least recently. 0 stores every sandbox as soon as it is frozen.',
  }),
  maxBackgroundMs: setting(timerMs, 86_400_000, {
    env: 'DORMOUSE_MAX_BACKGROUND_MS',
    summary:
      'How long background processes keep a sandbox awake after its last use, unless its own policy differs.',
    details:
      'Commands that were started and left, jobs of shells and children of runs. 0 means that they never do.',
  }),
  idleConnectionMs: setting(timerMs, 300_000, {
    env: 'DORMOUSE_IDLE_CONNECTION_MS',
    summary: 'A connection that carries no byte for this long no longer keeps its sandbox awake.',
    details:
      'Applies to connections to ports inside and to shells over SSH. Such a connection closes when the sandbox sleeps.',
  }),
  restoresAtOnce: setting(
    z.int().min(1).max(1024),
    // A restore also waits, so as many as CPUs would leave CPUs idle.
    ({ cpus }) => 2 * cpus,
    {
      env: 'DORMOUSE_RESTORES_AT_ONCE',
      defaultText: 'twice the number of CPUs',
      summary: 'How many sandboxes the server restores at the same time; the others wait in order.',
    },
  ),
  shutdownTimeoutMs: setting(timerMs, 60_000, {
    env: 'DORMOUSE_SHUTDOWN_TIMEOUT_MS',
    summary: 'After `SIGTERM`, how long the server waits for every sandbox to reach standby.',
    details: 'Then it exits. Sandboxes that it could not save keep running, and the next start adopts them.',
  }),
}
