import { setTimeout as sleep } from 'node:timers/promises'
import type { LedgerEntry } from 'dormouse'
import { formatBytes, formatMs, formatTime } from '../../format/amounts.ts'
import type { Call } from '../call.ts'

interface LedgerFlags {
  readonly follow?: boolean
  readonly last?: number
  readonly since?: number
}

/** How often `--follow` asks for new entries. */
const POLL_MS = 1000
/** Followed entries arrive one by one, so the columns cannot fit what comes later. */
const WIDTHS = [20, 11, 6, 16, 8, 8]

/** Shows the recorded changes of a sandbox, oldest first. */
export async function ledger(call: Call, ref: string, flags: LedgerFlags): Promise<void> {
  const { follow = false, last, since = Number.NEGATIVE_INFINITY } = flags
  const sandbox = await call.sandbox(ref)
  const all = await sandbox.ledger({ signal: call.signal }).all()
  const wanted = all.filter(({ at }) => Date.parse(at) >= since)
  if (!call.isJson) call.io.stdout.write(formatRow(['TIME', 'EVENT', 'TIER', 'CAUSE', 'TOOK', 'SIZE', '']))
  for (const entry of last === undefined ? wanted : wanted.slice(Math.max(0, wanted.length - last)))
    show(call, entry)
  let after = all.at(-1)?.seq ?? -1
  while (follow) {
    await sleep(POLL_MS, undefined, { signal: call.signal })
    for await (const entry of sandbox.ledger({ after, signal: call.signal })) {
      show(call, entry)
      after = entry.seq
    }
  }
}

function show(call: Call, entry: LedgerEntry): void {
  if (call.isJson) {
    call.printJsonLine(entry)
    return
  }
  const { at, event, tier, cause, latencyMs, bytes, detail } = entry
  const took = latencyMs === undefined ? '-' : formatMs(latencyMs)
  const size = bytes === undefined ? '-' : formatBytes(bytes)
  call.io.stdout.write(formatRow([formatTime(at), event, tier ?? '-', cause, took, size, detail ?? '']))
}

function formatRow(cells: readonly string[]): string {
  return `${cells
    .map((cell, column) => cell.padEnd(WIDTHS[column] ?? 0))
    .join('  ')
    .trimEnd()}\n`
}
