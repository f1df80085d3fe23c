import { existsSync } from 'node:fs'
import { mkdtemp, readdir, readFile, rm, rmdir } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { BurrowId } from '@dormouse/contracts'
import type { Burrow } from '@dormouse/engine'
import type { EngineFactory } from '@dormouse/engine/contract'
import { findGuestKernel, findQemu, MicrovmEngine } from '@dormouse/engine-microvm'
import { findHierarchies } from '../../packages/engine-linux/src/cgroup/find-hierarchies.ts'
import { MicrovmLayout } from '../../packages/engine-microvm/src/host/microvm-layout.ts'
import { killProcess } from '../kill-process.ts'
import { sendSignal } from '../send-signal.ts'
import { testDataDir } from '../test-data-dir.ts'

export interface MicrovmFactory extends EngineFactory {
  readonly stateDir: string
  readonly layout: MicrovmLayout
  open(): Promise<MicrovmEngine>
  /** Kills a QEMU that waits for a sandbox. */
  killSpare(id: BurrowId): Promise<void>
  /** Kills the processes that answer for its volumes. */
  killVolumeServers(id: BurrowId): Promise<void>
  cleanUp(): Promise<void>
}

/** Why these tests cannot run here, or undefined. The set-up installs both only when it is asked to. */
export async function microvmMissing(): Promise<string | undefined> {
  const { kernelDir } = new MicrovmLayout('/', testDataDir)
  if ((await findQemu('tcg')) === undefined) return 'QEMU is not installed: ./dormouse up --isolation microvm'
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
    keepsUnsynced: false,
    open,
    dispose,
    traces: () => findTraces(layout, cgroupParents),
    async killBurrow(id: BurrowId) {
      const { first } = JSON.parse(await readFile(layout.burrow(id).record, 'utf8')) as {
        first: { pid: number }
      }
      await killProcess(first.pid)
    },
    killSpare: (id) => killMembers(join(cgroupParents[0] ?? '', id), 'qemu'),
    killVolumeServers: (id) => killMembers(join(cgroupParents[0] ?? '', id), 'dormouse-volume'),
    // No process of the host is the agent, and none of the guest can kill it; but the guest's kernel can.
    async killAgent(id: BurrowId) {
      const shell = 'echo 1000 > /proc/1/oom_score_adj; echo f > /proc/sysrq-trigger'
      await burrows
        .get(id)
        ?.guest.processes.start({ shell })
        .catch(() => {})
    },
    async cleanUp() {
      await dispose()
      await rm(stateDir, { recursive: true, force: true })
      await rm(layout.runDir, { recursive: true, force: true })
      for (const parent of cgroupParents) await rmdir(parent).catch(() => {})
    },
  }
}

/** What burrows have left on the host. */
async function findTraces(layout: MicrovmLayout, cgroupParents: readonly string[]): Promise<string[]> {
  const places = [layout.burrowsDir, layout.runDir, ...cgroupParents]
  const found = await Promise.all(places.map((place) => burrowEntries(layout, place)))
  const mountinfo = (await readFile('/proc/self/mountinfo', 'utf8')).split('\n')
  return [...found.flat(), ...mountinfo.filter((line) => line.includes(layout.runDir))]
}

async function killMembers(cgroup: string, program: string): Promise<void> {
  for (const pid of (await readFile(join(cgroup, 'cgroup.procs'), 'utf8')).trim().split('\n')) {
    const name = await readFile(`/proc/${pid}/comm`, 'utf8')
    if (name.startsWith(program)) sendSignal(Number(pid), 'SIGKILL')
  }
}

/** Without spares, which no sandbox has yet. */
async function burrowEntries(layout: MicrovmLayout, place: string): Promise<string[]> {
  const names = await readdir(place).catch(() => [])
  return (
    names
      .filter((name) => name.startsWith('bw-') && !existsSync(layout.burrow(name as BurrowId).spareMark))
      .map((name) => join(place, name))
      // A spare that was removed meanwhile has lost its mark last.
      .filter((path) => existsSync(path))
  )
}

/** Boots the template of this size if no earlier test did. */
export async function bootTemplate(factory: MicrovmFactory): Promise<void> {
  const engine = await factory.open()
  await engine.prepareTemplate('python', 1024 ** 3)
  await engine[Symbol.asyncDispose]()
}
