import { type ChildProcess, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { findHierarchies } from '../../packages/engine-linux/src/cgroup/find-hierarchies.ts'
import { linuxFactory } from '../engine-linux/linux-factory.ts'
import { serverBundle } from '../server/bundle-server.ts'
import { testDataDir } from '../test-data-dir.ts'

const factory = await linuxFactory()
const program = serverBundle('serve')
/** Programs of the server inherit it. */
const mark = `DORMOUSE_TEST_MARK=${randomUUID()}`
const killed = new Set<number>()

beforeAll(() =>
  writeFile(
    join(factory.stateDir, 'config.json'),
    JSON.stringify({ minFreeMemoryBytes: 0, minFreeDiskBytes: 0, ssh: { enabled: false }, logLevel: 'warn' }),
  ),
)
afterAll(() => factory.cleanUp())

function start(): ChildProcess {
  const [name = '', value = ''] = mark.split('=')
  const child = spawn(process.execPath, [program, factory.stateDir, testDataDir, '--port', '0'], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, [name]: value },
  })
  killed.add(child.pid as number)
  return child
}

async function end(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = once(child, 'exit')
  child.kill(signal)
  await ended
}

/** Resolves when it is ready, with its address. */
async function untilReady(child: ChildProcess): Promise<string> {
  let url = ''
  for await (const line of createInterface({ input: child.stdout as NonNullable<typeof child.stdout> })) {
    url = /^\s+address\s+(\S+)$/.exec(line)?.[1] ?? url
    if (line.startsWith('Ctrl-C')) break
  }
  return url
}

/** A server that becomes ready and is stopped in order: what it leaves is left for good. */
async function startAndStop(use?: (url: string) => Promise<void>): Promise<void> {
  const child = start()
  const url = await untilReady(child)
  await use?.(url)
  await end(child, 'SIGTERM')
}

async function call(url: string, method: string, body?: object) {
  const { key } = JSON.parse(readFileSync(join(factory.stateDir, 'client.json'), 'utf8'))
  const response = await fetch(url, {
    method,
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    ...(body && { body: JSON.stringify(body) }),
  })
  expect(response.status).toBeLessThan(300)
}

interface Marked {
  readonly pid: number
  readonly state: string
}

/** Processes that a server of this test has started, and their children. */
function markedProcesses(): Marked[] {
  return readdirSync('/proc').flatMap((name) => {
    if (!/^\d+$/.test(name)) return []
    try {
      if (!readFileSync(`/proc/${name}/environ`, 'utf8').split('\0').includes(mark)) return []
      const stat = readFileSync(`/proc/${name}/stat`, 'utf8')
      return [{ pid: Number(name), state: stat[stat.lastIndexOf(')') + 2] ?? '' }]
    } catch {
      return []
    }
  })
}

/** Everything that outlasts the servers of this test. */
async function leftBehind(): Promise<string[]> {
  const { v1, v2 } = await findHierarchies()
  const mounts = new Set([...v1.values(), ...(v2 === undefined ? [] : [v2.path])])
  const directories = await Promise.all(
    [testDataDir, join(testDataDir, 'tools', 'guest'), '/dev/shm'].map(async (parent) =>
      (await readdir(parent))
        .filter((name) => killed.has(Number(/-(\d+)-\d+-[0-9a-f]{12}$/.exec(name)?.[1])))
        .map((name) => join(parent, name)),
    ),
  )
  const cgroups = await Promise.all(
    [...mounts].map(async (mount) =>
      (await readdir(join(mount, factory.layout.cgroupName)).catch(() => undefined)) === undefined
        ? []
        : [join(mount, factory.layout.cgroupName)],
    ),
  )
  const processes = markedProcesses().map(({ pid, state }) => {
    const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ')
    return `${pid} ${state} ${command}`
  })
  return [...processes, ...directories.flat(), ...cgroups.flat(), ...(await factory.traces())]
}

describe('after kill -9 of a server, the next one that starts and stops leaves nothing', () => {
  test.each([60, 150, 240, 300, 360, 430, 550])('%i ms into its start', async (delayMs) => {
    const child = start()
    await sleep(delayMs)
    await end(child, 'SIGKILL')
    await startAndStop()
    await expect.poll(leftBehind).toEqual([])
  })

  test('while CRIU tries ptrace on children that it has stopped', async () => {
    let kills = 0
    // The loop must end with the test: it would start servers for ever.
    const deadline = Date.now() + 80_000
    while (kills < 3 && Date.now() < deadline) {
      const child = start()
      const isUp = () => child.exitCode === null
      let ready = false
      createInterface({ input: child.stdout as NonNullable<typeof child.stdout> }).on('line', (line) => {
        ready ||= line.startsWith('Ctrl-C')
      })
      const isCaught = () => markedProcesses().some(({ state }) => state === 't' || state === 'T')
      while (isUp() && !ready && !isCaught()) await turn()
      if (isUp() && !ready) kills += 1
      await end(child, 'SIGKILL')
    }
    // A busy machine sees the moment less often.
    expect(kills).toBeGreaterThan(0)
    await startAndStop()
    await expect.poll(leftBehind).toEqual([])
  })

  test('with a sandbox, which the next one deletes', async () => {
    const child = start()
    await call(`${await untilReady(child)}/v1/sandboxes`, 'POST', { name: 'one' })
    await end(child, 'SIGKILL')
    await startAndStop((url) => call(`${url}/v1/sandboxes/one`, 'DELETE'))
    await expect.poll(leftBehind).toEqual([])
  })

  test('while it examines the data directory', async () => {
    const stat = readFileSync('/proc/self/stat', 'utf8')
    const startTime = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19])
    // As a server that was killed with the number of this process, in an earlier life of it.
    const name = `.doctor-${process.pid}-${startTime - 1}-0123456789ab`
    await mkdir(join(testDataDir, name))
    await writeFile(join(testDataDir, name, 'from'), 'x')
    await startAndStop()
    expect(await readdir(testDataDir)).not.toContain(name)
  })
})
