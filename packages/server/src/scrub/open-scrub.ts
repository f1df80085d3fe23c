import type { Engine } from '@dormouse/engine'
import type { ServerClock } from '../clock/server-clock.ts'
import type { ScrubConfig } from '../config/config.ts'
import type { Log } from '../log.ts'
import type { EntryOf } from '../network/record-entries.ts'
import type { NewLedgerEntry } from '../store/ledger-rows.ts'
import type { QuarantineRows } from '../store/quarantine-rows.ts'
import type { SandboxRow } from '../store/sandbox-rows.ts'
import type { ScrubRows } from '../store/scrub-rows.ts'
import type { Quarantine } from './quarantine.ts'
import { Scrub } from './scrub.ts'

const DAY_MS = 24 * 3600 * 1000
/** Events after which a sandbox has a new snapshot. */
const SAVED: ReadonlySet<string> = new Set(['slept', 'stored', 'snapshot', 'forked', 'lost'])

export interface OpenScrub {
  readonly engine: Engine
  readonly quarantine: Quarantine
  readonly sandboxes: { all(): Iterable<{ readonly row: SandboxRow }> }
  /** Burrows are being started: the scrub pauses. */
  readonly isBusy: () => boolean
  readonly clock: ServerClock
  readonly log: Log
  readonly rows: ScrubRows
  readonly damaged: QuarantineRows
  readonly config: ScrubConfig
  readonly record: (entries: readonly EntryOf[]) => void
}

export interface OpenedScrub {
  readonly scrub: Scrub
  readonly listener: { recorded(row: SandboxRow, entry: NewLedgerEntry): void }
}

/**
 * Begins to scrub. Ledgers of sandboxes whose head is damaged say so. New snapshots are read soon after they are
 * taken.
 */
export function openScrub(options: OpenScrub): OpenedScrub {
  const { engine, sandboxes, rows, damaged, quarantine, config, record, isBusy, clock, log } = options
  const scrub = new Scrub({
    ...{ engine, rows, damaged, quarantine, isBusy, now: () => clock.wallMs(), log },
    options: {
      periodMs: config.periodDays * DAY_MS,
      bytesPerSecond: config.bytesPerSecond,
      delayMs: config.delayMs,
    },
    onDamage: (snapshots, detail) => {
      const found = new Set<string>(snapshots)
      const affected = [...sandboxes.all()].filter(({ row }) => found.has(row.head ?? ''))
      record(affected.map(({ row: { id } }) => ({ id, entry: { event: 'damaged', cause: 'scrub', detail } })))
    },
  })
  const recorded = (row: SandboxRow, { event }: NewLedgerEntry) => {
    if (SAVED.has(event)) scrub.soon(row.head)
  }
  return { scrub, listener: { recorded } }
}
