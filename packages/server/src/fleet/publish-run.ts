import type { RunJournal } from '../runs/run-journal.ts'
import type { RunRow } from '../runs/run-rows.ts'
import type { EventFeed } from './event-feed.ts'

export interface RunChange {
  readonly type: 'run.started' | 'run.finished'
  readonly row: RunRow
  /** Undefined: its sandbox is gone, and no reader needs to know. */
  readonly owner: string | undefined
  readonly journal: Pick<RunJournal, 'get'>
}

export function publishRun(feed: Pick<EventFeed, 'publish'>, { type, row, owner, journal }: RunChange): void {
  if (owner === undefined) return
  const { runId, sandboxId, context, language } = row
  feed.publish({
    ...{ type, owner, sandboxId },
    data: () => {
      const { state, exitCode } = journal.get(sandboxId, runId) ?? row
      return { runId, context, language, state, ...(exitCode !== undefined && { exitCode }) }
    },
  })
}
