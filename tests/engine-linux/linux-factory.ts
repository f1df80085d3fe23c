import { existsSync } from 'node:fs'
import { mkdtemp, readdir, readFile, rm, rmdir } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { BurrowId } from '@dormouse/contracts'
import type { EngineFactory } from '@dormouse/engine/contract'
import { LinuxEngine } from '@dormouse/engine-linux'
import { removeTree } from '@dormouse/engine-linux/for-engines'
import { findHierarchies } from '../../packages/engine-linux/src/cgroup/find-hierarchies.ts'
import { Layout } from '../../packages/engine-linux/src/host/layout.ts'
import { removeMachines } from '../engine-microvm/remove-machines.ts'
import { killProcess } from '../kill-process.ts'
import { sendSignal } from '../send-signal.ts'
import { testDataDir } from '../test-data-dir.ts'

export interface LinuxFactory extends EngineFactory {
  readonly stateDir: string
  readonly layout: Layout
  /** Cgroups of CRIUs that save, or wait to. */
  dumperCgroups(): Promise<string[]>
  /** Removes also what the engine itself made once: the state directory and the parents of its cgroups. */
  cleanUp(): Promise<void>
}

/** Burrows in a state directory of the test's own, from the templates that the set-up built. */
export async function linuxFactory(): Promise<LinuxFactory> {
  const stateDir = await mkdtemp(join(tmpdir(), 'dormouse-test-'))
  const layout = new Layout(stateDir, testDataDir)
  const { v1, v2 } = await findHierarchies()
  const mounts = new Set([...v1.values(), ...(v2 === undefined ? [] : [v2.path])])
  const cgroupParents = [...mounts].map((mount) => join(mount, layout.cgroupName))
  const open = () => LinuxEngine.open({ dataDir: testDataDir, stateDir })

  const dispose = async () => {
    const engine = await open()
    const { burrows } = await engine.adoptBurrows()
    await Promise.all(burrows.map((burrow) => burrow.destroy()))
    await engine[Symbol.asyncDispose]()
  }
  return {
    stateDir,
    layout,
    open,
    dispose,
    // CRIU cannot restore such an eventfd.
    unsavable: { code: 'import os; semaphore = os.eventfd(1, os.EFD_SEMAPHORE)', reason: 'eventfd' },
    async traces() {
      const places = [layout.burrowsDir, layout.runDir, ...cgroupParents]
      const found = await Promise.all(places.map((place) => burrowEntries(place, layout)))
      const mountinfo = (await readFile('/proc/self/mountinfo', 'utf8')).split('\n')
      return [
        ...found.flat(),
        ...mountinfo.filter((line) => line.includes(layout.runDir) || line.includes(stateDir)),
      ]
    },
    async dumperCgroups() {
      const found = cgroupParents.map(async (parent) =>
        (await readdir(parent).catch(() => []))
          .filter((name) => name.startsWith('dumper-'))
          .map((name) => join(parent, name)),
      )
      return (await Promise.all(found)).flat()
    },
    async killBurrow(id: BurrowId) {
      await killProcess(await firstPid(layout, id))
    },
    async killAgent(id: BurrowId) {
      const first = await firstPid(layout, id)
      const [agent] = (await readFile(`/proc/${first}/task/${first}/children`, 'utf8')).split(' ')
      sendSignal(Number(agent), 'SIGKILL')
    },
    async cleanUp() {
      await dispose()
      await removeMachines(stateDir, mounts)
      // A test may have left paths that are longer than a path may be.
      await removeTree(stateDir)
      await rm(layout.runDir, { recursive: true, force: true })
      for (const parent of cgroupParents) await rmdir(parent).catch(() => {})
    },
  }
}

async function firstPid(layout: Layout, id: BurrowId): Promise<number> {
  const [pid] = (await readFile(layout.burrow(id).pidFile, 'utf8')).split(' ')
  return Number(pid)
}

/** Spares are the engine's, not a burrow's: it makes and removes them as it likes. */
async function burrowEntries(place: string, layout: Layout): Promise<string[]> {
  const names = await readdir(place).catch(() => [])
  return (
    names
      .filter((name) => name.startsWith('bw-') && !existsSync(layout.burrow(name as BurrowId).spareMark))
      .map((name) => join(place, name))
      // A spare that was removed meanwhile has lost its mark last.
      .filter((path) => existsSync(path))
  )
}
