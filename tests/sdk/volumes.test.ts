import { expect, test } from 'vitest'
import { useSdkServer } from './sdk-server.ts'

const server = useSdkServer()

test('a volume is shared by sandboxes, outlives them, and is deleted when nobody mounts it', async () => {
  const { volumes } = server.client
  await volumes.create({ name: 'shared' })
  const mounts = { volumes: [{ volume: 'shared', path: '/data' }] }
  const [one, two] = await Promise.all([server.create(mounts), server.create(mounts)])
  await one.files.write('/data/note', 'hello')
  expect(await two.files.read('/data/note')).toBe('hello')
  expect([...(await volumes.get('shared')).usedBy].sort()).toEqual([one.id, two.id].sort())
  await expect(volumes.delete('shared')).rejects.toMatchObject({ code: 'in_use' })
  await Promise.all([one.delete(), two.delete()])
  const three = await server.create(mounts)
  expect(await three.files.read('/data/note')).toBe('hello')
  await three.delete()
  await volumes.delete('shared')
  expect(await volumes.list().all()).toEqual([])
})
