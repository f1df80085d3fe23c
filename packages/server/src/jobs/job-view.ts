import type { JobAnswer } from '@dormouse/contracts/http'
import type { JobRow } from './job-rows.ts'

export function jobView(row: JobRow, running: number): JobAnswer {
  const { request, succeeded, failed, cancelled, total, state } = row
  const { sandboxPer, concurrency, priority, timeoutMs, retry, metadata, name, isolation } = request
  const queued = total - succeeded - failed - cancelled - running
  return {
    ...{ id: row.id, name, total, isolation, sandboxPer, concurrency, priority, timeoutMs, retry, metadata },
    state: state === 'starting' || (state === 'running' && row.startedAt === undefined) ? 'queued' : state,
    tasks: { queued, running, succeeded, failed, cancelled },
    origin: {
      template: row.snapshotId === undefined ? request.template : undefined,
      snapshotId: row.snapshotId,
      sandboxId: request.sandboxId,
    },
    createdAt: iso(row.createdAt),
    startedAt: row.startedAt === undefined ? undefined : iso(row.startedAt),
    finishedAt: row.finishedAt === undefined ? undefined : iso(row.finishedAt),
    resultBytes: row.bytes,
    lastSeq: row.lastSeq,
  }
}

function iso(ms: number): string {
  return new Date(ms).toISOString()
}
