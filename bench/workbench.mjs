import { existsSync } from 'node:fs'
import { mkdtemp, realpath, rm, rmdir } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { LinuxEngine } from '@dormouse/engine-linux'
// Inner parts of the engine: a benchmark looks at what callers have no business with.
import { Layout } from '../packages/engine-linux/dist/burrow/layout.js'
import { BurrowCgroup } from '../packages/engine-linux/dist/cgroup/burrow-cgroup.js'
import { findHierarchies } from '../packages/engine-linux/dist/cgroup/find-hierarchies.js'

/** Spares are made in the background; a sandbox that is woken once in a while finds them ready. */
const PAUSE_MS = 500

/** The options of every benchmark, and its own. A quick run is for trying: it writes nothing. */
export function readOptions(own = {}) {
  const { values } = parseArgs({
    options: {
      data: { type: 'string', default: process.env.DORMOUSE_DATA ?? '/var/lib/dormouse' },
      quick: { type: 'boolean', default: false },
      dry: { type: 'boolean', default: false },
      ...own,
    },
  })
  return { ...values, dry: values.dry || values.quick }
}

/**
 * An engine with a state directory of its own. Whatever `work` leaves behind is removed, also when it fails or is interrupted:
 * SIGINT and SIGTERM make the next `pause` fail, so that no call of the engine is cut off half way.
 */
export async function atWorkbench({ data }, work) {
  const dataDir = await realpath(data)
  // Beside the templates: memory files are shared by hard links, which end at the border of a file system.
  const stateDir = await mkdtemp(join(dataDir, 'bench-'))
  const layout = new Layout(stateDir, dataDir)
  let interruptedBy
  const interrupt = (signal) => {
    interruptedBy = signal
    console.error(`${signal}: cleaning up`)
  }
  process.on('SIGINT', interrupt).on('SIGTERM', interrupt)
  const pause = async (ms = PAUSE_MS) => {
    await sleep(ms)
    if (interruptedBy !== undefined) throw new Error(`interrupted by ${interruptedBy}`)
  }
  try {
    const engine = await LinuxEngine.open({ dataDir, stateDir })
    try {
      // Without it sandboxes boot, and nothing here would measure what it says.
      if (!(await engine.isTemplatePrepared('python')))
        throw new Error('the template has no snapshot for this build: run ./dormouse up once')
      return await work({ engine, layout, dataDir, pause })
    } finally {
      await engine[Symbol.asyncDispose]()
    }
  } finally {
    await removeState({ dataDir, stateDir, layout }).catch((error) => {
      // Why the work failed matters more.
      console.error(`${stateDir} could not be removed:`, error)
      process.exitCode = 1
    })
    process.off('SIGINT', interrupt).off('SIGTERM', interrupt)
  }
}

export async function removeState({ dataDir, stateDir, layout }) {
  const engine = await LinuxEngine.open({ dataDir, stateDir })
  const { burrows } = await engine.adoptBurrows()
  for (const burrow of burrows) await burrow.destroy()
  await engine[Symbol.asyncDispose]()
  await rm(stateDir, { recursive: true, force: true })
  await rm(layout.runDir, { recursive: true, force: true })
  // There is none where no burrow was.
  for (const directory of new BurrowCgroup(await findHierarchies(), layout.cgroupName).directories)
    if (existsSync(directory)) await rmdir(directory)
}

export async function timed(work) {
  const start = performance.now()
  const result = await work()
  return { ms: performance.now() - start, result }
}

/** Runs Python and answers what it printed; a failure inside is a failure of the benchmark. */
export async function python(burrow, code) {
  const run = await burrow.guest.runs.run({ code })
  if (run.exitCode !== 0) throw new Error(run.stderr || JSON.stringify(run))
  return run.stdout.trim()
}
