import { readServerFlags } from './server-flags.mjs'

/** The commands that set up and run this host. */
const COMMANDS = [
  { usage: 'up', summary: 'set everything up, then run the server in the foreground' },
  {
    usage: 'cluster dev [--nodes N]',
    summary: 'run NATS and some hosts on this machine, to try a cluster',
  },
  { usage: 'cluster token', summary: 'print a token with which one more host can join, within an hour' },
  { usage: 'cluster join TOKEN', summary: 'take the key of a cluster into the data directory' },
  {
    usage: 'cluster backup|restore FILE',
    summary: 'write what the hosts keep in NATS to a file, or bring it into empty NATS servers',
  },
  { usage: 'test [vitest arguments]', summary: 'set everything up, then run the linter and all tests' },
  {
    usage: 'doctor',
    summary: 'check what this host offers and lacks; exit status 0 when sandboxes can run',
  },
  {
    usage: 'template build FILE',
    summary: 'build a template from a description such as templates/python.json',
  },
  { usage: 'key create|update|list|revoke', summary: 'manage API keys, their scopes and limits' },
  { usage: 'help [COMMAND], --version', summary: '' },
]
const COLUMN = 38
const COLUMNS_MAX = 120
/** Summaries of settings are also in docs/configuration.md, where they have links. */
const LINK = /\[[^\]]*\]\(([^)]*)\)/g

/** Help for all commands, or for one. @param {string} [command] */
export function helpText(command) {
  const lines = selectCommands(command).flatMap(({ usage, summary }) =>
    formatRow(`  ./dormouse ${usage}`, summary),
  )
  const title =
    command === undefined ? 'dormouse: the perpetual sandbox for AI agents, on any Linux machine\n\n' : ''
  return `${title}${lines.join('\n')}
${command === 'up' ? `\n${serverFlagHelp()}` : ''}
  --data DIR    the data directory (default: $DORMOUSE_DATA, else /var/lib/dormouse)
  --json        print JSON; \`up\` and \`template build\` print one object per line
`
}

/** The same for programs. @param {string} [command] */
export function helpCommands(command) {
  return selectCommands(command)
    .filter(({ summary }) => summary !== '')
    .map(({ usage, summary }) => ({ usage, summary }))
}

/**
 * Whether there is help for this command alone.
 * @param {string} command
 */
export function hasHelp(command) {
  return helpCommands(command).length > 0
}

function serverFlagHelp() {
  const rows = readServerFlags().flatMap(({ flag, argument, summary, default: value }) => {
    const text = summary.replaceAll(LINK, 'docs/$1')
    return formatRow(`  ${flag} ${argument}`, value === '' ? text : `${text} Default: ${value}`)
  })
  return `${rows.join('\n')}\n\n  docs/configuration.md lists all settings.\n`
}

/** @param {string | undefined} command */
function selectCommands(command) {
  return COMMANDS.filter(({ usage }) => command === undefined || usage.split(' ')[0] === command)
}

/**
 * @param {string} left
 * @param {string} right
 */
function formatRow(left, right) {
  const [first = '', ...others] = wrap(right, COLUMNS_MAX - COLUMN)
  const rest = others.map((line) => ' '.repeat(COLUMN) + line)
  if (left.length < COLUMN) return [`${left.padEnd(COLUMN)}${first}`.trimEnd(), ...rest]
  return right === '' ? [left] : [left, ' '.repeat(COLUMN) + first, ...rest]
}

/**
 * @param {string} text
 * @param {number} columns
 */
function wrap(text, columns) {
  const lines = ['']
  for (const word of text.split(' ')) {
    const longer = `${lines.at(-1)} ${word}`.trimStart()
    if (longer.length <= columns) lines[lines.length - 1] = longer
    else lines.push(word)
  }
  return lines
}
