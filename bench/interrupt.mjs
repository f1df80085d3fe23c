// Measures over HTTP how long a call waits that comes while an idle sandbox falls asleep, at random moments.
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
/** How many of the calls overtake a standby that was asked for. */
const ASKED = Math.ceil(TIMES / 3)
const ASKED_WINDOW_MS = 800
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
  for (let i = 0; i < ASKED; i++) {
    await client.run(id, FILL)
    // A call does not stop a standby that was asked for: it comes before, or waits for the end.
    const asked = client.standby(id, 'frozen').catch((error) => error)
    await sleep(Math.random() * ASKED_WINDOW_MS)
    samples.asked.push(await timed())
    const refused = await asked
    if (refused instanceof Error) throw refused
  }
  const check = await client.run(id, 'print(int(heap.sum()) == total)')
  if (check.stdout.trim() !== 'True') throw new Error('The memory has changed.')
  const all = [...samples.kept, ...samples.frozen]
  return {
    all: { ...summarize(all), goal: GOAL },
    ...(samples.kept.length > 0 && { kept: summarize(samples.kept) }),
    ...(samples.frozen.length > 0 && { slept: summarize(samples.frozen) }),
    awake: summarize(samples.awake),
    asked: summarize(samples.asked),
    above: all.filter((took) => took > GOAL.atMost).length,
  }
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
    [`calls in the ${ASKED_WINDOW_MS} ms after a standby that was asked for`, asked],
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
