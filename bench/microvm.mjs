// Measures virtual machines against processes in the same run: create, snapshot, wake to the first result, fork(5), and
// memory. Says whether KVM was used. On a host with KVM, bench/try-kvm.mjs sets everything up first.
import { rm } from 'node:fs/promises'
import { newSandboxId } from '@dormouse/contracts'
import { MicrovmEngine } from '@dormouse/engine-microvm'
import { MicrovmLayout } from '../packages/engine-microvm/dist/host/microvm-layout.js'
import { megabytes, ms, report, summarize, table } from './measure.mjs'
import { atWorkbench, python, readOptions, timed } from './workbench.mjs'

const options = readOptions({
  times: { type: 'string', default: '9' },
  forks: { type: 'string', default: '5' },
})
const times = options.quick ? 1 : Number(options.times)
const children = Number(options.forks)
const CODE = 'x = sum(range(1000)); print(x)'
const GIBIBYTE = 1024 ** 3
/** Under emulation, starting a spare takes this long on a busy machine. */
const PAUSE_MS = 1_500

const { processes, machines, accelerator } = await atWorkbench(options, measureBoth)
const { name, whyNotKvm } = accelerator
await report({ name: 'microvm', options, result: { accelerator, processes, machines }, text: describe() })

async function measureBoth({ engine, dataDir, layout, pause }) {
  const stateDir = layout.burrowsDir.replace(/\/burrows$/, '')
  const vms = await MicrovmEngine.open({ dataDir, stateDir })
  try {
    console.error(`… boot (${vms.accelerator.name})`)
    const { ms: bootMs } = await timed(() => vms.prepareTemplate('python', GIBIBYTE))
    console.error('… microvm')
    const measured = { ...(await measureEngine(vms, pause)), bootMs }
    console.error('… process')
    return {
      processes: await measureEngine(engine, pause),
      machines: measured,
      accelerator: vms.accelerator,
    }
  } finally {
    await vms[Symbol.asyncDispose]()
    await removeMachines({ dataDir, stateDir })
  }
}

async function measureEngine(engine, pause) {
  const samples = { create: [], snapshot: [], wake: [], fork: [] }
  const measured = async (what, work) => {
    await pause(PAUSE_MS)
    const { ms: took, result } = await timed(work)
    samples[what].push(took)
    return result
  }
  const limits = { memoryBytes: GIBIBYTE }
  const create = () => engine.createBurrow({ sandboxId: newSandboxId(), template: 'python', limits })
  const thenRun = async (starting) => {
    const burrow = await starting
    await python(burrow, CODE)
    return burrow
  }
  await (await thenRun(create())).destroy()
  const privateBytes = []
  const savedBytes = []
  for (let round = 0; round < times; round++) {
    const first = await measured('create', () => thenRun(create()))
    const { snapshot } = await measured('snapshot', () => engine.snapshot(first, { leave: 'gone' }))
    savedBytes.push(snapshot.bytes.memory + snapshot.bytes.images)
    const { sandboxId } = first
    const woken = await measured('wake', () => thenRun(engine.restore(snapshot.id, { sandboxId })))
    privateBytes.push((await woken.memory())?.privateBytes ?? 0)
    const ids = Array.from({ length: children }, () => newSandboxId())
    const forked = await measured('fork', () => engine.fork(woken, { sandboxIds: ids }))
    for (const burrow of [forked.parent, ...forked.children]) await burrow?.destroy()
    for (const id of [snapshot.id, forked.snapshot.id]) await engine.deleteSnapshot(id)
  }
  const summaries = Object.entries(samples).map(([what, values]) => [what, summarize(values)])
  return {
    ...Object.fromEntries(summaries),
    privateBytes: summarize(privateBytes),
    savedBytes: summarize(savedBytes),
  }
}

/** After a failure machines may still run. */
async function removeMachines({ dataDir, stateDir }) {
  const engine = await MicrovmEngine.open({ dataDir, stateDir })
  for (const burrow of (await engine.adoptBurrows()).burrows) await burrow.destroy()
  await engine[Symbol.asyncDispose]()
  await rm(new MicrovmLayout(stateDir, dataDir).runDir, { recursive: true, force: true })
}

function describe() {
  const times = (title, what) => [
    title,
    ms(processes[what].p50),
    ms(machines[what].p50),
    ms(machines[what].max),
  ]
  const bytes = (title, what) => [
    title,
    ...[processes[what].p50, machines[what].p50, machines[what].max].map(megabytes),
  ]
  const how =
    name === 'kvm'
      ? '**With KVM.**'
      : `**Emulated, without KVM** (${whyNotKvm}): what runs inside a machine is many times slower than with KVM.`
  const booted =
    machines.bootMs > 1_000
      ? `\n\nThe template booted and was saved in ${ms(machines.bootMs / 1_000)} s, once.`
      : ''
  const conditions = [
    `${how} Calls to the engines in one process, without HTTP, one after the other with pauses; ${machines.create.times}`,
    'rounds. Both have a limit of 1 GiB and start from a snapshot of the same template, with its libraries imported. A',
    `fork ends when the parent and ${children} children answer.`,
  ]
  return `${conditions.join(' ')}

${table(
  ['what', 'process, p50', 'microvm, p50', 'microvm, slowest'],
  [
    times('create to the first result, ms', 'create'),
    times('snapshot after one run, ms', 'snapshot'),
    times('wake from disk to the first result, ms', 'wake'),
    times(`fork(${children}), ms`, 'fork'),
    bytes('private memory after a wake, MB', 'privateBytes'),
    bytes('what the snapshot added on disk, MB', 'savedBytes'),
  ],
)}${booted}`
}
