import { Sandbox, type SandboxInfo } from 'dormouse'
import { client } from '../client.ts'
import { confirmed } from '../parts/confirm.tsx'
import { navigate } from '../router.tsx'
import { attempt, tell } from '../state/toasts.ts'
import { duration } from '../words.ts'

export function titleOf({ id, name }: Pick<SandboxInfo, 'id' | 'name'>): string {
  return name ?? id
}

const of = (info: SandboxInfo) => new Sandbox(client, info)

export async function wake(infos: readonly SandboxInfo[]): Promise<void> {
  await forAll(infos, 'Wake', async (info) => {
    const began = performance.now()
    await of(info).resume()
    tell(`${titleOf(info)} answered after ${duration(performance.now() - began)}`)
  })
}

export async function sleep(infos: readonly SandboxInfo[], tier?: 'frozen' | 'stored'): Promise<void> {
  await forAll(infos, 'Sleep', (info) => of(info).idle(tier === undefined ? {} : { tier }))
}

export async function fork(info: SandboxInfo, count = 1): Promise<void> {
  await attempt(`Fork of ${titleOf(info)}`, async () => {
    const began = performance.now()
    const children = (await client.http.json({
      method: 'POST',
      path: `/v1/sandboxes/${info.id}/fork`,
      json: { count },
    })) as { children: SandboxInfo[] }
    tell(`Forked ${titleOf(info)} in ${duration(performance.now() - began)}`)
    const [child] = children.children
    if (count === 1 && child !== undefined) navigate(`/sandboxes/${child.id}`)
  })
}

export async function snapshot(info: SandboxInfo, name?: string): Promise<void> {
  await attempt(`Snapshot of ${titleOf(info)}`, async () => {
    const { id } = await of(info).snapshot(name === undefined ? {} : { name })
    tell(`Saved ${titleOf(info)} as ${name ?? id}`)
  })
}

/** Asks first. Returns whether all are deleted. */
export async function remove(infos: readonly SandboxInfo[]): Promise<boolean> {
  const [first] = infos
  if (first === undefined) return false
  const what = infos.length === 1 ? titleOf(first) : `${infos.length} sandboxes`
  const text = 'Their processes, memory and files are gone. Snapshots that you took and volumes stay.'
  if (!(await confirmed(`Delete ${what}?`, text, 'Delete'))) return false
  return forAll(infos, 'Delete', (info) => of(info).delete())
}

/** A few at a time. A failure becomes a message and does not stop the others. */
async function forAll(
  infos: readonly SandboxInfo[],
  what: string,
  work: (info: SandboxInfo) => Promise<unknown>,
): Promise<boolean> {
  const waiting = [...infos]
  let isDone = true
  const lane = async () => {
    for (let info = waiting.shift(); info !== undefined; info = waiting.shift()) {
      const next = info
      isDone = (await attempt(`${what} ${titleOf(next)}`, () => work(next))) && isDone
    }
  }
  await Promise.all([lane(), lane(), lane(), lane()])
  return isDone
}
