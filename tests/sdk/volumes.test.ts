import { expect, test } from 'vitest'
import { useSdkServer } from './sdk-server.ts'

const server = useSdkServer()

test('a volume is shared by sandboxes, outlives them, and is deleted when no sandbox mounts it', async () => {
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

test('a volume has a size that can be given and changed', async () => {
  const { volumes } = server.client
  expect(await volumes.create({ name: 'sized', sizeBytes: 2 ** 25 })).toMatchObject({ sizeBytes: 2 ** 25 })
  expect(await volumes.update('sized', { sizeBytes: 2 ** 26 })).toMatchObject({ sizeBytes: 2 ** 26 })
  expect(await volumes.get('sized')).toMatchObject({ sizeBytes: 2 ** 26, files: 0 })
  await expect(volumes.update('other', { sizeBytes: 2 ** 26 })).rejects.toMatchObject({ code: 'not_found' })
  await volumes.delete('sized')
})
