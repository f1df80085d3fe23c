import { createReadStream } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { useSharedBurrow } from '../../packages/engine/src/contract/shared-burrow.ts'
import { NPM_PIN } from '../../packages/engine-linux/src/npm/npm-pins.ts'
import { linuxFactory } from '../engine-linux/linux-factory.ts'
import { testDataDir } from '../test-data-dir.ts'
import { putNode } from './put-node.ts'

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

const factory = await linuxFactory()
afterAll(() => factory.cleanUp())

/** A wheel in a simple index, at port 8001. */
const PYTHON_INDEX = `
import http.server, os, threading, zipfile
root = "/srv/index/simple/dormouse-hello"
os.makedirs(root)
wheel = "dormouse_hello-1.0-py3-none-any.whl"
info = "dormouse_hello-1.0.dist-info"
with zipfile.ZipFile(f"{root}/{wheel}", "w") as archive:
    archive.writestr("dormouse_hello.py", "answer = 42\\n")
    archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\\nName: dormouse-hello\\nVersion: 1.0\\n")
    archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
    archive.writestr(f"{info}/RECORD", "")
open(f"{root}/index.html", "w").write(f'<a href="{wheel}">{wheel}</a>')
class Quiet(http.server.SimpleHTTPRequestHandler):
    def __init__(self, *args): super().__init__(*args, directory="/srv/index")
    def log_message(self, *args): pass
index = http.server.ThreadingHTTPServer(("127.0.0.1", 8001), Quiet)
threading.Thread(target=index.serve_forever, daemon=True).start()
`

/** A package in a registry, at port 8002. */
const NODE_REGISTRY = `
import { execSync } from 'node:child_process'
import fs from 'node:fs'
import http from 'node:http'
fs.mkdirSync('/srv/hello/package', { recursive: true })
fs.writeFileSync('/srv/hello/package/package.json', JSON.stringify({ name: 'dormouse-hello', version: '1.0.0' }))
fs.writeFileSync('/srv/hello/package/index.js', 'exports.answer = 42')
execSync('tar -czf /srv/hello.tgz -C /srv/hello package')
const dist = { tarball: 'http://127.0.0.1:8002/hello.tgz' }
const about = { name: 'dormouse-hello', 'dist-tags': { latest: '1.0.0' },
  versions: { '1.0.0': { name: 'dormouse-hello', version: '1.0.0', dist } } }
const registry = http.createServer((request, response) => request.url === '/hello.tgz'
  ? fs.createReadStream('/srv/hello.tgz').pipe(response)
  : response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(about)))
await new Promise((resolve) => registry.listen(8002, '127.0.0.1', resolve))
`

describe('packages of an index', () => {
  const shared = useSharedBurrow(factory)
  const bash = (code: string) => shared.guest.runs.run({ code, language: 'bash' })

  test('pip installs one, which the next run imports', async () => {
    expect((await shared.guest.runs.run({ code: PYTHON_INDEX })).error).toBeUndefined()
    const code = 'pip install --no-cache-dir --index-url http://127.0.0.1:8001/simple dormouse-hello'
    expect(await bash(code)).toMatchObject({ exitCode: 0 })
    const { stdout } = await shared.guest.runs.run({
      code: 'import dormouse_hello; print(dormouse_hello.answer)',
    })
    expect(stdout).toBe('42\n')
  })

  describe('of npm', () => {
    beforeAll(async () => {
      await putNode(shared.guest)
      const archive = join(testDataDir, 'tools/npm', `npm-${NPM_PIN.version}.tgz`)
      await shared.guest.files.write('/root/npm.tgz', createReadStream(archive))
      const unpacking =
        'mkdir -p /usr/local/lib/npm && tar -xzf /root/npm.tgz -C /usr/local/lib/npm --strip-components=1'
      expect(await bash(unpacking)).toMatchObject({ exitCode: 0 })
    })

    test('npm installs one, which the next run requires', async () => {
      const javascript = (code: string) => shared.guest.runs.run({ code, language: 'javascript' })
      expect((await javascript(NODE_REGISTRY)).error).toBeUndefined()
      const npm = 'node /usr/local/lib/npm/bin/npm-cli.js'
      const install = `cd /root && ${npm} install --no-audit --registry http://127.0.0.1:8002 dormouse-hello`
      const installed = await bash(install)
      expect(installed.exitCode, installed.stderr).toBe(0)
      expect((await javascript('require("dormouse-hello").answer')).results).toEqual([
        expect.objectContaining({ 'text/plain': '42' }),
      ])
    })
  })
})
