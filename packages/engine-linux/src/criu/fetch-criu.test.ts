import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type FetchCriu, fetchCriu } from './fetch-criu.ts'
import { type CriuPin, parseCriuPin } from './pins.ts'

// A mirror of two packages on this disk: what the real one offers changes from week to week.
const architecture = execFileSync('dpkg', ['--print-architecture'], { encoding: 'utf8' }).trim()
const DAY_SECONDS = 24 * 3600
let directory: string
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'dormouse-criu-'))
})
afterEach(() => rmSync(directory, { recursive: true }))

function makePackage(name: string, version: string): string {
  const root = join(directory, 'packages', `${name}-${version}`)
  mkdirSync(join(root, 'DEBIAN'), { recursive: true })
  const fields = {
    Package: name,
    Version: version,
    Architecture: architecture,
    Maintainer: 'a <a@example.org>',
  }
  const control = Object.entries({ ...fields, Description: 'for a test' })
  writeFileSync(join(root, 'DEBIAN/control'), control.map(([key, value]) => `${key}: ${value}\n`).join(''))
  writeFileSync(join(root, name), version)
  const mirror = join(directory, 'mirror')
  mkdirSync(mirror, { recursive: true })
  const file = join(mirror, `${name}_${version}_${architecture}.deb`)
  execFileSync('dpkg-deb', ['--build', '--root-owner-group', root, file], { stdio: 'ignore' })
  return file
}

const sha256 = (data: string | Buffer) => createHash('sha256').update(data).digest('hex')

/** Writes the index of the mirror as it is now, and a Release file of that age. */
function publish(files: readonly string[], { ageSeconds = 0 } = {}): void {
  const stanzas = files.map((file) => {
    const control = execFileSync('dpkg-deb', ['--field', file], { encoding: 'utf8' })
    const size = statSync(file).size
    return `${control}Filename: ./${file.split('/').at(-1)}\nSize: ${size}\nSHA256: ${sha256(readFileSync(file))}\n`
  })
  const index = stanzas.join('\n')
  writeFileSync(join(directory, 'mirror/Packages'), index)
  const date = new Date(Date.now() - ageSeconds * 1000)
  const release = [
    `Date: ${date.toUTCString()}`,
    `Valid-Until: ${new Date(date.getTime() + 7 * DAY_SECONDS * 1000).toUTCString()}`,
    'SHA256:',
    ` ${sha256(index)} ${index.length} Packages`,
  ]
  writeFileSync(join(directory, 'mirror/Release'), `${release.join('\n')}\n`)
}

function fetch(accepted: readonly CriuPin[], more: Partial<FetchCriu> = {}) {
  const workDir = mkdtempSync(join(directory, 'work-'))
  const source = `deb [trusted=yes] copy:${directory}/mirror ./`
  return fetchCriu({ source, minValidSeconds: 60 * DAY_SECONDS, architecture, accepted, workDir, ...more })
}

const pinOf = (version: string, file: string): CriuPin => ({ version, sha256: sha256(readFileSync(file)) })

describe('fetchCriu', () => {
  it('takes the accepted build, not the newest, and its libraries as the mirror has them', async () => {
    const files = [makePackage('criu', '9.1-1'), makePackage('criu', '9.2-1'), makePackage('libc6', '3-1')]
    publish(files)
    const fetched = await fetch([pinOf('9.1-1', files[0]!)])
    expect(fetched.map(({ name, version }) => `${name} ${version}`)).toEqual(['criu 9.1-1', 'libc6 3-1'])
    expect(fetched[0]?.sha256).toBe(sha256(readFileSync(files[0]!)))
  })

  it('refuses the same version with another content, and names both', async () => {
    const files = [makePackage('criu', '9.1-1'), makePackage('libc6', '3-1')]
    publish(files)
    const pin = { version: '9.1-1', sha256: 'ab'.repeat(32) }
    const error = await fetch([pin]).catch((reason) => reason)
    expect(error).toMatchObject({ code: 'setup_failed', hint: expect.stringContaining('DORMOUSE_CRIU_PIN') })
    expect(error.message).toContain(pin.sha256)
    expect(error.message).toContain(sha256(readFileSync(files[0]!)))
  })

  it('refuses what a mirror serves in the place of what its index says', async () => {
    const files = [makePackage('criu', '9.1-1'), makePackage('libc6', '3-1')]
    publish(files)
    const pin = pinOf('9.1-1', files[0]!)
    writeFileSync(files[0]!, readFileSync(files[1]!))
    await expect(fetch([pin])).rejects.toMatchObject({ code: 'setup_failed' })
  })

  it('says what is offered when the mirror has moved on, and takes the .deb of the operator instead', async () => {
    const old = makePackage('criu', '9.1-1')
    const files = [makePackage('criu', '9.2-1'), makePackage('libc6', '3-1')]
    publish(files)
    await expect(fetch([pinOf('9.1-1', old)])).rejects.toThrow(/offers CRIU 9\.2-1 .* accepted .* 9\.1-1/)
    const fetched = await fetch([pinOf('9.1-1', old)], { deb: old })
    expect(fetched.map(({ name, version }) => `${name} ${version}`)).toEqual(['libc6 3-1', 'criu 9.1-1'])
    await expect(fetch([pinOf('9.2-1', files[0]!)], { deb: old })).rejects.toThrow(/accepted/)
    await expect(fetch([pinOf('9.1-1', old)], { deb: files[1]! })).rejects.toThrow(/not criu/)
  })

  it('has no accepted build for an architecture that the repository does not know', async () => {
    publish([makePackage('criu', '9.1-1'), makePackage('libc6', '3-1')])
    await expect(fetch([])).rejects.toThrow(`No build of CRIU is accepted for ${architecture}`)
  })

  it('takes a mirror that lags behind, but not one that is older than the bound', async () => {
    const files = [makePackage('criu', '9.1-1'), makePackage('libc6', '3-1')]
    publish(files, { ageSeconds: 30 * DAY_SECONDS })
    expect(await fetch([pinOf('9.1-1', files[0]!)])).toHaveLength(2)
    publish(files, { ageSeconds: 61 * DAY_SECONDS })
    const error = await fetch([pinOf('9.1-1', files[0]!)]).catch((reason) => reason)
    expect(error.details.output.join('\n')).toMatch(/expired/)
  })
})

it.each(['4.2', '4.2:xyz', `:${'0'.repeat(64)}`, `4.2 1:${'0'.repeat(64)}`])(
  'parseCriuPin refuses %j',
  (text) => {
    expect(() => parseCriuPin(text)).toThrow(/VERSION:SHA256/)
  },
)

it('parseCriuPin reads a version with its digest', () => {
  const digest = '0a'.repeat(32)
  expect(parseCriuPin(`4.3~rc1-1+b1:${digest}`)).toEqual({ version: '4.3~rc1-1+b1', sha256: digest })
})
