// Measures wakes of heaps that were touched all over, compared with the same heap before and with stock CRIU, and wakes
// with a cold page cache, compared with warm ones and with reading the same file from start to end.
import { describeCold, measureCold } from './heaps/cold.mjs'
import { describeScattered, measureScattered, saveHeaps } from './heaps/scattered.mjs'
import { report } from './measure.mjs'
import { atWorkbench, readOptions } from './workbench.mjs'

const options = readOptions({ rounds: { type: 'string' } })
const rounds = Number(options.rounds ?? (options.quick ? 1 : 15))
const sizesMB = options.quick ? [64, 250] : [64, 250, 600]

const result = await atWorkbench(options, async (bench) => {
  const sizes = []
  for (const heapMB of sizesMB) {
    console.error(`… ${heapMB} MB`)
    const heaps = await saveHeaps(bench, heapMB)
    sizes.push(await measureScattered(bench, heaps, { heapMB, rounds }))
  }
  console.error('… cold')
  return { sizes, cold: await measureCold(bench, { heapMB: sizesMB.at(-1), rounds: rounds }) }
})

await report({
  name: 'heaps',
  options,
  result,
  text: [describeScattered(result.sizes), describeCold(result.cold)].join('\n\n'),
})
