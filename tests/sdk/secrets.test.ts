import { expect, test } from 'vitest'
import { useSdkServer } from './sdk-server.ts'

const server = useSdkServer()

test('a secret is created, used, changed and deleted, and shows only its placeholder', async () => {
  const { secrets } = server.client
  const value = 'sk-live-0123456789'
  const made = await secrets.create({ name: 'API_KEY', value, domains: ['API.example.com'] })
  expect(made).toMatchObject({ name: 'API_KEY', domains: ['api.example.com'], usedBy: [] })
  const sandbox = await server.create({ secrets: ['API_KEY'] })
  expect(sandbox.info.secrets).toEqual(['API_KEY'])
  const { stdout } = await sandbox.runCode('import os; print(os.environ["API_KEY"])')
  expect(stdout).toBe(`${made.placeholder}\n`)
  const changed = await secrets.update('API_KEY', { domains: ['*.example.com'] })
  expect(changed).toMatchObject({ placeholder: made.placeholder, domains: ['*.example.com'] })
  expect(await secrets.get('API_KEY')).toMatchObject({ usedBy: [sandbox.id] })
  await expect(secrets.delete('API_KEY')).rejects.toMatchObject({ code: 'in_use' })
  expect((await sandbox.update({ secrets: [] })).secrets).toEqual([])
  await sandbox.update({ secrets: ['API_KEY'] })
  await secrets.delete('API_KEY', { force: true })
  expect(await secrets.list().all()).toEqual([])
  expect((await sandbox.refresh()).secrets).toEqual([])
  await expect(server.create({ secrets: ['API_KEY'] })).rejects.toMatchObject({ code: 'not_found' })
})
