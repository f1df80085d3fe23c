import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Dormouse } from 'dormouse'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'

let dataDir: string
beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'dormouse-address-'))
  await writeFile(
    join(dataDir, 'client.json'),
    JSON.stringify({ url: 'http://127.0.0.1:7001', key: 'of-the-file' }),
  )
  for (const name of ['DORMOUSE_URL', 'DORMOUSE_API_KEY', 'DORMOUSE_DATA']) vi.stubEnv(name, '')
})
afterEach(async () => {
  vi.unstubAllEnvs()
  await rm(dataDir, { recursive: true })
})

const addressOf = async (options: ConstructorParameters<typeof Dormouse>[0]) => {
  const { url, apiKey } = await new Dormouse(options).http.address()
  return `${url} ${apiKey}`
}

describe('address and key', () => {
  test('come from the options, then the environment, then the file', async () => {
    expect(await addressOf({ dataDir })).toBe('http://127.0.0.1:7001 of-the-file')
    vi.stubEnv('DORMOUSE_DATA', dataDir)
    expect(await addressOf({})).toBe('http://127.0.0.1:7001 of-the-file')
    vi.stubEnv('DORMOUSE_URL', 'http://127.0.0.1:7002/')
    vi.stubEnv('DORMOUSE_API_KEY', 'of-the-environment')
    expect(await addressOf({})).toBe('http://127.0.0.1:7002 of-the-environment')
    expect(await addressOf({ url: 'https://a.example/base/', apiKey: 'k' })).toBe('https://a.example/base k')
  })

  test('of the file go only to the server that wrote it', async () => {
    expect(await addressOf({ dataDir, url: 'http://127.0.0.1:7001' })).toContain('of-the-file')
    await expect(addressOf({ dataDir, url: 'http://elsewhere.example' })).rejects.toMatchObject({
      code: 'unauthorized',
    })
  })

  test('that are missing or wrong throw an error', async () => {
    await expect(addressOf({ dataDir: join(dataDir, 'none') })).rejects.toMatchObject({
      code: 'unauthorized',
    })
    // Also without a key: the key of such an address cannot be found either.
    for (const apiKey of ['k', undefined])
      await expect(addressOf({ dataDir, url: 'ftp://x', apiKey })).rejects.toMatchObject({
        code: 'invalid_argument',
      })
    await writeFile(join(dataDir, 'client.json'), '{"url":')
    await expect(addressOf({ dataDir })).rejects.toMatchObject({ code: 'setup_failed' })
  })
})
