import { expect, it } from 'vitest'
import { DepotUpkeep } from './depot-upkeep.ts'

it('fetches what did not arrive again, once at a time', async () => {
  let tries = 0
  const getList = async () => {
    tries += 1
    if (tries < 3) throw new Error('the depot does not answer')
    return { parts: [] }
  }
  const resumed: string[] = []
  using upkeep = new DepotUpkeep({
    depot: { getList },
    transfer: {
      interrupted: async () => (resumed.length > 0 ? [] : [{ id: 'sn-1', origin: 'list' }]),
      resume: async (id: string) => void resumed.push(id),
    },
    log: { error: () => {} },
    resumeMs: 10,
  } as never)
  await Promise.all([upkeep.resumeArrivals(), upkeep.resumeArrivals()])
  expect(tries).toBe(1)
  await expect.poll(() => resumed).toEqual(['sn-1'])
})
