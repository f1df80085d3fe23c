import { expect, it } from 'vitest'
import { commandIndex, parseArguments } from './arguments.mjs'

it('parseArguments takes --data and --json wherever they are, and the last --data wins', () => {
  expect(parseArguments(['--json', 'up', '--data', '/a', '--port', '80', '--data=/b'], {})).toEqual({
    command: 'up',
    args: ['--port', '80'],
    dataDir: '/b',
    isJson: true,
  })
  expect(parseArguments([], { DORMOUSE_DATA: '/c' })).toMatchObject({ command: 'help', dataDir: '/c' })
  expect(parseArguments(['test', 'a.test.ts', '-t', 'x y'], {}).args).toEqual(['a.test.ts', '-t', 'x y'])
})

it.each([[['up', '--data']], [['up', '--data=']], [['--data', '--json', 'up']]])(
  'parseArguments refuses %j',
  (argv) => {
    expect(() => parseArguments(argv, {})).toThrow('--data needs a directory')
  },
)

it.each([
  [['ls'], 0],
  [['--json', 'ls'], 1],
  [['--data', '/a', '--url=http://x', 'ls', '--json'], 3],
  [['--verbose', 'ls'], 0],
  [['--json'], 1],
])('the command of %j is at %i', (argv, index) => {
  expect(commandIndex(argv)).toBe(index)
})
