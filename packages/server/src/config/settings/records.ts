import { z } from 'zod'
import { setting } from '../setting.ts'
import { MAX_DAYS } from '../value-schemas.ts'

const MIB = 1024 ** 2
/** Enough for the traceback of an error and the output before it. */
const MIN_JOURNAL_BYTES = 64 * 1024
const MAX_JOURNAL_BYTES = 1024 ** 4
const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const

const journalBytes = z.int().min(MIN_JOURNAL_BYTES).max(MAX_JOURNAL_BYTES)

/** What the server records, and for how long. */
export const recordSettings = {
  journal: {
    keepRuns: setting(z.int().min(1).max(1_000_000), 1_000, {
      env: 'DORMOUSE_JOURNAL_KEEP_RUNS',
      summary: 'How many finished runs of each sandbox can be replayed.',
    }),
    keepDays: setting(z.number().positive().max(MAX_DAYS), 30, {
      env: 'DORMOUSE_JOURNAL_KEEP_DAYS',
      summary: 'For how many days finished runs can be replayed.',
    }),
    runBytes: setting(journalBytes, 64 * MIB, {
      env: 'DORMOUSE_JOURNAL_RUN_BYTES',
      summary:
        'How much of one run the journal keeps: its beginning and its last MiB, with a `truncated` event between them.',
      details: 'Readers that follow the run and keep up see everything.',
    }),
    sandboxBytes: setting(journalBytes, 256 * MIB, {
      env: 'DORMOUSE_JOURNAL_SANDBOX_BYTES',
      summary: 'How much the journal keeps of all runs of one sandbox, at most a quarter of its disk limit.',
      details:
        'Beyond it, the oldest finished runs lose their output; their start and exit stay. The journal counts towards the ' +
        "sandbox's disk limit and its key's disk quota.",
    }),
  },
  logLevel: setting(z.enum(LOG_LEVELS), 'info', {
    env: 'DORMOUSE_LOG_LEVEL',
    summary: '`fatal`, `error`, `warn`, `info`, `debug`, `trace` or `silent`.',
  }),
}
