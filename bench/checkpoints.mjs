// Measures how long a checkpoint stops a sandbox that runs: the longest gap that a thread inside sees while it ticks every
// millisecond, with little memory and with much, of which some changes between two checkpoints.
import { setTimeout as sleep } from 'node:timers/promises'
import { ms, report, summarize, table } from './measure.mjs'
import { atServer } from './server/at-server.mjs'
import { readOptions } from './workbench.mjs'

const options = readOptions()
const TIMES = options.quick ? 4 : 12
const EVERY_MS = 2_000
const CHANGED_SHARE = 0.1
const SIZES_MB = [0, 256, 1024]

await atServer(options, async ({ client }) => {
  const result = []
  for (const megabytes of SIZES_MB) result.push(await measure(client, megabytes))
  await report({ name: 'checkpoints', options, result, text: describe(result) })
})

/** The wall clock: to processes inside, monotonic time stands still while they are saved. */
function program(megabytes) {
  return `
import threading, time
data = bytearray(b"x" * (${megabytes} << 20))
gap = 0.0
def tick():
    global gap
    last = time.time()
    while True:
        time.sleep(0.001)
        now = time.time()
        gap = max(gap, now - last)
        last = now
def change():
    at = 0
    part = int(len(data) * ${CHANGED_SHARE})
    while True:
        for page in range(at, min(at + part, len(data)), 4096):
            data[page] = (data[page] + 1) % 256
        at = (at + part) % max(1, len(data))
        time.sleep(${EVERY_MS / 1000})
threading.Thread(target=tick, daemon=True).start()
threading.Thread(target=change, daemon=True).start()`
}

async function measure(client, megabytes) {
  const limits = { memoryBytes: 3 * 1024 ** 3 }
  const { id } = await client.create({ limits })
  await client.run(id, program(megabytes))
  await sleep(500)
  await client.run(id, 'gap = 0.0')
  await client.call('PATCH', `/v1/sandboxes/${id}`, { checkpointEveryMs: EVERY_MS })
  const gaps = []
  const pauses = []
  for (let round = 0; round < TIMES; round++) {
    const taken = await nextCheckpoint(client, id, round)
    const { stdout } = await client.run(id, 'print(gap * 1000)\ngap = 0.0')
    gaps.push(Number(stdout))
    pauses.push(taken.latencyMs)
  }
  const quiet = await quietGap(client, id)
  await client.remove(id)
  const [first, ...later] = gaps
  const [, ...laterPauses] = pauses
  return { megabytes, first, later: summarize(later), server: summarize(laterPauses), quiet }
}

async function nextCheckpoint(client, id, seen) {
  for (;;) {
    const { items } = await client.call('GET', `/v1/sandboxes/${id}/ledger?limit=1000`)
    const taken = items.filter(({ event, cause }) => event === 'snapshot' && cause === 'checkpoint')
    if (taken.length > seen) return taken[seen]
    await sleep(50)
  }
}

/** The longest gap without a checkpoint, in as much time. */
async function quietGap(client, id) {
  await client.call('PATCH', `/v1/sandboxes/${id}`, { checkpointEveryMs: 0 })
  await client.run(id, 'gap = 0.0')
  await sleep(EVERY_MS)
  return Number((await client.run(id, 'print(gap * 1000)')).stdout)
}

function describe(result) {
  const rows = result.map(({ megabytes, first, later, server: seen, quiet }) => [
    ...[megabytes, ms(first), ms(later.p50), ms(later.p99), ms(seen.p50), ms(quiet)],
  ])
  const head = [
    'MB of data',
    'first, ms',
    'later, p50 ms',
    'later, p99 ms',
    'the server waits, p50 ms',
    'without, ms',
  ]
  return `The longest gap that a thread inside sees while it ticks every millisecond, for each checkpoint. A tenth of the data
changes between two of them, which are ${EVERY_MS / 1000} s apart; ${TIMES} checkpoints each. The first one moves all memory
into files, piece by piece. The server waits from the moment the sandbox is stopped until it runs again.

${table(head, rows)}`
}
