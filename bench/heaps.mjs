// Measures wakes of heaps that were touched all over, compared with the same heap before and with stock CRIU, and wakes
// with a cold page cache, compared with warm ones and with reading the same file from start to end.
import { describeCold, measureCold } from './heaps/cold.mjs'
import { describeKinds, measureKinds } from './heaps/kinds.mjs'
import { describeScattered, measureScattered, saveHeaps } from './heaps/scattered.mjs'
import { report } from './measure.mjs'
import { atWorkbench, readOptions } from './workbench.mjs'

const options = readOptions({
  rounds: { type: 'string' },
  only: { type: 'string', default: 'sizes,kinds,cold' },
})
const rounds = Number(options.rounds ?? (options.quick ? 1 : 10))
const only = options.only.split(',')
const sizesMB = options.quick ? [64, 256] : [64, 256, 1000, 2000]

/** Each part writes a section of its own. */
const PARTS = { sizes: reportSizes, kinds: reportKinds, cold: reportCold }
await atWorkbench(options, async (bench) => {
  for (const [name, part] of Object.entries(PARTS)) if (only.includes(name)) await part(bench)
})

async function reportSizes(bench) {
  const sizes = []
  for (const heapMB of sizesMB) {
    console.error(`… ${heapMB} MB`)
    const heaps = await saveHeaps(bench, heapMB)
    sizes.push(await measureScattered(bench, heaps, { heapMB, rounds }))
  }
  await report({ name: 'heaps', options, result: { sizes }, text: describeScattered(sizes) })
}

async function reportKinds(bench) {
  const kinds = await measureKinds(bench, { rounds })
  await report({
    name: 'heap-kinds',
    program: 'heaps',
    options,
    result: { kinds },
    text: describeKinds(kinds),
  })
}

async function reportCold(bench) {
  console.error('… cold')
  const cold = await measureCold(bench, { heapMB: options.quick ? 250 : 1000, rounds })
  await report({ name: 'cold', program: 'heaps', options, result: { cold }, text: describeCold(cold) })
}
