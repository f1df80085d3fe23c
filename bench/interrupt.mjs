// Measures over HTTP how long a call waits that comes while a sandbox falls asleep, at random moments: because it is idle,
// or because a caller asked for it.
import { setTimeout as sleep } from 'node:timers/promises'
import { ms, report, summarize, timesTable } from './measure.mjs'
import { atServer } from './server/at-server.mjs'
import { readOptions } from './workbench.mjs'

const options = readOptions({ times: { type: 'string' } })
const TIMES = Number(options.times ?? (options.quick ? 12 : 120))
const HEAP_BYTES = 600e6
const IDLE_MS = 1000
/** The server looks twice a second, and a sleep takes about a second. */
const WINDOW_MS = 2000
const GOAL = { atMost: 80 }
/** How many of the calls come during a standby that was asked for. */
const ASKED = Math.ceil(TIMES / 3)
/** Every second one comes this soon after the sandbox has stopped to be saved. */
const SAVE_WINDOW_MS = 150
/** Random bytes, again and again. A new array each time, so that all of it has to be saved as if for the first time. */
const FILL = `import numpy; heap = numpy.tile(numpy.random.default_rng().integers(1, 255, 1_000_000, dtype=numpy.uint8), ${HEAP_BYTES / 1e6}); total = int(heap.sum())`

await atServer(options, async ({ client }) => {
  const limits = { memoryBytes: 4 * 1024 ** 3, cpus: 2 }
  const { id } = await client.create({ idleTimeoutMs: IDLE_MS, limits })
  const result = await measure(client, id)
  await report({ name: 'interrupt', options, result, text: describe(result) })
})

async function measure(client, id) {
  const samples = { awake: [], kept: [], frozen: [], asked: [] }
  const timed = async () => {
    const began = performance.now()
    const { stdout } = await client.run(id, 'print(int(heap[-1]) > 0)')
    if (stdout.trim() !== 'True') throw new Error(`The answer is ${stdout}.`)
    return performance.now() - began
  }
  for (let i = 0; i < TIMES; i++) {
    await client.run(id, FILL)
    samples.awake.push(await timed())
    const before = await slept(client, id)
    await sleep(IDLE_MS + Math.random() * WINDOW_MS)
    const took = await timed()
    samples[(await slept(client, id)) === before ? 'kept' : 'frozen'].push(took)
  }
  let askedMs = 0
  for (let i = 0; i < ASKED; i++) {
    await client.run(id, FILL)
    const began = performance.now()
    const asked = client.standby(id, 'frozen').catch((error) => error)
    if (i % 2 === 1) await untilSaving(client, id)
    await sleep(Math.random() * (i % 2 === 1 ? SAVE_WINDOW_MS : askedMs))
    samples.asked.push(await timed())
    const refused = await asked
    if (refused instanceof Error) throw refused
    if (i === 0) askedMs = performance.now() - began
  }
  const check = await client.run(id, 'print(int(heap.sum()) == total)')
  if (check.stdout.trim() !== 'True') throw new Error('The memory has changed.')
  const all = [...samples.kept, ...samples.frozen]
  return {
    all: { ...summarize(all), goal: GOAL },
    ...(samples.kept.length > 0 && { kept: summarize(samples.kept) }),
    ...(samples.frozen.length > 0 && { slept: summarize(samples.frozen) }),
    awake: summarize(samples.awake),
    asked: { ...summarize(samples.asked), goal: GOAL },
    above: all.filter((took) => took > GOAL.atMost).length,
  }
}

/** Resolves when the sandbox has stopped to be saved, or sleeps. */
async function untilSaving(client, id) {
  while ((await client.call('GET', `/v1/sandboxes/${id}`)).state === 'running') await sleep(1)
}

async function slept(client, id) {
  const { items } = await client.call('GET', `/v1/sandboxes/${id}/ledger?limit=200`)
  return items.filter(({ event }) => event === 'slept').length
}

function describe({ all, kept, slept: after, awake, asked, above }) {
  const rows = [
    ['all calls', all],
    ['calls that kept it awake', kept],
    ['calls that found it asleep, or too late to keep it awake', after],
    ['calls during a standby that was asked for, half of them while it saves', asked],
    ['control: a call right after the one before', awake],
  ]
  return [
    `A sandbox with ${HEAP_BYTES / 1e6} MB, all of them new before each sleep; idle time-out ${IDLE_MS} ms, called at random moments of the ${WINDOW_MS} ms after it:`,
    '',
    timesTable(rows.filter(([, samples]) => samples).map(([title, samples]) => ({ title, ...samples }))),
    '',
    `${above} of ${all.times} calls waited longer than 80 ms; the longest waited ${ms(all.max)} ms.`,
  ].join('\n')
}
