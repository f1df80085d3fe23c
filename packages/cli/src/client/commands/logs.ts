import { setTimeout as sleep } from 'node:timers/promises'
import { DormouseError, type RunEvent, type Sandbox } from 'dormouse'
import type { Call } from '../call.ts'
import { findByReference } from '../find-sandbox.ts'
import { showEvent } from '../show-event.ts'
import { shortName } from './ls.ts'

interface LogsFlags {
  readonly follow?: boolean
  readonly last: number
}

/** How often `--follow` looks for new runs. */
const POLL_MS = 500
const PAGE = 100

export async function logs(
  call: Call,
  ref: string,
  runRef: string | undefined,
  { follow = false, last }: LogsFlags,
): Promise<void> {
  const sandbox = await call.sandbox(ref)
  if (runRef !== undefined) return showRun(call, sandbox, await findRun(call, sandbox, runRef), follow)
  const known = await newestRuns(call, sandbox)
  const seen = new Set(known)
  for (const runId of known.slice(0, last).reverse()) await showRun(call, sandbox, runId, follow)
  if (known.length === 0 && !follow) call.note(`${shortName(sandbox)} has not run anything yet.`)
  while (follow) {
    for (const runId of (await newestRuns(call, sandbox)).reverse()) {
      if (seen.has(runId)) continue
      seen.add(runId)
      await showRun(call, sandbox, runId, follow)
    }
    await sleep(POLL_MS, undefined, { signal: call.signal })
  }
}

/** Newest first. */
async function newestRuns({ signal }: Call, { runs }: Sandbox): Promise<string[]> {
  const { items } = await runs.list({ signal }).page({ limit: PAGE })
  return items.map(({ runId }) => runId)
}

async function findRun({ signal }: Call, sandbox: Sandbox, ref: string): Promise<string> {
  const all = await sandbox.runs.list({ signal }).all()
  const named = all.map(({ runId }) => ({ id: runId }))
  const list = `dormouse logs ${shortName(sandbox)}`
  return findByReference(ref, named, { what: `run of ${shortName(sandbox)}`, idPrefix: 'run-', list }).id
}

async function showRun(call: Call, sandbox: Sandbox, runId: string, follow: boolean): Promise<void> {
  call.note(`==> ${runId}`)
  try {
    for await (const event of sandbox.runs.events(runId, { follow, signal: call.signal }))
      show(call, runId, event)
  } catch (error) {
    // A run whose events are gone must not stop the others from being shown.
    if (!(error instanceof DormouseError) || !['not_found', 'burrow_ended'].includes(error.code)) throw error
    call.note(`dormouse: ${error.message}`)
  }
}

function show(call: Call, runId: string, event: RunEvent): void {
  if (call.isJson) call.printJsonLine({ runId, ...event })
  else showEvent(event, call.io)
}
