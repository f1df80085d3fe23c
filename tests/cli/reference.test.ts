import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createProgram } from '@dormouse/cli/client'
import type { Command } from 'commander'
import { afterAll, expect, test } from 'vitest'
import { CLIENT_COMMANDS } from '../../setup/client-commands.mjs'
import { runLauncher } from './command-line.ts'

const { stdin, stdout, stderr } = process
const io = { stdin, stdout, stderr, env: {}, signal: new AbortController().signal }
const program = createProgram(io)
const reference = readFileSync(new URL('../../docs/cli.md', import.meta.url), 'utf8')
const directory = mkdtempSync(join(tmpdir(), 'dormouse-completion-'))
afterAll(() => rmSync(directory, { recursive: true }))

/** Commands without subcommands, with their full names. */
function leaves(command: Command, path: string): { path: string; command: Command }[] {
  if (command.commands.length === 0) return [{ path, command }]
  return command.commands.flatMap((below) => leaves(below, `${path} ${below.name()}`))
}
const commands = program.commands.flatMap((command) => leaves(command, command.name()))

test('setup/client-commands.mjs lists exactly the client commands', () => {
  expect([...CLIENT_COMMANDS].sort()).toEqual(program.commands.map((command) => command.name()).sort())
})

test.each(commands)('docs/cli.md has $path with all its arguments and flags', ({ path, command }) => {
  const usage = `dormouse ${path} ${command.registeredArguments.map(humanArgument).join(' ')}`.trim()
  const section = reference.split('\n### ').find((part) => part.startsWith(`\`${usage}`)) ?? ''
  expect(section, usage).not.toBe('')
  const common = ['--json', '--url', '--data']
  const flags = command.options.filter(({ long }) => !common.includes(long ?? '')).map(({ flags }) => flags)
  expect(flags.filter((flag) => !section.includes(`\`${flag}\``))).toEqual([])
  const known = new Set(command.options.flatMap(({ flags }) => [flags]))
  const told = [...section.matchAll(/^- `(-[^`]+)`/gm)].map((match) => match[1] ?? '')
  expect(told.filter((flag) => !known.has(flag))).toEqual([])
})

function humanArgument(argument: Command['registeredArguments'][number]): string {
  const name = `${argument.name()}${argument.variadic ? '...' : ''}`
  return argument.required ? `<${name}>` : `[${name}]`
}

test('completion in a real bash offers commands, subcommands and flags', async () => {
  const script = join(directory, 'dormouse.bash')
  writeFileSync(script, (await runLauncher(['completion', 'bash'], {})).stdout)
  const complete = (...words: string[]) => {
    const code = `source ${script}; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _dormouse; printf '%s\\n' "\${COMPREPLY[@]}"`
    const { stdout, stderr } = spawnSync('bash', ['-c', code, 'bash', ...words], { encoding: 'utf8' })
    expect(stderr).toBe('')
    return stdout.trim().split('\n')
  }
  expect(complete('dormouse', 'st')).toEqual(['standby'])
  expect(complete('dormouse', 's')).toEqual(expect.arrayContaining(['sh', 'snapshot', 'standby']))
  expect(complete('dormouse', '')).toEqual(expect.arrayContaining(['up', 'doctor', 'create', 'demo']))
  expect(complete('dormouse', 'template', '')).toEqual(['ls', 'create', 'show', 'debug', 'rm'])
  expect(complete('dormouse', 'port', '')).toEqual(['ls', 'wait', 'link', 'set'])
  expect(complete('dormouse', 'port', 'set', 'pu')).toEqual(['public'])
  expect(complete('dormouse', 'update', '--di')).toEqual(['--disk'])
  expect(complete('dormouse', 'fork', '--co')).toEqual(['--count'])
  expect(complete('dormouse', 'completion', 'z')).toEqual(['zsh'])
})

test.each(['zsh', 'fish'])(
  'the completion script for %s has every command, and the shell parses it if it is installed',
  async (shell) => {
    const { status, stdout } = await runLauncher(['completion', shell], {})
    expect(status).toBe(0)
    for (const command of program.commands) expect(stdout).toContain(command.name())
    const file = join(directory, `dormouse.${shell}`)
    writeFileSync(file, stdout)
    const { error, stderr } = spawnSync(shell, ['-n', file], { encoding: 'utf8' })
    if (error === undefined) expect(stderr).toBe('')
    const { script } = JSON.parse((await runLauncher(['completion', shell, '--json'], {})).stdout)
    expect(script).toBe(stdout)
  },
)

test('help lists all commands, and help COMMAND equals COMMAND --help', async () => {
  const { status, stdout } = await runLauncher(['help'], {})
  expect(status).toBe(0)
  for (const { name } of program.commands.map((command) => ({ name: command.name() })))
    expect(stdout).toContain(`./dormouse ${name}`)
  const [asked, flagged] = await Promise.all([
    runLauncher(['help', 'run'], {}),
    runLauncher(['run', '--help'], {}),
  ])
  expect(asked).toEqual(flagged)
  expect(asked.status).toBe(0)
})
