import { existsSync } from 'node:fs'
import { mkdtemp, realpath, rm, rmdir } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { LinuxEngine } from '@dormouse/engine-linux'
import { BurrowCgroup } from '../packages/engine-linux/dist/cgroup/burrow-cgroup.js'
import { findHierarchies } from '../packages/engine-linux/dist/cgroup/find-hierarchies.js'
// Internal modules of the engine: a benchmark measures what callers cannot see.
import { Layout } from '../packages/engine-linux/dist/host/layout.js'

/**
 * The engine makes spares in the background. After this pause they are ready, as for a sandbox that wakes now and
 * then.
 */
const PAUSE_MS = 500

/** Parses the options that all benchmarks share, and `own`. A quick run writes nothing. */
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
 * Runs `work` with an engine on a separate state directory, and removes what `work` leaves behind, also after a failure
 * or an interruption. SIGINT and SIGTERM make the next `pause` fail, so they never interrupt a call to the engine.
 */
export async function atWorkbench({ data }, work) {
  const dataDir = await realpath(data)
  // Beside the templates: hard links share memory files, and they cannot cross file systems.
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
    if (interruptedBy !== undefined) throw new Error(`Interrupted by ${interruptedBy}.`)
  }
  try {
    const engine = await LinuxEngine.open({ dataDir, stateDir })
    try {
      // Without the snapshot, sandboxes boot and the benchmarks measure something else.
      if (!(await engine.isTemplatePrepared('python')))
        throw new Error('The template has no snapshot for this build. Run `./dormouse up` once.')
      return await work({ engine, layout, dataDir, pause })
    } finally {
      await engine[Symbol.asyncDispose]()
    }
  } finally {
    await removeState({ dataDir, stateDir, layout }).catch((error) => {
      // Only logged, so that it does not hide the failure of `work`.
      console.error(`Could not remove ${stateDir}:`, error)
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
  // The directories exist only if there was a burrow.
  for (const directory of new BurrowCgroup(await findHierarchies(), layout.cgroupName).directories)
    if (existsSync(directory)) await rmdir(directory)
}

export async function timed(work) {
  const start = performance.now()
  const result = await work()
  return { ms: performance.now() - start, result }
}

/** Runs Python and returns its output. Throws if the code fails. */
export async function python(burrow, code) {
  const run = await burrow.guest.runs.run({ code })
  if (run.exitCode !== 0) throw new Error(run.stderr || JSON.stringify(run))
  return run.stdout.trim()
}
