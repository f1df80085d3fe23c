import { mkdtemp, readdir, readFile, rm, rmdir } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { BurrowId } from '@dormouse/contracts'
import type { Burrow } from '@dormouse/engine'
import type { EngineFactory } from '@dormouse/engine/contract'
import { findGuestKernel, findQemu, MicrovmEngine } from '@dormouse/engine-microvm'
import { findHierarchies } from '../../packages/engine-linux/src/cgroup/find-hierarchies.ts'
import { MicrovmLayout } from '../../packages/engine-microvm/src/host/microvm-layout.ts'
import { sendSignal } from '../send-signal.ts'
import { testDataDir } from '../test-data-dir.ts'

export interface MicrovmFactory extends EngineFactory {
  readonly stateDir: string
  readonly layout: MicrovmLayout
  open(): Promise<MicrovmEngine>
  cleanUp(): Promise<void>
}

/** Why these tests cannot run here, or undefined. The set-up installs both only when it is asked to. */
export async function microvmMissing(): Promise<string | undefined> {
  const { kernelDir } = new MicrovmLayout('/', testDataDir)
  if ((await findQemu('tcg')) === undefined)
    return 'QEMU is not installed: ./dormouse test --isolation microvm'
  if (findGuestKernel(kernelDir) === undefined) return 'the guest kernel is not installed'
  return undefined
}

/** The first test of a host boots the template, which all others share. Emulation on a busy machine is slow. */
export const BOOT_TIMEOUT_MS = 600_000

/** Virtual machines in a state directory of the test's own, from templates without imported libraries. */
export async function microvmFactory(): Promise<MicrovmFactory> {
  const stateDir = await mkdtemp(join(tmpdir(), 'dormouse-test-'))
  const layout = new MicrovmLayout(stateDir, testDataDir)
  const { v1, v2 } = await findHierarchies()
  const mounts = new Set([...v1.values(), ...(v2 === undefined ? [] : [v2.path])])
  const cgroupParents = [...mounts].map((mount) => join(mount, layout.cgroupName))
  const burrows = new Map<BurrowId, Burrow>()
  const open = async () => {
    const engine = await MicrovmEngine.open({ dataDir: testDataDir, stateDir, preload: [] })
    const create = engine.createBurrow.bind(engine)
    engine.createBurrow = async (request, signal) => {
      const burrow = await create(request, signal)
      burrows.set(burrow.id, burrow)
      return burrow
    }
    return engine
  }
  const dispose = async () => {
    const engine = await open()
    const adopted = await engine.adoptBurrows()
    await Promise.all(adopted.burrows.map((burrow) => burrow.destroy()))
    await engine[Symbol.asyncDispose]()
  }
  return {
    stateDir,
    layout,
    open,
    dispose,
    async traces() {
      const places = [layout.burrowsDir, layout.runDir, ...cgroupParents]
      const found = await Promise.all(places.map(burrowEntries))
      const mountinfo = (await readFile('/proc/self/mountinfo', 'utf8')).split('\n')
      return [...found.flat(), ...mountinfo.filter((line) => line.includes(layout.runDir))]
    },
    async killBurrow(id: BurrowId) {
      const { first } = JSON.parse(await readFile(layout.burrow(id).record, 'utf8')) as {
        first: { pid: number }
      }
      sendSignal(first.pid, 'SIGKILL')
    },
    // No process of the host is the agent, so a process of the guest kills its parent.
    async killAgent(id: BurrowId) {
      const started = burrows.get(id)?.guest.processes.start({ args: ['sh', '-c', 'kill -9 $PPID'] })
      await started?.catch(() => {})
    },
    async cleanUp() {
      await dispose()
      await rm(stateDir, { recursive: true, force: true })
      await rm(layout.runDir, { recursive: true, force: true })
      for (const parent of cgroupParents) await rmdir(parent).catch(() => {})
    },
  }
}

async function burrowEntries(place: string): Promise<string[]> {
  const names = await readdir(place).catch(() => [])
  return names.filter((name) => name.startsWith('bw-')).map((name) => join(place, name))
}

/** Boots the template of this size if no earlier test did. */
export async function bootTemplate(factory: MicrovmFactory): Promise<void> {
  const engine = await factory.open()
  await engine.prepareTemplate('python', 1024 ** 3)
  await engine[Symbol.asyncDispose]()
}
