const FORK_AT_ONCE = 20
/** What each sandbox changes by itself. */
export const CHANGE_BYTES = 100_000

/**
 * Forks `count` sandboxes of one parent; each changes something of its own and sleeps, or stays awake without a `tier`.
 * Numbers start at `from`.
 */
export async function makeSleeping(client, { count, tier, from = 0 }) {
  const parent = await client.create()
  await client.run(parent.id, 'import os')
  const made = []
  while (made.length < count) {
    const forked = await client.call('POST', `/v1/sandboxes/${parent.id}/fork`, {
      count: Math.min(FORK_AT_ONCE, count - made.length),
    })
    const change = async ({ id }, index) => {
      const number = from + made.length + index
      await client.run(id, `x = ${number}; own = os.urandom(${CHANGE_BYTES})`)
      if (tier !== undefined) await client.standby(id, tier)
      return { id, number }
    }
    made.push(...(await Promise.all(forked.children.map(change))))
    if (made.length % 200 === 0) console.error(`${from + made.length} sandboxes`)
  }
  await client.remove(parent.id)
  return made
}
