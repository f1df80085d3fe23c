import type { Engine } from '@dormouse/engine'
import type { ScrubConfig } from '../config/config.ts'
import type { EntryOf } from '../network/record-entries.ts'
import type { SandboxRegistry } from '../sandbox/sandbox-registry.ts'
import type { QuarantineRows } from '../store/quarantine-rows.ts'
import type { ScrubRows } from '../store/scrub-rows.ts'
import { Scrub } from './scrub.ts'

const DAY_MS = 24 * 3600 * 1000
/** Events after which a sandbox has a new snapshot. */
const SAVED: ReadonlySet<string> = new Set(['slept', 'stored', 'snapshot', 'forked', 'lost'])

export interface OpenScrub {
  readonly engine: Engine
  readonly registry: SandboxRegistry
  readonly rows: ScrubRows
  readonly damaged: QuarantineRows
  readonly config: ScrubConfig
  readonly record: (entries: readonly EntryOf[]) => void
}

/** Begins to scrub. Ledgers of sandboxes whose head is damaged say so. */
export function openScrub({ engine, registry, rows, damaged, config, record }: OpenScrub): Scrub {
  const { quarantine, admission, listeners, clock, log } = registry.parts
  const now = () => clock.wallMs()
  const scrub = new Scrub({
    ...{ engine, rows, damaged, quarantine, now, log },
    options: {
      periodMs: config.periodDays * DAY_MS,
      bytesPerSecond: config.bytesPerSecond,
      delayMs: config.delayMs,
    },
    isBusy: () => admission.load.running + admission.load.waiting > 0,
    onDamage: (snapshots, detail) => {
      const found = new Set<string>(snapshots)
      const sandboxes = [...registry.all()].filter(({ body }) => found.has(body.row.head ?? ''))
      record(sandboxes.map(({ id }) => ({ id, entry: { event: 'damaged', cause: 'scrub', detail } })))
    },
  })
  listeners.push({
    recorded: (row, { event }) => {
      if (SAVED.has(event)) scrub.soon(row.head)
    },
  })
  return scrub
}
