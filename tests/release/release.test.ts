import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ServerProcess } from '../server/server-process.ts'
import { testDataDir } from '../test-data-dir.ts'

const run = promisify(execFile)
const root = fileURLToPath(new URL('../../', import.meta.url))
const TSC = join(root, 'node_modules/typescript/bin/tsc')
/** The first versions in which CommonJS can load modules. */
const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
const canRequireModules = major > 22 || (major === 22 && minor >= 12) || (major === 20 && minor >= 19)

const COMMON_JS = `
import { Sandbox } from 'dormouse'
async function main(): Promise<void> {
  const sandbox = await Sandbox.create()
  console.log((await sandbox.runCode('6 * 7')).text)
  await sandbox.delete()
}
void main()
`

const MODULE = `
import { Sandbox, type RunResult } from 'dormouse'
import { sandboxTools } from 'dormouse/tools'
const sandbox: Sandbox = await Sandbox.create()
const run: RunResult = await sandbox.runCode('6 * 7')
console.log(run.text, sandboxTools().length)
await sandbox.delete()
`

const PYTHON = `
from dormouse import Sandbox
from dormouse.tools import sandbox_tools
import dormouse.langchain, dormouse.openai_agents
with Sandbox() as sandbox:
    print(sandbox.run_code("6 * 7").text, len(sandbox_tools(sandbox)))
`

/** The Node.js that runs the tests, and the newest long-term one, which the set-up of the tests fetched. */
async function nodePrograms(): Promise<string[]> {
  const versions = join(testDataDir, 'tools/test-node')
  const fetched = await readdir(versions).catch(() => [])
  return [process.execPath, ...fetched.map((version) => join(versions, version, 'node'))]
}

describe('what a release publishes', () => {
  let directory = ''
  let server: ServerProcess
  const released = () => join(directory, 'release')
  const fileEndingWith = async (ending: RegExp) =>
    join(released(), (await readdir(released())).find((name) => ending.test(name)) ?? '')
  const env = () => ({
    PATH: process.env['PATH'],
    HOME: directory,
    DORMOUSE_URL: server.url,
    DORMOUSE_API_KEY: server.key,
  })

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'dormouse-release-'))
    server = await ServerProcess.start()
    const { stdout } = await run(process.execPath, ['setup/release/make-release.mjs', '--out', released()], {
      cwd: root,
    })
    expect(stdout).toContain('Nothing was published.')
  })
  afterAll(async () => {
    await server?.cleanUp()
    await rm(directory, { recursive: true, force: true })
  })

  async function project(name: string, archive: string): Promise<string> {
    const home = join(directory, name)
    await mkdir(home)
    await run('npm', ['init', '-y'], { cwd: home })
    const install = ['install', '--prefer-offline', '--ignore-scripts', '--no-audit', '--no-fund', archive]
    await run('npm', install, { cwd: home })
    return home
  }

  test('has both npm packages, a wheel, a source archive and their checksums, all of one version', async () => {
    const { version } = JSON.parse(await readFile(join(root, 'packages/sdk/package.json'), 'utf8'))
    expect((await readdir(released())).sort()).toEqual([
      'SHA256SUMS',
      `dormouse-${version}-py3-none-any.whl`,
      `dormouse-${version}.tar.gz`,
      `dormouse-${version}.tgz`,
      `dormouse-cli-${version}.tgz`,
    ])
    await run('sha256sum', ['--check', '--strict', 'SHA256SUMS'], { cwd: released() })
  })

  test('the command line works in an empty project, without the server', async () => {
    const home = await project('cli', await fileEndingWith(/^dormouse-cli-.*\.tgz$/))
    const dormouse = (...args: string[]) =>
      run(join(home, 'node_modules/.bin/dormouse'), args, { cwd: home, env: env() })
    expect((await dormouse('run', '--new', 'print(6 * 7)')).stdout).toBe('42\n')
    expect(JSON.parse((await dormouse('ls', '--json')).stdout)).toEqual({ sandboxes: [] })
    expect(await readdir(join(home, 'node_modules'))).not.toContain('@dormouse')
  })

  // Skip: older versions of Node cannot load a module with `require`, and have `import()` for it.
  test.skipIf(!canRequireModules)('a CommonJS program uses the SDK, with its types', async () => {
    const home = await project('common', await fileEndingWith(/^dormouse-\d.*\.tgz$/))
    await writeFile(join(home, 'program.cts'), COMMON_JS)
    const flags = ['--module', 'nodenext', '--target', 'es2023', '--strict', '--skipLibCheck']
    const types = ['--types', 'node', '--typeRoots', join(root, 'node_modules/@types')]
    await run(process.execPath, [TSC, ...flags, ...types, 'program.cts'], { cwd: home })
    expect(await readFile(join(home, 'program.cjs'), 'utf8')).toContain('require("dormouse")')
    for (const node of await nodePrograms()) {
      const { stdout } = await run(node, ['program.cjs'], { cwd: home, env: env() })
      expect(stdout).toBe('42\n')
    }
  })

  test('a module uses the SDK and its tools, with their types, in every version of Node.js here', async () => {
    const home = await project('module', await fileEndingWith(/^dormouse-\d.*\.tgz$/))
    await writeFile(join(home, 'program.mts'), MODULE)
    const flags = ['--module', 'nodenext', '--target', 'es2023', '--strict']
    const types = ['--types', 'node', '--typeRoots', join(root, 'node_modules/@types')]
    await run(process.execPath, [TSC, ...flags, ...types, 'program.mts'], { cwd: home })
    for (const node of await nodePrograms()) {
      const { stdout } = await run(node, ['program.mjs'], { cwd: home, env: env() })
      expect(stdout).toBe('42 6\n')
    }
  })

  test('the wheel works where only it and its dependencies are installed', async () => {
    const home = join(directory, 'wheel')
    await mkdir(home)
    const install = ['-m', 'pip', 'install', '--no-index', '--no-deps', '--target', home]
    await run('/usr/bin/python3', [...install, await fileEndingWith(/\.whl$/)], { cwd: directory })
    expect(await readdir(join(home, 'dormouse'))).toContain('py.typed')
    await writeFile(join(home, 'program.py'), PYTHON)
    const { stdout } = await run('/usr/bin/python3', ['program.py'], {
      cwd: home,
      env: { ...env(), PYTHONDONTWRITEBYTECODE: '1' },
    })
    expect(stdout).toBe('42 6\n')
  })

  test('every package names its licence, and has it', async () => {
    for (const ending of [/^dormouse-cli-.*\.tgz$/, /^dormouse-\d.*\.tgz$/]) {
      const archive = await fileEndingWith(ending)
      const { stdout: names } = await run('tar', ['-tzf', archive])
      expect(names.split('\n')).toEqual(expect.arrayContaining(['package/LICENSE', 'package/README.md']))
      const { stdout } = await run('tar', ['-xzOf', archive, 'package/package.json'])
      expect(JSON.parse(stdout)).toMatchObject({ license: 'Apache-2.0', engines: { node: '>=20.3' } })
    }
  })
})
