import type { Command } from 'commander'

/** A command, for completion. */
export interface Node {
  /** The words that lead to it, such as `snapshot create`; empty for `dormouse` itself. */
  readonly path: string
  readonly summary: string
  readonly words: readonly Word[]
  readonly flags: readonly Word[]
  /** For each argument, the command that lists its values; empty if there is none. The last argument may repeat. */
  readonly lists: readonly string[]
  readonly takesFiles: boolean
}

export interface Word {
  readonly word: string
  readonly summary: string
}

/** Commands that are not client commands. Their arguments are not completed. */
const SETUP_COMMANDS: readonly Word[] = [
  { word: 'up', summary: 'set everything up, then run the server' },
  { word: 'doctor', summary: 'check what this host offers and lacks' },
  { word: 'key', summary: 'manage API keys' },
  { word: 'test', summary: 'set everything up, then run the tests' },
  { word: 'help', summary: 'list commands' },
]

export function completionTree(program: Command): Node[] {
  return [
    {
      path: '',
      summary: '',
      words: [...wordsOf(program), ...SETUP_COMMANDS],
      flags: [],
      lists: [],
      takesFiles: false,
    },
    ...program.commands.flatMap((command) => nodesOf(command, command.name())),
  ]
}

function nodesOf(command: Command, path: string): Node[] {
  const node: Node = {
    path,
    summary: command.description(),
    words: [...wordsOf(command), ...choicesOf(command)],
    flags: [...flagsOf(command), { word: '--help', summary: 'show the usage' }],
    lists: listsOf(command, path),
    takesFiles: command.name() === 'cp',
  }
  return [node, ...command.commands.flatMap((below) => nodesOf(below, `${path} ${below.name()}`))]
}

function wordsOf(command: Command): Word[] {
  return command.commands.map((below) => ({ word: below.name(), summary: below.description() }))
}

function choicesOf(command: Command): Word[] {
  const choices = command.registeredArguments.flatMap(({ argChoices = [] }) => argChoices)
  return choices.map((word) => ({ word, summary: '' }))
}

function flagsOf(command: Command): Word[] {
  return command.options.flatMap(({ short, long, description }) =>
    [short, long].flatMap((word) => (word ? [{ word, summary: description }] : [])),
  )
}

const SANDBOXES = 'ls -q'
const SNAPSHOTS = 'snapshot ls -q'

function listsOf(command: Command, path: string): string[] {
  // The word `create` is optional.
  if (path === 'snapshot') return [SANDBOXES]
  const group = path.split(' ')[0] ?? ''
  const isNew = /\b(create|add)$/.test(path)
  return command.registeredArguments.map((argument) => {
    const name = argument.name()
    if (/^sandbox(es)?$/.test(name) || command.name() === 'cp') return SANDBOXES
    if (/^snapshots?$/.test(name)) return SNAPSHOTS
    if (!/^names?$/.test(name) || isNew) return ''
    return `${group} ls -q`
  })
}
