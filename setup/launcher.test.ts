import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, expect, it } from 'vitest'

const launcher = fileURLToPath(new URL('../dormouse', import.meta.url))
const directory = mkdtempSync(join(tmpdir(), 'dormouse-launcher-'))
afterAll(() => rmSync(directory, { recursive: true }))

function run(program: string, args: string[], env: Record<string, string> = {}) {
  return spawnSync(program, args, { encoding: 'utf8', env: { ...process.env, ...env } })
}

it('the launcher refuses an unknown command with status 2 and points to help', () => {
  const { status, stderr } = run(launcher, ['hibernate'])
  expect(status).toBe(2)
  expect(stderr).toContain('no command "hibernate"')
  expect(stderr).toContain('./dormouse help')
})

it.each([
  [['up', 'extra'], '"extra"'],
  [['up', '--data'], '--data needs a directory'],
  [['template'], 'template build FILE'],
  [['template', 'build'], 'description file'],
  [['doctor', '--jason'], '"--jason"'],
])('the launcher refuses %j with status 2', (args, message) => {
  const { status, stderr } = run(launcher, args)
  expect(stderr).toContain(message)
  expect(status).toBe(2)
})

it.each([
  [['up', '--help'], '--port N'],
  [['up', '--port', '80', '-h'], '--port N'],
  [['doctor', '--help'], 'what this host offers'],
  [['template', 'build', '--help'], 'template build FILE'],
  [['key', 'create', '--help'], '--max-sandboxes'],
  [['help', 'key'], '--max-sandboxes'],
])('the launcher shows help for %j and runs nothing', (args, message) => {
  const { status, stdout } = run(launcher, args)
  expect(stdout).toContain(message)
  expect(status).toBe(0)
})

it.each([
  [['up', '--prot', '80'], './dormouse up --help'],
  [['cluster', 'build'], './dormouse cluster --help'],
])('the launcher refuses %j and points to the help of that command', (args, help) => {
  const { status, stderr } = run(launcher, args)
  expect(status).toBe(2)
  expect(stderr).toContain(help)
})

it('the help of `up` fits into 120 columns and has no markup of documents', () => {
  const { stdout } = run(launcher, ['up', '--help'])
  expect(stdout.split('\n').filter((line) => line.length > 120)).toEqual([])
  expect(stdout).not.toContain('](')
})

it('the launcher works through a symbolic link', () => {
  const link = join(directory, 'dormouse')
  symlinkSync(launcher, link)
  const { status, stdout } = run(link, ['--version'])
  expect(status).toBe(0)
  expect(stdout).toMatch(/^dormouse \d+\.\d+\.\d+\n$/)
})

it('the launcher says what to install when Node.js is missing', () => {
  const { status, stderr } = run('/bin/sh', [launcher, 'help'], { PATH: directory })
  expect(status).not.toBe(0)
  expect(stderr).toContain('Node.js 20.3 or newer is needed')
})

it.each([
  ['v18.19.1', 1],
  ['v20.2.0', 1],
  ['v20.3.0', 0],
  ['v22.0.0', 0],
])(
  'the launcher exits with Node.js %s with status %i, and names a version that is too old',
  (version, expected) => {
    const node = join(directory, 'node')
    writeFileSync(node, `#!/bin/sh\nif [ "$1" = --version ]; then echo ${version}; fi\n`, { mode: 0o755 })
    const { status, stderr } = run('/bin/sh', [launcher, 'help'], { PATH: directory })
    expect(status).toBe(expected)
    if (expected === 1) expect(stderr).toContain(`is ${version}`)
  },
)
