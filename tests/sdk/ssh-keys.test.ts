import { expect, test } from 'vitest'
import { useSdkServer } from './sdk-server.ts'

const server = useSdkServer()
const line = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ3tqsj9Ps9EBDl7k1QzTUxHm6HYgL5eFvbi1xmIbhkO'

test('an SSH key is added, found, refused twice, and deleted', async () => {
  const { sshKeys } = server.client
  const key = await sshKeys.add({ name: 'laptop', publicKey: `${line} ana@laptop` })
  expect(key).toMatchObject({ name: 'laptop', type: 'ssh-ed25519', publicKey: line, confirmed: false })
  expect(key.confirmAs).toMatch(/^confirm\+/)
  expect(await sshKeys.get('laptop')).toEqual(key)
  expect(await sshKeys.list().all()).toEqual([key])
  await expect(sshKeys.add({ name: 'again', publicKey: line })).rejects.toMatchObject({
    code: 'already_exists',
  })
  await sshKeys.delete('laptop')
  expect(await sshKeys.list().all()).toEqual([])
  await expect(sshKeys.delete('laptop')).rejects.toMatchObject({ code: 'not_found' })
})
