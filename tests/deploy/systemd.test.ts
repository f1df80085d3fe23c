import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { Layout } from '../../packages/engine-linux/src/host/layout.ts'
import { freePort } from '../cluster/nats-server.ts'
import { makeSetUpDirectory } from '../set-up-directory.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))

/** A setting of the unit, as systemd reads it. */
function settingOf(unit: string, name: string): string {
  const found = new RegExp(`^${name}=(.*)$`, 'm').exec(unit)?.[1]
  if (found === undefined) throw new Error(`the unit has no ${name}`)
  return found
}

let directory: string
let dataDir: string
let unit: string
let url: string
let running: ChildProcess | undefined

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'dormouse-unit-'))
  // Programs run below it with the ids of sandboxes.
  await chmod(directory, 0o711)
  dataDir = await makeSetUpDirectory(join(directory, 'data'))
  const port = await freePort()
  url = `http://127.0.0.1:${port}`
  // What differs here: where the clone is, the port, and the file with the environment.
  unit = (await readFile(join(root, 'deploy/dormouse.service'), 'utf8'))
    .replaceAll('/opt/dormouse/', root)
    .replace('--port 7070', `--port ${port}`)
    .replace('/etc/dormouse/environment', join(directory, 'environment'))
  await writeFile(join(directory, 'environment'), `DORMOUSE_DATA=${dataDir}\nDORMOUSE_SSH=false\n`)
})
afterEach(async () => {
  await stop('SIGTERM')
  await rm(new Layout(dataDir, dataDir).runDir, { recursive: true, force: true })
  await rm(directory, { recursive: true, force: true })
})

/** As systemd starts it: its command line, limits and environment, and nothing else. */
async function start(): Promise<void> {
  const file = settingOf(unit, 'EnvironmentFile').replace(/^-/, '')
  const lines = (await readFile(file, 'utf8')).trim().split('\n')
  const env = { PATH: process.env['PATH'] ?? '', ...Object.fromEntries(lines.map((line) => line.split('='))) }
  const limits = [`--nofile=${await openFiles()}`, `--core=${settingOf(unit, 'LimitCORE')}`]
  const child = spawn('prlimit', [...limits, '--', ...settingOf(unit, 'ExecStart').split(' ')], {
    ...{ env, cwd: '/', detached: true, stdio: ['ignore', 'ignore', 'inherit'] },
  })
  running = child
  const ended = once(child, 'exit').then(([status]) => {
    throw new Error(`the server ended with ${status}`)
  })
  const answers = expect
    .poll(async () => (await fetch(`${url}/healthz`).catch(() => undefined))?.status, { timeout: 60_000 })
    .toBe(200)
  await Promise.race([answers, ended])
  ended.catch(() => {})
}

/** What the unit says. In a container without the right to raise limits, what there is. */
async function openFiles(): Promise<number> {
  const hard = /^Max open files\s+\S+\s+(\d+)/m.exec(await readFile('/proc/self/limits', 'utf8'))?.[1]
  return Math.min(Number(settingOf(unit, 'LimitNOFILE')), Number(hard))
}

/** `KillMode=process`: the signal is for the server only. */
async function stop(signal: NodeJS.Signals): Promise<number | null> {
  expect(settingOf(unit, 'KillMode')).toBe('process')
  const child = running
  running = undefined
  if (child === undefined || child.exitCode !== null) return null
  const exited = once(child, 'exit')
  child.kill(signal)
  const [status] = await exited
  return status
}

test('the server of the unit starts with its limits, and its sandboxes outlive a crash and a restart', async () => {
  await start()
  const { key } = JSON.parse(await readFile(join(dataDir, 'client.json'), 'utf8'))
  const call = async (path: string, json?: object) => {
    const response = await fetch(`${url}/v1/${path}`, {
      ...(json && { method: 'POST', body: JSON.stringify(json) }),
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    })
    return await response.json()
  }
  const { id } = await call('sandboxes', {})
  const print = async (code: string) => (await call(`sandboxes/${id}/run`, { code })).stdout
  await print('value = 42')

  await stop('SIGKILL')
  await start()
  expect(await call(`sandboxes/${id}`)).toMatchObject({ state: 'running' })
  expect(await print('print(value)')).toBe('42\n')

  expect(await stop(settingOf(unit, 'KillSignal') as NodeJS.Signals)).toBe(0)
  await start()
  expect(await call(`sandboxes/${id}`)).toMatchObject({ state: 'standby' })
  expect(await print('print(value)')).toBe('42\n')
  await fetch(`${url}/v1/sandboxes/${id}`, { method: 'DELETE', headers: { authorization: `Bearer ${key}` } })
}, 120_000)
