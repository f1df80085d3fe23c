import type { Burrow, BurrowEnd, Snapshot } from '@dormouse/engine'
import type { Move, SandboxBody } from '../sandbox-body.ts'
import { remove } from './remove.ts'

/**
 * Its processes ended although nobody asked: it is asleep now, as it was when it was last saved, and says since when things are lost.
 * Pre: an exclusive turn.
 */
export async function lose(body: SandboxBody, burrow: Burrow, end: BurrowEnd): Promise<void> {
  if (body.burrow !== burrow || body.isDeleted) return
  const { row } = body
  if (row.ephemeral && row.state === 'running') return remove(body)
  const files = row.state === 'running' ? await saveFiles(body, burrow) : undefined
  body.leave()
  await burrow.destroy().catch((error: unknown) => {
    body.parts.log.warn(
      { sandboxId: body.id, err: error },
      'what is left of a dead burrow could not be removed',
    )
  })
  const detail = describe(end)
  if (row.state === 'standby') {
    // It was frozen, so all of it is on disk.
    const entry = { event: 'stored', cause: 'processes ended', tier: 'stored', detail } as const
    body.write({ change: { tier: 'stored' }, entry })
    return
  }
  body.move('standby', loss(body, files, { cause: 'processes ended', detail }))
}

/** What is written when a sandbox has lost its processes and comes back from what was saved of it. */
export function loss(
  { row, parts }: SandboxBody,
  files: Snapshot | undefined,
  { cause, detail }: { cause: string; detail: string },
): Move {
  const head = row.head === undefined ? undefined : parts.snapshots.get(row.head)
  const since = head?.createdAt ?? row.createdAt
  const kept = files === undefined ? '' : ' Its files as they were last are kept as a snapshot.'
  return {
    change: {
      tier: 'stored',
      lostSince: since,
      // Without a saved memory the files alone are the most that can come back.
      ...(head === undefined && files !== undefined && { head: files.id }),
    },
    intent: null,
    entry: {
      event: 'lost',
      cause,
      tier: 'stored',
      detail: `${detail} Back to ${new Date(since).toISOString()}.${kept}`,
    },
    alongside: () => {
      if (files === undefined) return
      const name = head === undefined ? undefined : 'files before the loss'
      parts.snapshots.put(files, { owner: row.owner, name, isKept: head !== undefined })
    },
  }
}

async function saveFiles(body: SandboxBody, burrow: Burrow): Promise<Snapshot | undefined> {
  const { engine, log } = body.parts
  try {
    const { snapshot } = await engine.snapshot(burrow, { kind: 'files', leave: 'gone' })
    return snapshot
  } catch (error) {
    log.error({ sandboxId: body.id, err: error }, 'the files of a dead burrow could not be saved')
    return undefined
  }
}

function describe(end: BurrowEnd): string {
  if (end.reason !== 'agent_ended') return 'All its processes were ended from outside, or for want of memory.'
  return end.signal === undefined
    ? `Its agent ended with exit code ${end.exitCode}.`
    : `Its agent was ended by signal ${end.signal}, possibly for want of memory.`
}
