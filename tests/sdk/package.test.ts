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

test('src/contract is up to date with the contract', async () => {
  const written = await Promise.all(
    (await readdir(join(sdk, 'src/contract'))).map(
      async (name) => [name, await readFile(join(sdk, 'src/contract', name), 'utf8')] as const,
    ),
  )
  expect(new Map(written), 'write it again: npm run contract -w packages/sdk').toEqual(makeContract())
})

/** A program outside this repository. */
const PROGRAM = `
import { Dormouse, DormouseError, type RunResult, Sandbox } from 'dormouse'

const client = new Dormouse({ url: process.argv[2], apiKey: process.argv[3] })
const sandbox: Sandbox = await Sandbox.create({ ephemeral: true, limits: { pids: 64 } }, { client })
const result: RunResult = await sandbox.runCode('print(6 * 7)')
const state: 'running' | 'standby' | string = sandbox.info.state
const { memory } = await sandbox.metrics({ memory: true })
const bytes: number | undefined = memory?.privateBytes
await sandbox.close()
try {
  await Sandbox.connect(sandbox.id, { client })
} catch (error) {
  if (error instanceof DormouseError && error.code === 'not_found')
    console.log(result.stdout.trim(), state, typeof bytes, error.code)
}
`
/** A program that must not compile. */
const WRONG = `
import { Sandbox } from 'dormouse'
const sandbox = await Sandbox.create({ limits: { memory: 1 } })
const code: number = (await sandbox.runCode('1')).stdout
`

describe('the package as it is published', () => {
  const server = useSdkServer()
  let directory = ''
  const installed = () => join(directory, 'node_modules/dormouse')

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'dormouse-package-'))
    const { stdout } = await run('npm', ['pack', '--json', '--pack-destination', directory], { cwd: sdk })
    const [{ filename }] = JSON.parse(stdout.slice(stdout.indexOf('[')))
    await writeFile(join(directory, 'package.json'), '{"type":"module","private":true}')
    const install = ['install', '--offline', '--ignore-scripts', '--no-audit', join(directory, filename)]
    await run('npm', install, { cwd: directory })
    await writeFile(join(directory, 'program.ts'), PROGRAM)
    await writeFile(join(directory, 'wrong.ts'), WRONG)
  })
  afterAll(() => rm(directory, { recursive: true, force: true }))

  /** The output of the compiler, which also checks every declaration of the package. */
  async function compile(file: string, ...flags: string[]): Promise<string> {
    const args = [
      ...['--ignoreConfig', '--strict', '--exactOptionalPropertyTypes', '--skipLibCheck', 'false'],
      ...['--target', 'es2023', '--lib', 'es2023,esnext.disposable,dom,dom.asynciterable', '--outDir', 'out'],
      ...['--typeRoots', join(root, 'node_modules/@types'), ...flags, file],
    ]
    const tsc = join(root, 'node_modules/typescript/bin/tsc')
    return run(process.execPath, [tsc, ...args], { cwd: directory }).then(
      () => '',
      (error: { stdout: string }) => error.stdout,
    )
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
    for (const path of files.filter((file) => !file.endsWith('.map'))) {
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
    ['Node', ['--module', 'nodenext', '--types', 'node']],
    ['bundlers', ['--module', 'esnext', '--moduleResolution', 'bundler', '--types', 'node']],
  ])('a program against it compiles as %s resolves it; one that is wrong does not', async (_what, flags) => {
    expect(await compile('program.ts', ...flags)).toBe('')
    const problems = await compile('wrong.ts', ...flags)
    expect(problems).toContain("'memory' does not exist in type")
    expect(problems).toContain("Type 'string' is not assignable to type 'number'")
  })

  test('that program runs', async () => {
    expect(await compile('program.ts', '--module', 'nodenext', '--types', 'node')).toBe('')
    const { url, key } = server.process
    const { stdout } = await run(process.execPath, ['out/program.js', url, key], { cwd: directory })
    expect(stdout).toBe('42 running number not_found\n')
  })
})
