import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { TestCluster } from './test-cluster.ts'

let cluster: TestCluster

beforeAll(async () => {
  cluster = await TestCluster.start({ hosts: 2 })
})

afterAll(() => cluster.cleanUp())

describe('two hosts', () => {
  it('accept the keys of each other', async () => {
    const [one, two] = cluster.hosts
    await expect.poll(async () => (await two.call('/v1/sandboxes', { key: one.key })).status).toBe(200)
    await expect.poll(async () => (await one.call('/v1/sandboxes', { key: two.key })).status).toBe(200)
  })

  it('answer for a sandbox of the other, by id and by name', async () => {
    const [one, two] = cluster.hosts
    const { id } = await one.ok('/v1/sandboxes', { json: { name: 'here' } })
    await one.run(id, 'x = 40')
    const run = await two.fetch(`/v1/sandboxes/${id}/run`, { json: { code: 'print(x + 2)' }, key: one.key })
    expect(await run.json()).toMatchObject({ stdout: '42\n' })
    expect(run.headers.get('dormouse-host')).toBe(one.url)
    expect(await two.ok('/v1/sandboxes/here', { key: one.key })).toMatchObject({ id, state: 'running' })
  })
})

describe('a lost host', () => {
  it('leaves its replicated sandboxes to another host', async () => {
    const [one, two] = cluster.hosts
    const { id } = await one.ok('/v1/sandboxes', { json: {} })
    await one.run(id, 'value = 7; open("/root/file", "w").write("kept")')
    await one.ok(`/v1/sandboxes/${id}/standby`, { json: {} })
    const key = one.key
    await new Promise((resolve) => setTimeout(resolve, 4000))
    await one.kill()
    await expect
      .poll(
        async () =>
          (
            await two.call(`/v1/sandboxes/${id}/run`, {
              json: { code: 'print(value, open("/root/file").read())' },
              key,
            })
          ).body,
        { timeout: 30000, interval: 500 },
      )
      .toMatchObject({ stdout: '7 kept\n' })
  })
})
