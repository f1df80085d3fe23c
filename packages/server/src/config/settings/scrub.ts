import { z } from 'zod'
import { setting } from '../setting.ts'
import { MAX_DAYS, timerMs } from '../value-schemas.ts'

const MIB = 1024 ** 2

/** How often and how fast the scrub reads. */
export const scrubSettings = {
  scrub: {
    // Snapshots to roll back to are usually older than a week.
    periodDays: setting(z.number().min(0).max(MAX_DAYS), 7, {
      env: 'DORMOUSE_SCRUB_PERIOD_DAYS',
      summary: 'Days from the end of one pass over everything stored to the start of the next.',
      details: '0 means only on demand, with `dormouse scrub start`.',
    }),
    // A tenth of what a cheap disk reads leaves the disk to the sandboxes.
    bytesPerSecond: setting(z.int().min(1), 32 * MIB, {
      env: 'DORMOUSE_SCRUB_BYTES_PER_SECOND',
      summary: 'The highest read rate. The scrub reads at idle priority.',
    }),
    delayMs: setting(timerMs, 30_000, {
      env: 'DORMOUSE_SCRUB_DELAY_MS',
      summary: 'How long after a sandbox falls asleep the scrub reads its new snapshot.',
    }),
  },
}
