/** Commands of the set-up, for its help: how each is typed, what it does, and what belongs to it. */
const COMMANDS = [
  {
    usage: 'up',
    summary: 'set everything up, then run the server in the foreground',
    more: [
      ['--host ADDRESS --port N', 'where it listens (127.0.0.1, 7070); see docs/configuration.md'],
      ['--tls-cert FILE --tls-key FILE, or --insecure-bind: for an address other than loopback'],
    ],
  },
  { usage: 'test [vitest args]', summary: 'set everything up, then lint and run all tests' },
  { usage: 'doctor', summary: 'what this host offers and lacks; status 0 when sandboxes can run' },
  {
    usage: 'template build FILE',
    summary: 'build a template from a description such as templates/python.json',
  },
  {
    usage: 'key create|update|list|revoke',
    summary: 'API keys, their scopes and limits; see docs/configuration.md',
  },
  { usage: 'help [COMMAND], --version', summary: '' },
]
const COLUMN = 36

/** Of all, or of one. @param {string} [command] */
export function helpText(command) {
  const lines = chosen(command).flatMap(({ usage, summary, more = [] }) => [
    ...row(`  ./dormouse ${usage}`, summary),
    ...more.flatMap(([flags = '', text = '']) => row(`      ${flags}`, text)),
  ])
  const title =
    command === undefined ? 'dormouse: the perpetual sandbox for AI agents, on any Linux box\n\n' : ''
  return `${title}${lines.join('\n')}

  --data DIR    the data directory, for every command (else $DORMOUSE_DATA, else /var/lib/dormouse)
  --json        for programs, with every command; \`up\` and \`template build\` print an object per line
`
}

/** The same for programs. @param {string} [command] */
export function helpCommands(command) {
  return chosen(command)
    .filter(({ summary }) => summary !== '')
    .map(({ usage, summary }) => ({ usage, summary }))
}

/** @param {string | undefined} command */
function chosen(command) {
  return COMMANDS.filter(({ usage }) => command === undefined || usage.split(' ')[0] === command)
}

/**
 * @param {string} left
 * @param {string} right
 */
function row(left, right) {
  if (left.length < COLUMN) return [`${left.padEnd(COLUMN)}${right}`.trimEnd()]
  return right === '' ? [left] : [left, `${' '.repeat(COLUMN)}${right}`]
}
