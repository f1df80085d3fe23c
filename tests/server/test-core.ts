import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Engine } from '@dormouse/engine'
import { LinuxEngine } from '@dormouse/engine-linux'
import { VolumeEngine } from '@dormouse/engine-linux/for-engines'
import {
  type Caller,
  type CreateSandbox,
  EnginePair,
  linuxBuilder,
  loadConfig,
  openServer,
  type Sandbox,
  type ServerConfig,
  type ServerCore,
  SpaceReserve,
} from '@dormouse/server'
import { type LinuxFactory, linuxFactory } from '../engine-linux/linux-factory.ts'
import { testDataDir } from '../test-data-dir.ts'

/** Says what goes wrong behind the scenes: a test that fails should show why. */
const loudLog = {
  info() {},
  warn: (fields: object, message: string) => console.warn(message, fields),
  error: (fields: object, message: string) => console.error(message, fields),
}

export interface TestCore extends ServerCore {
  readonly caller: Caller
  /** As after `kill -9` of the server and its next start: nothing is put in order before. */
  restart(): Promise<TestCore>
}

export interface TestHost {
  readonly factory: LinuxFactory
  open(change?: Partial<ServerConfig>): Promise<TestCore>
  cleanUp(): Promise<void>
}

/** What Python code prints there. Throws when it fails. */
export async function runIn(core: TestCore, sandbox: Sandbox, code: string): Promise<string> {
  const started = await core.services.runs.start(sandbox, { code, language: 'python' })
  const { stdout, stderr, exitCode } = await started.result()
  if (exitCode !== 0) throw new Error(stderr)
  return stdout
}

/**
 * A server without HTTP on a state directory of its own, with the templates that the set-up built. `openSecond` opens an
 * engine beside that of processes.
 */
export async function testHost(openSecond?: (stateDir: string) => Promise<Engine>): Promise<TestHost> {
  const factory = await linuxFactory()
  const dataDir = join(factory.stateDir, 'server')
  await mkdir(dataDir)
  const open = async (change: Partial<ServerConfig> = {}): Promise<TestCore> => {
    const linux = await LinuxEngine.open({ dataDir: testDataDir, stateDir: factory.stateDir })
    const second = await openSecond?.(factory.stateDir)
    if (second instanceof VolumeEngine) linux.shareVolumes(second)
    const engine = second ? new EnginePair(linux, second) : linux
    const config = {
      ...loadConfig({ env: {}, dataDir }),
      minFreeMemoryBytes: 0,
      minFreeDiskBytes: 0,
      ...change,
    }
    const core = await openServer({
      config,
      engine,
      builder: linuxBuilder(linux, testDataDir),
      reserve: new SpaceReserve(dataDir),
      log: loudLog,
    })
    const key = core.access.list()[0] ?? core.access.create({ name: 'test', scopes: ['admin'] }).view
    const close = async () => {
      await core[Symbol.asyncDispose]()
      await engine[Symbol.asyncDispose]()
    }
    return {
      ...core,
      caller: { keyId: key.id, isAdmin: false },
      restart: async () => {
        await close()
        return open(change)
      },
      [Symbol.asyncDispose]: close,
    }
  }
  return { factory, open, cleanUp: () => factory.cleanUp() }
}

export function wanted(change: Partial<CreateSandbox> = {}): CreateSandbox {
  return {
    template: 'python',
    name: undefined,
    metadata: {},
    env: {},
    idleTimeoutMs: 0,
    storeAfterMs: 60_000,
    maxBackgroundMs: 86_400_000,
    wakeOnTimer: false,
    connections: { keepAsleepMs: 3_600_000, wakeOnData: false },
    atMemoryLimit: 'kill',
    checkpointEveryMs: 0,
    expires: undefined,
    ephemeral: false,
    network: { mode: 'public', allow: [] },
    secrets: [],
    limits: { memoryBytes: 1024 ** 3, cpus: 1, pids: 512, diskBytes: 10 * 1024 ** 3, files: 1_000_000 },
    volumes: [],
    ...change,
  }
}
