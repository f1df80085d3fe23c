import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { fetchWheel } from './fetch-wheel.ts'
import type { WheelPin } from './wheel-pins.ts'

const FILE = 'greeting_wheel-2.0-cp310-abi3-manylinux_2_17_x86_64.manylinux2014_x86_64.whl'
const MAKE_WHEEL = `
import sys, zipfile
with zipfile.ZipFile(sys.argv[1], "w") as wheel:
    info = "greeting_wheel-2.0.dist-info/"
    wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\\nName: greeting-wheel\\nVersion: 2.0\\n")
    wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\\nGenerator: t\\nRoot-Is-Purelib: false\\nTag: cp310-abi3-manylinux2014_x86_64\\n")
    wheel.writestr(info + "RECORD", "")
`

/** The index of the host, as its own pip is configured to use it. */
let index: string
let dataDir: string
let pin: WheelPin
beforeAll(() => {
  index = mkdtempSync(join(tmpdir(), 'dormouse-wheels-'))
  execFileSync('/usr/bin/python3', ['-I', '-c', MAKE_WHEEL, join(index, FILE)])
  const sha256 = createHash('sha256')
    .update(readFileSync(join(index, FILE)))
    .digest('hex')
  pin = { name: 'greeting-wheel', version: '2.0', file: FILE, platform: 'manylinux2014_x86_64', sha256 }
})
afterAll(() => rmSync(index, { recursive: true }))
beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), 'dormouse-pip-'))
  vi.stubEnv('PIP_NO_INDEX', '1')
  vi.stubEnv('PIP_FIND_LINKS', index)
})
afterEach(() => {
  vi.unstubAllEnvs()
  rmSync(dataDir, { recursive: true })
})

describe('fetchWheel', () => {
  test('fetches a wheel for the Python of the template with the pip of the host, once', async () => {
    const file = await fetchWheel({ dataDir, pin })
    expect(readFileSync(file)).toEqual(readFileSync(join(index, FILE)))
    vi.stubEnv('PIP_FIND_LINKS', '/nowhere')
    expect(await fetchWheel({ dataDir, pin })).toBe(file)
  })

  test('refuses another file than the accepted one, and keeps nothing of it', async () => {
    const other = { ...pin, sha256: '0'.repeat(64) }
    await expect(fetchWheel({ dataDir, pin: other })).rejects.toMatchObject({
      code: 'setup_failed',
      message: expect.stringMatching(/^greeting-wheel==2\.0 is not the accepted archive: it is sha256-/),
    })
    expect(await readdir(join(dataDir, 'tools/pip'))).toEqual([])
  })

  test('says what pip said when no index has it', async () => {
    await expect(fetchWheel({ dataDir, pin: { ...pin, version: '3.0' } })).rejects.toMatchObject({
      code: 'setup_failed',
      message: expect.stringMatching(/^pip could not fetch greeting-wheel==3\.0: .*No matching distribution/),
    })
  })
})
