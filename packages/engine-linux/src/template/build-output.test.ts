import { expect, test } from 'vitest'
import { BuildOutput } from './build-output.ts'

function outputOf(lines: readonly string[]): BuildOutput {
  const output = new BuildOutput()
  for (const line of lines) output.add(line)
  return output
}

test('the error of apt stays, whatever mmdebstrap says after it', () => {
  const output = outputOf([
    'I: running apt-get update...',
    'Get:1 http://deb.debian.org/debian stable InRelease [140 kB]',
    'I: installing remaining packages inside the chroot...',
    'Reading package lists...',
    'E: Unable to locate package nosuch',
    'E: apt-get --yes install nosuch failed: process exited with 100',
    ...Array.from({ length: 30 }, (_, index) => `I: removing tempdir ${index}`),
  ])
  expect(output.step).toBe('installing packages')
  expect(output.lines).toEqual([
    'Reading package lists...',
    'E: Unable to locate package nosuch',
    'E: apt-get --yes install nosuch failed: process exited with 100',
  ])
})

test('of commands, the output of the failing one is kept, and its end if it is long', () => {
  const output = outputOf([
    'dormouse: command 1 of 2',
    'fine',
    'dormouse: command 2 of 2',
    ...Array.from({ length: 100 }, (_, index) => `line ${index}`),
    'make: *** No rule to make target',
    'I: main() received signal PIPE: waiting for setup...',
  ])
  expect(output.step).toBe('command 2 of 2')
  expect(output.lines).toHaveLength(40)
  expect(output.lines.at(-1)).toBe('make: *** No rule to make target')
})
