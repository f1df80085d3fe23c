import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Dormouse } from 'dormouse'
import { afterAll, beforeAll, beforeEach, expect, test, vi } from 'vitest'
import { useCommandLine } from '../cli/command-line.ts'
import { makeLayer, writeLayout } from '../images/make-image.ts'
import { Registry } from '../images/registry.ts'
import { busyboxLayer } from '../images/test-images.ts'
import { PYTHON, runPython } from '../python-sdk/run-python.ts'

/** Every template is started once, which takes long on a busy machine. */
const MINUTES = 300_000
vi.setConfig({ testTimeout: MINUTES, hookTimeout: MINUTES })

const registry = await Registry.start()
const cli = useCommandLine({
  images: { registriesConf: registry.conf },
  builds: { atOnce: 4, memoryBytes: 512 * 1024 ** 2 },
})

const START = 'exec httpd -f -p $PORT -h /srv'
const page = (text: string) => makeLayer([{ path: 'srv/index.html', content: text }])
const env = { Env: ['PATH=/bin'] }
/** Says nothing about what to start. */
const silent = registry.push('silent:1', [busyboxLayer, page('from the image\n')], env)
/** Serves by itself, from a directory and as a user that it names. */
const serving = registry.push('serving:1', [busyboxLayer, page('by itself\n')], {
  ...{ Env: ['PATH=/bin', 'WORD=word'], WorkingDir: '/srv', User: 'web' },
  Cmd: ['sh', '-c', 'echo "$(pwd) $(id -u) $WORD"; exec httpd -f -p 8080'],
})

const TWO_MODULES = `
import http.server, greeting
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(greeting.text.encode())
http.server.ThreadingHTTPServer(("", 8000), Handler).serve_forever()
`

let scratch: string
beforeAll(() => {
  scratch = mkdtempSync(join(tmpdir(), 'dormouse-deploy-'))
})
beforeEach(() => cli.server.clear())
afterAll(async () => {
  await registry.cleanUp()
  rmSync(scratch, { recursive: true, force: true })
})

const ask = async (name: string, path = '/') =>
  (await cli.server.fetch(`/v1/services/${name}/http${path}`)).text()
const sleepAll = async (name: string) => {
  const { replicas } = await cli.server.ok(`/v1/services/${name}`)
  for (const { sandboxId } of replicas.items)
    await cli.server.ok(`/v1/sandboxes/${sandboxId}/standby`, { json: { tier: 'stored' } })
}

test('dormouse deploy serves an image of a registry with a command of its own, and wakes it', async () => {
  const { status, stdout, stderr } = await cli.run([
    ...['deploy', silent, '--name', 'web', '--start', START, '--port', '8000'],
  ])
  expect({ status, stderr }).toMatchObject({ status: 0 })
  expect(stdout).toMatch(/^http:\/\/sv-\w+\.localhost:\d+\/\n$/)
  expect(stderr).toMatch(/Version 1 of web serves/)
  expect(await ask('web')).toBe('from the image\n')
  await sleepAll('web')
  expect(await ask('web')).toBe('from the image\n')
})

test('dormouse deploy of an image starts its command in its directory as its user, and names itself after it', async () => {
  expect(await cli.run(['deploy', serving, '--port', '8080'])).toMatchObject({ status: 0 })
  expect(await ask('serving')).toBe('by itself\n')
  const lines = (await cli.run(['service', 'logs', 'serving'])).stdout
  expect(lines).toContain('/srv 1000 word')
})

test('dormouse deploy puts the files of a directory into an image, and serves an OCI layout', async () => {
  const files = join(scratch, 'files')
  mkdirSync(files)
  writeFileSync(join(files, 'index.html'), 'from the directory\n')
  const start = ['--start', 'exec httpd -f -p $PORT', '--port', '8000']
  const onImage = await cli.run(['deploy', files, '--name', 'web', '--image', silent, ...start])
  expect(onImage).toMatchObject({ status: 0 })
  expect(await ask('web')).toBe('from the directory\n')
  const layout = join(scratch, 'layout')
  writeLayout(layout, [busyboxLayer, page('from the layout\n')], env)
  const second = ['deploy', layout, '--name', 'web', '--cwd', '/srv', '--user', 'web', ...start]
  expect(await cli.run(second)).toMatchObject({ status: 0 })
  expect(await ask('web')).toBe('from the layout\n')
  expect((await cli.run(['service', 'rollback', 'web'])).status).toBe(0)
  expect(await ask('web')).toBe('from the directory\n')
})

test('dormouse deploy installs nothing for a pyproject.toml that is no package, and checks its health', async () => {
  const files = join(scratch, 'project')
  mkdirSync(files)
  writeFileSync(join(files, 'pyproject.toml'), '[project]\nname = "web"\nversion = "1"\ndependencies = []\n')
  writeFileSync(join(files, 'greeting.py'), 'text = "from two modules\\n"\n')
  writeFileSync(join(files, 'main.py'), TWO_MODULES)
  const health = ['--health', '/healthz', '--health-every', '5s', '--health-failures', '2']
  const deployed = await cli.run(['deploy', files, '--name', 'web', '--port', '8000', ...health])
  expect(deployed, deployed.stderr).toMatchObject({ status: 0 })
  expect(await ask('web')).toBe('from two modules\n')
  const shown = (await cli.run(['service', 'show', 'web'])).stdout
  expect(shown).toMatch(/health +GET \/healthz every 5s; restarts after 2 failures/)
  const changed = (await cli.run(['service', 'update', 'web', '--no-health'])).stdout
  expect(changed).not.toContain('health')
})

test('an image that says nothing about what to start, or does not exist, is a failed version that says so', async () => {
  const refused = await cli.run(['deploy', silent, '--name', 'web', '--port', '8000'])
  expect(refused.status).not.toBe(0)
  expect(refused.stderr).toContain('--start')
  const missing = await cli.run(['deploy', `${registry.host}/none:1`, '--port', '8000'])
  expect(missing.status).not.toBe(0)
  expect(missing.stderr).toContain('none:1')
  for (const source of ['./nowhere', join(scratch, 'none.tar')])
    expect((await cli.run(['deploy', source, '--port', '8000'])).stderr).toMatch(/is (not there|no image)/)
})

test('both SDKs deploy an image and a template', async () => {
  const { services } = new Dormouse({ url: cli.server.url, apiKey: cli.server.key })
  const lines: string[] = []
  const request = { port: 8000, image: silent, start: START }
  const service = await services.deploy('web', request, { onLog: (line) => lines.push(line) })
  expect(service).toMatchObject({ version: 1, versions: [{ state: 'ready', isCurrent: true }] })
  expect(lines.join('\n')).toContain('imported in')
  expect(await ask('web')).toBe('from the image\n')
  const program = `
import sys
from dormouse import Client
with Client() as client:
    service = client.services.deploy("web", port=8000, image=sys.argv[1], start=sys.argv[2])
    assert (service.version, service.versions[0].state) == (2, "ready"), service
    start = "mkdir -p /srv && echo from the template > /srv/index.html && exec python3 -m http.server -d /srv $PORT"
    assert client.services.deploy("web", port=8000, template="python", start=start).version == 3
`
  const environment = { DORMOUSE_URL: cli.server.url, DORMOUSE_API_KEY: cli.server.key }
  const { code, output } = await runPython(PYTHON, ['-c', program, silent, START], environment)
  expect(code, output).toBe(0)
  expect(await ask('web')).toBe('from the template\n')
})
