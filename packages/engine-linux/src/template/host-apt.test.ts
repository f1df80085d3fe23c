import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, vi } from 'vitest'
import { findMirrors, minValidSeconds, readAptSettings, sourceLines } from './host-apt.ts'

it('the mirrors of a host are those of Debian itself, and not those that want a password', () => {
  const targets = [
    'Docker|Docker CE|https://packages.example/linux/debian/',
    'Debian|Debian|https://user:secret@closed.example/debian/',
    'Debian|Debian|http://mirror.example/debian/',
    'Debian|Debian|http://mirror.example/debian/',
    'Debian|Debian-Security|http://mirror.example/debian-security/',
    '',
  ]
  const mirrors = findMirrors(targets.join('\n'))
  expect(mirrors).toEqual({
    archive: 'http://mirror.example/debian/',
    security: 'http://mirror.example/debian-security/',
  })
  expect(sourceLines(mirrors, 'trixie').map((line) => line.replace(/\[.*?\] /, ''))).toEqual([
    'deb http://mirror.example/debian/ trixie main',
    'deb http://mirror.example/debian/ trixie-updates main',
    'deb http://mirror.example/debian-security/ trixie-security main',
  ])
  expect(sourceLines(mirrors, 'sid')).toHaveLength(1)
})

it('a mirror may lag behind by sixty days, or by more if the host says so', () => {
  const days = (count: number) => count * 24 * 3600
  expect(minValidSeconds([])).toBe(days(60))
  expect(minValidSeconds([`Acquire::Min-ValidTime "${days(7)}";`])).toBe(days(60))
  expect(minValidSeconds([`Acquire::Min-ValidTime "${days(365)}";`])).toBe(days(365))
})

it('a host without apt has no mirrors', () => {
  expect(sourceLines(findMirrors(''), 'trixie')).toEqual([])
})

it('a machine whose package lists were removed asks its sources, as in an image of a container', async () => {
  const mirror = await startMirror()
  const directory = await mkdtemp(join(tmpdir(), 'dormouse-apt-'))
  try {
    for (const name of ['lists/partial', 'cache/archives/partial', 'parts'])
      await mkdir(join(directory, name), { recursive: true })
    const at = (name: string) => join(directory, name)
    await writeFile(at('sources.list'), `deb [trusted=yes] ${mirror.url}/debian here main\n`)
    const settings = {
      ...{ 'Dir::State::lists': at('lists'), 'Dir::Cache': at('cache') },
      ...{ 'Dir::Etc::sourcelist': at('sources.list'), 'Dir::Etc::sourceparts': at('parts') },
      ...{ 'APT::Sandbox::User': 'root', 'Acquire::Languages': 'none' },
    }
    const lines = Object.entries(settings).map(([name, value]) => `${name} "${value}";\n`)
    await writeFile(at('apt.conf'), lines.join(''))
    vi.stubEnv('APT_CONFIG', at('apt.conf'))
    const { sources } = await readAptSettings({ suite: 'asked', workDir: directory })
    expect(sources[0]).toMatch(new RegExp(`${mirror.url}/debian/ asked main$`))
  } finally {
    vi.unstubAllEnvs()
    mirror.server.close()
    await rm(directory, { recursive: true, force: true })
  }
})

/** A mirror with a suite `here`, in which one package is listed, and a suite `asked`. */
async function startMirror() {
  const list = `Package: nothing\nVersion: 1\nArchitecture: all\nFilename: none.deb\nSize: 1\nSHA256: ${'0'.repeat(64)}\n\n`
  const sum = createHash('sha256').update(list).digest('hex')
  const release = [
    ...['Origin: Debian', 'Label: Debian', 'Suite: here', 'Codename: here', 'Components: main'],
    ...['Architectures: amd64 arm64', 'Date: Thu, 01 Jan 2026 00:00:00 UTC', 'SHA256:'],
    ...['amd64', 'arm64'].map((name) => ` ${sum} ${list.length} main/binary-${name}/Packages`),
    '',
  ].join('\n')
  const server = createServer(({ url = '' }, response) => {
    if (url.endsWith('/here/Release')) response.end(release)
    else if (/\/here\/main\/binary-\w+\/Packages$/.test(url)) response.end(list)
    else response.writeHead(url.endsWith('/asked/InRelease') ? 200 : 404).end()
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
}
