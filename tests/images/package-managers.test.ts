import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { World } from '../network/world/world.ts'
import { buildTemplate } from '../server/build-template.ts'
import { ServerProcess } from '../server/server-process.ts'
import { debianLayers } from './debian-image.ts'
import { describeHostPython, nodeLayer, pythonLayer } from './host-programs.ts'
import { makeLayer, writeLayout } from './make-image.ts'
import { makePackages } from './make-packages.ts'
import { busyboxLayer, run } from './test-images.ts'

/** Every template is started once, which takes long on a busy machine. */
const MINUTES = 300_000
vi.setConfig({ testTimeout: MINUTES, hookTimeout: MINUTES })

const INDEX = 'http://packages.example:8081'
const ENV = { Env: ['PATH=/usr/local/bin:/bin', 'HOME=/root'] }
/** Where a program is started that has no shell of its own. */
const ROOT = makeLayer([{ path: 'root' }, { path: 'tmp', mode: 0o1777 }])

let scratch: string
let image: string
beforeAll(() => {
  scratch = mkdtempSync(join(tmpdir(), 'dormouse-packages-'))
  const layers = [busyboxLayer, ROOT, pythonLayer(describeHostPython()), nodeLayer()]
  writeLayout(join(scratch, 'layout'), layers, ENV, { compression: 'zstd' })
  image = `oci:${join(scratch, 'layout')}`
})
afterAll(() => {
  if (scratch !== undefined) rmSync(scratch, { recursive: true })
})

describe('in an image of its own, with an index that the policy allows', () => {
  let world: World
  let server: ServerProcess
  let id: string
  beforeAll(async () => {
    world = await World.make({ builds: { atOnce: 2, memoryBytes: 1024 ** 3 } })
    server = world.server
    await world.say({ 'packages.example': { A: [['11.22.33.44']] } })
    await world.startOutside('package-index.mjs', '8081', ...makePackages(scratch))
    const built = await buildTemplate(server, { name: 'packages', image })
    expect(built.error).toBeUndefined()
    const network = { mode: 'allow', allow: ['packages.example:8081'] }
    id = (await server.ok('/v1/sandboxes', { json: { template: 'packages', network } })).id
  })
  afterAll(() => world?.[Symbol.asyncDispose]())
  const sh = (code: string, language = 'bash') => run(server, { id, key: server.key, language }, code)

  test('pip installs a package, which the Python context of the image imports', async () => {
    const pip = `python3 -m pip install --index-url ${INDEX}/simple/ --trusted-host packages.example greeting-wheel`
    const { exitCode, stdout, stderr } = await sh(pip)
    expect(exitCode, stdout + stderr).toBe(0)
    expect((await sh('import greeting_wheel; print(greeting_wheel.greeting)', 'python')).stdout).toBe(
      'hello from a wheel\n',
    )
  })

  test('npm installs a package, which the JavaScript context imports', async () => {
    const npm = `mkdir -p /root/app && cd /root/app && npm install --registry ${INDEX} --no-audit --no-fund greeting-module`
    const { exitCode, stdout, stderr } = await sh(npm)
    expect(exitCode, stdout + stderr).toBe(0)
    await server.ok(`/v1/sandboxes/${id}/contexts`, {
      json: { name: 'app', language: 'javascript', cwd: '/root/app' },
    })
    const json = { context: 'app', code: 'import { greeting } from "greeting-module"; console.log(greeting)' }
    expect(await server.ok(`/v1/sandboxes/${id}/run`, { json })).toMatchObject({
      stdout: 'hello from a module\n',
    })
  })

  test('a step of a build installs them, and reaches nothing else', async () => {
    const pip = `python3 -m pip install --index-url ${INDEX}/simple/ --trusted-host packages.example greeting-wheel`
    const elsewhere =
      'python3 -c "import urllib.request; urllib.request.urlopen(\'http://web.example\', timeout=5)"'
    const dockerfile = `FROM ${image}\nRUN ${pip}\nRUN ! ${elsewhere}\n`
    const network = { mode: 'allow', allow: ['packages.example:8081'] }
    const built = await buildTemplate(server, { name: 'installed', dockerfile, network })
    expect(built.error).toBeUndefined()
    const json = { template: 'installed', code: 'import greeting_wheel; print(greeting_wheel.greeting)' }
    expect((await server.ok('/v1/run', { json })).stdout).toBe('hello from a wheel\n')
  })

  test('a whole Debian installs a package in a build and sleeps with its programs', async () => {
    const layout = join(scratch, 'debian')
    writeLayout(layout, debianLayers(['passwd']), {}, { compression: 'zstd' })
    const dockerfile = `FROM oci:${layout}
RUN useradd --create-home --uid 1234 web
RUN <<EOF
set -e
mkdir -p /package/DEBIAN /package/usr/share/greeting
echo 'hello from a package' > /package/usr/share/greeting/text
printf '#!/bin/sh\\nchown web:web /usr/share/greeting/text\\n' > /package/DEBIAN/postinst
chmod 755 /package/DEBIAN/postinst
printf 'Package: greeting\\nVersion: 1.0\\nArchitecture: all\\nMaintainer: T <t@example.org>\\nDescription: t\\n' \
  > /package/DEBIAN/control
dpkg-deb --build /package /greeting.deb
dpkg --install /greeting.deb
EOF
USER web
WORKDIR /home/web
`
    const built = await buildTemplate(server, { name: 'debian', dockerfile })
    expect(built.error).toBeUndefined()
    const { id: debian } = await server.ok('/v1/sandboxes', { json: { template: 'debian' } })
    const say = async (code: string) => (await run(server, { id: debian, key: server.key }, code)).stdout
    const file = '/usr/share/greeting/text'
    expect(
      await say(`cat ${file}; stat -c %U ${file}; dpkg-query -W -f '\${Status}\n' greeting; id -un; pwd`),
    ).toBe('hello from a package\nweb\ninstall ok installed\nweb\n/home/web\n')
    const pid = (await say('sleep 1000 > /dev/null 2>&1 & echo $!')).trim()
    expect((await server.ok(`/v1/sandboxes/${debian}/why`)).copied ?? []).toEqual([])
    await server.ok(`/v1/sandboxes/${debian}/standby`, { json: { tier: 'stored' } })
    expect(await say(`cat /proc/${pid}/comm; perl -e 'print 6 * 7'`)).toBe('sleep\n42')
  })
})

// Skip: they need the internet, or the mirrors of this host; DORMOUSE_TEST_REGISTRIES=1 runs them.
describe.runIf(process.env['DORMOUSE_TEST_REGISTRIES'] === '1')('from the real registries', () => {
  let server: ServerProcess
  let id: string
  beforeAll(async () => {
    server = await ServerProcess.start({ builds: { atOnce: 2, memoryBytes: 1024 ** 3 } })
    expect((await buildTemplate(server, { name: 'packages', image })).error).toBeUndefined()
    id = (await server.ok('/v1/sandboxes', { json: { template: 'packages' } })).id
  })
  afterAll(() => server?.cleanUp())
  const sh = (code: string) => run(server, { id, key: server.key }, code)

  test('npm installs a package', async () => {
    const { stdout, stderr } = await sh(
      'mkdir -p /root/app && cd /root/app && npm install --no-audit --no-fund is-odd@3.0.1 && node -p "require(\'is-odd\')(3)"',
    )
    expect(stdout, stderr).toMatch(/true\n$/)
  })

  // Skip: hosts without an index of Python packages exist; DORMOUSE_TEST_PIP=1 says that this one has one.
  test.runIf(process.env['DORMOUSE_TEST_PIP'] === '1')('pip installs a package', async () => {
    const { stdout, stderr } = await sh(
      'python3 -m pip install --no-cache-dir six==1.17.0 && python3 -c "import six; print(six.__version__)"',
    )
    expect(stdout, stderr).toMatch(/1\.17\.0\n$/)
  })
})
