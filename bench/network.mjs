// Measures what a gate adds to a create and a wake: burrows with a gate and an egress worker, in turns with burrows
// without.
import { newSandboxId } from '@dormouse/contracts'
import { Egress } from '@dormouse/egress'
import { ms, report, summarize, timesTable } from './measure.mjs'
import { atWorkbench, python, readOptions, timed } from './workbench.mjs'

const options = readOptions()
const ROUNDS = options.quick ? 4 : 40
const POLICY = { mode: 'public', allow: [], secrets: [] }

const result = await atWorkbench(options, async ({ engine, pause }) => {
  const egress = await Egress.start({ resolvers: [] })
  try {
    return await measure({ engine, egress, pause })
  } finally {
    await egress.close()
  }
})
await report({ name: 'network', options, result, text: describe(result) })

async function measure({ engine, egress, pause }) {
  const sandboxId = newSandboxId()
  const first = await engine.createBurrow({ sandboxId, template: 'python' })
  await python(first, 'import pandas; kept = pandas.DataFrame({"x": range(100_000)})')
  const { snapshot } = await engine.snapshot(first, { leave: 'gone' })
  const found = { create: { without: [], with: [] }, wake: { without: [], with: [] }, open: [] }
  const start = {
    create: () => engine.createBurrow({ sandboxId: newSandboxId(), template: 'python' }),
    wake: () => engine.restore(snapshot.id, { sandboxId }),
  }
  for (let round = 0; round < ROUNDS + 1; round++) {
    for (const [what, begin] of Object.entries(start)) {
      // The second one finds caches warm, so each kind is second every other time.
      for (const kind of round % 2 === 0 ? ['without', 'with'] : ['with', 'without']) {
        await pause()
        const { sample, openMs } = await once(begin, kind === 'with' ? egress : undefined)
        // The first round only warms up.
        if (round === 0) continue
        found[what][kind].push(sample)
        if (openMs !== undefined) found.open.push(openMs)
      }
    }
  }
  const both = ({ without, with: with_ }) => ({ without: summarize(without), with: summarize(with_) })
  return { create: both(found.create), wake: both(found.wake), open: summarize(found.open) }
}

/**
 * Times one start up to the first result. Like a call of the server it waits for the gate but not for the worker:
 * earlier connections wait in the gate's backlog.
 */
async function once(begin, egress) {
  const began = performance.now()
  const burrow = await begin()
  let gate
  let attached
  let openMs
  if (egress !== undefined) {
    const opened = await timed(() => burrow.openGate())
    gate = opened.result
    openMs = opened.ms
    attached = egress.attach(burrow.sandboxId, gate, POLICY)
  }
  await python(burrow, 'print(1)')
  const sample = performance.now() - began
  await attached
  gate?.close()
  await egress?.detach(burrow.sandboxId)
  await burrow.destroy()
  return { sample, openMs }
}

function describe({ create, wake, open }) {
  const share = ({ without, with: with_ }) => ({ atMost: 1.1 * without.p50, ratio: with_.p50 / without.p50 })
  const rows = [
    { title: 'create to the first result, without a network', ...create.without },
    { title: '… with one', ...create.with, goal: { atMost: Number(ms(share(create).atMost)) } },
    { title: 'wake to the first result, without a network', ...wake.without },
    { title: '… with one', ...wake.with, goal: { atMost: Number(ms(share(wake).atMost)) } },
    { title: '… of which opening the gate', ...open },
  ]
  return `${timesTable(rows)}\n\nThe goal is at most a tenth more than without. In the server, opening a gate overlaps with the rest of a wake.`
}
