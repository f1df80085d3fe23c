import { existsSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import type { BurrowId } from '@dormouse/contracts'
import { afterEach, describe, expect, test } from 'vitest'
import { sendSignal } from '../send-signal.ts'
import { ServerProcess } from './server-process.ts'

let server: ServerProcess | undefined
const stopped = new Set<number>()

afterEach(async () => {
  for (const pid of stopped) sendSignal(pid, 'SIGCONT')
  stopped.clear()
  await server?.cleanUp()
  server = undefined
})

/** The roots of the process trees in all burrows. */
async function agents({ factory: { layout } }: ServerProcess): Promise<number[]> {
  const names = (await readdir(layout.burrowsDir)).filter((name) => name.startsWith('bw-')) as BurrowId[]
  const burrows = names.map((name) => layout.burrow(name)).filter(({ spareMark }) => !existsSync(spareMark))
  return Promise.all(
    burrows.map(async ({ pidFile }) => {
      const [first] = (await readFile(pidFile, 'utf8')).split(' ')
      const [agent] = (await readFile(`/proc/${first}/task/${first}/children`, 'utf8')).split(' ')
      return Number(agent)
    }),
  )
}

const create = async (on: ServerProcess, name: string) => {
  await on.ok('/v1/sandboxes', { json: { name, idleTimeoutMs: 0 } })
  await on.run(name, `x = "${name}"`)
}

describe('SIGTERM', () => {
  test('ends the process when its time is over, also while something cannot be saved, and the next start finds it', async () => {
    server = await ServerProcess.start({ shutdownTimeoutMs: 8_000 })
    await create(server, 'stuck')
    const [agent = 0] = await agents(server)
    await create(server, 'well')
    // It does not answer, so it cannot be saved.
    sendSignal(agent, 'SIGSTOP')
    stopped.add(agent)
    await server.stop()
    expect(server.lines.filter((line) => line.startsWith('Dormouse has ended')).at(-1)).toBe(
      'Dormouse has ended: 1 sandboxes put to standby; 1 could not be saved in time and keep running until the next start adopts them.',
    )
    sendSignal(agent, 'SIGCONT')
    stopped.clear()
    await server.begin()
    const found = await server.ok('/v1/sandboxes')
    const states = found.items.map(({ name, state, lostSince }: Record<string, string>) => [
      name,
      state,
      lostSince,
    ])
    expect(states.sort()).toEqual([
      ['stuck', 'running', undefined],
      ['well', 'standby', undefined],
    ])
    for (const name of ['stuck', 'well']) expect(await server.run(name, 'print(x)')).toBe(`${name}\n`)
    // Nothing stands in its way any more.
    await server.stop()
    await server.begin()
    expect((await server.ok('/v1/sandboxes/stuck')).state).toBe('standby')
    expect(await server.run('stuck', 'print(x)')).toBe('stuck\n')
  })

  test('with no time at all leaves everything to the next start', async () => {
    server = await ServerProcess.start({ shutdownTimeoutMs: 0 })
    for (const name of ['a', 'b', 'c', 'd', 'e', 'f']) await create(server, name)
    await server.stop()
    await server.begin()
    for (const name of ['a', 'b', 'c', 'd', 'e', 'f']) {
      expect((await server.ok(`/v1/sandboxes/${name}`)).lostSince).toBeUndefined()
      expect(await server.run(name, 'print(x)')).toBe(`${name}\n`)
    }
  })

  test('puts a sandbox to standby that is just waking', async () => {
    server = await ServerProcess.start({ restoresAtOnce: 1 })
    const names = ['a', 'b', 'c', 'd']
    for (const name of names) await create(server, name)
    for (const name of names) await server.ok(`/v1/sandboxes/${name}/standby`, { json: { tier: 'stored' } })
    const wakes = names.map((name) =>
      server?.call(`/v1/sandboxes/${name}/resume`, { json: {} }).catch(() => {}),
    )
    await server.stop()
    await Promise.all(wakes)
    await server.begin()
    for (const { state, lostSince } of (await server.ok('/v1/sandboxes')).items)
      expect({ state, lostSince }).toEqual({ state: 'standby', lostSince: undefined })
  })
})
