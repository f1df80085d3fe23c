import type { Node } from 'dormouse'
import { formatBytes } from '../../format/amounts.ts'
import { formatTable } from '../../format/table.ts'
import type { Call } from '../call.ts'

const PROGRESS_MS = 1_000

export async function listNodes(call: Call): Promise<void> {
  const items = await call.client.nodes.list({ signal: call.signal })
  const header = [
    'NODE',
    'STATE',
    'SANDBOXES',
    'FREE MEMORY',
    'FREE DISK',
    'LOAD',
    'VERSION',
    'KERNEL',
    'CPU',
    'ADDRESS',
  ]
  call.printResult({ items }, formatTable([header, ...items.map(rowOf)]))
  for (const { id, drain } of items)
    for (const { sandboxId, reason } of drain?.stays ?? [])
      call.note(`${sandboxId} stays on ${id}: ${reason}`)
}

export async function cordonNode(call: Call, node: string, { undo }: { undo?: boolean }): Promise<void> {
  const shown = await call.client.nodes.cordon(node, { cordoned: undo !== true, signal: call.signal })
  call.printResult(shown, `${shown.id}\n`)
  call.note(shown.isCordoned ? `${shown.id} gets no new sandboxes.` : `${shown.id} gets new sandboxes again.`)
}

export async function drainNode(call: Call, node: string): Promise<number> {
  const work = call.client.nodes.drain(node, { signal: call.signal, timeoutMs: 0 })
  const drained = await showingDrain(call, node, work)
  const rows = [
    ...drained.moved.map((one) => [one.sandboxId, `moved to ${one.node}`]),
    ...drained.left.map((one) => [one.sandboxId, `stays: ${one.reason}`]),
  ]
  call.printResult(drained, rows.length === 0 ? '' : formatTable([['SANDBOX', 'WHAT'], ...rows]))
  call.note(`${drained.moved.length} moved, ${drained.left.length} left.`)
  return drained.left.length === 0 ? 0 : 1
}

/** The node says how far it is. */
async function showingDrain<Value>(call: Call, node: string, work: Promise<Value>): Promise<Value> {
  using progress = call.progress(`Moving the sandboxes of ${node}`)
  const timer = setInterval(() => {
    call.client.nodes.list({ signal: call.signal }).then(
      (items) => {
        const drain = items.find(({ id }) => id === node)?.drain
        if (drain !== undefined)
          progress.update(`Moving the sandboxes of ${node}: ${drain.moved} of ${drain.total}`)
      },
      () => {},
    )
  }, PROGRESS_MS)
  try {
    return await work
  } finally {
    clearInterval(timer)
  }
}

export async function moveSandbox(call: Call, ref: string, node: string): Promise<void> {
  const sandbox = await call.sandbox(ref)
  const work = sandbox.move(node, { signal: call.signal })
  const moved = await call.withProgress(`Moving ${sandbox.id}`, work)
  call.printResult(moved, `${moved.node}\n`)
  call.note(`${sandbox.id} wakes on ${moved.node} with the next command.`)
}

function rowOf(node: Node): string[] {
  const { id, state, isCordoned, drain, isSelf, load, memory, disk, version, kernel, cpu, address } = node
  const drained = drain === undefined ? [] : [`${drain.moved} of ${drain.total} moved, ${drain.left} stay`]
  const flags = [...(isCordoned ? ['cordoned'] : []), ...drained, ...(isSelf ? ['this one'] : [])]
  const shown = [state, ...flags].join(', ')
  const sandboxes = `${load.sandboxes} (${load.running} running)`
  const room = [formatBytes(memory.freeBytes), formatBytes(disk.freeBytes)]
  return [
    id,
    shown,
    sandboxes,
    ...room,
    load.cpu.toFixed(2),
    version,
    kernel,
    cpu?.fingerprint ?? '-',
    address,
  ]
}
