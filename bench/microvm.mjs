// Measures virtual machines against processes in the same run: create, snapshot, wake to the first result, fork(5), and
// memory. It prints the machine and whether KVM was used, and writes nothing: paste the result from a host with KVM.

import { cpus, release, totalmem } from 'node:os'
import { newSandboxId } from '@dormouse/contracts'
import { MicrovmEngine } from '@dormouse/engine-microvm'
import { megabytes, ms, summarize, table } from './measure.mjs'
import { atWorkbench, readOptions } from './workbench.mjs'

const options = readOptions({
  times: { type: 'string', default: '5' },
  forks: { type: 'string', default: '5' },
})
const times = options.quick ? 1 : Number(options.times)
const children = Number(options.forks)
const CODE = 'x = sum(range(1000)); print(x)'

/** Both engines get templates without imported libraries: importing them would measure Python. */
async function measureEngine(engine) {
  const samples = { create: [], snapshot: [], wake: [], fork: [] }
  const timed = async (name, work) => {
    const start = performance.now()
    const value = await work()
    samples[name].push(performance.now() - start)
    return value
  }
  const create = () => engine.createBurrow({ sandboxId: newSandboxId(), template: 'python' })
  const run = (burrow) => burrow.guest.runs.run({ code: CODE })
  await (await create()).destroy()
  let privateBytes = 0
  for (let round = 0; round < times; round++) {
    const first = await timed('create', async () => {
      const burrow = await create()
      await run(burrow)
      return burrow
    })
    const { snapshot } = await timed('snapshot', () => engine.snapshot(first, { leave: 'gone' }))
    const woken = await timed('wake', async () => {
      const burrow = await engine.restore(snapshot.id, { sandboxId: first.sandboxId })
      await run(burrow)
      return burrow
    })
    privateBytes = (await woken.memory())?.privateBytes ?? 0
    const ids = Array.from({ length: children }, () => newSandboxId())
    const forked = await timed('fork', () => engine.fork(woken, { sandboxIds: ids }))
    for (const burrow of [forked.parent, ...forked.children]) await burrow?.destroy()
    for (const id of [snapshot.id, forked.snapshot.id]) await engine.deleteSnapshot(id)
  }
  const summaries = Object.entries(samples).map(([name, values]) => [name, summarize(values)])
  return { ...Object.fromEntries(summaries), privateBytes }
}

const { processes, microvm, accelerator } = await atWorkbench(
  options,
  async ({ engine, dataDir, layout }) => {
    const stateDir = layout.burrowsDir.replace(/\/burrows$/, '')
    const vms = await MicrovmEngine.open({ dataDir, stateDir, preload: [] })
    try {
      console.error(`… microvm (${vms.accelerator.name})`)
      const measured = await measureEngine(vms)
      console.error('… process')
      return { processes: await measureEngine(engine), microvm: measured, accelerator: vms.accelerator }
    } finally {
      await vms[Symbol.asyncDispose]()
    }
  },
)
const row = (title, name) => [title, ms(processes[name].p50), ms(microvm[name].p50), microvm[name].times]
const { name, whyNotKvm } = accelerator
console.log(`${cpus().length} × ${cpus()[0]?.model.trim()}, ${megabytes(totalmem())} MB, Linux ${release()}`)
console.log(name === 'kvm' ? 'KVM.' : `Emulation, no KVM: ${whyNotKvm}.`)
console.log(
  table(
    ['median, ms', 'process', 'microvm', 'times'],
    [
      row('create to the first result', 'create'),
      row('snapshot', 'snapshot'),
      row('wake from disk to the first result', 'wake'),
      row(`fork(${children})`, 'fork'),
      [
        'private memory after a wake, MB',
        megabytes(processes.privateBytes),
        megabytes(microvm.privateBytes),
        1,
      ],
    ],
  ),
)
