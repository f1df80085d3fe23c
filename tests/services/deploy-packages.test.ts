import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Dormouse } from 'dormouse'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { nodeLayer } from '../images/host-programs.ts'
import { makeLayer, writeLayout } from '../images/make-image.ts'
import { makePackages } from '../images/make-packages.ts'
import { busyboxLayer } from '../images/test-images.ts'
import { World } from '../network/world/world.ts'
import { buildTemplate } from '../server/build-template.ts'

/** Every template is started once, which takes long on a busy machine. */
const MINUTES = 300_000
vi.setConfig({ testTimeout: MINUTES, hookTimeout: MINUTES })

/** An address, because names of package registries are looked up as the host does. */
const HOST = '11.22.33.44'
const INDEX = `${HOST}:8081`
const PYTHON = `
import http.server, os, greeting_wheel
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(greeting_wheel.greeting.encode())
http.server.ThreadingHTTPServer(("", int(os.environ["PORT"])), Handler).serve_forever()
`
const JAVASCRIPT = `
const { greeting } = require('greeting-module')
require('node:http').createServer((_, response) => response.end(greeting)).listen(process.env.PORT)
`
const MANIFEST = { scripts: { start: 'node server.js' }, dependencies: { 'greeting-module': '^3.0.0' } }
const PYPROJECT = `[project]
name = "web"
version = "1"
dependencies = ["greeting-wheel @ http://${INDEX}/files/greeting_wheel-2.0-py3-none-any.whl"]
`

let scratch: string
let world: World
let client: Dormouse
beforeAll(async () => {
  scratch = mkdtempSync(join(tmpdir(), 'dormouse-projects-'))
  // The index stands for the package registries of the host: a build reaches nothing else.
  const builds = { atOnce: 2, memoryBytes: 1024 ** 3, builtIn: false }
  world = await World.make({ builds, network: { registries: [INDEX] } })
  await world.startOutside('package-index.mjs', '8081', ...makePackages(scratch))
  client = new Dormouse({ url: world.server.url, apiKey: world.server.key })
})
afterAll(async () => {
  await world?.[Symbol.asyncDispose]()
  rmSync(scratch, { recursive: true, force: true })
})

/** Deploys a directory of these files, and returns what the service answers, asleep on disk before. */
async function serve(name: string, files: Readonly<Record<string, string>>): Promise<string> {
  const dir = join(scratch, name)
  mkdirSync(dir)
  for (const [path, content] of Object.entries(files)) writeFileSync(join(dir, path), content)
  const lines: string[] = []
  const onLog = (line: string) => lines.push(line)
  const { replicas } = await client.services.deploy(name, { port: 8000 }, { dir, onLog }).catch((error) => {
    error.message += `\n${lines.join('\n')}`
    throw error
  })
  const { sandboxId } = replicas.items[0] ?? { sandboxId: '' }
  await world.server.ok(`/v1/sandboxes/${sandboxId}/standby`, { json: { tier: 'stored' } })
  return (await world.server.fetch(`/v1/services/${name}/http/`)).text()
}

test('a directory with requirements.txt is served with the packages that it names', async () => {
  const requirements = `--index-url http://${INDEX}/simple/\n--trusted-host ${HOST}\ngreeting-wheel==2.0\n`
  const files = { 'requirements.txt': requirements, 'main.py': PYTHON }
  expect(await serve('requirements', files)).toBe('hello from a wheel')
})

test('a directory with pyproject.toml is served with its dependencies', async () => {
  const files = { 'pyproject.toml': PYPROJECT, 'app.py': PYTHON }
  expect(await serve('pyproject', files)).toBe('hello from a wheel')
})

test('a directory with package.json is served with its dependencies, by its start script', async () => {
  const root = makeLayer([{ path: 'root' }, { path: 'tmp', mode: 0o1777 }])
  const env = { Env: ['PATH=/usr/local/bin:/bin', 'HOME=/root'] }
  writeLayout(join(scratch, 'layout'), [busyboxLayer, root, nodeLayer()], env)
  // Servers of tests have no built-in templates.
  const node = await buildTemplate(world.server, { name: 'node', image: `oci:${join(scratch, 'layout')}` })
  expect(node.error).toBeUndefined()
  const npmrc = `registry=http://${INDEX}\naudit=false\nfund=false\n`
  const files = { 'package.json': JSON.stringify(MANIFEST), '.npmrc': npmrc, 'server.js': JAVASCRIPT }
  expect(await serve('package', files)).toBe('hello from a module')
})

test('a dependency that the index does not have is a failed version, whose log names it', async () => {
  const requirements = `--index-url http://${INDEX}/simple/\n--trusted-host ${HOST}\nnot-there\n`
  const files = { 'requirements.txt': requirements, 'main.py': PYTHON }
  await expect(serve('missing', files)).rejects.toThrow(/The build failed.*not-there/s)
})
