import { execFile } from 'node:child_process'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { makeContract } from '../../packages/sdk/tools/make-contract.mjs'
import { useSdkServer } from './sdk-server.ts'

const run = promisify(execFile)
const root = fileURLToPath(new URL('../../', import.meta.url))
const sdk = join(root, 'packages/sdk')
const TSC = join(root, 'node_modules/typescript/bin/tsc')
const TSX = join(root, 'node_modules/tsx/dist/cli.mjs')

test('src/contract is up to date with the contract', async () => {
  const written = await Promise.all(
    (await readdir(join(sdk, 'src/contract'))).map(
      async (name) => [name, await readFile(join(sdk, 'src/contract', name), 'utf8')] as const,
    ),
  )
  expect(new Map(written), 'write it again: npm run contract -w packages/sdk').toEqual(makeContract())
})

/** A program outside this repository, for Node and for browsers. */
const PROGRAM = `
import { Dormouse, DormouseError, type Result, type RunResult, Sandbox } from 'dormouse'

const client = new Dormouse()
const sandbox: Sandbox = await Sandbox.create({ ephemeral: true, limits: { pids: 64 } }, { client })
const [left, right] = await sandbox.fork(2)
await Promise.all([left.delete(), right.delete()])
const [only] = await sandbox.fork()
await only.delete()
const some: number = 1
const [perhaps] = await sandbox.fork(some)
await perhaps?.delete()
const result: RunResult = await sandbox.runCode('print(6 * 7)')
const state: 'running' | 'standby' | string = sandbox.info.state
const { memory } = await sandbox.metrics({ memory: true })
const bytes: number | undefined = memory?.privateBytes
const shown: Result | undefined = (await sandbox.runCode('6 * 7', { timeoutMs: 10_000 })).check().result
const [text, png]: [string | undefined, Uint8Array | undefined] = [shown?.text, shown?.png]
await sandbox.close()
try {
  await Sandbox.connect(sandbox.id, { client })
} catch (error) {
  if (error instanceof DormouseError && error.code === 'not_found')
    console.log(result.stdout.trim(), state, typeof bytes, error.code, text, png)
}
`
/** A program that must not compile. */
const WRONG = `
import { Sandbox } from 'dormouse'
const sandbox = await Sandbox.create({ limits: { memory: 1 } })
const code: number = (await sandbox.runCode('1')).stdout
const [one, two, three] = await sandbox.fork(2)
const some: number = 2
const perhaps: Sandbox = (await sandbox.fork(some))[0]
`

describe('the package as it is published', () => {
  const server = useSdkServer()
  let directory = ''
  const installed = () => join(directory, 'node_modules/dormouse')

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'dormouse-package-'))
    const { stdout } = await run('npm', ['pack', '--json', '--pack-destination', directory], { cwd: sdk })
    const [{ filename }] = JSON.parse(stdout.slice(stdout.indexOf('[')))
    await run('npm', ['init', '-y'], { cwd: directory })
    const install = ['install', '--offline', '--ignore-scripts', '--no-audit', join(directory, filename)]
    await run('npm', install, { cwd: directory })
    await writeFile(join(directory, 'program.mts'), PROGRAM)
    await writeFile(join(directory, 'wrong.mts'), WRONG)
  })
  afterAll(() => rm(directory, { recursive: true, force: true }))

  /** The output of the compiler, which also checks every declaration of the package. */
  async function compile(file: string, ...flags: string[]): Promise<string> {
    const args = [
      ...['--strict', '--exactOptionalPropertyTypes', '--noUncheckedIndexedAccess', '--outDir', 'out'],
      ...[
        '--skipLibCheck',
        'false',
        '--target',
        'es2022',
        '--typeRoots',
        join(root, 'node_modules/@types'),
        ...flags,
        file,
      ],
    ]
    return run(process.execPath, [TSC, ...args], { cwd: directory }).then(
      () => '',
      (error: { stdout: string }) => error.stdout,
    )
  }

  async function runNode(...args: string[]): Promise<string> {
    const { url, key } = server.process
    const env = { ...process.env, DORMOUSE_URL: url, DORMOUSE_API_KEY: key }
    return (await run(process.execPath, args, { cwd: directory, env })).stdout
  }

  test('imports no other package of ours, and has no dependencies', async () => {
    const description = JSON.parse(await readFile(join(installed(), 'package.json'), 'utf8'))
    expect(description).not.toHaveProperty('dependencies')
    expect(await readdir(join(directory, 'node_modules'))).toEqual(
      expect.not.arrayContaining(['@dormouse', 'zod']),
    )
    const files = (await readdir(installed(), { recursive: true })).filter((path) =>
      /\.([cm]?[jt]s|map)$/.test(path),
    )
    expect(files).toEqual(expect.arrayContaining(['dist/index.js', 'dist/index.d.ts', 'src/index.ts']))
    expect(files.filter((path) => path.includes('.test.'))).toEqual([])
    const imports = (text: string) =>
      [...text.matchAll(/(?:from|import\()\s*['"]([^'"]+)['"]/g)].map(([, name = '']) => name)
    // An adapter imports its framework, which the program that uses it has installed.
    for (const path of files.filter((file) => !/\.map$|^(dist|src)\/adapters\//.test(file))) {
      const foreign = imports(await readFile(join(installed(), path), 'utf8')).filter(
        (name) => !/^(\.|#|node:)/.test(name),
      )
      expect(
        foreign.filter((name) => name !== 'dormouse'),
        path,
      ).toEqual([])
    }
  })

  test('has a file for each of its exports and imports', async () => {
    const { exports, imports } = JSON.parse(await readFile(join(installed(), 'package.json'), 'utf8'))
    const paths: string[] = []
    const collect = (value: unknown): void => {
      if (typeof value === 'string') paths.push(value)
      else for (const inner of Object.values(value as object)) collect(inner)
    }
    collect({ exports, imports })
    expect(paths.length).toBeGreaterThan(5)
    for (const path of paths) expect(await readFile(join(installed(), path), 'utf8'), path).not.toBe('')
  })

  test.each([
    ['Node, without the types of browsers', ['--module', 'nodenext', '--lib', 'es2022', '--types', 'node']],
    ['Node and the types of both', ['--module', 'nodenext', '--lib', 'es2022,dom', '--types', 'node']],
    ['browsers', ['--module', 'esnext', '--moduleResolution', 'bundler', '--lib', 'es2022,dom']],
  ])('a program against it compiles for %s; one that is wrong does not', async (_what, flags) => {
    expect(await compile('program.mts', ...flags)).toBe('')
    const problems = await compile('wrong.mts', ...flags)
    expect(problems).toContain("'memory' does not exist in type")
    expect(problems).toContain("Type 'string' is not assignable to type 'number'")
    expect(problems).toContain("Tuple type '[Sandbox, Sandbox]' of length '2' has no element at index '2'")
    expect(problems).toContain("Type 'Sandbox | undefined' is not assignable to type 'Sandbox'")
  })

  test('that program runs', async () => {
    expect(await compile('program.mts', '--module', 'nodenext', '--types', 'node')).toBe('')
    expect(await runNode('out/program.mjs')).toBe('42 running number not_found 42 undefined\n')
    expect(await server.ids()).toEqual([])
  })

  test('the first example of the README runs after `npm init -y`, with tsx and with tsc', async () => {
    const readme = await readFile(join(sdk, 'README.md'), 'utf8')
    const [, example = ''] = /^```ts\n([\s\S]*?)^```$/m.exec(readme) ?? []
    await writeFile(join(directory, 'hello.mts'), example)
    // The commands of the README, without npx, which would look for them on the network.
    expect(readme).toContain('npx tsx hello.mts\n')
    expect(await runNode(TSX, 'hello.mts')).toBe('499500\n')
    expect(readme).toContain('npx tsc --module nodenext hello.mts && node hello.mjs\n')
    const { stdout } = await run(process.execPath, [TSC, '--module', 'nodenext', 'hello.mts'], {
      cwd: directory,
    })
    expect(stdout).toBe('')
    expect(await runNode('hello.mjs')).toBe('499500\n')
    expect(await server.ids()).toEqual([])
  })
})
