import { expect } from 'vitest'
import type { ServerProcess } from '../../server/server-process.ts'
import type { Known } from './known.ts'
import type { Model } from './model.ts'
import { NAMES } from './operations.ts'

const PATIENCE = { timeout: 60_000, interval: 500 }

/** All that was acknowledged is there, through any host. Pre: nothing disturbs the cluster, and nothing calls it. */
export async function requireWhole(model: Model): Promise<void> {
  for (const [index, known] of model.all.entries()) {
    const host = model.hosts[index % model.hosts.length]?.server as ServerProcess
    if (known.isDeleted) await model.requireGone(host, known)
    else if (known.mayBeDeleted) await requireThereOrGone(model, host, known)
    else await requireThere(model, host, known)
  }
  await requireNames(model)
  await model.jobs.requireFinished()
  await model.requireNoOverlap()
}

async function requireThere(model: Model, host: ServerProcess, known: Known): Promise<void> {
  const works = async () => (await model.increment(host, known)) ?? model.lastFailure
  await expect.poll(works, PATIENCE).toEqual(expect.any(Number))
  for (const { server } of model.hosts)
    await expect.poll(() => model.requireNamed(server, known), PATIENCE).toBe(true)
  for (const kept of known.kept) {
    if (!kept.isShared) continue
    const rolls = async () => (await model.rollback(host, known, kept)) || model.lastFailure
    await expect.poll(rolls, PATIENCE).toBe(true)
  }
}

/** A deletion without an answer has happened or not. */
async function requireThereOrGone(model: Model, host: ServerProcess, known: Known): Promise<void> {
  const isSettled = async () => {
    if ((await model.increment(host, known)) !== undefined) return true
    return model.lastFailure.includes(`${known.id}/run: 404`) || model.lastFailure
  }
  await expect.poll(isSettled, PATIENCE).toBe(true)
}

/** Every host lists the same names, none of them twice, and those that no sandbox has can be given. */
async function requireNames(model: Model): Promise<void> {
  const namesAt = async (host: ServerProcess) => {
    const listed = await model.ask(host, '/v1/sandboxes?limit=1000')
    return listed?.items.flatMap(({ name }: { name?: string }) => name ?? []).sort()
  }
  const [one, ...others] = model.hosts.map(({ server }) => server) as [ServerProcess, ...ServerProcess[]]
  for (const other of others)
    await expect.poll(async () => [await namesAt(other)], PATIENCE).toEqual([await namesAt(one)])
  const names: string[] = await namesAt(one)
  expect(new Set(names).size, `seed ${model.seed}: ${names}`).toBe(names.length)
  for (const name of NAMES.filter((free) => !names.includes(free))) {
    const make = async () => {
      const made = await model.ask(one, '/v1/sandboxes', { json: { name, metadata: { world: 'model' } } })
      return made?.name ?? model.lastFailure
    }
    await expect.poll(make, PATIENCE).toBe(name)
    await model.ask(one, `/v1/sandboxes/${name}`, { method: 'DELETE' })
  }
}
